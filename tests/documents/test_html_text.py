"""The text of an HTML page."""

from cProfile import Profile

import pytest

from pan_scdg.documents import styles
from pan_scdg.documents.html_text import GAP, HIDDEN, NOT_READ, close_gaps, extract_html

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
        ("<nav>menu</nav>text<div role=banner>name</div><footer>imprint</footer>", "text"),
        ("text<aside id=footnotes role=doc-endnotes>note</aside>", "text\n\nnote"),
        ("<blockquote>said<footer>her</footer></blockquote>", "> said\n\n> her"),
    ],
    ids=range(16),
)
def test_pages_of_every_kind(html: str, text: str) -> None:
    assert extract_html(html) == text


def test_what_is_nested_too_deep_is_an_error_and_not_cut_off() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        extract_html("<p>first</p>" + "<div>" * 100_000 + "lost")


SHEET = """<style>/* .a { display: none } */ @media print { .p { display: none } } @media screen { .m { opacity: 0 } }
.a, p > .b { color: #fff } #c { visibility: hidden } div span.d { font: 0/0 serif } .dark { background: #102030 }
.e { display: none !important } .off { position: absolute; left: -9999px } .tab { display: none } .tab.on { display:
block } li:hover { display: none } :root { --w: #fefefe; --v: var(--w) } .v { color: var(--v) } [data-k], [data-l=m]
{ display: none } span.not:not(.a) { opacity: 0 } em + span { display: none } .n span:nth-child(2) { display: none }
@media (prefers-color-scheme: dark) { .night { display: none } } .c::before, .c:unknown { display: none }</style>"""


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


MORE = """<style>:root { --w: #fefefe; --v: var(--w) } .v { color: var(--v) } [data-k], [data-l=m] { display: none }
span.not:not(.a) { opacity: 0 } em + span, .n > span:nth-child(2) { display: none } div:has(u) span { display: none }
.o span:last-of-type, .f > :first-child, u:is(.q, .r) { display: none } .s:nth-of-type(1) { visibility: hidden }
@media (prefers-color-scheme: dark) { .night { display: none } } .c::before, .c:unknown { display: none }
@supports (display: grid) { .g { display: none } } .out { color: red; .in { display: none } }</style>"""


@pytest.mark.parametrize(
    "secret",
    [
        *(f"<span style='color:{colour}'>secret</span>" for colour in ("hsl(0,0%,100%)", "ivory", "oklch(1 0 0)")),
        *(f"<span style='color:{colour}'>secret</span>" for colour in ("rgb(100%,100%,100%)", "rgb(255 255 255/60%)")),
        *(
            f"<span style='color:{colour}'>secret</span>"
            for colour in ("var(--w)", "var(--no, white)", "hwb(0 99% 0%)")
        ),
        *("<span style='c\\6flor:white'>secret</span>", "<span style='-webkit-text-fill-color:white'>secret</span>"),
        *("<span style='filter:blur(2px) opacity(0)'>secret</span>", "<span style='zoom:0.01'>secret</span>"),
        "<span style='content-visibility:hidden;display:inline-block'>secret</span>",
        *(
            "<span style='position:fixed;top:200vh'>secret</span>",
            "<i style='position:fixed;left:9999px'>secret</i>",
            "<span class=v>secret</span>",
        ),
        *("<span style='position:absolute;left:-100vw'>secret</span>", "<span data-k>secret</span>"),
        *("<span data-l=m>secret</span>", "<span class=not>secret</span>", "<em></em><span>secret</span>"),
        *("<b class=n><i></i><span>secret</span></b>", "<b class=o><span></span><span>secret</span></b>"),
        *(
            "<b class=f><b>secret</b></b>",
            "<u class=r>secret</u>",
            "<span class=s>secret</span>",
            "<u></u><span>secret</span>",
        ),
        "<span class=g>secret</span>",
    ],
)
def test_colours_variables_and_selectors_that_hide(secret: str) -> None:
    warnings: list[str] = []
    assert extract_html(f"{MORE}<div><p>One {secret}two</p></div>", warnings) == "One two"
    assert warnings == [HIDDEN]


