"""Find the parts of a text whose words are those of everyone: title page, contents, declarations, acknowledgements."""

import re
from itertools import chain

from pan_scdg.align.quotations import PARAGRAPH_END, Span
from pan_scdg.align.references import (
    LINE,
    MAX_ENTRY_LENGTH,
    MAX_WRAPPED_LENGTH,
    MIN_ENTRIES,
    is_list_heading,
    name_heading,
)
from pan_scdg.sentences import find_section_name, is_bare_heading

_CONTENTS_NAME = re.compile(
    r"(?:table of )?contents|inhalt(?:sverzeichnis|sübersicht)?|gliederung|table des matières|sommaire|índice|sumário"
    r"|indice|sommario|inhoud(?:sopgave)?|spis treści|innehåll(?:sförteckning)?|indhold(?:sfortegnelse)?|innhold"
    r"|innholdsfortegnelse|sisällys(?:luettelo)?|obsah|tartalom(?:jegyzék)?|içindekiler|содержание|оглавление|зміст"
    r"|目次|目录|目錄|차례|목차"
)
_CONTENTS_ENTRY = re.compile(r"\s*\S.*?(?P<gap>[\s.…·_]+)(?P<page>\d{1,3}|[ivxlIVXL]{1,6})\s*")
_LEADER = re.compile(r"(?:[.…·_]\s?){3}")
"""What leads to a number of a page; below a heading a space does."""

_DECLARATION_NAME = re.compile(
    r"""declarations?|(?:declaration|statement|affirmation|affidavit|pledge|certificate)\ (?:of|on)\ (?:\w+\ ){0,3}?
    (?:authorship|originality|honou?r|honesty|integrity|work|plagiarism)
    |(?:(?:student|author|candidate)(?:['’]?s)?|honou?r|honesty|integrity|(?:non-|anti-)?plagiarism|originality
    |authorship|academic\ (?:integrity|honesty))\ (?:declaration|statement|affirmation|pledge|code)
    |erklärung|(?:eidesstattliche|ehrenwörtliche|eigenhändigkeits|selbst(?:st)?ändigkeits|eigenständigkeits|plagiats|
    urheberschafts)[-\ ]?(?:erklärung|versicherung)
    |erklärung\ (?:zur|über\ die|der)\ (?:\w+\ )?(?:selbst(?:st)?ändigkeit|eigenständigkeit|urheberschaft)
    |(?:déclaration|attestation)\ (?:sur\ l['’]honneur|d['’](?:honneur|authenticité|originalité|intégrité)
    |(?:anti-?|de\ non[-\ ])plagiat)
    |declaración\ (?:jurada|de\ (?:\w+\ )?(?:autoría|originalidad|honestidad|autenticidad|honor))
    |declaração\ de\ (?:\w+\ )?(?:autoria|originalidade|honra|integridade|autenticidade)
    |dichiarazione\ (?:di\ |d['’])(?:originalità|autenticità|integrità|onestà|autonomia)
    |verklaring\ van\ (?:originaliteit|authenticiteit|eigen\ werk)|(?:eigen\ ?werk|plagiaat|eer)verklaring
    |oświadczenie(?:\ autora|\ o\ samodzielności)?|(?:čestné\ )?prohlášení|(?:čestné\ )?vyhlásenie
    |eredetiségi\ nyilatkozat|tro\ og\ love-?\ ?erklæring|(?:etik\ )?beyan(?:ı|name)?
    |(?:原创性|独创性|诚信|原創性)声?聲?明|誓約書|宣誓書|서약서
    |acknowledge?ments?|danksagung|remerciements?|agradecimientos|agradecimentos|ringraziamenti|dankwoord|podziękowania
    |благодарности|致谢|致謝|謝辞|감사의\ 글""",
    re.VERBOSE,
)
"""The heading of a declaration or of acknowledgements, in lower case."""
_FIRST_PERSON = re.compile(
    r"\b(?:i|my|we|our|undersigned|ich|wir|meine[rn]?|hiermit|je|j['’]\w+|nous|soussignée?|yo|mis?|eu|meus?|minhas?|declaro|io"
    r"|miei|dichiaro|ik|hierbij|jag|jeg|vi|undertegnede|vakuutan|oświadczam|prohlašuji|vyhlasujem|kijelentem|alulírott"
    r"|ederim|teşekkür\w*|dziękuję|я|мы)\b|本人|我|私|본인|나는|저는",
    re.IGNORECASE,
)
"""What a declaration says that other text below such a heading may not."""
MIN_TITLE_LINES = 3
"""Lines of a title page."""
MIN_SENTENCE_WORDS = 8
_SENTENCE = re.compile(r"(?:[^\W\d_A-Z]{4}[.!?…][\"'”’»)\]]*\s|[.!?…][\"'”’»)\]]*\Z)")
"""The end of a sentence in a paragraph with so many words; no abbreviation."""
_ITEM = re.compile(r"^[ \t]*[-*+•–▪◦][ \t]", re.MULTILINE)
_CHINESE_END = re.compile(r"[。！？]")
MAX_HEADING_LENGTH = 60
"""Characters of a paragraph that ends a declaration if it ends like no sentence."""


