"""Find the parts of a target that the score of an alignment does not count.

Words that an author marks as another's are not hidden reuse: quotations and lists of references. Nor are formal parts,
whose words are those of everyone: title pages, tables of contents, declarations of authorship and acknowledgements.
Quotation marks around a whole text are no excuse, however: a long quotation counts, and all quotations of a text count
if they make up too much of it; so does a long declaration.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.sentences import find_section_name, is_bare_heading, strip_marks

Integers = npt.NDArray[np.int64]
Span = tuple[int, int]
Kind = Literal["quotation", "references", "formal"]

MIN_SHARE_INSIDE = 0.5
"""A passage or sentence with at least this share of its characters in quotations is one; likewise in lists."""
MAX_QUOTATION_WORDS = 100
"""A longer quotation counts, and so do all declarations of a text but the shortest, if they are longer together."""
MAX_SHARES: dict[Kind, float] = {"quotation": 1 / 3, "references": 1 / 2, "formal": 1 / 3}
"""Largest share of a text's words in its parts of a kind that is excluded; above it, all of them count."""

_MARKS = {"“": "”", "„": "“”", "«": "»", "‹": "›", "‚": "‘’", "「": "」", "『": "』", "｢": "｣"}
_EITHER_SIDE = {'"': '"', "”": "”“", "»": "»«", "›": "›‹", "‟": "”", "＂": "＂", "″": "″", "〝": "〞〟", "״": "״"}
"""Marks that also close a quotation: they open one at the beginning of a word only."""
_EASTERN = r"\u0e00-\u0eff\u1100-\u11ff\u3000-\u9fff\uac00-\ud7af\uff00-\uffef"
"""Letters and punctuation of Thai, Chinese, Japanese and Korean, which stand next to marks without a space."""
_LETTER = rf"[^\W{_EASTERN}]"
_BEFORE = rf"(?<![^\s\ufeff\u200b(\[{{<—–/:*_\\{_EASTERN}-])"
_AFTER = rf"(?!(?![\d¹²³⁰⁴-⁹]{{1,3}}(?!\w)){_LETTER})"
"""No letter, but perhaps the number of a footnote."""
_ELISION = r"(?i:(?:em|cause|cuz|cos|coz|til|till|tis|twas|bout|round|n|nuff)\b|\d)"
"""What an apostrophe also begins, as in 'em, 'cause and the '90s."""
_QUOTATION = re.compile(
    "|".join(
        [
            rf"{first}(?:[^{first}{last}]|{first}[^{first}{last}]*[{last}])+[{last}]"  # one within the other
            for first, last in _MARKS.items()
        ]
        + [rf"{_BEFORE}{first}(?=\S)[^{first}{last}]+[{last}]{_AFTER}" for first, last in _EITHER_SIDE.items()]
        # a keyboard has one of both marks only
        + [rf"{first}[^{first}\"]+\"{_AFTER}" for first in "“„"]
        + [rf"{_BEFORE}\"(?=\S)[^\"“”]+”"]
        # as in LaTeX; or typed for other marks
        + [r"``[^`]+?(?:''|\")", r"(?<![`\w])`(?![`\s])[^`]+?['´](?!\w)", r"´´[^´]+´´"]
        + [rf"{_BEFORE},,(?=[^\s,])(?:(?!,,)[^\"“”])+?(?:''|[\"“”])", r"<<(?=\s?[^\s<])[^<>]+>>"]
        + [r"(?<!\S)\" [^\"“”]+ \"(?![^\s.,;:!?)])", r"\\enquote\*?\{[^{}]+\}"]
        # a single mark is an apostrophe, too, before a letter, or after the s of a plural
        + [rf"‘[^‘’]+(?:(?:’(?={_LETTER})|(?<=s)’(?= [a-z]))[^‘’]+)*’(?!{_LETTER})"]
        # a straight one also of a year or before a name: five words are a quotation
        + [
            rf"{_BEFORE}{mark}(?!{_ELISION})(?=(?:(?:[^\s']|'(?=\w))+\s+){{4}})[^']+(?:(?<={_LETTER})'(?={_LETTER})[^']+)*(?<=[\w.,;:!?…)]){mark}(?!{_LETTER}|')"
            for mark in ("''", "'")
        ]
    )
)
_OPENER = re.compile(rf"[{''.join(_MARKS)}]|{_BEFORE}[{''.join(_EITHER_SIDE)}](?=\S)")
_BRACKET = re.compile(
    "|".join(
        rf"\s?\{first}(?=[^\{first}\{last}]{{1,100}}\{last})[^\n\{last}]+(?:\n[^\n\{last}]+)*\{last}"
        for first, last in ("()", "[]", "（）")
    )
)
"""The reference behind a quotation, in one paragraph: it may contain the title of the source."""
_PARAGRAPH_END = re.compile(r"\n(?=[ \t\r]*\n)|\Z")
MAX_PAGE_NUMBER = 12
"""Characters of a paragraph that is the number of a page."""
_LAZY = r">(?![ \t]*>).{40,}(?<=[\w,;–—-])(?:\n[ \t]*[^\s>].*)+"
"""A line that breaks off a sentence, and further ones of its paragraph, which need no mark in Markdown."""
_BLOCK_QUOTATION = re.compile(
    rf"^[ \t\ufeff]*(?:[-*+] )?(?:{_LAZY}|>.*)(?:\n[ \t]*(?:{_LAZY}|>.*))*"
    r"|(?i:\[quote\b[^\[\]\n]*\](?:(?!\[quote)[\s\S])*?\[/quote\])"
    r"|(?i:<(blockquote|q)\b[^<>]*>(?:(?!<\1\b)[\s\S])*?</\1>)"
    r"|\\begin\{(quot\w+|displayquote)\}(?:(?!\\begin\{)[\s\S])*?\\end\{\2\}"
    r"|(?<=\n\n)([*_]{1,2})(?=\S)[^*_]+\3[ \t]*\([^()\n]{3,80}\)[.\s]*$"
    r"|(?:(?<=\n\n)|\A)(?:[^\s—–>#|-].{20,}\n){1,9}\n?[—–] ?[^\W\d_a-z].{2,80}(?<![.!?:;,…])(?=\n\n(?!—|–)|\n?\Z)"
    r"|(?<=:\n\n)(?:([*_]{1,2})(?=\S)[^*_]+\4[ \t]*$|(?:(?: {2,}|\t)[^\W\d_].*(?:\n|\Z))+(?=\s|\Z))",
    re.MULTILINE,
)
_INDENTED = re.compile(r"(?<=\n\n)(?=[^\w\n]*[^\W\d_a-z])(?:(?: {4}|\t)[ \t]*\S.*(?:\n|\Z)){2,}(?=[ \t\r]*(?:\n|\Z))")
"""A paragraph that begins with a capital letter: program code rarely does."""