@pytest.mark.parametrize(
    "shown",
    [
        *(
            "<body style='background:#111; color:#eee'>text",
            "<p class=night>text",
            "<p class=c>text",
            "<p class=in>text",
        ),
        "<body style='background:#000; color:#fff'><div style='background:rgba(255,255,255,.1)'>text",
        "<table><tr style='background-color:hsl(220 60% 20%)'><th style='color:ivory'>text</table>",
        "<h1 style='background:linear-gradient(red,blue); -webkit-background-clip:text; color:transparent'>text</h1>",
        *("<p style='zoom:0'>text", "<p style='zoom:1.5'>text", "<p style='top:200vh; left:-999px; right:-999px'>text"),
        *("<p style='position:absolute; top:5000px'>text", "<p style='position:fixed; top:0'>text"),
        *("<p style='filter:grayscale(1) opacity(90%)'>text", "<p style='content-visibility:auto'>text"),
        *("<i style='content-visibility:hidden'>text</i>", "<p style='color:white; background:var(--d, #222)'>text"),
        *("<p style='color:var(--nothing)'>text", "<p style='color:yellow'>text", "<p style='color:rgb()'>text"),
        *("<p style='margin:0 -50vw; margin-left:-50vw'>text", "<p style='position:fixed; left:1200px'>text"),
        "<div style='--bg:#000'><p style='background:var(--bg); color:white'>text",
        "<p style='color:rgb(0 0 0 / 87%); --a:var(--b); --b:var(--a)'>text",
    ],
)
def test_dark_pages_and_what_browsers_do_not_apply(shown: str) -> None:
    warnings: list[str] = []
    assert (extract_html(MORE + shown, warnings), warnings) == ("text", [])


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


@pytest.mark.parametrize(
    "page",
    [
        *("<style>" + "a{top:0}" * 100_000, "<style>" + "a," * 15_000 + "a{top:0}"),
        "<style>u " + "b " * 6 + "i{top:0}</style>" + "<b>" * 150 + "<i>x",
        "<style>b ~ u ~ b{top:0}</style>" + "<b>x</b>" * 3000,
        "<style>b:nth-of-type(2){top:0}</style>" + "<b>x</b>" * 10_000,
        "<style>b:has(~ i){top:0}</style>" + "<b>x</b>" * 3000,
        "<style>:is(" + "i," * 2000 + "u){top:0}</style>" + "<b>x</b>" * 9000,
        "<style>" + ".a" * 50_000 + "{top:0}",
        *("<style>b{top:" + "(" * 50_000, "<style>" + "b>" * 9000 + "b{top:0}"),
        "<style>" + ":not(" * 9000 + "b" + ")" * 9000 + "{top:0}",
        "".join(f"<b style=top:{i}>x</b>" for i in range(10_000)),
        "<style>:root{" + "".join(f"--a{i}:1;" for i in range(9000)) + "}</style>" + "<b style=--a:2>x</b>" * 9000,
    ],
    ids=range(13),
)
def test_hostile_styles_are_an_error_after_bounded_work(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(styles, "MAX_STEPS", 300_000)
    with Profile() as profile, pytest.raises(ValueError, match="its styles are"):
        extract_html(page)
    calls = sum(entry.callcount for entry in profile.getstats())
    assert calls < 8 * styles.MAX_STEPS, "a step of the limit stands for a few calls of functions"


def test_variables_that_multiply_are_not_expanded() -> None:
    laughs = "".join(f"--a{i + 1}:{f'var(--a{i})' * 10};" for i in range(30))
    assert extract_html(f"<style>:root {{ {laughs} --a0: x }} b {{ color: var(--a30) }}</style><b>text") == "text"
