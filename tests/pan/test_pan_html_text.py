"""The text of an HTML page."""

import pytest

from pan_scdg.pan.documents import extract_html

PAGE = """<!DOCTYPE html><html><head><title>Title</title><style>p { color: red }</style></head>
<body><h1>Salt &amp; <b>tide</b></h1><p>One<br>two,
three &eacute;</p><script>alert(1)</script><!-- no -->
<table><tr><th>year</th><td>1912</td></tr><tr><td>catch</td></tr></table><ul><li>rope</li><li>net</li></ul>after</body>
"""


def test_words_of_different_elements_stay_apart_and_what_is_no_text_is_left_out() -> None:
    assert extract_html(PAGE) == ("Salt & tide\n\nOne\ntwo, three é\n\nyear 1912\n\ncatch\n\nrope\n\nnet\n\nafter")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        (" \n", ""),
        ("no markup at all", "no markup at all"),
        ("<p>open <b>bold", "open bold"),
        ("a < b and c > d", "a < b and c > d"),
        ("before\0after", "before\ufffdafter"),
        ('<!DOCTYPE l [<!ENTITY a "ha">]><p>&a; &b;</p>', "]>\n\n&a; &b;"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><p>&x;</p>', "&x;"),
        ('<?xml version="1.0" encoding="utf-16"?><p>Käse</p>', "Käse"),
        ('<meta charset="latin-1"><p>Käse 😀</p>', "Käse 😀"),
        ("<div>" * 500 + "deep" + "</div>" * 500, "deep"),
        ("<" * 100_000, "<" * 100_000),
        ("<iframe src='http://x.test/'>inner</iframe>outer", "outer"),
    ],
    ids=range(13),
)
def test_pages_of_every_kind(html: str, text: str) -> None:
    assert extract_html(html) == text


def test_what_is_nested_too_deep_is_an_error_and_not_cut_off() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        extract_html("<p>first</p>" + "<div>" * 100_000 + "lost")
