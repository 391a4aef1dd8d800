"""From what a model answered to a label, and from the label to a score (paper, PlagBench-style prompting)."""

import re
from typing import Literal

Label = Literal["no", "summary", "paraphrase", "verbatim", "unknown"]

SCORES: dict[Label, float] = {"no": 0.0, "unknown": 0.5, "summary": 0.6, "paraphrase": 0.8, "verbatim": 1.0}
MEANING: dict[str, Label] = {
    "verbatim": "verbatim",
    "paraphrase": "paraphrase",
    "summary": "summary",
    "yes": "paraphrase",
    "no": "no",
}
"""What is recognised and which label it stands for; where nothing marks the final one, the first of these counts."""
_WORD = re.compile(r"\w+")
_FINAL = re.compile(r"\bfinal:", re.IGNORECASE)


def label_of(answer: str) -> Label:
    """The label in a model's answer; capital and small letters are the same, and only whole words count.

    The first label behind ``Final:`` takes priority; behind the last ``Final:`` that has one at all, since a model
    that thinks aloud may quote the instruction before it decides. Where none has, the labels that occur anywhere are
    taken in the order of the paper, wherever they stand. The paper does not say which ``Final:`` counts.
    """
    for part in reversed(_FINAL.split(answer)[1:]):
        if named := [word for word in _words(part) if word in MEANING]:
            return MEANING[named[0]]
    words = set(_words(answer))
    return next((label for word, label in MEANING.items() if word in words), "unknown")


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
