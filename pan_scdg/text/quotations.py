"""Find the quotations of a text: within marks, in blocks, indented or in italics."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from pan_scdg.records import Span
from pan_scdg.text.languages import compile_words
from pan_scdg.text.lines import MIN_PROSE_LENGTH, MOST_LINES

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
MAX_INNER = 5
"""Quotations within one with the same straight marks."""
_QUOTATION = re.compile(
    "|".join(
        [
            rf"{first}(?:[^{first}{last}]|{first}[^{first}{last}]*[{last}])+[{last}]"  # one within the other
            for first, last in _MARKS.items()
        ]
        # with one kind of marks, an inner one opens behind white space and closes behind a letter
        + [rf"{_BEFORE}\"(?=\S)(?:[^\"]*[\s(]\"(?=\w)[^\"]*[^\s\"(]\"(?!\w)){{1,{MAX_INNER}}}[^\"]*[^\s\"(]\"{_AFTER}"]
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
_QUOTE_MARK = re.compile(r"[\"“”„«»‹›‟「」『』｢｣＂]")
_OPENER = re.compile(rf"[{''.join(_MARKS)}]|{_BEFORE}[{''.join(_EITHER_SIDE)}](?=\S)")
_BRACKET = re.compile(
    "|".join(
        rf"\s?\{first}(?=[^\{first}\{last}]{{1,100}}\{last})[^\n\{last}]+(?:\n[^\n\{last}]+)*\{last}"
        for first, last in ("()", "[]", "（）")
    )
)
"""The reference behind a quotation, in one paragraph: it may contain the title of the source."""
PARAGRAPH_END = re.compile(r"\n(?=[ \t\r]*\n)|\Z")
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
_INDENTED = re.compile(
    r"(?<=\n\n)(?![ \t]*[•‣◦▪●·*+-][ \t])(?=[^\w\n]*[^\W\d_a-z])"
    r"(?:(?: {4}|\t)[ \t]*\S.*(?:\n|\Z)){2,}(?=[ \t\r]*(?:\n|\Z))"
)
"""A paragraph that begins with a capital letter, which program code rarely does, and is no list."""
_ANNOUNCED, _OWN = r"(?i)\b{}\b[^.!?:\n]{0,40}:\s*\Z", r"(?i)\b{}\b"
"""Templates of the end of a paragraph that announces the words of another, and of a word of the author."""
_SECTION = re.compile(r"\s*(?:§|\((?:\d{1,3}|[a-z]{1,3})\)|\d{1,3}[.)]\s|(?:Art(?:icle|ikel|\.)?|Section|Sec\.) ?\d)")
"""The beginning of a paragraph of a law."""
MIN_VERSES = 4
"""Lines of a stanza, most of which begin with a capital letter."""
_POET = re.compile(
    r"\W*(?:(?:[Bb]y|[Vv]on|[Dd]e|[Dd]i|[Pp]ar|[Pp]or)\s+)?(?:[^\W\d_a-z][\w.'’-]*\s+){1,3}[^\W\d_a-z][\w.'’-]+(?:\W.{0,80})?"
)
"""A line with the name of an author, perhaps with a title."""
MAX_EXCLUDED_SHARE = 1 / 3
"""Largest share of a text that does not count: its quotations, its formal parts, a line that others have, too; and of
indented paragraphs that are quotations."""


def list_quotations(text: str, headings: Iterable[Span]) -> Iterator[Span]:
    """Yield quotations and the brackets that follow them, which do not make a quotation longer.

    Args:
        text: the text.
        headings: start and exclusive end of its headings, in order; a quotation goes on behind one without marks.
    """
    others = (span for span in headings if not _QUOTE_MARK.search(text, *span))
    for begin, end in chain(_list_blocks(text), _list_given(text), _list_marked(blank_out(text, others))):
        yield Span(begin, end)
        if (bracket := _BRACKET.match(text, end)) is not None:
            yield Span(*bracket.span())


def _list_given(text: str) -> Iterator[Span]:
    """Yield paragraphs that are announced as the words of another, and the stanzas below the name of a poet."""
    announced, own = compile_words("announcements", _ANNOUNCED), compile_words("first_person", _OWN)
    begin = 0
    before = ""
    is_law = is_poem = False
    for match in PARAGRAPH_END.finditer(text):
        end, paragraph = match.end(), text[begin : match.end()]
        lines = [line.strip() for line in paragraph.strip().split("\n")]
        announcement = before.rpartition(". ")[2]
        is_announced = before.endswith(":") and bool(announced.search(announcement)) and not own.search(announcement)
        is_announced = is_announced and not _OPENER.match(lines[0])  # marks say where it ends
        is_law = bool(_SECTION.match(paragraph)) and (is_law or before.endswith(":"))
        is_poem = _are_verses(lines) and (is_poem or _POET.fullmatch(before.rpartition("\n")[2]) is not None)
        head = 0
        if not is_poem and _POET.fullmatch(lines[0]) and _are_verses(lines[1:]):
            is_poem, head = True, paragraph.index("\n", paragraph.index(lines[0]))
        if is_announced or is_law or is_poem:
            yield Span(begin + head, end)
        begin, before = end, paragraph.strip() or before


def _are_verses(lines: Sequence[str]) -> bool:
    capitals = sum(line[:1].isupper() for line in lines)
    are_short = all(line and len(line) <= MIN_PROSE_LENGTH for line in lines)
    return len(lines) >= MIN_VERSES and are_short and capitals >= MOST_LINES * len(lines)


def _list_blocks(text: str) -> Iterator[Span]:
    """Yield block quotations and indented paragraphs."""
    yield from (Span(*match.span()) for match in _BLOCK_QUOTATION.finditer(text))
    indented = [match.span() for match in _INDENTED.finditer(text)]
    if sum(end - begin for begin, end in indented) <= MAX_EXCLUDED_SHARE * len(text):
        yield from (Span(*span) for span in indented)


def blank_out(text: str, spans: Iterable[Span]) -> str:
    """Return a text with blanks for spans that are in order."""
    parts, last = [], 0
    for begin, end in spans:
        parts += [text[last:begin], " " * (end - begin)]
        last = end
    return "".join([*parts, text[last:]])


def _list_marked(text: str) -> Iterator[Span]:
    """Yield quotations whose marks open and close in one paragraph, or on two pages."""
    edges = pairwise([0, *(match.end() for match in PARAGRAPH_END.finditer(text))])
    ends = [end for begin, end in edges if text[begin:end].strip()]
    begin = 0
    for number, end in enumerate(ends):
        for match in _QUOTATION.finditer(text, begin, end):
            yield Span(*match.span())
            begin = match.end()
        if (opener := _OPENER.search(text, begin, end)) is not None:
            following = text[end : ends[number + 1]].strip() if number + 1 < len(ends) else ""
            last = min(number + (2 if len(following) <= MAX_PAGE_NUMBER else 1), len(ends) - 1)
            if opener[0] in _MARKS and following.startswith(opener[0]):
                yield Span(opener.start(), end)  # each paragraph of the quotation opens anew
            elif (over_pages := _QUOTATION.match(text, opener.start(), ends[last])) is not None:
                yield Span(*over_pages.span())
                begin = over_pages.end()
        begin = max(begin, end)
