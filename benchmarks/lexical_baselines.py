"""Pairs a second of the lexical baselines on long documents: ``python -m benchmarks.lexical_baselines [--pairs N]``.

Documents are drawn from made-up words whose frequencies follow Zipf's law; in every second pair a tenth of the target
is copied from the source. Each method scores all pairs, one at a time; the time for 6,791 pairs (PAN25) is extrapolated
from these, with the statistics of as many sources for BM25. Last come two pairs of repetitive text, on which a search
that tries all places would never end. The last line is one JSON object.
"""

import json
import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click
import numpy as np

from pan_scdg.methods.char_ngrams import extract_letters, find_passages
from pan_scdg.methods.lexical import Collection
from pan_scdg.profile.baseline import BaselineSettings, Bm25Pairs, CharNgrams, Containment, GramLogistic
from pan_scdg.records import TextPair
from pan_scdg.scoring.baseline_registry import METHODS, BaselineParts
from pan_scdg.store import MemoryStore

PAPER_PAIRS = 6791
WORDS = 50_000
SYLLABLES = [a + b for a in "bcdfghjklmnprstvw" for b in "aeiou"]


class Spent(NamedTuple):
    """Seconds on the clock and of this process's cores."""

    wall: float
    cpu: float


def timed(work: Callable[[], Any]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def vocabulary(generator: np.random.Generator) -> list[str]:
    """Made-up words of one to five syllables."""
    return ["".join(generator.choice(SYLLABLES, generator.integers(1, 6))) for _ in range(WORDS)]


def document(generator: np.random.Generator, words: list[str], characters: int) -> str:
    """Sentences of twelve words, a little more than ``characters`` characters."""
    drawn = (words[rank] for rank in np.minimum(generator.zipf(1.2, characters // 3), WORDS) - 1)
    text, length, sentence = [], 0, list[str]()
    for word in drawn:
        sentence.append(word)
        if len(sentence) == 12:
            text.append(" ".join(sentence).capitalize() + ". ")
            length += len(text[-1])
            sentence = []
        if length >= characters:
            break
    return "".join(text)


def drawn_pairs(count: int, characters: int) -> list[TextPair]:
    generator = np.random.default_rng(8)
    words, pairs = vocabulary(generator), []
    for number in range(count):
        target, source = (document(generator, words, characters) for _ in range(2))
        if number % 2:
            copied = len(target) // 10
            target = target[: 3 * copied] + source[copied : 2 * copied] + target[4 * copied :]
        pairs.append(TextPair(f"p{number}", f"s{number}", target, source))
    return pairs


def all_of(settings: BaselineSettings, pairs: list[TextPair]) -> Spent:
    parts, sources = BaselineParts({}, "cpu", {}), Collection("", lambda: [pair.source for pair in pairs])
    scorer = METHODS[type(settings)].make_scorer(settings, parts, sources, MemoryStore())
    return timed(lambda: list(scorer.score(pairs)))


@click.command(help=__doc__)
@click.option("--pairs", "count", default=20, show_default=True)
@click.option("--characters", default=60_000, show_default=True)
def main(count: int, characters: int) -> None:
    pairs = drawn_pairs(count, characters)
    extract_letters("")  # its table of characters is made once
    found = {
        "char-ngrams, n = 50": all_of(CharNgrams(kind="char-ngrams", n=50), pairs),
        "char-ngrams, n = 8": all_of(CharNgrams(kind="char-ngrams", n=8), pairs),
        "passages, n = 50": timed(lambda: [find_passages(p.target, p.source, 50) for p in pairs]),
        "4-gram containment": all_of(Containment(kind="containment"), pairs),
        "4-gram overlap": all_of(GramLogistic(kind="gram-logistic"), pairs),
        "BM25": all_of(Bm25Pairs(kind="bm25"), pairs),
    }
    for name, spent in found.items():
        click.echo(line(name, spent, count))
    total = Spent(sum(s.wall for s in found.values()), sum(s.cpu for s in found.values()))
    click.echo(line("all of them", total, count))
    same = timed(lambda: find_passages("a" * characters, "a" * characters, 50))
    period = timed(lambda: find_passages("ab" * (characters // 2), "ab" * 30 + "c" * characters, 50))
    click.echo(f"one letter, and a period of two: {same.wall:.2f} s and {period.wall:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(f"peak memory of the process {peak:.0f} MiB")
    record = {name: round(count / spent.wall, 2) for name, spent in found.items()}
    minutes = {kind: round(value / count * PAPER_PAIRS / 60, 2) for kind, value in total._asdict().items()}
    click.echo(json.dumps({"pairs_per_second": record, "minutes_for_all": minutes, "peak_mib": round(peak)}))


def line(name: str, spent: Spent, count: int) -> str:
    minutes = [seconds / count * PAPER_PAIRS / 60 for seconds in spent]
    return (
        f"{name:20} {count / spent.wall:7.1f} pairs/s; {PAPER_PAIRS} pairs in {minutes[0]:.1f} min, "
        f"{minutes[1]:.1f} min of one core"
    )


if __name__ == "__main__":
    main()
