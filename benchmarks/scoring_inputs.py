"""Make the inputs of ``benchmarks.scoring``, in the groups of a run, from the texts of ``benchmarks.corpus``.

Lengths are those asked for, give or take a share. A part of each target is copied, one token in four replaced, from
one of its sources, so that gains are not all alike.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from benchmarks import corpus
from pan_scdg.scdg.sequences import (
    ScoringInput,
    TokenIds,
    Tokenizer,
    build_retrieval_conditional,
    build_retrieval_unconditional,
    encode_text,
)
from pan_scdg.scoring.batches import make_batches

COPIED, REPLACED = 0.4, 0.25
"""Share of a target that is copied, and of the copied tokens those that are others."""
Name = tuple[int, int | None]
"""Numbers of target and source; None: without a source."""


class Lengths(NamedTuple):
    """Tokens of a source and of a target; each is drawn from as much as ``spread`` below to as much above."""

    source: int
    target: int
    spread: float = 0.0

    def drawn(self, tokens: int, rng: np.random.Generator) -> int:
        """A length around ``tokens``, at least 1."""
        return max(1, round(tokens * (1 + self.spread * rng.uniform(-1, 1))))


class Unit(NamedTuple):
    """Inputs that an engine gets in one call."""

    items: tuple[ScoringInput, ...]
    names: tuple[Name, ...]


class Texts:
    """Consecutive tokens of the generated corpus, each used once."""

    def __init__(self, tokenizer: Tokenizer, seed: int = 0) -> None:
        self._tokenizer, self._seed = tokenizer, seed
        self._numbers = count()
        self._rest: TokenIds = np.zeros(0, dtype=np.int64)

    def take(self, tokens: int) -> TokenIds:
        """The next ``tokens`` ids, ``[tokens]``."""
        while len(self._rest) < tokens:
            text = corpus.document(next(self._numbers), self._seed).text
            self._rest = np.concatenate([self._rest, encode_text(self._tokenizer, text)])
        taken, self._rest = self._rest[:tokens], self._rest[tokens:]
        return taken


def candidate_lists(queries: int, candidates: int, documents: int, rng: np.random.Generator) -> list[list[int]]:
    """``candidates`` documents for each query; every document is in ``queries * candidates / documents`` lists, give
    or take one.

    Raises:
        ValueError: there are more candidates than documents.
    """
    if candidates > documents:
        raise ValueError(f"{candidates} candidates of {documents} documents")
    order = rng.permutation(documents).tolist()
    return [[order[(q * candidates + i) % documents] for i in range(candidates)] for q in range(queries)]


def retrieval_units(
    tokenizer: Tokenizer, lists: Sequence[Sequence[int]], lengths: Lengths, budget: int, seed: int = 0
) -> Iterator[Unit]:
    """The units of a retrieval run: queries alone in batches of ``budget`` tokens, then each source with all queries
    that have it in their list."""
    rng = np.random.default_rng([seed, 1])
    texts = Texts(tokenizer, seed)
    owners: dict[int, list[int]] = defaultdict(list)
    for query, chosen in enumerate(lists):
        for document in chosen:
            owners[document].append(query)
    sources = {document: texts.take(lengths.drawn(lengths.source, rng)) for document in sorted(owners)}
    targets = [_target(texts, sources[chosen[0]], lengths, rng) for chosen in lists]
    yield from _alone(tokenizer, targets, budget)
    for document, source in sources.items():
        items = (build_retrieval_conditional(tokenizer, targets[query], source) for query in owners[document])
        yield Unit(tuple(items), tuple((query, document) for query in owners[document]))


def pair_units(tokenizer: Tokenizer, pairs: int, lengths: Lengths, budget: int, seed: int = 0) -> Iterator[Unit]:
    """The units of a pair detection without common texts: batches of ``budget`` tokens, without and with sources."""
    rng = np.random.default_rng([seed, 1])
    texts = Texts(tokenizer, seed)
    sources = [texts.take(lengths.drawn(lengths.source, rng)) for _ in range(pairs)]
    targets = [_target(texts, source, lengths, rng) for source in sources]
    yield from _alone(tokenizer, targets, budget)
    items = [build_retrieval_conditional(tokenizer, t, s) for t, s in zip(targets, sources, strict=True)]
    yield from _batched(items, [(number, number) for number in range(pairs)], budget)


def long_unit(tokenizer: Tokenizer, tokens: int, seed: int = 0) -> Unit:
    """One pair whose conditional input has ``tokens`` tokens, a quarter of them the target."""
    texts = Texts(tokenizer, seed)
    target = texts.take(tokens // 4)
    around = build_retrieval_conditional(tokenizer, target, target[:0]).length
    item = build_retrieval_conditional(tokenizer, target, texts.take(tokens - around))
    return Unit((build_retrieval_unconditional(tokenizer, target), item), ((0, None), (0, 0)))


def _target(texts: Texts, source: TokenIds, lengths: Lengths, rng: np.random.Generator) -> TokenIds:
    target = texts.take(lengths.drawn(lengths.target, rng)).copy()
    copied = min(round(COPIED * len(target)), len(source))
    start = int(rng.integers(len(source) - copied + 1))
    kept = np.flatnonzero(rng.random(copied) >= REPLACED)
    target[kept] = source[start + kept]
    return target


def _alone(tokenizer: Tokenizer, targets: Sequence[TokenIds], budget: int) -> Iterator[Unit]:
    items = [build_retrieval_unconditional(tokenizer, target) for target in targets]
    yield from _batched(items, [(number, None) for number in range(len(targets))], budget)


def _batched(items: Sequence[ScoringInput], names: Sequence[Name], budget: int) -> Iterator[Unit]:
    for batch in make_batches([str(name) for name in names], [item.length for item in items], budget):
        yield Unit(tuple(items[i] for i in batch.members), tuple(names[i] for i in batch.members))