_LIST_NAME = re.compile(
    r"""(?:[\w-]+\ ){0,3}?(?:
    references?|referen\w{2,5}|referências|références|riferimenti|\w*bibliogra\w+|sito?gra\w+|webogra\w+|sources|resources
    |web\ ?sites?|works\ (?:cited|consulted)|further\ reading|(?:end|foot)?notes|citations|literatur\w*
    |litterat?ur\w*|literatuur\w*|\w*quellen\w*|bronnen\w*|fuentes|källor|källför\w+|kilde\w*|lähteet|lähdeluettelo
    |irodalom\w*|zdroje|źródła|piśmiennictwo|kaynak\w*|литература|литературы|источники|джерела|المراجع|מקורות
    |(?:table\ of\ )?(?:cases|legislation|statutes|authorities)|rechtsprechung\w*
    |[\w・]*(?:参考文献|參考文獻|引用文献)|참고\ ?문헌
    )(?:\ \w+){0,3}""",
    re.VERBOSE,
)
"""A heading, in lower case; that of a review of literature may be one, too, since only entries make a list."""
_HEADING_NUMBER = re.compile(r"[\divx]{1,4}[.)]?\s+")
_LINE = re.compile(r"^[^\S\n]*\S[^\n]*", re.MULTILINE)
_FOUR_DIGITS, _LINK = r"(?:1[5-9]|20)\d\d", r"\bdoi\b|https?://|www\."
_YEAR = re.compile(rf"\b{_FOUR_DIGITS}[a-z]?\b|{_LINK}")
_LABEL = r"\s*(?:[-*•+]\s|\[[^\]\n]{1,12}\]|\(?\d{1,3}[.)])"
_SURNAME_FIRST = r"[^\W\d_a-z][\w'’-]*(?: [^\W\d_][\w'’-]*){0,2}(?:, [^\W\d_a-z]| [^\W\d_a-z]{1,2}[.,]| et al\b)"
_CAPITALS_FIRST = r"[^\W\d_a-z]{3,}(?:[ -][^\W\d_a-z]{2,})*,? [^\W\d_a-z][a-z.]"
_INITIALS_FIRST = r"[^\W\d_a-z]\.(?:[ -]?[^\W\d_a-z]\.){0,2} ?[^\W\d_a-z]"
_BY_AUTHOR = re.compile(rf"(?:{_LABEL})?\s*(?:{_SURNAME_FIRST}|{_CAPITALS_FIRST}|{_INITIALS_FIRST})")
_BY_LABEL = re.compile(rf"{_LABEL}|[^(\n]{{1,100}}\({_FOUR_DIGITS}")
_BY_PARTIES = rf".*\bv\.? [^\W\d_a-z].*[\[(]{_FOUR_DIGITS}[\])]"
_CLEAR_ENTRY = re.compile(rf"{_LABEL}|{_BY_AUTHOR.pattern}|{_BY_PARTIES}|.*(?:{_LINK})")
MAX_ENTRY_LENGTH = 400
"""Characters of an entry on one line."""
MAX_WRAPPED_LENGTH = 100
"""Characters of a line that can be one of several lines of an entry."""
MIN_ENTRIES = 3
"""Consecutive entries that make a list without a heading."""
MAX_CONTINUATION = 200
"""Characters of the lines of an entry after the one with its year."""
_NAME = (
    r"(?:{0}[\w'’-]*(?: [^\W\d_][\w'’-]*){{0,2}},? {0}[\w'’-]*\.?|{0}\.(?:[ -]?{0}\.){{0,2}} ?{0}[\w'’-]+)"
    r"(?: {0}[\w'’-]*\.?){{0,2}}\s*(?:[.,;:(&]|(?<=\.)|(?:and|und|et|e|y|en|i|og|och)\b)"
).format(r"[^\W\d_a-z]")
_ORGANISATION = rf"(?:(?:[^\W\d_a-z][\w'’&.-]*|of|for|the|and|für|und|der|de|des|du|la|et|&) ){{1,9}}\({_FOUR_DIGITS}"
_SINGLE_ENTRY = re.compile(
    rf"(?:{_LABEL}|\d{{1,3}})?\s*(?:(?=[\s\S]*\b{_FOUR_DIGITS}[a-z]?\b){_NAME}|{_ORGANISATION})[\s\S]*"
    r"(?:https?://|www\.|\bdoi\b:?\s?|\bISBN[-\d: ]*\d)[^\s]*[^\n]{0,40}\Z"
)
"""An entry that needs neither a heading nor others: it begins with its author and ends with its link or number."""
MAX_SINGLE_LENGTH = 300
_NOTE = re.compile(
    rf"(?:{_LABEL}|\d{{1,3}}\s)?\s*(?:(?:[Ss]ee|[Cc]f\.?|[Vv]gl\.?|[Ss]iehe|[Vv]oir)(?: also| auch)? )?"
    r"(?:(?:[Ii]bid|[Ee]bd|[Ee]benda|[Oo]p\. [Cc]it|[Ll]oc\. [Cc]it|[Ii]d|[Ii]dem)\b|[^\W\d_a-z].{1,80}?,)"
    r".{0,9}?\s(?:pp?|S|s|str|стр|c)\. ?\d[\d\s,–-]*f{0,2}\.?\s*"
)
"""A footnote that is nothing but a source that was named before, and a page."""

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
_CHINESE_END = re.compile(r"[。！？]")
MAX_HEADING_LENGTH = 60
"""Characters of a paragraph that ends a declaration if it ends like no sentence."""


