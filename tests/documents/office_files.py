"""Small DOCX, ODT and PDF files, written by hand: with a table, a footnote, two columns, without text."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType

NONE: Mapping[str, str] = MappingProxyType({})
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
BODY = (
    "<w:p><w:r><w:t>The tide turned before noon.</w:t></w:r><w:r><w:footnoteReference w:id='2'/></w:r></w:p>"
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>catch</w:t></w:r></w:p></w:tc>"
    "<w:tc><w:p><w:r><w:t>forty &lt;b&gt; boxes</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
)
NOTE = "<w:footnote w:id='2'><w:p><w:r><w:t>Measured at the quay.</w:t></w:r></w:p></w:footnote>"
ODF = "urn:oasis:names:tc:opendocument:xmlns"
ODT_BODY = (
    "<text:h text:outline-level='1'>A heading</text:h><text:p>The tide turned<text:note text:note-class='footnote'>"
    "<text:note-citation>1</text:note-citation><text:note-body><text:p>Measured at the quay.</text:p></text:note-body>"
    "</text:note> before noon.</text:p><table:table><table:table-column table:number-columns-repeated='2'/>"
    "<table:table-row><table:table-cell><text:p>catch</text:p></table:table-cell><table:table-cell>"
    "<text:p>forty boxes</text:p></table:table-cell></table:table-row></table:table>"
)


def pack(parts: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            # programs tell an ODT by this part, which is not compressed
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return packed.getvalue()


def make_docx(body: str = BODY, prolog: str = "", parts: Mapping[str, str] = NONE) -> bytes:
    kinds = "application/vnd.openxmlformats-"
    relation = (
        f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{OFFICE}/{{}}" Target="{{}}"/>'
    )
    return pack(
        {
            "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
            f'ContentType="{kinds}package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{kinds}officedocument.wordprocessingml.document.main'
            '+xml"/></Types>',
            "_rels/.rels": relation.format("officeDocument", "word/document.xml") + "</Relationships>",
            "word/_rels/document.xml.rels": relation.format("footnotes", "footnotes.xml") + "</Relationships>",
            "word/document.xml": f"{prolog}<w:document {WORD}><w:body>{body}</w:body></w:document>",
            "word/footnotes.xml": f"<w:footnotes {WORD}>{NOTE}</w:footnotes>",
            **{f"word/{name}": f"<w:part {WORD}>{content}</w:part>" for name, content in parts.items()},
        }
    )


def make_odt(body: str = ODT_BODY, manifest: str = "", styles: str = "", parts: Mapping[str, str] = NONE) -> bytes:
    spaces = {name: name for name in ("office", "text", "table", "manifest", "style", "form")}
    spaces |= {"draw": "drawing", "fo": "xsl-fo-compatible", "svg": "svg-compatible"}
    names = " ".join(f'xmlns:{name}="{ODF}:{space}:1.0"' for name, space in spaces.items())
    kind = "application/vnd.oasis.opendocument.text"
    return pack(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": f'<manifest:manifest {names}><manifest:file-entry manifest:full-path="/" '
            f'manifest:media-type="{kind}"/><manifest:file-entry manifest:full-path="content.xml" '
            f'manifest:media-type="text/xml">{manifest}</manifest:file-entry></manifest:manifest>',
            "content.xml": f"<office:document-content {names}><office:automatic-styles>{styles}"
            "</office:automatic-styles><office:body><office:text>"
            f"{body}</office:text></office:body></office:document-content>",
            "styles.xml": f"<office:document-styles {names}>{parts.get('styles', '')}</office:document-styles>",
            "meta.xml": f"<office:document-meta {names}></office:document-meta>",
        }
    )


def make_pdf(pages: Sequence[Sequence[tuple[int, int, str]]]) -> bytes:
    """A PDF of pages that have lines of text at places in points."""
    return build_pdf(["\n".join(f"BT /F1 11 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in lines) for lines in pages])


HELVETICA = "/Type /Font /Subtype /Type1 /BaseFont /Helvetica"


def build_pdf(
    contents: Sequence[str],
    font: str = HELVETICA,
    fonts: str = "",
    page: str = "",
    resources: str = "",
    catalog: str = "",
    others: Sequence[str] = (),
) -> bytes:
    """A PDF of pages that have this content, with entries of its dictionaries, and other objects from number 4 on."""
    first = 4 + len(others)
    numbers = range(first, first + 2 * len(contents), 2)
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        f"<< /Type /Pages /Count {len(contents)} /Kids [{' '.join(f'{number} 0 R' for number in numbers)}] >>",
        f"<< {font} >>",
        *others,
    ]
    for number, content in zip(numbers, contents, strict=True):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 3 0 R {fonts} >> {resources} >> {page} >>"
        )
        objects.append(make_stream(content))
    data, places = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{item}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()


def make_stream(content: str) -> str:
    return f"<< /Length {len(content.encode())} >>\nstream\n{content}\nendstream"


COLUMNS = [
    *((60, 700 - 14 * i, f"Left column line {i}.") for i in range(3)),
    *((320, 700 - 14 * i, f"Right column line {i}.") for i in range(3)),
]
