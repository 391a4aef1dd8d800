"""Reports that the tests share."""

from pathlib import Path

from pan_scdg.align.align import Evidence

from pan_scdg.records import Passage
from pan_scdg.report.records import Report, ReportPair, ReportText, TokenGains

ROOT = Path(__file__).parents[2]
HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\"><b>&amp;\u2028"
LEFT = (
    "An opening of its own.\r\n\r\nThe tide turned before noon 🙂 and the nets came up empty; nobody on the quay said "
    f'a word. {HOSTILE}\n\n"All of this is quoted from the harbour master, and he said it twice."\n\n'
    "## References\n\nHarbour Board: Annals of the quay, volume seven, page three hundred and nine.\n"
)
RIGHT = (
    "Before noon the tide turned. Nets were empty, and the quay was silent. \x00 The master said this twice. "
    "The Board published its annals in seven volumes."
)


def place(text: str, part: str) -> tuple[int, int]:
    """Return the offset and the length of a part of a text."""
    return text.index(part), len(part)


PASSAGES = (
    Evidence(
        Passage(*place(LEFT, "The tide turned before noon 🙂 and the nets"), 0, 71),
        *(0.7, 0.25, 1.2, 0.3),
    ),
    Evidence(
        Passage(*place(LEFT, '"All of this is quoted'), *place(RIGHT, "quay was silent. \x00 The master")),
        *(0.5, 0.0),
        within="quotation",
        counts=False,
    ),
    Evidence(
        Passage(*place(LEFT, "Harbour Board: Annals"), *place(RIGHT, "The Board")),
        *(0.4, 1.0),
        within="references",
        note="5 of 9 share it",
    ),
)


def tokenise(text: str) -> tuple[tuple[int, int], ...]:
    """Return the places of words with the space before them, as a tokenizer would."""
    spans, begin = [], 0
    for word in text.split(" "):
        end = begin + len(word)
        spans.append((max(0, begin - 1), end))
        begin = end + 1
    return tuple(span for span in spans if span[0] < span[1])


def make_small_report() -> Report:
    """Return two pairs with hostile names and texts."""
    gains = tuple(round(0.01 * i - 0.5, 2) for i in range(len(tokenise(LEFT))))
    first, second = f"anna {HOSTILE}.txt", "ben.txt"
    pairs = (
        ReportPair(first, second, 0.9, "likely", PASSAGES, (f"a note on {second}",), TokenGains(tokenise(LEFT), gains)),
        ReportPair("carl.txt", second, 0.1, "no sign"),
        ReportPair("carl.txt", first, None, "unclear"),
    )
    suspicious = {first: ReportText(first, LEFT), "carl.txt": ReportText("carl.txt", "Another text. " * 9, ("short",))}
    sources = {second: ReportText(second, RIGHT), first: ReportText(first, LEFT)}
    return Report(f"Essays {HOSTILE}", suspicious, sources, pairs, 0.5, {"profile": HOSTILE, "seed": 7}, (HOSTILE,))