class Part(NamedTuple):
    """The quotations, lists of references or formal parts of a text."""

    kind: Kind
    spans: Integers
    """Start and exclusive end of each in characters, in order and without overlap, ``[n, 2]``."""
    excluded: Integers
    """Those that do not count, ``[m, 2]``."""


def find_parts(text: str, words: Integers) -> tuple[Part, ...]:
    """Return the quotations, lists of references and formal parts of a text; time is linear in its length.

    Args:
        text: the text.
        words: first character of each of its words, ``[w]``.
    """
    declarations = find_declarations(text)
    sizes = np.diff(np.searchsorted(words, np.array(declarations, np.int64).reshape(-1, 2)), axis=1).ravel()
    shortest = np.argsort(sizes, kind="stable")
    shortest = shortest[np.cumsum(sizes[shortest]) <= MAX_QUOTATION_WORDS]
    formal = [*find_contents(text), *(declarations[number] for number in shortest)]
    references = find_reference_lists(text)
    page = min([find_title_page(text), *(begin for begin, _ in [*formal, *references])])
    if page and np.searchsorted(words, page) <= MAX_QUOTATION_WORDS:
        formal.append((0, page))
    found: dict[Kind, Iterable[Span]] = {
        "quotation": _add_brackets(text, _list_quotations(text)),
        "references": references,
        "formal": formal,
    }
    spans: dict[Kind, list[Span]] = {kind: [] for kind in found}
    parts = [(*span, kind) for kind, pairs in found.items() for span in pairs]
    last = 0
    for begin, end, kind in sorted(parts, key=lambda part: (part[0], -part[1])):
        if begin >= last:
            spans[kind].append((begin, end))
            last = end
    return tuple(_exclude(kind, np.array(pairs, np.int64).reshape(-1, 2), words) for kind, pairs in spans.items())