def find_contents(text: str) -> list[Span]:
    """Return the tables of contents: at least `MIN_ENTRIES` lines that end with the number of a page, in order.

    Dots lead to the number, or a heading stands above the table. One line in between may be the first half of an entry.
    """
    found: list[Span] = []
    begin = end = entries = page = 0
    headed = is_wrapped = False

    for match in chain(LINE.finditer(text), [None]):
        line = match[0] if match is not None and len(match[0]) <= MAX_ENTRY_LENGTH else ""
        entry = _CONTENTS_ENTRY.fullmatch(line)
        number = int(entry["page"]) if entry and entry["page"].isdecimal() else 0
        opens = bool(line) and _CONTENTS_NAME.fullmatch(name_heading(line)) is not None
        if match and entry and not opens and (headed or _LEADER.match(entry["gap"].lstrip())) and number >= page:
            begin = match.start() if not entries and not headed else begin
            end, entries, page, is_wrapped = match.end(), entries + 1, number, False
        elif line and not opens and entries and not is_wrapped:
            is_wrapped = True
        else:
            if entries >= MIN_ENTRIES:
                found.append((begin, end))
            begin, entries, page, headed, is_wrapped = match.start() if match else 0, 0, 0, opens, False
    return found


def find_title_page(text: str) -> int:
    """Return the end of the title page: the paragraphs before the first one with a long line or a sentence.

    0: there is none, for a title alone is no page, and a list is no title.
    """
    begin = number = 0
    for match in PARAGRAPH_END.finditer(text):
        lines = text[begin : match.end()].split("\n")
        paragraph = text[begin : match.end()].strip()
        is_prose = len(paragraph.split()) >= MIN_SENTENCE_WORDS and _SENTENCE.search(paragraph)
        if is_prose or max(map(len, lines)) > MAX_WRAPPED_LENGTH or _CHINESE_END.search(paragraph):
            return begin if number >= MIN_TITLE_LINES and not _ITEM.search(text, 0, begin) else 0
        begin, number = match.end(), number + sum(map(bool, map(str.strip, lines)))
    return 0


def find_declarations(text: str) -> list[Span]:
    """Return the declarations and acknowledgements, each with its heading and up to the next one."""
    found: list[Span] = []
    begin = end = 0
    is_open = False
    lines = list(LINE.finditer(text))
    for match, following in zip(lines, [*(line[0] for line in lines[1:]), ""]):
        line = match[0]
        opens = len(line) <= MAX_WRAPPED_LENGTH and _DECLARATION_NAME.fullmatch(name_heading(line)) is not None
        if is_open and (opens or _ends_declaration(text, match, following)):
            found.append((begin, end))
            is_open = False
        if opens:
            begin, is_open = match.start(), True
        end = match.end()
    if is_open:
        found.append((begin, end))
    return [span for span in found if _FIRST_PERSON.search(text, *span)]


def _ends_declaration(text: str, line: re.Match[str], following: str) -> bool:
    """Return True for a line that is the heading of another part, or looks like one."""
    words = line[0].strip()
    if words.startswith("#") or find_section_name(words) or is_list_heading(words):
        return True
    if not text.endswith("\n\n", 0, line.start()) or words[-1] in ".,;:!?":
        return False
    is_alone = len(words) <= MAX_HEADING_LENGTH and text.startswith("\n\n", line.end())
    return is_alone or is_bare_heading(words, following)
