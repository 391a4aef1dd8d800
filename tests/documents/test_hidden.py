"""What no reader sees is left out with a warning, in every format: a row for each way to hide words."""

from pathlib import Path

import pytest

pytest.importorskip("pypdfium2", reason="the extra documents is not installed")
from pan_scdg.documents.html_text import HIDDEN
from pan_scdg.documents.reader import read_any_document
from tests.documents.office_files import build_pdf, make_docx, make_odt

RUN = "<w:r><w:rPr>{}</w:rPr><w:t>{}</w:t></w:r>"
ODF_STYLE = "<style:style style:name='S' style:family='text'><style:text-properties {}/></style:style>"
PDF_PLAIN = "0 g 0 Tr /F1 12 Tf 100 Tz 0 Ts"


def make_document(kind: str, mark: str, content: str = "q") -> bytes:
    """A document with a sentence in which one word has two letters around others, which have a format."""
    if kind == "docx":
        return make_docx(f"<w:p>{RUN.format('', 're')}{RUN.format(mark, content)}{RUN.format('', 'ad the tide')}</w:p>")
    if kind == "odt":
        span = f"<text:span text:style-name='S'>{content}</text:span>"
        return make_odt(f"<text:p>re{span}ad the tide</text:p>", styles=ODF_STYLE.format(mark))
    if kind == "html":
        return f"<p>re<span style='{mark}'>{content}</span>ad the tide</p>".encode()
    text = f"(re) Tj {mark} 11 0 Td ({content}) Tj {PDF_PLAIN} 7 0 Td (ad the tide) Tj"
    return build_pdf([f"BT /F1 12 Tf 60 700 Td {text} ET"])


HIDING = {
    "hidden": {"docx": "<w:vanish/>", "odt": "text:display='none'", "html": "display:none"},
    "in the colour of the page": {
        "docx": "<w:color w:val='FFFFFF'/>",
        "odt": "fo:color='#ffffff'",
        "html": "color:#fff",
        "pdf": "1 g",
    },
    "in the colour behind it": {
        "docx": "<w:color w:val='FFFF00'/><w:highlight w:val='yellow'/>",
        "odt": "fo:color='#ff0' fo:background-color='yellow'",
        "html": "color:#ff0;background:yellow",
    },
    "tiny": {"docx": "<w:sz w:val='2'/>", "odt": "fo:font-size='1pt'", "html": "font-size:1pt", "pdf": "/F1 1 Tf"},
    "narrow": {"docx": "<w:w w:val='1'/>", "odt": "style:text-scale='1%'", "html": "scale:0", "pdf": "1 Tz"},
    "out of the page": {
        "docx": "<w:position w:val='-3000'/>",
        "odt": "style:text-position='-100% 1%'",
        "html": "position:relative;top:-900px",
        "pdf": "-900 Ts",
    },
    "transparent": {
        "docx": "<w:textFill><w:noFill/></w:textFill>",
        "odt": "fo:color='#000000' style:opacity='0%'",
        "html": "opacity:0",
        "pdf": "3 Tr",
    },
}
SHOWING = {
    "light on dark": {
        "docx": "<w:color w:val='FFFFFF'/><w:shd w:fill='202020'/>",
        "odt": "fo:color='#fff' fo:background-color='#202020'",
        "html": "color:#fff;background:#202020",
    },
    "not hidden": {"docx": "<w:vanish w:val='0'/>", "odt": "text:display='true'", "html": "display:inline"},
    "small": {"docx": "<w:sz w:val='12'/>", "odt": "fo:font-size='6pt'", "html": "font-size:6pt", "pdf": "/F1 6 Tf"},
}


@pytest.mark.parametrize(("way", "kind"), [(way, kind) for way, kinds in HIDING.items() for kind in kinds])
def test_what_no_reader_sees_is_left_out_with_a_warning(way: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{kind}").write_bytes(make_document(kind, HIDING[way][kind]))
    document = read_any_document(tmp_path / f"a.{kind}")
    assert (document.text.replace(" ", ""), document.warnings) == ("readthetide", (HIDDEN,))


@pytest.mark.parametrize(("way", "kind"), [(way, kind) for way, kinds in SHOWING.items() for kind in kinds])
def test_what_a_reader_sees_is_kept(way: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{kind}").write_bytes(make_document(kind, SHOWING[way][kind]))
    document = read_any_document(tmp_path / f"a.{kind}")
    assert (document.text.replace(" ", ""), document.warnings) == ("reqadthetide", ())


@pytest.mark.parametrize("kind", ["docx", "odt", "html"])
def test_a_hidden_source_makes_no_quotation_of_a_paragraph(kind: str, tmp_path: Path) -> None:
    text = "nobody in the harbour said a word about the boats that evening"
    data = {
        "docx": make_docx(f"<w:p>{RUN.format('<w:i/>', text)}{RUN.format('<w:i/><w:vanish/>', ' (Karlsen 45)')}</w:p>"),
        "odt": make_odt(
            f"<text:p><text:span text:style-name='I'>{text}</text:span>"
            "<text:span text:style-name='S'> (Karlsen 45)</text:span></text:p>",
            styles=ODF_STYLE.format("text:display='none' fo:font-style='italic'")
            + ODF_STYLE.format("fo:font-style='italic'").replace("'S'", "'I'"),
        ),
        "html": f"<p><i>{text}</i><i style='display:none'> (Karlsen 45)</i></p>".encode(),
    }[kind]
    (tmp_path / f"a.{kind}").write_bytes(data)
    assert read_any_document(tmp_path / f"a.{kind}").text == text
