"""Score pairs by their alignment: sentences that follow those of the source, and passages that share words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, takewhile
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import regex

from pan_scdg.align.locator import PassageLocator
from pan_scdg.align.matches import (
    MIN_RELATED,
    NO_MATCH,
    Floats,
    SentenceAlignment,
    find_summary,
    measure_nearest_own,
    measure_vectors,
)
from pan_scdg.align.passages import MIN_COPIED_SHARE, MIN_SUMMARY_RATIO, Alignment, extend_copies
from pan_scdg.align.vectors import EncodedText, SentenceEncoder
from pan_scdg.methods import UNKNOWN_SCRIPT, Measurements, Method, MethodOptions, MethodSettings, Values
from pan_scdg.records import Identities, MeasuredPassage, Passage, Reason, Span, TextPair
from pan_scdg.settings import Calibration, EncoderDtype, ProfileTables
from pan_scdg.text.languages import seems_english
from pan_scdg.text.units import Integers

MAX_CALIBRATED_CANDIDATES = 14_000
"""Pairs of sentences, which 99 % of the calibration pairs of the shipped threshold do not exceed: two texts of about
15,000 characters. Longer ones match by chance more often: benchmarks/results/verdicts.md."""
OTHER_LANGUAGE = "other_language"
"""The code of a reason: a text does not seem to be in the language of the calibration."""
MIN_MATCH = 2.5
"""Score of an alignment of sentences that is shown as a passage: four sentences that match, or two that share words."""
MIN_SUMMARY_SENTENCES, MIN_SUMMARY_COSINE = 3, 0.52
"""Sentences that a summary adds to the passages in it, and the least mean of their largest cosines."""
_MARKS: Any = regex.compile(r"\p{P}*")
SAME_COSINE = 0.9
"""Least cosine of two sentences that say the same."""
UNREAD = Reason(UNKNOWN_SCRIPT, {"decides": "copies"})


class AlignmentSettings(MethodSettings):
    """Sentences that follow those of the source, and passages that have words in common (not in the paper)."""

    model: str
    """The name of a bundled embedding model, or of a folder in the model cache."""
    dtype: EncoderDtype = "float32"
    """bfloat16 is faster on processors with instructions for it, and changes hardly a decision:
    benchmarks/results/encoding.md."""
    similarity_weight: ClassVar[float] = 5.5
    nearest_weight: ClassVar[float] = 5.0
    margin_weight: ClassVar[float] = 14.0
    extent_weight: ClassVar[float] = 12.0
    contrast_factor: ClassVar[float] = 1.25
    topic_weight: ClassVar[float] = 3.75
    """Their choice, and false positives of collections left out: benchmarks/results/verdicts.md."""
    min_sentences: ClassVar[int] = 2
    """A shorter target is decided only if it is copied: nothing separates single sentences on one topic."""
    copied_words: ClassVar[int] = 50
    """Words in common in one stretch that are a copy, whatever else the texts contain. Two answers to one question may
    both have up to 40 words of the question."""
    copied_share: ClassVar[float] = 0.95
    """Share of the target's words that are a copy if the target is shorter."""
    weak_alignment: ClassVar[float] = 1.3
    """Score of an alignment that unrelated texts reach: less than two sentences that match closely."""
    excludes_parts = True
    decides_short_texts = True
    max_batch = 4  # what is computed of a text does not depend on the others, so that smaller ones cost nothing
    unclear_margin = 0.5
    """See benchmarks/results/check.md."""
    copy_score: ClassVar[float] = 25.0
    """Least score of a copy, far above the threshold."""

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> "AlignmentMethod":
        """Return the method."""
        return AlignmentMethod(self, options)

    def list_models(self) -> list[str]:
        """Return the embedding model."""
        return [self.model]

    def compute_score(self, values: Values) -> float:
        """Return the logarithm of the alignment's score for each pair of sentences, plus the other numbers.

        The extent is how much of the target follows the source (with one sentence more that does not, so that few are
        less evidence), how much a part of it stands out, or how densely a part follows the source. The nearer the
        source is even to other sentences (`NearestSentences.measure_topic`), the more of all this is due to the topic,
        and the less a positive score is. A single sentence has none of these.
        """
        candidates, sentences = max(1.0, values["candidates"]), max(1.0, values["sentences"])
        score = float(np.log((1 + values["alignment"]) / candidates)) + self.similarity_weight * values["similarity"]
        if sentences >= self.min_sentences and values["candidates"]:
            share = values["in_order"] / (sentences + 1)
            extent = max(share, self.contrast_factor * values["contrast"], values["density"])
            score += self.nearest_weight * values["nearest"] + self.margin_weight * values["margin"]
            score += self.extent_weight * extent
            if score > 0:
                score *= float(np.exp(-self.topic_weight * (values["topic"] - MIN_RELATED)))
        return max(score, self.copy_score) if self.is_copy(values) else score

    def warn(self, values: Values, threshold: float | None, calibration: Calibration | None) -> list[Reason]:
        """Return what is weak about a positive pair: no sentences match, and no passage has words in common."""
        if threshold is None or not self.can_decide(values) or self.compute_score(values) < threshold:
            return []
        is_weak = values["alignment"] < self.weak_alignment and not values["similarity"] and not self.is_copy(values)
        return [Reason("only_similar")] if is_weak else []

    def is_copy(self, values: Values) -> bool:
        """Return True if a pair is reuse for its verbatim words alone."""
        return values["copied"] >= min(self.copied_words, self.copied_share * values["words"]) and values["copied"] > 0

    def can_decide(self, values: Values) -> bool:
        """Return False for a target that is too short, unless it is copied."""
        return values["sentences"] >= self.min_sentences or self.is_copy(values)


