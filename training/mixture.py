"""The training mixture: token sequences of a fixed length, each a function of (seed, step, row) alone.

Sequences look like what scoring sees: ``BOS source \\n\\n target``. The share-alike collections are left out, so the
weights carry no such duty.
"""

import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from training.alter import alter, load_thesaurus


class Tokenizer(Protocol):
    """The one call of a tokenizer that the mixture makes."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...


LM_FILES = {  # documents read from each file: modern expository prose first
    "arxiv-abstracts-1": 40000,
    "arxiv-abstracts-2": 10000,
    "openstax-textbooks": 2627,
    "technical-and-government": 1975,
    "public-domain-books": 600,
}
PARAPHRASE_FILES = {  # groups read, share of draws
    "llm-rewrites": (3018, 0.45),
    "humanized-texts": (2356, 0.30),
    "wikipedia-sentences": (26201, 0.10),
    "bible-translations": (1500, 0.15),
}


def read_jsonl(path: Path, limit: int) -> Iterator[dict[str, Any]]:
    """The first ``limit`` records of an ``.jsonl.xz`` file."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number >= limit:
                return
            yield json.loads(line)


class Mixture:
    """Draws training sequences. Same folder, seed, step and row: same sequence."""

    def __init__(self, data: Path, tokenizer: Tokenizer, length: int, seed: int) -> None:
        self.tokenizer, self.length, self.seed = tokenizer, length, seed
        self.most = max(1, length // 640)  # passages grow with the sequences, up to so many times
        self.by_file = {
            n: [r["text"] for r in read_jsonl(data / "lm-text" / f"{n}.jsonl.xz", k)] for n, k in LM_FILES.items()
        }
        self.groups = {
            name: [
                r["texts"] for r in read_jsonl(data / "paraphrase" / f"{name}.jsonl.xz", k) if "SA" not in r["license"]
            ]
            for name, (k, _share) in PARAPHRASE_FILES.items()
        }
        self.thesaurus = load_thesaurus(data / "paraphrase" / "thesaurus-wordnet.jsonl.xz")

    def batch(self, step: int, rows: int) -> list[list[int]]:
        """``rows`` sequences of ``length + 1`` token ids."""
        return [self._sequence(random.Random(f"{self.seed}/{step}/{row}")) for row in range(rows)]

    def _sequence(self, rng: random.Random) -> list[int]:
        ids: list[int] = []
        while len(ids) <= self.length:
            ids += [0, *self.tokenizer.encode(self._text(rng), add_special_tokens=False)]
        return ids[: self.length + 1]

    def _text(self, rng: random.Random) -> str:
        size = rng.randint(1, self.most)
        kind = rng.choices(("paraphrase", "altered", "partial", "other", "plain"), (0.32, 0.28, 0.15, 0.10, 0.15))[0]
        if kind == "paraphrase":
            return self._paraphrase(rng, size)
        if kind == "altered":
            passage = self._passage(rng, 1100 * size)
            return f"{passage}\n\n{self._copy(passage, rng)}"
        if kind == "partial":
            source, other = self._passage(rng, 1000 * size), self._passage(rng, 700 * size)
            start = rng.randrange(max(1, len(source) - 500 * size))
            return f"{source}\n\n{other} {self._copy(source[start : start + 500 * size], rng)}"
        if kind == "other":
            name = rng.choice(list(self.by_file))
            return f"{self._passage(rng, 900 * size, name)}\n\n{self._passage(rng, 900 * size, name)}"
        return self._passage(rng, 3000 * size)

    def _paraphrase(self, rng: random.Random, size: int) -> str:
        """Some groups: their first versions, in order, then other versions, in order."""
        name = rng.choices(list(PARAPHRASE_FILES), [share for _k, share in PARAPHRASE_FILES.values()])[0]
        groups = self.groups[name]
        start, count = rng.randrange(len(groups)), {"wikipedia-sentences": 4, "llm-rewrites": 2}.get(name, 1) * size
        chosen = [rng.sample(groups[(start + i) % len(groups)], 2) for i in range(count)]
        return "\n\n".join([first for first, _ in chosen] + [second for _, second in chosen])

    def _copy(self, passage: str, rng: random.Random) -> str:
        """Every fourth copy is exact: without those, verbatim copying is unlearnt."""
        return passage if rng.random() < 0.25 else alter(passage, rng.uniform(0.2, 1.0), self.thesaurus, rng)

    def _passage(self, rng: random.Random, size: int, name: str | None = None) -> str:
        """About ``size`` characters from a random document, beginning at a paragraph or sentence where it can."""
        name = name or rng.choices(list(self.by_file), (0.45, 0.15, 0.25, 0.1, 0.05))[0]
        text = rng.choice(self.by_file[name])
        if len(text) <= size:
            return text
        start = rng.randrange(len(text) - size)
        for mark in ("\n\n", ". "):
            found = text.find(mark, start, start + size // 3)
            if found >= 0:
                start = found + len(mark)
                break
        return text[start : start + size]
