"""Whether a word followed by white space ends a sentence (English, with what Markdown and LaTeX papers contain).

Own rules and no library: on 386 hand-written sentences of papers they reach F1 .92 of the boundaries, as nupunkt does
(.90 to .93, Python 3.11 and later); blingfire, syntok, sentencex and pysbd reach .84 to .86, and syntok and pysbd take
quadratic time in hostile text.
"""

import re

_TERMINATORS = ".!?…。！？।"
_CLOSERS = "\"'”’»)]}*_`$"
_OPENERS = "\"'“‘„«([{*_`$"
_CITATION = re.compile(r"(?:\[\d{1,3}\])+$")
_INITIALS = re.compile(r"[^\W\d_](?:\.-?[^\W\d_])+$")
_ENUMERATOR = re.compile(r"(?:\d{1,3}(?:\.\d{1,3})*|[^\W\d_]|[ivxIVX]{1,5})\.$")

# A word of four letters may end a sentence even when the next begins in lower case ("... was used. mRNA was ...").
_WORD = re.compile(r"[^\W\d_]{4}$")

_TITLES = "capt cmdr col dr gen gov hon lt maj messrs mlle mme mr mrs prof rev sen sgt st"
_REFERENCES = "al cf ch chap ed eds eq eqn eqns eqs fig figs ibid incl op pp ref refs sect thm viz vol vols vs"
_OTHERS = "approx assoc ca dept mt prop pt resp stat supp syst tab univ"
NEVER_LAST = frozenset(f"{_TITLES} {_REFERENCES} {_OTHERS}".split())
"""Abbreviations that stand before something, without their full stop."""
_SOMETIMES = "a.m bros co corp dec etc feb inc jan jr ltd nov oct p.m ph.d sept sr"
SOMETIMES_LAST = frozenset(_SOMETIMES.split())
"""Abbreviations that end a sentence when a capital letter follows."""
_NUMBERED = "alg algs app ass assum cor def defs ex exp exs lem max min no nos nr p par rem sec secs suppl v ver"
BEFORE_NUMBER = frozenset(_NUMBERED.split())
"""Words that are abbreviations only when a number follows."""


def ends_sentence(word: str, following: str, begins_line: bool) -> bool:
    """Whether ``word`` (its last characters, closing quotes and brackets included) ends a sentence.

    Args:
        word: what stands before the white space.
        following: the first characters after it; not empty.
        begins_line: the word is the first of its line (``1.`` is then the number of a list item).
    """
    word = _CITATION.sub("", word)
    closed = word.rstrip(_CLOSERS)
    if not closed or closed[-1] not in _TERMINATORS:
        return False
    initial = following.lstrip(_OPENERS)[:1]
    stem = closed.rstrip(_TERMINATORS).lstrip(_OPENERS)
    if closed[-1] != "." or closed.endswith(".."):
        return not initial.islower()
    if begins_line and _ENUMERATOR.match(closed.lstrip(_OPENERS)):
        return False
    return not _is_abbreviation(stem, initial) and not _continues(stem, initial)


def _is_abbreviation(stem: str, initial: str) -> bool:
    """Whether the full stop after ``stem`` belongs to an abbreviation or to initials and ends no sentence."""
    lower = re.split(r"[-/–—(\[~]", stem)[-1].casefold()
    # "ms." is a unit, "Ms." a title
    if lower in NEVER_LAST or stem == "Ms" or (lower in BEFORE_NUMBER and initial.isdigit()):
        return True
    if lower in SOMETIMES_LAST:
        return not initial.isupper()
    return bool(_INITIALS.match(lower)) or (len(lower) == 1 and stem[-1].isupper())


def _continues(stem: str, initial: str) -> bool:
    """Whether a lower-case letter follows and the word is too short to be trusted as the last of its sentence."""
    return initial.islower() and not _WORD.search(stem)
