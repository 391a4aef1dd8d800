"""Mask what a text has in common with one that everybody was given, such as the questions of an exercise."""

from pan_scdg.passages.units import PreparedText, prepare_text
from pan_scdg.passages.verbatim import find_runs

RUN_WORDS = 5
"""Words in a row that make a place of the given text: fewer occur in any text."""


def mask_template(text: str, template: PreparedText) -> str:
    """Return the text with blanks in the place of each run of words that the template has, too.

    Offsets stay what they are. Punctuation between two runs is kept, which is no word.
    """
    parts, last = [], 0
    for run in find_runs(prepare_text(text, 1), template, RUN_WORDS):
        parts += [text[last : run.start], blank(text[run.start : run.end])]
        last = run.end
    return "".join([*parts, text[last:]])


def blank(text: str) -> str:
    """Return as many blanks as a text has characters; line breaks stay, since they part paragraphs."""
    return "".join("\n" if character == "\n" else " " for character in text)
