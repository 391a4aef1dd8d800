"""The training mixture: token sequences of a given length, each a function of (seed, step, row) alone.

Sequences look like what scoring sees: ``BOS source \\n\\n target``. No label is used: a sequence is text, and the loss
is that of a language model on all of it.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.alter import alter
from training.pack import Ids, Tokenizer

PASSAGES = {  # share of draws of running text
    "arxiv-abstracts-1": 0.45,
    "arxiv-abstracts-2": 0.15,
    "openstax-textbooks": 0.25,
    "technical-and-government": 0.1,
    "public-domain-books": 0.05,
}
REWRITES = {  # share of draws of rewritten groups, groups that stand together in one sequence
    "llm-rewrites": (0.42, 2),
    "humanized-texts": (0.30, 1),
    "wikipedia-sentences": (0.10, 4),
    "bible-translations": (0.12, 1),
    "classics-translations": (0.06, 1),
}
KINDS = {"rewritten": 0.36, "altered": 0.22, "partial": 0.17, "topic": 0.06, "other": 0.05, "plain": 0.14}


class Texts:
    """Tokenised texts of one collection, by number."""

    def __init__(self, ids: Ids, starts: npt.NDArray[np.int64]) -> None:
        self.ids, self.starts = ids, starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, number: int) -> list[int]:
        return self.ids[self.starts[number] : self.starts[number + 1]].tolist()


class Mixture:
    """Draws training sequences. Same packed file, seed, step, row and length: same sequence."""

    def __init__(self, packed: Path, tokenizer: Tokenizer, seed: int, without: Sequence[str] = ()) -> None:
        self.tokenizer, self.seed = tokenizer, seed
        self.kinds = {kind: share for kind, share in KINDS.items() if kind not in without}
        with np.load(packed) as arrays:
            names = (*PASSAGES, *REWRITES)
            self.texts = {name: Texts(arrays[name], arrays[f"{name}/starts"]) for name in names}
            self.groups = {name: arrays[f"{name}/groups"].tolist() for name in REWRITES}
            self.neighbours = arrays["neighbours"].tolist()
            self.thesaurus: dict[str, list[str]] = json.loads(arrays["thesaurus"].tobytes())
        self.separator = tokenizer.encode("\n\n", add_special_tokens=False)
        self.breaks = {*self.separator, *(tokenizer.encode(mark, add_special_tokens=False)[-1] for mark in ".!?")}

    def batch(self, step: int, rows: int, length: int) -> list[list[int]]:
        """``rows`` sequences of ``length + 1`` token ids."""
        return [self._sequence(random.Random(f"{self.seed}/{step}/{row}"), length) for row in range(rows)]

    def _sequence(self, rng: random.Random, length: int) -> list[int]:
        ids: list[int] = []
        while len(ids) <= length:
            ids += [0, *self._text(rng, rng.randint(1, max(1, length // 640)))]
        return ids[: length + 1]

    def _text(self, rng: random.Random, size: int) -> list[int]:
        """One text, with a source in front of it or alone; ``size`` times as long as in a short sequence."""
        kind = rng.choices(list(self.kinds), list(self.kinds.values()))[0]
        if kind == "rewritten":
            firsts, seconds = self._rewritten(rng, size)
            return self._joined([*firsts, *seconds])
        if kind == "altered":
            passage = self._passage(rng, 240 * size)
            return self._joined([passage, self._copy(passage, rng)])
        if kind == "partial":
            return self._partial(rng, size)
        if kind == "topic":
            number = rng.randrange(len(self.neighbours))
            texts = self.texts["arxiv-abstracts-1"]
            return self._joined([texts[number], texts[self.neighbours[number]]])
        if kind == "other":
            name = rng.choice(list(PASSAGES))
            return self._joined([self._passage(rng, 200 * size, name), self._passage(rng, 200 * size, name)])
        return self._passage(rng, 660 * size)

    def _joined(self, parts: Sequence[list[int]]) -> list[int]:
        joined = list(parts[0])
        for part in parts[1:]:
            joined += self.separator + part
        return joined

    def _rewritten(self, rng: random.Random, size: int) -> tuple[list[list[int]], list[list[int]]]:
        """First versions of some neighbouring groups in order, and other versions of the same in the same order."""
        name = rng.choices(list(REWRITES), [share for share, _ in REWRITES.values()])[0]
        bounds, texts = self.groups[name], self.texts[name]
        first, count = rng.randrange(len(bounds) - 1), REWRITES[name][1] * size
        pairs = []
        for i in range(first, first + count):
            group = i % (len(bounds) - 1)
            pairs.append(rng.sample(range(bounds[group], bounds[group + 1]), 2))
        return [texts[a] for a, _ in pairs], [texts[b] for _, b in pairs]

    def _partial(self, rng: random.Random, size: int) -> list[int]:
        """A target of which a part was written from a part of the source."""
        before, after, other = (self._passage(rng, 110 * size) for _ in range(3))
        if rng.random() < 0.5:
            (first, *_), (second, *_) = self._rewritten(rng, 1)
        else:
            first = self._passage(rng, 110 * size)
            second = self._copy(first, rng)
        target = [other, second] if rng.random() < 0.5 else [second, other]
        return self._joined([before, first, after, *target])

    def _copy(self, passage: list[int], rng: random.Random) -> list[int]:
        """Every fourth copy is exact: without those, verbatim copying is unlearnt."""
        if rng.random() < 0.25:
            return passage
        altered = alter(self.tokenizer.decode(passage), rng.uniform(0.2, 1.0), self.thesaurus, rng)
        return self.tokenizer.encode(altered, add_special_tokens=False)

    def _passage(self, rng: random.Random, size: int, name: str | None = None) -> list[int]:
        """About ``size`` tokens from a random document, from a paragraph or sentence on where one begins soon."""
        texts = self.texts[name or rng.choices(list(PASSAGES), list(PASSAGES.values()))[0]]
        ids = texts[rng.randrange(len(texts))]
        if len(ids) <= size:
            return ids
        start = rng.randrange(len(ids) - size)
        soon = (i for i in range(start, start + size // 3) if ids[i] in self.breaks and ids[i + 1] not in self.breaks)
        start = next(soon, start - 1) + 1
        return ids[start : start + size]