def _exclude(kind: Kind, spans: Integers, words: Integers) -> Part:
    sizes = np.diff(np.searchsorted(words, spans), axis=1).ravel()
    if sizes.sum() > MAX_SHARES[kind] * len(words):
        return Part(kind, spans, spans[:0])
    return Part(kind, spans, spans[sizes <= MAX_QUOTATION_WORDS] if kind == "quotation" else spans)


def classify_passage(parts: Sequence[Part], begin: int, end: int) -> tuple[Kind | None, bool]:
    """Return the kind of part that contains most of a passage, and True if the passage counts."""
    passage, least = np.array([[begin, end]]), MIN_SHARE_INSIDE * max(1, end - begin)
    for kind, spans, excluded in parts:
        if _measure_overlaps(spans, passage)[0] >= least:
            return kind, bool(_measure_overlaps(excluded, passage)[0] < least)
    return None, True


def mark_counted(parts: Sequence[Part], places: Integers) -> npt.NDArray[np.bool_]:
    """Return True for the places of a text, ``[n, 2]``, that are not mostly in excluded parts, ``[n]``."""
    least = MIN_SHARE_INSIDE * np.diff(places, axis=1).ravel()
    overlaps = (_measure_overlaps(part.excluded, places) for part in parts)
    return np.asarray(np.logical_and.reduce([overlap < least for overlap in overlaps]), np.bool_)


