"""Score pairs by the label of an instruction-tuned model (paper, PlagBench-style prompting).

The paper gives the system message, the instruction, the examples and the chain-of-thought sentence word for word, and
states that instruction, source document, suspicious document and ``Answer:`` follow each other. It leaves open what
introduces the documents (here the words of its own examples), where the two additions stand (here the examples before
the instruction and the sentence after it), and the blank lines between all these.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from pan_scdg.methods import Measurements, Method, MethodOptions, MethodSettings
from pan_scdg.methods.chat import Endpoint, Messages, answer_all, choose_model_name, read_endpoint
from pan_scdg.methods.simple import SimpleMethod
from pan_scdg.records import Identities, TextPair
from pan_scdg.settings import ProfileTables

SYSTEM = (
    "You are evaluating plagiarism between a source document and a suspicious document. Plagiarism includes verbatim "
    "copying, paraphrasing, and summarization of source content without attribution."
)
INSTRUCTION = (
    "Classify whether the suspicious document plagiarizes from the source document. Return exactly one label from: "
    "no, verbatim, paraphrase, summary."
)
EXAMPLES = """Example 1:
Source: The committee approved the budget after a short debate.
Suspicious: After a brief debate, the committee passed the budget.
Answer: paraphrase

Example 2:
Source: Coral reefs are threatened by warming seas.
Suspicious: The history of rail transport changed rapidly in the nineteenth century.
Answer: no"""
CHAIN_OF_THOUGHT = "Think briefly, then put the final label on a line starting with 'Final:'."
OMITTED = "[... omitted middle ...]"
MAX_MARKS = 30
"""Longest row of marks that is kept with the character before it; the limit of Unicode's stream-safe texts."""
JOINER = "\u200d"


class PromptSettings(MethodSettings):
    """An instruction-tuned model answers with a label, which is a score (PlagBench-style prompting)."""

    max_batch = 4
    model: str
    """Its name at the OpenAI-compatible server that ``OPENAI_BASE_URL`` names."""
    shots: Literal["zero", "few"] = "zero"
    chain_of_thought: bool = False
    characters: int = Field(default=12_000, ge=200)
    """Characters that are kept of each document; the middle of a longer one is left out. The paper gives no number."""

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method."""
        return PromptMethod(self)


def build_messages(settings: PromptSettings, target: str, source: str) -> Messages:
    """Return the chat that requests the label of one pair in one of the four modes.

    Args:
        settings: the mode, and the characters that may be shown of each document.
        target: text of the suspicious document.
        source: text of the source document.
    """
    parts = [
        *([EXAMPLES] if settings.shots == "few" else []),
        INSTRUCTION,
        *([CHAIN_OF_THOUGHT] if settings.chain_of_thought else []),
        f"Source: {cut_middle(source, settings.characters)}",
        f"Suspicious: {cut_middle(target, settings.characters)}",
        "Answer:",
    ]
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def cut_middle(text: str, characters: int) -> str:
    """Return ``text``, or if it exceeds ``characters`` its beginning and end around the literal marker.

    The marker counts, so that the result is never longer than the budget. Beginning and end are equally long; either
    is shorter by a few where a letter would be parted from its accents or an emoji from what it is joined with.

    Raises:
        ValueError: the marker alone is longer than ``characters``.
    """
    if len(text) <= characters:
        return text
    half = (characters - len(OMITTED)) // 2
    if half < 0:
        raise ValueError(f"{characters} characters are less than the marker of the omitted middle")
    head, tail = half, len(text) - half
    head -= next((back for back in range(min(MAX_MARKS, head) + 1) if not _splits_character(text, head - back)), 0)
    tail += next((on for on in range(min(MAX_MARKS, half) + 1) if not _splits_character(text, tail + on)), 0)
    return text[:head] + OMITTED + text[tail:]


def _splits_character(text: str, at: int) -> bool:
    """Return True if a cut before position ``at`` splits what a reader sees as one character."""
    if not 0 < at < len(text):
        return False
    return unicodedata.category(text[at])[0] == "M" or JOINER in (text[at - 1], text[at])


Label = Literal["no", "summary", "paraphrase", "verbatim", "unknown"]

SCORES: dict[Label, float] = {"no": 0.0, "unknown": 0.5, "summary": 0.6, "paraphrase": 0.8, "verbatim": 1.0}
MEANING: dict[str, Label] = {
    "verbatim": "verbatim",
    "paraphrase": "paraphrase",
    "summary": "summary",
    "yes": "paraphrase",
    "no": "no",
}
"""Recognised words and their labels; without a final label, the first in this order counts."""
_WORD = re.compile(r"\w+")
_FINAL = re.compile(r"\bfinal:", re.IGNORECASE)


def parse_label(answer: str) -> Label:
    """Return the label in a model's answer; case is ignored, and only whole words count.

    The first label after ``Final:`` takes priority. Of several ``Final:`` the last one with a label counts, since a
    model that thinks aloud may quote the instruction before it decides. Without any, the labels that occur anywhere
    are taken in the order of the paper, wherever they stand. The paper does not say which ``Final:`` counts.
    """
    for part in reversed(_FINAL.split(answer)[1:]):
        if named := [word for word in _split_words(part) if word in MEANING]:
            return MEANING[named[0]]
    words = set(_split_words(answer))
    return next((label for word, label in MEANING.items() if word in words), "unknown")


def _split_words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


class PromptMethod(SimpleMethod):
    """Scores a pair by the label that a model gives it; see `methods.Method`."""

    def __init__(self, settings: PromptSettings) -> None:
        self._settings = settings
        self.fingerprint = choose_model_name(settings.model)

    def identify(self) -> Identities:
        """Return the name of the model."""
        return {"language_model": {"name": self.fingerprint}}

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return ``score`` of each pair's label, from 0 to 1; that of ``unknown`` if an answer contains none.

        Raises:
            UserError: the model refuses a pair, or the endpoint is not named.
            Interrupted: the endpoint is down.
        """
        chats = [build_messages(self._settings, pair.target, pair.source) for pair in pairs]
        answers = answer_all(chats, self._endpoint.complete)
        return [Measurements({"score": SCORES[parse_label(answer)]}) for answer in answers]

    @cached_property
    def _endpoint(self) -> Endpoint:
        return read_endpoint(self._settings.model)
