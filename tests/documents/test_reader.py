"""Files of word processors and PDF as text: tables, footnotes, columns; scans, passwords, bombs and damage."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from pan_scdg.documents import reader
from pan_scdg.documents.html_text import MARGIN_NOT_READ, NOT_READ
from pan_scdg.documents.reader import read_any_document
from pan_scdg.errors import UserError
from tests.documents.office_files import COLUMNS, WORD, build_pdf, make_docx, make_odt, make_pdf, pack

for package in reader.CONVERTERS.values():
    pytest.importorskip(package, reason="the extra documents is not installed")


def read(folder: Path, name: str, data: bytes) -> reader.ReadDocument:
    (folder / name).write_bytes(data)
    return read_any_document(folder / name)


def refuse(folder: Path, name: str, data: bytes) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, name, data)
    return str(caught.value).removeprefix(f"{folder / name}: ")


def test_a_docx_with_a_table_and_a_footnote(tmp_path: Path) -> None:
    found = read(tmp_path, "a.docx", make_docx())
    assert found.extracted
    assert found.text == "The tide turned before noon.[1]\n\ncatch\n\nforty <b> boxes\n\nMeasured at the quay."


def test_an_odt_with_a_table_and_a_footnote(tmp_path: Path) -> None:
    text = read(tmp_path, "a.ODT", make_odt()).text
    assert [part for part in ("A heading\n", "before noon.", "catch", "forty boxes", "Measured at the quay.")
            if part not in text] == []  # fmt: skip
    assert "tide turned" in text


def test_a_pdf_with_two_columns_is_read_column_by_column(tmp_path: Path) -> None:
    text = read(tmp_path, "a.pdf", make_pdf([COLUMNS])).text
    assert text.split("\n") == [f"{side} column line {i}." for side in ("Left", "Right") for i in range(3)]


def test_a_pdf_with_a_table_and_a_footnote(tmp_path: Path) -> None:
    table = [(60, 700, "Year"), (160, 700, "Catch"), (60, 686, "1870"), (160, 686, "forty boxes")]
    text = read(tmp_path, "a.pdf", make_pdf([[*table, (60, 60, "1 Measured at the quay.")]])).text
    assert text.split("\n") == ["Year Catch", "1870 forty boxes", "1 Measured at the quay."]


def test_a_page_without_text_is_told_and_a_file_of_such_pages_refused(tmp_path: Path) -> None:
    mixed = read(tmp_path, "a.pdf", make_pdf([[(60, 700, "Words.")], []]))
    assert mixed.text == "Words."
    assert mixed.warnings == ("1 of 2 pages have no text, page 2 first: a picture or a scan",)
    assert refuse(tmp_path, "b.pdf", make_pdf([[], []])) == ("This PDF is a scan. Run OCR first.")
    hidden = build_pdf(["1 g BT /F1 12 Tf 60 700 Td (Words.) Tj ET"])
    assert refuse(tmp_path, "c.pdf", hidden) == ("All text of this PDF is hidden. Ask for another copy.")


def lock_pdf(password: str, owner: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer, out = PdfWriter(PdfReader(io.BytesIO(make_pdf([COLUMNS])))), io.BytesIO()
    writer.encrypt(password, owner, algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def test_passwords_are_told_and_a_file_that_opens_without_one_is_read(tmp_path: Path) -> None:
    assert refuse(tmp_path, "a.pdf", lock_pdf("secret", "owner")).startswith("This file is protected by a password. ")
    assert "Left column line 0." in read(tmp_path, "b.pdf", lock_pdf("", "owner")).text
    encrypted = '<manifest:encryption-data manifest:checksum="x"/>'
    assert refuse(tmp_path, "a.odt", make_odt(manifest=encrypted)).startswith("This file is protected by a password. ")
    older = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    assert refuse(tmp_path, "a.docx", older).startswith(
        "This file is protected by a password, or has the format of before 2007. "
    )


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.pdf"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 damaged", b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", b"plain words"])
def test_damaged_files_are_one_line(name: str, data: bytes, tmp_path: Path) -> None:
    line = refuse(tmp_path, name, data)
    assert "\n" not in line
    assert ". " in line
    assert ".)" not in line
    assert "PDFium" not in line


@pytest.mark.parametrize(
    ("name", "data", "kind", "expected"),
    [
        ("a.pdf", make_docx(), "a Word document (DOCX)", "a PDF"),
        ("a.PDF", make_odt(), "an OpenDocument text (ODT)", "a PDF"),
        ("a.docx", make_pdf([COLUMNS]), "a PDF", "a Word document (DOCX)"),
        ("a.docx", make_odt(), "an OpenDocument text (ODT)", "a Word document (DOCX)"),
        ("a.odt", make_docx(), "a Word document (DOCX)", "an OpenDocument text (ODT)"),
    ],
)
def test_a_wrong_ending_is_told(name: str, data: bytes, kind: str, expected: str, tmp_path: Path) -> None:
    assert refuse(tmp_path, name, data) == f"This file is {kind}, not {expected}. Correct the ending of its name."


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\n",
            "a pointer of Git LFS, not the file itself. Run",
        ),
        (b"\x1f\x8b\x08\0", "a gzip file. Unpack it."),
        (
            b"<!DOCTYPE html><p>Sign in",
            "a web page, not a Word document (DOCX). Change the ending of its name to .html",
        ),
    ],
)
def test_a_file_of_another_kind_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    assert refuse(tmp_path, "a.docx", data).startswith(f"This file is {says}")


def test_entities_and_bombs_are_refused(tmp_path: Path) -> None:
    laughs = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    assert refuse(tmp_path, "a.docx", make_docx(prolog=laughs)).startswith("contains a DOCTYPE, which is refused. ")
    wide = make_docx(prolog='<?xml version="1.0" encoding="utf-16"?>' + laughs)
    packed = io.BytesIO(wide)
    with zipfile.ZipFile(packed) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    parts["word/document.xml"] = parts["word/document.xml"].encode("utf-16-le").decode("latin-1")
    assert "contains a DOCTYPE" in refuse(tmp_path, "b.docx", pack(parts))
    bomb = pack({"word/document.xml": "x" * (reader.UNPACKED_BYTES + 1)})
    assert refuse(tmp_path, "c.docx", bomb).startswith("looks like a compression bomb. ")


def test_a_hostile_folder_chooses_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lxml.py").write_text("raise SystemExit('imported from the folder of the user')")
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the folder of the user')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    assert "tide" in read(tmp_path, "a.docx", make_docx()).text


def test_a_conversion_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHILD", "while True: pass")
    monkeypatch.setattr(reader, "TIMEOUT_SECONDS", 1)
    assert (
        refuse(tmp_path, "a.pdf", make_pdf([COLUMNS]))
        == "takes too long to convert, or is damaged. Save it as plain text."
    )


RUN = "<w:r><w:rPr>{}</w:rPr><w:t>{}</w:t></w:r>"
SEEN = "<w:r><w:t>{}</w:t></w:r>"
RUBY = "<w:r><w:ruby><w:rt>{}</w:rt><w:rubyBase>{}</w:rubyBase></w:ruby></w:r>"
WHITE, DARK = "<w:color w:val='FFFFFF'/>", "<w:shd w:fill='202020'/>"
BOX = "<w:p><w:r><w:t>before</w:t><w:pict><w:txbxContent>{}</w:txbxContent></w:pict></w:r></w:p>"


STYLE = "<w:style w:type='{}' w:styleId='{}'><w:name w:val='{}'/><w:basedOn w:val='{}'/>{}</w:style>"
STYLES = "".join(
    STYLE.format(*row)
    for row in (
        ("character", "h", "Hidden", "", "<w:rPr><w:vanish/></w:rPr>"),
        ("character", "h2", "Hidden too", "h", ""),
        ("paragraph", "w", "White", "", f"<w:rPr>{WHITE}</w:rPr>"),
        ("paragraph", "d", "Dark", "w", f"<w:pPr>{DARK}</w:pPr>"),
        ("table", "t", "Rows", "", f"<w:tblStylePr><w:tcPr>{DARK}</w:tcPr></w:tblStylePr>"),
        ("paragraph", "Zitat", "Quote", "", ""),
    )
)
TWO = "<w:p><w:pPr>{}</w:pPr><w:r><w:t>text</w:t></w:r></w:p><w:p><w:r><w:t>after</w:t></w:r></w:p>"
CELL = "<w:tbl><w:tblPr>{}</w:tblPr><w:tr><w:trPr>{}</w:trPr><w:tc><w:tcPr>{}</w:tcPr>{}</w:tc></w:tr></w:tbl>"
TITLE = f"<w:p>{RUN.format(WHITE, 'a title')}</w:p>"
SHAPES = " ".join(
    f'xmlns:{name}="http://x.test/{name}"' for name in ("a", "wp", "wps", "v")
) + ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'  # fmt: skip
ALTERNATIVES = (
    f'<w:p xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" {SHAPES}><mc:AlternateContent>{{}}'
    f"<mc:Fallback>{SEEN.format('two')}</mc:Fallback></mc:AlternateContent></w:p>"
)
SHAPE = f"<w:p {SHAPES}>{SEEN.format('one')}<w:r><w:drawing>{{}}</w:drawing></w:r></w:p>"
INNER, LINE = "<w:txbxContent>{}</w:txbxContent>", f"<w:p>{SEEN}</w:p>"


@pytest.mark.parametrize(
    ("body", "text", "hides"),
    [
        (f"<w:p>{SEEN.format('two')}{RUN.format(WHITE, 'x')}{SEEN.format('words')}</w:p>", "two words", True),
        (f"<w:p><w:pPr>{DARK}</w:pPr>{RUN.format(WHITE, 'a title')}</w:p>", "a title", False),
        (f"<w:p>{SEEN.format('re')}{RUN.format('<w:rStyle w:val=' + repr('h2') + '/>', 'q')}{SEEN.format('ad')}</w:p>",
         "read", True),
        (TWO.format("<w:pStyle w:val='w'/>"), "after", True),
        (TWO.format("<w:pStyle w:val='d'/>"), "text\n\nafter", False),
        (TWO.format("<w:pStyle w:val='Zitat'/>"), "> text\n\nafter", False),
        (TWO.format("<w:pStyle w:val='Quote'/>"), "> text\n\nafter", False),
        (TWO.format("<w:ind w:left='720' w:right='720'/>"), "> text\n\nafter", False),
        (TWO.format("<w:ind w:left='720'/>"), "text\n\nafter", False),
        (TWO.format("<w:ind w:left='-12000'/>"), "after", True),
        (CELL.format("", "", DARK, TITLE), "a title", False),
        (CELL.format("<w:tblStyle w:val='t'/>", "", "", TITLE), "a title", False),
        (CELL.format("", "", "", TITLE) + TWO.format(""), "text\n\nafter", True),
        (CELL.format("", "<w:hidden/>", DARK, TITLE) + TWO.format(""), "text\n\nafter", True),
        (f"<w:p>{RUN.format('<w:color w:themeColor=' + repr('background1') + '/>', 'x')}{SEEN.format('y')}</w:p>",
         "y", True),
        (f"<w:p>{SEEN.format('y')}{RUN.format('<w:color w:val=' + repr('202020') + '/>' + DARK, 'x')}</w:p>",
         "y", True),
        *(
            (f"<w:p>{SEEN.format('re')}{RUN.format(formats, 'q')}{SEEN.format('ad')}</w:p>", "read", True)
            for formats in (
                "<w:color w:val='00FF00'/><w:highlight w:val='green'/>",
                "<w:color w:val='FFC000'/><w:shd w:val='clear' w:fill='FFC000'/>",
            )
        ),
        *(
            (f"<w:p>{RUN.format(formats, 'seen')}</w:p>", "seen", False)
            for formats in (
                "<w:color w:val='008000'/><w:highlight w:val='green'/>",
                "<w:highlight w:val='yellow'/><w:position w:val='-6'/>",
            )
        ),
        (f"<w:p><w:bdo>{SEEN.format('one')}</w:bdo><w:fldSimple>{SEEN.format(' two')}</w:fldSimple></w:p>",
         "one two", False),
        (f"<w:p><w:dir><w:bdo>{SEEN.format('one')}</w:bdo>{SEEN.format(' two')}</w:dir></w:p>", "one two", False),
        (f"<w:p>{RUBY.format(SEEN.format('kan'), SEEN.format('漢'))}</w:p>", "漢", False),
        (BOX.format(f"<w:p>{SEEN.format('in the box')}</w:p>"), "before\n\nin the box", False),
        (f"<w:p>{''.join(f'<w:r><w:pict>{INNER.format(LINE.format(n))}</w:pict></w:r>' for n in 'ab')}</w:p>",
         "a\n\nb", False),
        (SHAPE.format(f"<wps:wsp><wps:spPr><a:solidFill/></wps:spPr>{INNER.format(TITLE)}</wps:wsp>"),
         "one\n\na title", False),
        (SHAPE.format(f"<wps:wsp><wps:style><a:fillRef/></wps:style>{INNER.format(TITLE)}</wps:wsp>"),
         "one\n\na title", False),
        (SHAPE.format(INNER.format(TITLE)), "one", True),
        (SHAPE.format(f"<wp:anchor><wp:posOffset>-9000000</wp:posOffset>{INNER.format(TWO.format(''))}</wp:anchor>"),
         "one", True),
        (ALTERNATIVES.format(f"<mc:Choice Requires='a'>{SEEN.format('one')}</mc:Choice>"), "one", False),
        (ALTERNATIVES.format("<mc:Choice Requires='a'><a:symEx/></mc:Choice>"), "two", False),
        (f"<w:p {SHAPES}>{SEEN.format('if ')}<m:oMathPara><m:oMath><m:r><m:t>x=y</m:t></m:r></m:oMath></m:oMathPara>"
         "</w:p>", "if x=y", False),
        ("<w:p><w:r><w:t>one</w:t><w:br w:type='page'/><w:t>two</w:t><w:ptab/><w:t>three</w:t></w:r></w:p>",
         "one\ntwo three", False),
        (LINE.format("manifest:encryption-data"), "manifest:encryption-data", False),
        (f"<w:p>{SEEN.format('one')}<w:del><w:r><w:delText>no</w:delText></w:r></w:del></w:p>", "one", False),
    ],
)  # fmt: skip
def test_a_docx_is_read_as_a_reader_sees_it(body: str, text: str, hides: bool, tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(make_docx(body, parts={"styles.xml": STYLES}))
    warnings = ["hidden text was left out"] if hides else []
    assert reader.convert_file(tmp_path / "a.docx") == {"text": text, "warnings": warnings}


def test_hidden_text_of_strict_files_and_of_parts_with_numbers_is_left_out(tmp_path: Path) -> None:
    body = f"<w:p>{SEEN.format('re')}{RUN.format('<w:vanish/>', 'q')}{SEEN.format('ad')}</w:p>"
    with zipfile.ZipFile(io.BytesIO(make_docx(body))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    strict = "http://purl.oclc.org/ooxml/wordprocessingml/main"
    numbered = {
        name.replace("document.xml", "document2.xml"): text.replace("document.xml", "document2.xml")
        for name, text in parts.items()
    }
    for renamed in ({name: text.replace(WORD.split('"')[1], strict) for name, text in parts.items()}, numbered):
        (tmp_path / "a.docx").write_bytes(pack(renamed))
        assert reader.convert_file(tmp_path / "a.docx")["text"] == "read"


ODF_STYLE = (
    "<style:style style:name='{}' style:family='{}' style:parent-style-name='{}'>"
    "<style:text-properties {}/></style:style>"
)
ODF_STYLES = "".join(
    ODF_STYLE.format(*row)
    for row in (
        *(("W", "text", "", "fo:color='#ffffff'"), ("B", "text", "", "")),
        *(
            ("N", "text", "Gone", ""),
            ("I", "text", "", "fo:font-style='italic'"),
            ("Q", "paragraph", "Intense_20_Quote", ""),
        ),
        *(("PW", "paragraph", "", "fo:color='#fff'"), ("PD", "paragraph", "PW", "fo:background-color='#123'")),
        ("A", "text", "", "fo:color='#ffffff' style:use-window-font-color='true' style:opacity='0%'"),
        *(
            ("O", "text", "", "fo:color='#000000' style:opacity='0%'"),
            ("AO", "text", "O", "fo:color='#000000' style:opacity='100%'"),
        ),
        ("G", "graphic", "", "draw:fill='solid' draw:fill-color='#000080'"),
        ("SU", "text", "", "style:text-position='super 58%'"),
        ("M", "paragraph", "", "fo:margin-left='1cm' fo:margin-right='1cm'"),
    )
)
ODF_OFFICE = (("Gone", "text", "", "text:display='none'"), ("Intense_20_Quote", "paragraph", "", ""))
ODF_PARTS = {"styles": "".join(ODF_STYLE.format(*row) for row in ODF_OFFICE)}


def span(style: str, text: str) -> str:
    return f"<text:span text:style-name='{style}'>{text}</text:span>"


def paragraph(content: str, style: str = "") -> str:
    return f"<text:p text:style-name='{style}'>{content}</text:p>"


def frame(content: str, attributes: str = "") -> str:
    return f"<draw:frame {attributes}><draw:text-box>{paragraph(content)}</draw:text-box></draw:frame>"


@pytest.mark.parametrize(
    ("body", "text", "hides"),
    [
        (paragraph(span("B", "Th") + "e snake_case *stars* # t"), "The snake_case *stars* # t", False),
        (paragraph("two" + span("W", "x") + "words"), "two words", True),
        (paragraph("re" + span("N", "x") + "ad"), "read", True),
        (paragraph("re" + span("SU", "ad")), "read", False),
        (paragraph("no", "PW") + paragraph("seen", "PD"), "seen", True),
        (paragraph(span("A", "seen") + span("AO", " all")), "seen all", False),
        (paragraph("two" + span("O", "x") + "words"), "two words", True),
        ("<text:section text:display='none'>" + paragraph("no") + "</text:section>" + paragraph("seen"), "seen", True),
        (
            "<table:table><table:table-row table:visibility='collapse'><table:table-cell>"
            + paragraph("no")
            + "</table:table-cell></table:table-row></table:table>"
            + paragraph("seen"),
            "seen",
            True,
        ),
        (paragraph("no<text:hidden-paragraph text:is-hidden='true'/>") + paragraph("seen"), "seen", True),
        (paragraph("one" + frame("in the box") + " two"), "one two\n\nin the box", False),
        (paragraph("one" + frame(span("W", "a title"), "draw:style-name='G'")), "one\n\na title", False),
        (paragraph("one" + frame("away", "svg:x='-40cm'")), "one", True),
        ("<text:tracked-changes><text:deletion>" + paragraph("no") + "</text:deletion></text:tracked-changes>"
         + paragraph("on<office:annotation>" + paragraph("no") + "</office:annotation>e"), "one", False),
        (paragraph("one<text:s text:c='3'/>two<text:tab/>three<text:line-break/>four"), "one two three\nfour", False),
        (paragraph("<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby>字"),
         "漢字", False),
        (paragraph("one", "Q") + paragraph("two", "M"), "> one\n\n> two", False),
        (paragraph("So:") + paragraph(span("I", "a b c d e f g h")), "So:\n\n> a b c d e f g h", False),
        ("<office:forms><form:textarea form:current-value='typed'/></office:forms>" + paragraph("one"),
         "one\n\ntyped", False),
    ],
)  # fmt: skip
def test_an_odt_is_read_as_a_reader_sees_it(body: str, text: str, hides: bool, tmp_path: Path) -> None:
    (tmp_path / "a.odt").write_bytes(make_odt(body, styles=ODF_STYLES, parts=ODF_PARTS))
    warnings = ["hidden text was left out"] if hides else []
    assert reader.convert_file(tmp_path / "a.odt") == {"text": text, "warnings": warnings}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("t&#105;d&#X65; &amp; salt&nbsp;&eacute;", "tide & salt\xa0é"),
        ("R&D, AT&T; &no; a&copy &#; \\&#101; &amp;#101;", "R&D, AT&T; &no; a&copy &#; \\&#101; &#101;"),
    ],
)
def test_references_of_markdown_are_characters(written: str, read: str, tmp_path: Path) -> None:
    for name, text in (("a.md", read), ("a.txt", written)):
        (tmp_path / name).write_text(written, encoding="utf-8")
        document = reader.read_any_document(tmp_path / name)
        assert (document.text, document.extracted) == (text, text != written)


def test_what_is_not_read_is_told(tmp_path: Path) -> None:
    long = " ".join(["word"] * 40)
    (tmp_path / "a.odt").write_bytes(make_odt(parts={"styles": f"<style:header>{paragraph(long)}</style:header>"}))
    (tmp_path / "a.docx").write_bytes(make_docx(parts={"header1.xml": long, "diagrams/data1.xml": ""}))
    assert read_any_document(tmp_path / "a.odt").warnings == (MARGIN_NOT_READ,)
    warnings = (NOT_READ, MARGIN_NOT_READ)
    assert read_any_document(tmp_path / "a.docx").warnings == warnings
    (tmp_path / "a.docx").write_bytes(make_docx(f"<w:altChunk/>{LINE.format('one')}"))
    assert reader.convert_file(tmp_path / "a.docx") == {"text": "one", "warnings": [NOT_READ]}