def _measure_overlaps(spans: Integers, places: Integers) -> Integers:
    """Return the number of characters of each place that are in spans, which are in order and disjoint, ``[n]``."""
    lengths, ends = np.cumsum(spans[:, 1] - spans[:, 0]), spans[:, 1]
    lengths, ends = (np.concatenate([np.zeros(1, np.int64), values]) for values in (lengths, ends))
    number = np.searchsorted(spans[:, 0], places, "right")
    before = lengths[number] - np.maximum(0, ends[number] - places)
    return np.asarray(before[:, 1] - before[:, 0])


def _list_quotations(text: str) -> Iterator[Span]:
    """Yield block quotations, and quotations whose marks open and close in one paragraph, or on two pages."""
    yield from (match.span() for match in _BLOCK_QUOTATION.finditer(text))
    indented = [match.span() for match in _INDENTED.finditer(text)]
    if sum(end - begin for begin, end in indented) <= MAX_SHARES["quotation"] * len(text):
        yield from indented
    ends = [match.end() for match in _PARAGRAPH_END.finditer(text)]
    begin = 0
    for number, end in enumerate(ends):
        for match in _QUOTATION.finditer(text, begin, end):
            yield match.span()
            begin = match.end()
        if (opener := _OPENER.search(text, begin, end)) is not None:
            following = text[end : ends[number + 1]].strip() if number + 1 < len(ends) else ""
            last = min(number + (2 if len(following) <= MAX_PAGE_NUMBER else 1), len(ends) - 1)
            if opener[0] in _MARKS and following.startswith(opener[0]):
                yield opener.start(), end  # each paragraph of the quotation opens anew
            elif (over_pages := _QUOTATION.match(text, opener.start(), ends[last])) is not None:
                yield over_pages.span()
                begin = over_pages.end()
        begin = max(begin, end)


def _add_brackets(text: str, quotations: Iterable[Span]) -> Iterator[Span]:
    """Yield quotations and the brackets that follow them, which do not make a quotation longer."""
    for begin, end in quotations:
        yield begin, end
        if (bracket := _BRACKET.match(text, end)) is not None:
            yield bracket.span()


def find_reference_lists(text: str) -> list[Span]:
    """Return the lists of references: entries below a heading, at least `MIN_ENTRIES` in a row, or a clear one.

    An entry begins with an author, a label or a year in brackets, and has a year or a link; more lines without one may
    follow. Below a heading a short line needs a year only; but one of them has to begin with an author or a label, or
    has a link, which prose that cites does not.
    """
    lists: list[Span] = []
    begin = end = entries = between = clear = 0
    headed = is_open = has_single = False

    def close() -> None:
        if is_open and entries >= (1 if headed or has_single else MIN_ENTRIES) and clear:
            lists.append((begin, end))

    for match in _LINE.finditer(text):
        line = match[0]
        opens = _is_heading(line)
        ends = not opens and (line.startswith("#") or bool(find_section_name(line)))
        is_single = (
            not opens
            and not ends
            and _is_single_entry(line, text[match.start() : match.start() + MAX_SINGLE_LENGTH + 1])
        )
        is_note = len(line) <= MAX_WRAPPED_LENGTH and bool(_NOTE.fullmatch(line))
        is_entry = (
            not opens
            and not ends
            and (
                is_single
                or is_note
                or _is_entry(line, text[match.end() : match.end() + MAX_WRAPPED_LENGTH], headed and is_open)
            )
        )
        is_clear = is_entry and (is_note or is_single or bool(_CLEAR_ENTRY.match(line)))
        if opens or (is_entry and not is_open):
            close()
            begin, end, entries, between = match.start(), match.end(), int(is_entry), 0
            clear = int(is_clear)
            headed, is_open, has_single = opens, True, is_single
        elif is_open and is_entry:
            end, entries, between = match.end(), entries + 1, 0
            clear, has_single = clear + is_clear, has_single or is_single
        elif (
            is_open
            and not ends
            and len(line) <= MAX_WRAPPED_LENGTH
            and between + len(line) <= MAX_CONTINUATION
            and (headed or text.count("\n", end, match.start()) == 1)
        ):
            end, between = match.end(), between + len(line)
        else:
            close()
            is_open = False
    close()
    return lists


