"""The text of an HTML page."""

import pytest

from pan_scdg.pan.html_text import GAP, HIDDEN, NOT_READ, close_gaps, extract_html

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


SHEET = """<style>/* .a { display: none } */ @media print { .p { display: none } } @media screen { .m { opacity: 0 } }
.a, p > .b { color: #fff } #c { visibility: hidden } div span.d { font: 0/0 serif } .dark { background: #102030 }
.e { display: none !important } .off { position: absolute; left: -9999px } .tab { display: none } .tab.on { display:
block } li:hover { display: none }</style>"""


@pytest.mark.parametrize(
    "attributes",
    [
        *("hidden", "style='display: none'", "style='visibility:hidden;'", "style='font-size:0'", "style='color:#FFF'"),
        *("style='font-size: 0.05em'", "style='COLOR: rgb(254, 254, 254)'", "style='opacity:0'", "class=e"),
        *("style='color:black; background:black'", "style='text-indent:-900px'", "class='x a'", "class=b", "id=c"),
        *("class=d", "class=m", "class=off", "style='width:1px; height:1px; overflow:hidden'", "class=tab"),
        *("style='color:rgba(0,0,0,0)'", "style='color:transparent'", "class=e style='display:inline'"),
    ],
)
def test_what_no_reader_sees_is_left_out_with_a_warning(attributes: str) -> None:
    warnings: list[str] = []
    assert extract_html(f"{SHEET}<div><p>One <span {attributes}>secret</span>two</p></div>", warnings) == "One two"
    assert warnings == [HIDDEN]


@pytest.mark.parametrize(
    "shown",
    [
        *(
            "<p style='color:#fff; background: black'>text</p>",
            "<p style='color:#fff; background: url(a)'>text</p>",
        ),
        *("<div class=dark><p class=a>text</p></div>", "<table bgcolor=navy><td style='color:white'>text</table>"),
        "<p style='color: red !important; color: #fff'>text</p>",
        *("<p style='font-size:10pt; color:wheat'>text</p>", "<p aria-hidden=true>text</p>", "<p class=p>text</p>"),
        *("<div class='tab on'>text</div>", "<p class=a style='color:#000'>text</p>", "<ul><li>text</ul>"),
        *("<div style='font-size:0'><p style='font-size:12px'>text</p></div>", "<p style='font-size: 62.5%'>text</p>"),
        *("<div style='visibility:hidden'><p style='visibility:visible'>text</p></div>", "<p style='x'>text</p>"),
    ],
)
def test_what_a_reader_sees_is_kept(shown: str) -> None:
    warnings: list[str] = []
    assert (extract_html(SHEET + shown, warnings), warnings) == ("text", [])


WHITE = "<b style='color:white'>x</b>"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (f"Salt{WHITE}and{WHITE}tide", "Salt and tide"),
        (f"Sa{WHITE}lt a{WHITE}nd the ti{WHITE}de", "Salt and the tide"),
        ("<blockquote>One<br>two<div>three</div></blockquote>four", "> One\n> two\n\n> three\n\nfour"),
        (
            "A<blockquote><p>One</p><p>two</p></blockquote><blockquote>three</blockquote>B",
            "A\n\n> One\n\n> two\n\n> three\n\nB",
        ),
        ("<pre>One\n  <b>two\n\nthree</b></pre>four\nfive", "One\ntwo\n\nthree\n\nfour five"),
        ("<p>One</p><p style='margin: 0 40px'>two</p><p style='margin-left: 40px'>three", "One\n\n> two\n\nthree"),
        ("<blockquote><ul><li>One<li>two</ul></blockquote><ul><li>three</ul>", "> One\n\n> two\n\nthree"),
        *(
            (f"<style>.q{{{style}}}</style><p class=q>One<div class=q>two</div><p>three", "> One\n\n> two\n\nthree")
            for style in (
                *("padding: 0 2em", "padding-left: 40px; padding-right: 1cm", "margin-inline: 40px"),
                *("margin-inline-start: 2em; margin-inline-end: 2em", "border-left: 3px solid #ccc"),
                "border-inline-start: 0.2em solid",
            )
        ),
        ("<div style='padding: 0 2em; border-left: 9px solid'><p>One<p>two</div>", "One\n\ntwo"),
        *(
            (f"<p style='{style}'>One", "One")
            for style in ("border-left: 1px solid", "border-left: 0 none", "padding: 40px 5px", "padding-left: 3em")
        ),
        ("<p>She wrote: <q>One</q>", "She wrote: “One”"),
        ("tides<sup>12</sup> and m<sup>2</sup>, or so.<sup>3,4</sup> End", "tides[12] and m2, or so.[3,4] End"),
        ("<i style='display:block'>One</i>two <ruby>漢<rp>(</rp><rt>kan</rt></ruby>字", "One\n\ntwo 漢字"),
        ("<fieldset><legend>One</legend>two<select><option>3<option>4", "One\n\ntwo\n\n3\n\n4"),
        ("One<dialog>two</dialog><dialog open>three</dialog>", "One\n\nthree"),
        ("<p>He says:<p><i>one two three four five six seven eight</i><p>End", "> one"),
        ("<p>He says.<p><i>one two three four five six seven eight</i> (Ito 1999)<p>End", "> one"),
        ("<p>He says.<p><i>one two three four five six seven eight</i><p>End", "\none"),
    ],
)
def test_gaps_and_quotations(html: str, text: str) -> None:
    found = extract_html(html)
    assert text in found if len(text) < 6 else text == found


def test_an_embedded_text_that_is_not_read_is_told() -> None:
    warnings: list[str] = []
    assert extract_html("<p>One<iframe srcdoc='&lt;p>two'></iframe><svg><title>icon</title></svg>", warnings) == "One"
    assert warnings == [NOT_READ]


def test_styles_that_take_too_long_are_an_error() -> None:
    sheet = "".join(f"i b.a{{color:#{i:06x}}}" for i in range(3000))
    with pytest.raises(ValueError, match="styles are too many"):
        extract_html(f"<style>{sheet}</style>" + "<p>" + "<u>" * 200 + "<b class=a>x</b>" * 2000)


@pytest.mark.parametrize(
    ("seen", "read"),
    [
        ("a|n|d s|t|a|c|k|e|d b|e|t|w|e|e|n l|a|y|e|r|s o|f s|a|w|d|u|s|t", "and stacked between layers of sawdust"),
        ("w|i|n|d|o|w|l|e|s|s", "windowless"),
        ("and|stacked|between|layers", "and stacked between layers"),
        ("a|man|saw", "a man saw"),
    ],
)
def test_gaps_are_spaces_unless_they_are_between_letters(seen: str, read: str) -> None:
    assert close_gaps(seen.replace("|", GAP)) == read
