"""Pieces of work for a language model: texts in, inputs to be scored out. They can be sent to another process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pan_scdg.digests import text_digest
from pan_scdg.profile import PairSettings, RetrievalSettings
from pan_scdg.retrieval.sentences import find_sentence_spans
from pan_scdg.scdg.arrays import TokenIds
from pan_scdg.scdg.control import controlled_pair, shuffled_source
from pan_scdg.scdg.segments import segment_passes, segment_unconditional
from pan_scdg.scdg.sequences import (
    Passes,
    ScoringInput,
    Tokenizer,
    pair_passes,
    pair_unconditional,
    retrieval_conditional,
    retrieval_unconditional,
)
from pan_scdg.scdg.windows import source_prefix


@dataclass(frozen=True)
class Ready:
    """Inputs that are tokenised already."""

    items: Sequence[ScoringInput]

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """The inputs."""
        return list(self.items)


class PairText(NamedTuple):
    """A document pair, and whether it is scored segment by segment."""

    source: str
    target: str
    segments: bool

    def passes(self, tokenizer: Tokenizer, settings: PairSettings) -> list[Passes]:
        """The passes: one of the whole texts, or one a segment; with a control if the profile has one."""
        control = settings.control != "none"
        if self.segments:
            spans = find_sentence_spans(self.target)
            return list(segment_passes(tokenizer, self.source, self.target, spans, settings.segments, control))
        passes = pair_passes(tokenizer, self.source, self.target)
        return [controlled_pair(tokenizer, passes, self.source, self.target) if control else passes]

    def unconditional(self, tokenizer: Tokenizer, settings: PairSettings) -> list[ScoringInput]:
        """The unconditional inputs of the passes, which do not depend on the source."""
        if self.segments:
            return list(
                segment_unconditional(tokenizer, self.target, find_sentence_spans(self.target), settings.segments)
            )
        return [pair_unconditional(tokenizer, self.target)]


@dataclass(frozen=True)
class PairsWork:
    """The passes with a source of some pairs, pair by pair."""

    pairs: Sequence[PairText]
    settings: PairSettings

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Of each pair, of each segment: the conditional input and, if the profile has one, the control."""
        return [
            item for pair in self.pairs for p in pair.passes(tokenizer, self.settings) for item in list_with_source(p)
        ]


class QueryText(NamedTuple):
    """A query as a candidate's passes need it: its ids, terms for choosing windows, tokens left for a source."""

    token_ids: TokenIds
    terms: frozenset[str]
    budget: int
    digest: str


@dataclass(frozen=True)
class SourceWork:
    """One candidate source before all queries that it may be a source of."""

    text: str
    queries: Sequence[QueryText]
    settings: RetrievalSettings

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Of each query the conditional input and, if the profile has one, the control."""
        return [i for query in self.queries for i in list_with_source(self.passes(query, tokenizer))]

    def passes(self, query: QueryText, tokenizer: Tokenizer) -> Passes:
        """The inputs of a query and this candidate (paper, PAN26 source-prefix construction), with the control."""

        def encode(text: str) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=False))

        prefix = source_prefix(self.text, set(query.terms), query.budget, encode, self.settings.windows)
        passes = Passes(
            retrieval_unconditional(tokenizer, query.token_ids),
            retrieval_conditional(tokenizer, query.token_ids, prefix),
        )
        if self.settings.control == "none":
            return passes
        shuffled = shuffled_source(tokenizer, prefix, text_digest(self.text), query.digest)
        return replace(passes, control=retrieval_conditional(tokenizer, query.token_ids, shuffled))


def list_with_source(passes: Passes) -> list[ScoringInput]:
    """All inputs but the unconditional one."""
    return list(passes)[1:]