def find_contents(text: str) -> list[Span]:
    """Return the tables of contents: at least `MIN_ENTRIES` lines that end with the number of a page, in order.

    Dots lead to the number, or a heading stands above the table. One line in between may be the first half of an entry.
    """
    found: list[Span] = []
    begin = end = entries = page = 0
    headed = is_wrapped = False

    for match in chain(_LINE.finditer(text), [None]):
        line = match[0] if match is not None and len(match[0]) <= MAX_ENTRY_LENGTH else ""
        entry = _CONTENTS_ENTRY.fullmatch(line)
        number = int(entry["page"]) if entry and entry["page"].isdecimal() else 0
        opens = bool(line) and _CONTENTS_NAME.fullmatch(_name_heading(line)) is not None
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

    0: there is none, for a title alone is no page.
    """
    begin = number = 0
    for match in _PARAGRAPH_END.finditer(text):
        lines = text[begin : match.end()].split("\n")
        paragraph = text[begin : match.end()].strip()
        is_prose = len(paragraph.split()) >= MIN_SENTENCE_WORDS and _SENTENCE.search(paragraph)
        if is_prose or max(map(len, lines)) > MAX_WRAPPED_LENGTH or _CHINESE_END.search(paragraph):
            return begin if number >= MIN_TITLE_LINES else 0
        begin, number = match.end(), number + sum(map(bool, map(str.strip, lines)))
    return 0


def find_declarations(text: str) -> list[Span]:
    """Return the declarations and acknowledgements, each with its heading and up to the next one."""
    found: list[Span] = []
    begin = end = 0
    is_open = False
    lines = list(_LINE.finditer(text))
    for match, following in zip(lines, [*(line[0] for line in lines[1:]), ""]):
        line = match[0]
        opens = len(line) <= MAX_WRAPPED_LENGTH and _DECLARATION_NAME.fullmatch(_name_heading(line)) is not None
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
    if words.startswith("#") or find_section_name(words) or _is_heading(words):
        return True
    if not text.endswith("\n\n", 0, line.start()) or words[-1] in ".,;:!?":
        return False
    is_alone = len(words) <= MAX_HEADING_LENGTH and text.startswith("\n\n", line.end())
    return is_alone or is_bare_heading(words, following)


def _name_heading(line: str) -> str:
    """Return the name that a heading gives, in lower case, without its number and the name of a chapter before it."""
    name = _HEADING_NUMBER.sub("", strip_marks(line).casefold(), count=1).rstrip(".: *_").rpartition(": ")[2]
    letters = name.split()
    return "".join(letters) if len(letters) > 3 and max(map(len, letters)) == 1 else " ".join(letters)


def _is_heading(line: str) -> bool:
    """Return True for a line that names a list."""
    return len(line) <= MAX_WRAPPED_LENGTH and _LIST_NAME.fullmatch(_name_heading(line)) is not None


def _is_entry(line: str, following: str, below_heading: bool) -> bool:
    """Return True for a line that begins an entry; its year may be on the next line."""
    if len(line) > MAX_ENTRY_LENGTH:
        return False
    if below_heading and _YEAR.search(line):
        return len(line) <= MAX_WRAPPED_LENGTH or bool(_BY_LABEL.match(line) or _BY_AUTHOR.match(line))
    rest = following.partition("\n\n")[0] if len(line) <= MAX_WRAPPED_LENGTH else ""
    return bool(_BY_AUTHOR.match(line)) and bool(_YEAR.search(line + rest))


def _is_single_entry(line: str, following: str) -> bool:
    """Return True if a line, or the paragraph that it begins, is an entry that needs no heading.

    Args:
        line: the line.
        following: the text from the line on, at least `MAX_SINGLE_LENGTH` characters and one more if there are any.
    """
    parts = (line, following.partition("\n\n")[0])
    return any(len(part) <= MAX_SINGLE_LENGTH and _SINGLE_ENTRY.match(part.rstrip()) for part in parts)
