"""Read the texts of a check, mask the template, and note the reasons that make a decision uncertain."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, takewhile
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from pan_scdg.align.seeds import find_runs
from pan_scdg.align.shared import MIN_DOCUMENTS, HashedText, SharedStretch, count_stops, find_shared, hash_runs
from pan_scdg.digests import hash_text
from pan_scdg.documents.folders import read_documents
from pan_scdg.documents.reader import ReadDocument, read_any_document
from pan_scdg.errors import UserError, escape_controls
from pan_scdg.jobs.decisions import MIN_WORDS
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.progress import format_count
from pan_scdg.records import TextFile
from pan_scdg.report.records import Excluded, ReportText, hide_excluded
from pan_scdg.report.wording import DISGUISE, NOT_ENGLISH
from pan_scdg.text.disguise import find_disguise
from pan_scdg.text.given import is_given
from pan_scdg.text.languages import seems_english
from pan_scdg.text.lines import LINE
from pan_scdg.text.units import Words, count_words, read_words

_EMBEDDED = re.compile(
    r"data:[\w/+.-]{1,99};base64,\s?[A-Za-z0-9+/=]+(?:\s+[A-Za-z0-9+/=]{50,})*(?:\s[A-Za-z0-9+/=]+(?=\s*[)\"'>]))?"
    r"|^(?:[A-Za-z0-9+/=]{50,}\r?\n){3,}(?:[A-Za-z0-9+/=]+$)?"
    r"|<(svg|style|script)\b(?:(?!<\1\b)[\s\S])*?</\1>|<img\b[^<>]*>",
    re.MULTILINE,
)
"""A picture or a style within Markdown."""
MIN_RUNNING_LINES, MAX_RUNNING_LENGTH = 3, 100
"""A line repeated so often, digits ignored, and at most so long is a header or footer."""
MAX_RUNNING_BLOCK = 4
"""Lines of a footer with the next header; more in a row are text that is repeated."""
NO_HANDOUT = "the template is in none of the texts, check that it is the right file"
MIN_HANDOUT_RUN = 5
"""Words in a row that mark a part of the template: fewer occur in any text."""
MIN_NAMED_SHARE = 0.25
"""Least share of the authors whose texts contain a passage of a source that is named: it may be the question."""
MAX_NAMED = 4
"""Texts that share a passage, up to which they are named."""
MAX_QUESTIONS, FIRST_WORDS = 5, 8
"""Excluded passages that are named, and the words of each that are quoted."""


SIDES: dict["TextKind", str] = {"suspicious": "", "source": "sources/", "old": "old/"}
"""Beginnings of names, which tell apart files of one name in several folders."""
TextKind = Literal["suspicious", "source", "old"]
Indices = tuple[int, int]
"""The numbers of a suspicious text and of the text that it is compared with."""


class CheckedText(NamedTuple):
    """A text as it is shown and as it is compared."""

    shown: ReportText
    """As it was read."""
    compared: TextFile
    """The same, with blanks for what is excluded."""
    words: int
    """Number of words that are compared."""
    kind: TextKind
    author: str = ""
    """The folder of its author; empty without one."""

    @property
    def text(self) -> str:
        """Return the text as it is compared."""
        return self.compared.text or ""


@dataclass(frozen=True)
class CheckPaths:
    """The folders or files of a check; an empty one is not given."""

    suspicious: Path
    sources: Path | None
    within_class: bool
    """The suspicious texts are compared with each other, too."""
    old: Path | None = None
    """Texts of former years: the suspicious ones are compared with them as with sources."""
    handout: Path | None = None
    """A text that all authors received."""
    author_folders: bool = False
    """Each text is in the folder of its author, whose texts are not compared with each other."""


@dataclass(frozen=True)
class CheckInput:
    """All texts of a check; a number of a text is its place in `texts`."""

    suspicious: tuple[CheckedText, ...]
    sources: tuple[CheckedText, ...]
    old: tuple[CheckedText, ...]
    within_class: bool
    """The suspicious texts are compared with each other, too."""
    excluded: tuple[str, ...] = ()
    """Lines about what many suspicious texts share and no source has: it is not compared."""

    @cached_property
    def texts(self) -> tuple[CheckedText, ...]:
        """Return the suspicious texts, the sources and the old texts."""
        return (*self.suspicious, *self.sources, *self.old)

    @property
    def first_source(self) -> int:
        """Return the number of the first text that suspicious ones are compared with; all that follow are others."""
        return 0 if self.within_class else len(self.suspicious)

    def is_within_class(self, pair: Indices) -> bool:
        """Return True for a pair of two suspicious texts."""
        return max(pair) < len(self.suspicious)

    def are_drafts(self, pair: Indices) -> bool:
        """Return True for two texts of one author, the second of which may be an old one."""
        first, second = (self.texts[number].author for number in pair)
        return first == second != ""

    def hash(self) -> str:
        """Return the hash of all names and texts, as they are compared."""
        lines = [f"{t.kind}\0{t.shown.name}\0{hash_text(t.text)}" for t in self.texts]
        return hash_text("\0\0".join([*lines, *(hash_text(t.shown.text) for t in self.texts)]))


def collect_texts(inputs: CheckPaths, notices: Notices) -> CheckInput:
    """Read all texts, and exclude what all authors received.

    Raises:
        UserError: a file cannot be read, a folder has no texts, there is nothing to compare, or names are ambiguous.
    """
    received = None
    if inputs.handout is not None:
        received = read_any_document(inputs.handout).text
        if not count_words(received):
            raise UserError("contains no words", "give the text that all authors received", inputs.handout)

    def read(path: Path | None, kind: TextKind, prefix: str = "") -> list[CheckedText]:
        own = Notices(notices.strict)
        documents = {} if path is None else read_documents(path, own)
        notices.include(own, "" if path == inputs.suspicious else SIDES[kind])
        return [_make_text(name, one, kind, prefix, notices) for name, one in documents.items()]

    suspicious = read(inputs.suspicious, "suspicious")
    if inputs.author_folders:
        suspicious = _find_authors(suspicious)
        if not any(text.author for text in suspicious):
            raise UserError("contains no folders of authors", "leave out --author-folders", inputs.suspicious)
    if inputs.sources is None and inputs.old is None and len(suspicious) < 2:
        raise UserError("contains only one text", "give at least two with --among", inputs.suspicious)
    sources = read(inputs.sources, "source", SIDES["source"] if inputs.within_class else "")
    old = read(inputs.old, "old", SIDES["old"])
    present = {text.author for text in suspicious} - {""}
    old = [text._replace(author=next(filter(present.__contains__, _list_folders(text)), "")) for text in old]
    names = Counter(text.shown.name for text in ([*suspicious] if inputs.within_class else []) + sources + old)
    if (name := max(names, key=names.__getitem__)) and names[name] > 1:
        raise UserError(f"two texts have the name {name} in the report", "rename one of them", inputs.suspicious)
    written = [*suspicious, *old]
    excluded: list[str] = []
    if received is not None and inputs.handout is not None:
        masked, in_sources = _exclude_handout(sources, received)
        sources = [text for text in masked if not _is_covered(text)]
        written, excluded = _exclude_handout(written, received)
        if not excluded and not in_sources:
            notices.add_file(NO_HANDOUT, inputs.handout.name)
        excluded += [f"Left out: the template covers {text.shown.name}" for text in masked if _is_covered(text)]
        if masked and not sources and not old and not inputs.within_class:
            raise UserError("the template covers all sources", "give other sources, or no --template", inputs.handout)
    authors = [text.author for text in written]
    written, lines = _exclude_questions(written, sources, authors)
    new, old = written[: len(suspicious)], written[len(suspicious) :]
    first, second, third = (tuple(_warn(text, notices) for text in side) for side in (new, sources, old))
    return CheckInput(first, second, third, inputs.within_class, (*excluded, *lines))


def _make_text(name: str, document: ReadDocument, kind: TextKind, prefix: str, notices: Notices) -> CheckedText:
    name = f"{prefix}{name}"
    for warning in document.warnings:
        notices.add_file(warning.partition(",")[0], name)
    compared = _EMBEDDED.sub(lambda match: " " * len(match[0]), document.text)
    file = TextFile(name, name, document.path, compared)
    text = CheckedText(ReportText(name, document.text, document.warnings), file, 0, kind)
    return _exclude(text, _find_running_lines(document.text))


def _find_authors(texts: Sequence[CheckedText]) -> list[CheckedText]:
    """Return texts with their authors: the first folder of a path below what contains the folders of all authors."""
    folders = [_list_folders(text) for text in texts]
    around = takewhile(lambda names: len(set(names)) == 1, zip(*(path[:-1] for path in folders)))
    above = sum(1 for _ in around)
    return [text._replace(author="".join(path[above : above + 1])) for text, path in zip(texts, folders)]


def _list_folders(text: CheckedText) -> list[str]:
    """Return the folders of a text, in the form in which one name is always written."""
    return [compose(folder).text for folder in text.compared.doc_id.split("/")[:-1]]


def _find_running_lines(text: str) -> Iterator[Excluded]:
    """Yield the headers and footers of the pages of a text: lines that it has several times, whatever their numbers."""
    lines = list(LINE.finditer(text))
    names = [re.sub(r"\d+", "#", line[0].strip()) for line in lines]
    # a single word is no header: a text may have one word in each line
    counts = Counter(name for name in names if " " in name and any(map(str.isalnum, name)))
    recurs = [len(name) <= MAX_RUNNING_LENGTH and counts[name] >= MIN_RUNNING_LINES for name in names]
    for is_running, group in groupby(zip(lines, recurs, strict=True), key=lambda pair: pair[1]):
        block = [line for line, _ in group]
        if is_running and len(block) <= MAX_RUNNING_BLOCK:
            yield from (Excluded(*line.span(), "a header or footer of the pages") for line in block)


def _exclude(text: CheckedText, parts: Iterable[Excluded]) -> CheckedText:
    """Return a text with blanks for some parts where it is compared."""
    excluded = tuple(sorted([*text.shown.excluded, *parts]))
    file = text.compared._replace(text=hide_excluded(text.text, excluded))
    return text._replace(shown=text.shown._replace(excluded=excluded), compared=file)


def _exclude_handout(texts: Sequence[CheckedText], handout: str) -> tuple[list[CheckedText], list[str]]:
    """Return the texts without the template, and a line about how much of it was in how many, if any was."""
    masked: list[CheckedText] = []
    given = read_words(handout)
    begins, is_found = given.words[:, 0], np.zeros(len(given.words), bool)
    lines = {forms: span for span, forms in _list_lines(handout, given)}
    count = 0
    for text in texts:
        words = read_words(text.text)
        runs = find_runs(words, given, MIN_HANDOUT_RUN)
        places = [(*run.target, *run.source) for run in runs]
        # a shorter line, such as a heading, is one of the template if it is the same line
        for span, forms in _list_lines(text.text, words):
            is_own = len(forms) < MIN_HANDOUT_RUN and forms in lines
            if is_own and not any(run.target.begin <= span[0] < run.target.end for run in runs):
                places.append((*span, *lines[forms]))
        for _, _, *place in places:
            first, last = np.searchsorted(begins, place).tolist()
            is_found[first:last] = True
        # with the full stop, which would end what follows
        spans = [(begin, end + count_stops(text.text, end)) for begin, end, *_ in places]
        masked.append(_exclude(text, [Excluded(*span, "in the template") for span in spans]))
        count += bool(spans)
    found = format_count(int(is_found.sum()), "word")
    return masked, [f"Excluded: {found} of the template in {count} of {len(texts)} texts"] if count else []


def _is_covered(text: CheckedText) -> bool:
    """Return True if too few words of a text are left beside the template to compare it with anything."""
    return count_words(text.text) < MIN_WORDS <= count_words(text.shown.text)


def _list_lines(text: str, words: Words) -> Iterator[tuple[tuple[int, int], tuple[str, ...]]]:
    """Yield the lines that have words: from the first to the last one, in characters, and their forms."""
    lines = [match.span() for match in re.finditer(".+", text)]
    for first, last in np.searchsorted(words.words[:, 0], np.array(lines, np.int64).reshape(-1, 2)).tolist():
        if first < last:
            yield (int(words.words[first, 0]), int(words.words[last - 1, 1])), words.forms[first:last]


def _exclude_questions(
    texts: Sequence[CheckedText], sources: Sequence[CheckedText], authors: Sequence[str]
) -> tuple[list[CheckedText], list[str]]:
    """Return the texts without what many share and no source has, and lines about what that is."""
    hash_once = cache(hash_runs)  # most texts stay as they are

    def hash_all(texts: Sequence[CheckedText]) -> Iterator[HashedText]:
        return (hash_once(text.text) for text in texts)

    compared, names = [text.text for text in texts], [text.shown.name for text in texts]
    shared = find_shared(list(hash_all(texts)), hash_all(sources), MIN_DOCUMENTS, authors)
    masked = _exclude_shared(texts, shared)
    # of two texts alone: that both quote a poem or a law does not mean that one has it from the other
    given = [
        [one for one in own if is_given(text.text, one.begin, one.end)]
        for text, own in zip(masked, find_shared(list(hash_all(masked)), hash_all(sources), 2, authors, max_words=inf))
    ]
    masked = _exclude_shared(masked, given)
    every = [[*own, *others] for own, others in zip(shared, given)]
    lines = _describe_stretches(every, compared, names, "Excluded: {} words that {} share: {}")
    if sources:
        rest = [text.text for text in masked]
        least = max(MIN_DOCUMENTS, round(MIN_NAMED_SHARE * _count_authors(authors)))
        counted = find_shared(list(hash_all(masked)), (), least, authors)
        line = "Not excluded: {} words that {} share and a source contains: {}"
        lines += _describe_stretches(counted, rest, names, f"{line} (if this is the question, name it with --template)")
    return masked, lines


def _exclude_shared(texts: Sequence[CheckedText], shared: Sequence[Sequence[SharedStretch]]) -> list[CheckedText]:
    """Return the texts without their shared stretches."""
    total = len(texts)
    return [
        _exclude(
            text, [Excluded(one.begin, one.end, f"shared by {len(one.documents)} of {total} texts") for one in own]
        )
        for text, own in zip(texts, shared)
    ]


def _count_authors(authors: Sequence[str]) -> int:
    """Return the number of authors; each text without one has another."""
    return len({author or number for number, author in enumerate(authors)})


def _describe_stretches(
    shared: Sequence[Sequence[SharedStretch]], texts: Sequence[str], names: Sequence[str], line: str
) -> list[str]:
    """Return a line for each shared stretch, those of most texts first, at most `MAX_QUESTIONS`.

    Args:
        shared: stretches of each text.
        texts: all texts.
        names: of the texts.
        line: format of the number of words, of the texts with the stretch, and of the first words.
    """
    stretches = {one.words: (one, text) for own, text in zip(shared, texts) for one in own}
    ranked = sorted(stretches.values(), key=lambda item: (-len(item[0].documents), -len(item[0].words), item[0].words))
    lines: list[str] = []
    named: list[str] = []
    for one, text in ranked:
        words = " ".join(one.words)
        if not any(words in other for other in named):  # else a part of it, as in a text with a slip
            named.append(words)
            first = text[one.begin : one.end].split()
            shown = " ".join(first[:FIRST_WORDS]) + (" ..." if len(first) > FIRST_WORDS else "")
            lines.append(escape_controls(line.format(len(one.words), _name_some(names, one.documents), shown)))
    more = len(lines) - MAX_QUESTIONS
    return [*lines[:MAX_QUESTIONS], *([f"{more} more passages that many share."] if more > 0 else [])]


def _name_some(names: Sequence[str], numbers: Sequence[int]) -> str:
    """Return how many of all texts these are, with their names if they are few."""
    count = f"{len(numbers)} of {len(names)} texts"
    return f"{count} ({', '.join(names[number] for number in numbers)})" if len(numbers) <= MAX_NAMED else count


def _warn(text: CheckedText, notices: Notices) -> CheckedText:
    """Return a text with its number of words, and warnings about how it is written and its length."""
    words, warnings = count_words(text.text), list(text.shown.warnings)
    if not seems_english(text.text):
        notices.add_file(NOT_ENGLISH, text.shown.name)
    if characters := find_disguise(text.text):
        notices.add_file(f"{DISGUISE} ({characters})", text.shown.name)
        warnings.append(f"it has characters that disguise it ({characters}): read it as it looks")
    if words < MIN_WORDS:
        warnings.append(f"{format_count(words, 'word')}, fewer than {MIN_WORDS}: too short for a decision")
    return text._replace(shown=text.shown._replace(warnings=tuple(warnings)), words=words)