class AlignmentMethod(Method):
    """Scores pairs by alignment; see `methods.Method`.

    Args:
        settings: the table ``[alignment]``.
        options: the device.

    Raises:
        UserError: an embedding model is missing or damaged.
    """

    encoder: SentenceEncoder
    selects = True

    def __init__(
        self,
        settings: AlignmentSettings,
        options: MethodOptions,
    ) -> None:
        self.settings = settings
        self.encoder = SentenceEncoder(settings.model, options.device, dtype=settings.dtype)
        self.fingerprint = self.encoder.fingerprint
        self.models = {"embedding_model": self.encoder.model}
        self.encoders = {"embedding_model": self.encoder.use}

    def identify(self) -> Identities:
        """Return the fields of ``job.json`` that identify the models."""
        return {"embedding_model": {"weights": self.fingerprint}}

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return the numbers of each pair, and what is unusual about its texts."""
        scores = []
        self.encoder.encode_ahead(text for pair in pairs for text in (pair.target, pair.source))
        for pair in pairs:
            values = self._measure(pair.target, pair.source)
            reasons = [UNREAD] if self._is_unread(pair.target, pair.source) else []
            sides = {"suspicious": pair.target, "source": pair.source}
            reasons += [Reason(OTHER_LANGUAGE, {"side": s}) for s, text in sides.items() if not seems_english(text)]
            reasons += list_unusual(values, self.settings)
            scores.append(Measurements(values, tuple(reasons)))
        return scores

    def select(self, targets: Iterable[str], sources: Iterable[str], least: float) -> list[tuple[int, int]]:
        """Return the pairs whose score may reach ``least``; see `Method.select` and `select_pairs`."""
        from pan_scdg.align.selection import select_pairs

        bound = partial(bound_score, self.settings)
        return select_pairs(map(self.encoder.encode, targets), map(self.encoder.encode, sources), bound, least)

    def locate(
        self, target: str, source: str, locator: PassageLocator | None = None, *, positive: bool = True
    ) -> list[MeasuredPassage]:
        """Return the passages of a pair; see `Method.locate`.

        Sentences that follow those of the source are passages beside those that share words; one around a quotation
        takes its place.
        """
        locator = locator or PassageLocator()
        alignment = locator.align(target, source)
        evidence = locator.list_measured(target, source, alignment)
        if not positive:
            return alignment.restore(passage for passage in evidence if not passage.counts)
        if self._is_unread(target, source):
            copies = alignment.restore(alignment.add_copies(evidence))
            return extend_copies((_include_marks(one, target, source) for one in copies), target, source)
        counted = [passage for passage in evidence if passage.counts]
        related = self._find_related(target, source)
        counted = [*counted, *self._find_sentences(target, source, alignment, counted, related)]
        counted = self._add_summary(target, source, alignment, counted)
        counted = [part for one in counted for part in alignment.split_patchwork(one, related)]
        uncounted = (passage for passage in evidence if not passage.counts)
        others = [p for p in uncounted if not any(p.target.overlaps(one.target) for one in counted)]
        joined = alignment.join_neighbours(alignment.add_copies([*counted, *others]), related)
        return extend_copies(alignment.restore(joined), target, source)

    def _find_related(self, target: str, source: str) -> npt.NDArray[np.bool_]:
        """Return True for the sentences of the target that may be written from one of the source, ``[u]``."""
        first, second = self.encoder.encode(target), self.encoder.encode(source)
        if not first.vectors.size or not second.vectors.size:
            return np.zeros(len(first.prepared.units), np.bool_)
        nearest = (first.vectors @ second.vectors.T).max(axis=1, initial=0.0)
        return np.asarray(nearest >= MIN_RELATED, np.bool_)

    def _encode(self, target: str, source: str, alignment: Alignment) -> tuple[EncodedText, EncodedText]:
        """Return both texts with their vectors, and with what counts in this pair."""
        return self.encoder.encode(target)._replace(prepared=alignment.target), self.encoder.encode(source)

    def _is_unread(self, target: str, source: str) -> bool:
        """Return True if the encoder does not know the script of one of the texts."""
        return any(self.encoder.encode(text).is_unread for text in (target, source))

    def _measure(self, target: str, source: str) -> dict[str, float]:
        """Return the numbers of a pair.

        - alignment: the score of the best alignment of sentences, see `SentenceAlignment`.
        - similarity: the largest of a passage that words have in common; 0 without one.
        - sentences, corresponding, in_order, candidates, and margin, contrast, density, topic, nearest: see
          `measure_vectors`.
        - copied: words of the longest verbatim stretch, see `count_copied_words`; without the line below.
        - words: those of the target.
        - left_out: the passages in its quotations and the like, which all numbers but ``words`` leave out.

        A line that unrelated texts may share, such as an address, is left out, and so are sentences that say the same,
        such as a greeting, if they are short.
        """
        alignment = Alignment(self.encoder.split(target), self.encoder.split(source))
        first, second = self._encode(target, source, alignment)
        line = alignment.find_shared_line()
        common = _find_common(first, second, alignment) if line is None else line
        first = first._replace(prepared=first.prepared._replace(counted=first.prepared.counted & ~common))
        return _measure_alignment(first, second, alignment, None if line is None else first.prepared.spans[line])

    def _find_sentences(
        self,
        target: str,
        source: str,
        alignment: Alignment,
        others: Sequence[MeasuredPassage],
        related: npt.NDArray[np.bool_],
    ) -> Iterator[MeasuredPassage]:
        """Yield the sentences that decided, of those that no other passage that counts overlaps.

        Sentences at the ends that are nearer to the source than others, but not related to it, are cut off. If there
        are no others and no alignment reaches `MIN_MATCH`, the best one is returned.
        """
        first, second = self._encode(target, source, alignment)
        sentences = align_sentences(first, second, alignment)
        least = MIN_MATCH if others else min(MIN_MATCH, sentences.find_best_score())
        spans, related = first.prepared.spans[first.prepared.counted], related[first.prepared.counted]
        is_free = [not any(Span(*span).overlaps(other.target) for other in others) for span in spans.tolist()]
        runs = [list(run) for free, run in groupby(range(len(spans)), is_free.__getitem__) if free]
        for match in sentences.find_all(least, [(run[0], run[-1] + 1) for run in runs]):
            inside = match.begin + np.flatnonzero(related[match.begin : match.end])
            cut = sentences.find_best(int(inside[0]), int(inside[-1]) + 1) if inside.size else NO_MATCH
            if cut.score < least and others:
                continue
            match = cut if cut.score > 0 else match
            own = _join_spans(spans, match.begin, match.end)
            if not any(own.overlaps(other.target) for other in others):
                passage = Passage(own, _join_spans(second.prepared.spans, match.source_begin, match.source_end))
                # a quotation between two sentences does not exclude these
                yield alignment.measure(passage)._replace(within=None, counts=True)

    def _add_summary(
        self, target: str, source: str, alignment: Alignment, others: list[MeasuredPassage]
    ) -> list[MeasuredPassage]:
        """Return passages that count with the summary in the target, if there is one, instead of those that overlap it.

        The source side of a summary is several times as long. It adds sentences to the passages in it, none of which is
        mostly copied, and has no sentence that does not count.
        """
        first, second = self._encode(target, source, alignment)
        vectors, places = first.counted_vectors, np.flatnonzero(first.prepared.counted)
        found = find_summary(vectors, second.vectors)
        if found is None or len(found[0]) != places[found[0].stop - 1] + 1 - places[found[0].start]:
            return others
        spans = first.prepared.spans[places]
        own = _join_spans(spans, found[0].start, found[0].stop)
        other = _join_spans(second.prepared.spans, found[1].start, found[1].stop)
        parts = [one for one in others if own.overlaps(one.target)]
        added = [n for n in found[0] if not any(Span(*spans[n].tolist()).overlaps(one.target) for one in parts)]
        own, other = (
            Span(min(span.begin for span in side), max(span.end for span in side))
            for side in ((own, *(one.target for one in parts)), (other, *(one.source for one in parts)))
        )
        is_summary = (
            bool(parts)
            and all(one.verbatim < MIN_COPIED_SHARE for one in parts)
            and other.length >= MIN_SUMMARY_RATIO * own.length
            and len(added) >= MIN_SUMMARY_SENTENCES
            and (vectors[added] @ second.vectors.T).max(axis=1).mean() >= MIN_SUMMARY_COSINE
        )
        if not is_summary:
            return others
        summary = alignment.measure(Passage(own, other))._replace(within=None, counts=True)
        return [*(one for one in others if one not in parts), summary]


def _include_marks(evidence: MeasuredPassage, target: str, source: str) -> MeasuredPassage:
    """Return a copy with the marks that follow it in both texts, such as a full stop."""
    sides = ((target, evidence.target), (source, evidence.source))
    marks, other = (_MARKS.match(text, span.end)[0] for text, span in sides)
    more = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(marks, other)))
    own, other_span = (Span(span.begin, span.end + more) for _, span in sides)
    return evidence._replace(passage=Passage(own, other_span))


def _touches(lines: Integers, span: Span) -> bool:
    return bool(((lines[:, 0] < span.end) & (lines[:, 1] > span.begin)).any())


def _find_common(target: EncodedText, source: EncodedText, alignment: Alignment) -> npt.NDArray[np.bool_]:
    """Return True for the units of the target that say the same as one of the source, ``[u]``.

    They may be due to chance if they have no more words than a line (`Alignment.is_line`); if more, none is returned.
    """
    counted = target.prepared.counted
    if not target.vectors.size or not source.vectors.size:
        return np.zeros_like(counted)
    common = counted & ((target.vectors @ source.vectors.T).max(axis=1) >= SAME_COSINE)
    words = int(np.diff(target.prepared.units, axis=1).ravel()[common].sum())
    return common if alignment.is_line(words) else np.zeros_like(common)


def _measure_alignment(
    first: EncodedText, second: EncodedText, alignment: Alignment, line: Integers | None = None
) -> dict[str, float]:
    """Return the numbers of a pair, see `AlignmentMethod`, without the passages that a line touches, ``[n, 2]``."""
    evidence = [alignment.measure(passage) for passage in alignment.passages]
    counted = [
        passage.similarity
        for passage in evidence
        if passage.counts and (line is None or not _touches(line, passage.target))
    ]
    sentences, others = first.counted_vectors, second.vectors
    return {
        "alignment": align_sentences(first, second, alignment).find_best_score(),
        "similarity": max(counted, default=0.0),
        **measure_vectors(sentences, measure_nearest_own(sentences), others),
        "copied": float(alignment.count_copied_words() if line is None else 0),
        "words": float(len(first.prepared.forms)),
        "left_out": float(sum(not passage.counts for passage in evidence)),
    }


def bound_score(settings: AlignmentSettings, target: EncodedText, own: Floats, others: Floats) -> float:
    """Return the score of a pair whose texts have no words in common; see `measure_vectors`."""
    sentences = target.counted_vectors
    values = {
        "alignment": SentenceAlignment(sentences, others).find_best_score(),
        **measure_vectors(sentences, own, others),
        "words": float(len(target.prepared.forms)),
    }
    return settings.compute_score({**values, "similarity": 0.0, "copied": 0.0})


def align_sentences(target: EncodedText, source: EncodedText, alignment: Alignment) -> SentenceAlignment:
    """Return the alignment of the sentences of two texts; those of the target that do not count are left out."""
    numbers = np.cumsum(target.prepared.counted) - 1
    counted = target.prepared.counted
    seeds = [seed._replace(target=int(numbers[seed.target])) for seed in alignment.seeds if counted[seed.target]]
    return SentenceAlignment(target.counted_vectors, source.vectors, seeds)


def list_unusual(values: Mapping[str, float], settings: AlignmentSettings) -> list[Reason]:
    """Return reasons about texts that are too short, longer than those of the calibration, or quoting."""
    reasons = []
    if not settings.can_decide(values):
        reasons.append(Reason("few_sentences", {"side": "suspicious", "sentences": int(values["sentences"])}))
    elif values["candidates"] > MAX_CALIBRATED_CANDIDATES:
        reasons.append(Reason("long_texts"))
    if count := int(values["left_out"]):
        reasons.append(Reason("left_out", {"passages": count}))
    return reasons


def _join_spans(units: Integers, first: int, end: int) -> Span:
    """Return the span of the units from ``first`` to before ``end``."""
    return Span(int(units[first, 0]), int(units[end - 1, 1]))
