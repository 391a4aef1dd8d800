"""What an instruction-tuned model is asked about a pair (paper, PlagBench-style prompting).

The paper gives the system message, the instruction, the examples and the chain-of-thought sentence word for word, and
says that instruction, source document, suspicious document and ``Answer:`` follow each other. It leaves open what
introduces the documents (here the words of its own examples), where the two additions stand (here the examples before
the instruction and the sentence after it), and the blank lines between all these.
"""

import unicodedata

from pan_scdg.profile.baseline import Prompted

Messages = list[dict[str, str]]
"""A chat: ``role`` and ``content`` of each message, in order."""

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
MOST_MARKS = 30
"""Longest row of marks that is kept with the character before it; the limit of Unicode's stream-safe texts."""
JOINER = "\u200d"


def messages(settings: Prompted, target: str, source: str) -> Messages:
    """The chat that asks for the label of one pair in one of the four modes.

    Args:
        settings: the mode, and the characters that may be shown of each document.
        target: text of the suspicious document.
        source: text of the source document.
    """
    parts = [
        *([EXAMPLES] if settings.shots == "few" else []),
        INSTRUCTION,
        *([CHAIN_OF_THOUGHT] if settings.chain_of_thought else []),
        f"Source: {without_middle(source, settings.characters)}",
        f"Suspicious: {without_middle(target, settings.characters)}",
        "Answer:",
    ]
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def without_middle(text: str, characters: int) -> str:
    """``text``, or when it is longer than ``characters`` its beginning and its end around the literal marker.

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
    head -= next((back for back in range(min(MOST_MARKS, head) + 1) if not _parts(text, head - back)), 0)
    tail += next((on for on in range(min(MOST_MARKS, half) + 1) if not _parts(text, tail + on)), 0)
    return text[:head] + OMITTED + text[tail:]


def _parts(text: str, at: int) -> bool:
    """Whether a cut before position ``at`` goes through what a reader sees as one character."""
    if not 0 < at < len(text):
        return False
    return unicodedata.category(text[at])[0] == "M" or JOINER in (text[at - 1], text[at])
