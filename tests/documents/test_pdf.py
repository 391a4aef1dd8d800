"""The text of PDFs: what a reader sees, in the order of reading; what cannot be read is told."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pypdfium2", reason="the extra documents is not installed")
from pan_scdg.documents.html_text import HIDDEN, NOT_READ
from pan_scdg.documents.pdf import APART, COMMENT_NOT_READ, drop_running_lines, is_garbled, join_pages
from pan_scdg.documents.pdf_lines import Line, mark_quotations, order_pieces
from pan_scdg.documents.pdf_page import NO_MAP
from pan_scdg.documents.reader import convert_file
from pan_scdg.errors import UserError
from tests.documents.office_files import HELVETICA, build_pdf, make_stream

WORDS = "The tide turned before noon and nobody in the harbour said a word about the boats"
PICTURE = "q 595 0 0 842 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID a EI Q"
WHITE_PICTURE = PICTURE.replace("8 /CS /G", "1 /CS /G /D [1 0]")
PATTERN = (
    "/Pattern << /S << /PatternType 2 /Shading << /ShadingType 2 /ColorSpace /DeviceGray /Coords [0 0 595 0] /Function "
    "<< /FunctionType 2 /Domain [0 1] /C0 [0] /C1 [0.5] /N 1 >> /Extend [true true] >> >> >>"
)
WIDGET = "/Subtype /Widget /Rect [60 60 90 70]"
FORM = {"catalog": "/AcroForm << /Fields [4 0 R] >>", "page": "/Annots [4 0 R]"}
HEBREW = dict(zip("abcdefghij", "אבגדהוזחטי", strict=True))


def write(*operators: str) -> str:
    return f"BT /F1 12 Tf 60 700 Td {' '.join(operators)} ET"


def make_form(content: str, resources: str = "") -> str:
    return make_stream(content).replace("<<", f"<< /Subtype /Form /BBox [0 0 595 842] /Resources << {resources} >>", 1)


def map_letters(letters: dict[str, str]) -> dict[str, Any]:
    """A font that says of its letters that they are others."""
    pairs = " ".join(f"<{ord(a):02X}> <{b.encode('utf-16-be').hex()}>" for a, b in letters.items())
    head = "begincmap 1 begincodespacerange <00> <FF> endcodespacerange"
    stream = make_stream(f"{head} {len(letters)} beginbfchar {pairs} endbfchar endcmap")
    return {"font": f"{HELVETICA} /ToUnicode 4 0 R", "others": [stream]}


def convert(folder: Path, content: str, **entries: Any) -> tuple[str, list[str]]:
    (folder / "a.pdf").write_bytes(build_pdf([content], **entries))
    answer = convert_file(folder / "a.pdf")
    return answer["text"], answer["warnings"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (write("(One) Tj 1 g 30 0 Td (hidden) Tj 0 g 60 0 Td (two) Tj"), "One two"),
        (write("(re) Tj 1 g 11 0 Td (q) Tj 0 g 7 0 Td (ad the tide) Tj"), "read the tide"),
        (write("(salt) Tj 1 g 20 0 Td (x) Tj 0 g 6 0 Td (and) Tj"), "salt and"),
        (write("(seen) Tj /F1 1 Tf 0 -20 Td (hidden) Tj"), "seen"),
        (write("(seen) Tj 900 0 Td (hidden) Tj"), "seen"),
        (write("(seen) Tj 3 Tr 0 -20 Td (hidden) Tj"), "seen"),
        (write("(seen) Tj 1 Tz 0 -20 Td (hidden) Tj"), "seen"),
        (write("(seen) Tj -900 Ts 0 -20 Td (hidden) Tj"), "seen"),
        (write("(seen) Tj 0 0 0 0 k 0 -20 Td (hidden) Tj"), "seen"),
        (write("(seen) Tj /C cs 1 1 1 scn 0 -20 Td [(hid) 5 (den)] TJ"), "seen"),
        (write("14 TL (seen) Tj 1 g (hidden) '"), "seen"),
        ("0 g 0 690 595 40 re f " + write("(hidden) Tj 0 -90 Td (seen) Tj"), "seen"),
        ("q /G gs " + write("(hidden) Tj") + " Q " + write("0 -90 Td (seen) Tj"), "seen"),
        (write("(hidden) Tj") + " 1 g 0 690 595 40 re f 0 g " + write("0 -90 Td (seen) Tj"), "seen"),
        ("/OC /O BDC " + write("(hidden) Tj") + " EMC " + write("0 -90 Td (seen) Tj"), "seen"),
        ("q " + write("7 Tr (hidden) Tj") + " Q " + write("0 -90 Td (seen) Tj"), "seen"),
        # below and above the letters that are seen
        (write("1 g (qqqq) Tj") + " " + write("0 g (seen) Tj 1 g -1 0 Td (q) Tj"), "seen"),
        (write("(seen) Tj") + " " + write("3 Tr (qqqq) Tj"), "seen"),
        (f"{WHITE_PICTURE} {write('1 g (hidden) Tj 0.5 g 0 -90 Td (seen) Tj')}", "seen"),
    ],
)  # fmt: skip
def test_what_no_reader_sees_is_left_out_with_a_warning(content: str, text: str, tmp_path: Path) -> None:
    off = {
        "catalog": "/OCProperties << /OCGs [4 0 R] /D << /OFF [4 0 R] >> >>",
        "others": ["<< /Type /OCG /Name (a) >>"],
    }
    resources = "/ExtGState << /G << /ca 0 >> >> /Properties << /O 4 0 R >>"
    assert convert(tmp_path, content, resources=resources, **off) == (text, [HIDDEN])


@pytest.mark.parametrize(
    "content",
    [
        "0 0 0.5 rg 0 690 595 40 re f 1 g " + write("(seen) Tj"),
        f"{PICTURE} 1 g {write('(seen) Tj')}",
        f"/F Do 1 g {write('(seen) Tj')}",
        f"{PICTURE} {write('3 Tr (seen) Tj')}",  # a scan whose text was recognised
        "q 1 g Q " + write("(seen) Tj 1 g ( ) Tj"),
        f"q {write('7 Tr (seen) Tj')} 0 0 595 842 re f Q",
        "/Pattern cs /S scn " + write("(seen) Tj"),
        "q /Z gs " + write("(seen) Tj") + " Q 1 0 0 1 0.3 0 cm " + write("(seen) Tj"),  # with a shadow
        "1 g 0 G " + write("1 Tr (seen) Tj"),
        f"q {write('3 Tr (seen) Tj')} q 10 0 0 10 0 0 cm /P Do Q",
    ],
)
def test_what_a_reader_sees_is_kept(content: str, tmp_path: Path) -> None:
    forms = [make_form("0.4 g 0 0 595 842 re f"), make_form(PICTURE.replace("595 0 0 842", "60 0 0 84"))]
    assert convert(
        tmp_path,
        content,
        resources=f"/XObject << /F 4 0 R /P 5 0 R >> {PATTERN} /ExtGState << /Z << /ca 0 >> >>",
        others=forms,
    ) == (
        "seen",
        [],
    )


def test_text_in_forms_within_forms_is_read(tmp_path: Path) -> None:
    forms = [make_form("/F Do", f"/XObject << /F {number} 0 R >>") for number in range(5, 25)]
    text = make_form(write("(The bird) Tj 1 g 0 -20 Td (hidden) Tj"), "/Font << /F1 3 0 R >>")
    found = convert(tmp_path, "/F Do", resources="/XObject << /F 4 0 R >>", others=[*forms, text])
    assert found == ("The bird", [HIDDEN])


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("matrix", ["1 0 0 1", "0 1 -1 0", "-1 0 0 -1", "0 -1 1 0", "0.8 0.6 -0.6 0.8", "1 0 0.3 1"])
def test_words_in_any_direction_are_read(matrix: str, rotation: int, tmp_path: Path) -> None:
    lines = "(Ice) Tj 20 0 Td (was) Tj 25 0 Td (cut) Tj -45 -14 Td (in Jan) Tj (uary.) Tj"
    found = convert(tmp_path, f"BT /F1 12 Tf {matrix} 300 400 Tm {lines} ET", page=f"/Rotate {rotation}")
    assert found == ("Ice was cut\nin January.", [])


def test_the_letters_that_are_seen_are_read_and_not_others_that_are_named(tmp_path: Path) -> None:
    named = "/Span << /ActualText ({}) >> BDC {} EMC ".format
    content = named("Mine", write("(Th) Tj")) + write("15 0 Td (e i) Tj") + " " + named("q", write("28 0 Td (ce) Tj"))
    assert convert(tmp_path, content) == ("The ice", [])


@pytest.mark.parametrize(
    "kind", ["/Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H", "/TrueType /BaseFont /None"]
)
def test_letters_of_a_font_that_is_neither_in_the_file_nor_on_the_machine_are_read(kind: str, tmp_path: Path) -> None:
    system = "/CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >>"
    font = "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /DW 1000 /FontDescriptor 5 0 R {} >>"
    others = [font.format(system), "<< /Type /FontDescriptor /FontName /STSong-Light /Flags 4 >>"]
    text = "港口主管" if "STSong" in kind else "harbours"
    code = text.encode("utf-16-be" if "STSong" in kind else "ascii").hex()
    content = write(f"<{code}> Tj 1 g 0 -20 Td <{code[8:]}> Tj")
    found = convert(tmp_path, content, font=f"/Type /Font /Subtype {kind} /DescendantFonts [4 0 R]", others=others)
    assert found == (text, [HIDDEN])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (write("(.jih gfed cba) Tj"), "אבג דהוז חטי."),
        (write("(jih) Tj 40 0 Td (gfed) Tj 40 0 Td (cba) Tj"), "אבג דהוז חטי"),
        (write("200 0 Td (cba) Tj -40 0 Td (gfed) Tj -40 0 Td (jih) Tj"), "אבג דהוז חטי"),
        (write("(jih 1912 gfed) Tj 0 -20 Td (jih KLM NOP cba) Tj"), "דהוז 1912 חטי\nאבג KLM NOP חטי"),
    ],
)
def test_words_from_right_to_left_are_in_the_order_of_reading(content: str, text: str, tmp_path: Path) -> None:
    assert convert(tmp_path, content, **map_letters(HEBREW)) == (text, [])


def test_a_page_with_damaged_operators_is_read(tmp_path: Path) -> None:
    form = "<< /Subtype /Form /BBox [(a) 0] /Length 0 >>\nstream\n\nendstream"
    (tmp_path / "b.pdf").write_bytes(build_pdf([write("() Tj ( ) Tj"), write("(seen) Tj"), write("0 Tz (a) Tj")]))
    assert convert_file(tmp_path / "b.pdf")["text"] == "seen"
    found = convert(tmp_path, f"/F Do {write('(seen) Tj')}", resources="/XObject << /F 4 0 R >>", others=[form])
    assert found == ("seen", [])


def test_letters_that_stand_apart_are_joined_if_words_have_wider_gaps(tmp_path: Path) -> None:
    assert convert(tmp_path, write("/F1 8 Tf 2 Tc", f"({WORDS}) Tj")) == (WORDS, [])
    letters = " ".join(WORDS.replace(" ", ""))
    assert convert(tmp_path, write(f"/F1 6 Tf ({letters}) Tj")) == (letters, [APART])


def test_pieces_from_left_to_right_keep_their_order() -> None:
    assert order_pieces(["חטי", " ", "KLM", " ", "12", ":", " ", "אבג"]) == "אבג :KLM 12 חטי"


@pytest.mark.parametrize("shift", [3, 7])
def test_letters_that_are_not_those_on_the_page_are_told(shift: int, tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    fonts = (dict(zip(letters, letters[shift:] + letters, strict=False)), {c: chr(0xE000 + ord(c)) for c in letters})
    for font in map(map_letters, fonts):
        with pytest.raises(UserError, match=r"^The letters of this PDF cannot be read. Run OCR first"):
            convert(tmp_path, write(f"({WORDS}) Tj"), **font)
    font_of_glyphs = "/Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [4 0 R]"
    glyphs = ["<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /DW 500 >>"]
    assert convert(tmp_path, write("<00290030> Tj"), font=font_of_glyphs, others=glyphs) == (")0", [NO_MAP])
    formula = write(f"({WORDS}) Tj /F2 9 Tf 0 -20 Td <0029> Tj")
    _, warnings = convert(tmp_path, formula, fonts=f"/F2 << {font_of_glyphs} >>", others=glyphs)
    assert warnings == [], "a sign of a formula"


@pytest.mark.parametrize(
    ("entries", "text", "warnings"),
    [
        ({**FORM, "others": [f"<< {WIDGET} /FT /Tx /T (a) /V (typed) >>"]}, "typed", []),
        ({**FORM, "others": [f"<< {WIDGET} /FT /Ch /T (a) /V (chosen) >>"]}, "chosen", []),
        ({**FORM, "others": [f"<< {WIDGET} /T (b) /V (typed) /Parent 5 0 R >>", "<< /FT /Tx /T (a) /Kids [4 0 R] >>"]},
         "typed", []),
        ({"page": "/Annots [<< /Subtype /FreeText /Contents (typed) >>]"}, "typed", []),
        ({"page": f"/Annots [<< /Subtype /Text /Contents ({'word ' * 20}) >>]"}, "", [COMMENT_NOT_READ]),
        ({"catalog": "/AcroForm << /Fields [] /XFA [] >>"}, "", [NOT_READ]),
        ({"catalog": "/Names << /EmbeddedFiles << /Names [(a) 4 0 R] >> >>",
          "others": ["<< /Type /Filespec /F (a) /UF (a) /EF << /F 5 0 R >> >>", make_stream("x")]}, "", [NOT_READ]),
    ],
)  # fmt: skip
def test_what_was_typed_is_read_and_what_is_not_read_is_told(
    entries: dict[str, Any], text: str, warnings: list[str], tmp_path: Path
) -> None:
    expected = "\n\n".join(filter(None, ["One.", text]))
    assert convert(tmp_path, write("(One.) Tj"), **entries) == (expected, warnings)


def test_pages_of_other_scripts_and_of_formulas_are_read() -> None:
    for page in (
        "今天天气很好我们去公园" * 20 + " DNA RNA PCR GDP CPU GPU HTML" * 5,
        "f(x) = k m p q, log x = max(g, h) " * 9,
    ):
        assert not is_garbled(page)


def test_running_headers_and_footers_are_no_text() -> None:
    pages = ["Essay\nThe tide turned.\nPage 1 of 3", "Essay\nNobody spoke.\nPage 2 of 3", "Essay\nOne line\nOwn end"]
    assert drop_running_lines(pages) == ["The tide turned.", "Nobody spoke.", "One line\nOwn end"]
    assert drop_running_lines(["Essay", "Essay"]) == ["Essay", "Essay"], "a page has more than that"
    assert drop_running_lines(["A\nb\nc", "A\nd\ne"]) == ["b\nc", "d\ne"]
    assert drop_running_lines([f"Course  7\nName\n{i}\nown {c}" for i, c in enumerate("abc")]) == [
        f"own {c}" for c in "abc"
    ]
    odd, even = "Essay\nx{}", "Author\nx{}"
    assert drop_running_lines([odd.format("a"), even.format("b"), odd.format("c"), even.format("d"), odd.format("e")])[
        ::2
    ] == ["xa", "xc", "xe"]


def test_a_sentence_goes_on_over_a_page() -> None:
    assert join_pages(["One two", "three.", "", "Four,", "Five"]) == "One two\nthree.\n\nFour,\nFive"
    assert join_pages(["„Eins.“", "zwei »drei.«", "vier ‚fünf!‘", "sechs"]).count("\n\n") == 3


BODY, QUOTED = (
    ("They wait for the tide.", "It comes late.", "Nobody minds."),
    ("Salt is dear in June and dear in", "May too"),
)


@pytest.mark.parametrize(
    ("before", "left", "font", "after", "is_quotation"),
    [
        ("She writes:", 110, "F1", "", True),
        ("She writes:", 80, "F2", "", True),
        ("She writes.", 110, "F1", " (Hale 1912, 7).", True),
        ("She writes.", 110, "F1", "", False),  # perhaps a paragraph of the author
        ("She writes.", 80, "F2", "", False),
        ("She writes:", 80, "F1", "", False),
        ("1. She writes that", 110, "F1", " (Hale 1912, 7).", False),  # an entry of a list
        ("She writes:", 300, "F1", "", False),  # another column
    ],
)
def test_a_block_quotation_is_one_by_its_place_or_in_italics(
    before: str, left: int, font: str, after: str, is_quotation: bool, tmp_path: Path
) -> None:
    lines = [(80, "F1", line) for line in (*BODY, before)]
    lines += [(left, font, line) for line in (QUOTED[0], QUOTED[1] + after)] + [(80, "F1", line) for line in BODY]
    escaped = ((x, name, line.replace("(", "\\(").replace(")", "\\)")) for x, name, line in lines)
    content = "\n".join(
        f"BT /{name} 11 Tf {x} {700 - 14 * i} Td ({line}) Tj ET" for i, (x, name, line) in enumerate(escaped)
    )
    italic = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Oblique >>"
    text, warnings = convert(tmp_path, content, fonts="/F2 4 0 R", others=[italic])
    assert (f"\n\n> {QUOTED[0]}\n> {QUOTED[1]}{after}\n\n" in text, warnings) == (is_quotation, [])
    assert text.replace("> ", "").split() == " ".join(line for *_, line in lines).split()


@pytest.mark.parametrize(("before", "is_quotation"), [("She writes:", True), ("She writes.", False)])
def test_a_block_quotation_may_begin_with_an_indented_line_or_where_paragraphs_begin(
    before: str, is_quotation: bool
) -> None:
    wide, narrow = (60.0, 400.0), (80.0, 380.0)
    own = [Line("Own words about the boats", *wide, is_italic=False)] * 3
    intro = Line(before, 80.0, 150.0, is_italic=False)
    quoted = [Line(line, *narrow, is_italic=False) for line in (*QUOTED, "and dear in the end")]
    quoted[-1] = quoted[-1]._replace(right=200.0)
    after = Line("Some say that it was cheap", 80.0, 400.0, is_italic=False)
    indented = [quoted[0]._replace(left=95.0), *quoted[1:]]
    for block in (quoted, indented):
        text = "\n".join(mark_quotations([*own, intro, *block, after, *own]))
        assert (f"{before}\n\n> {QUOTED[0]}\n> {QUOTED[1]}\n> {quoted[2].text}\n\n{after.text}" in text) == is_quotation


def test_the_rest_of_an_entry_of_a_list_is_no_first_line_of_a_quotation() -> None:
    places = [(60.0, 400.0)] * 3 + [(80.0, 380.0), (94.0, 370.0), (80.0, 380.0), (80.0, 380.0), (94.0, 200.0)]
    lines = [Line("some of my own words about boats", *place, is_italic=False) for place in places]
    assert list(mark_quotations(lines)) == [line.text for line in lines]
