"""The methods behind the tables ``[baseline]``, by their settings.

Two places list all methods: `profile.baseline.BaselineSettings`, which profiles are read with, and `METHODS` here. What
scoring and calibration need to know about a method is a fact of its settings (`profile.baseline.BaselineTable`) or a
function of its entry here. An alignment alone does more than score: `BaselineMethod.open_alignment` gives its sentences
to reports and rankings, `jobs.check` its first stage, and `report.judge` its range of unclear scores. These name it,
since a property with one case would explain less. To add a baseline, see docs/architecture.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from pan_scdg.baselines.char_ngrams import find_passages
from pan_scdg.baselines.lexical import Collection, make_bm25, make_char_ngrams, make_containment, make_gram_overlap
from pan_scdg.baselines.prompting import PromptJudge
from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from pan_scdg.passages.scorer import name_numbers
from pan_scdg.profile.baseline import (
    Alignment,
    BaselineSettings,
    BaselineTable,
    Bm25Pairs,
    CharNgrams,
    Containment,
    Cosine,
    GramLogistic,
    Prompted,
    VectorCosine,
)
from pan_scdg.records import PairScorer, Passage
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scoring.baseline_parts import (
    BaselineParts,
    Given,
    find_encoder_parts,
    find_judge,
    find_vectors,
    refuse_unused,
    require_part,
)
from pan_scdg.scoring.pair_method import Labels
from pan_scdg.store import Store

Settings = TypeVar("Settings", bound=BaselineTable)
Rows = Sequence[tuple[float, ...]]
"""The numbers of each pair."""


def _take_first(settings: BaselineTable, rows: Rows) -> Floats:
    return np.array([row[0] for row in rows], dtype=np.float64)


@dataclass(frozen=True)
class BaselineEntry(Generic[Settings]):
    """The functions of a method, which take its settings first."""

    name: Callable[[Settings], str]
    """Returns its name in the paper's tables."""
    make_scorer: Callable[[Settings, BaselineParts, Collection, Store], PairScorer]
    """Returns the scorer; nothing heavy is loaded before it scores."""
    find_parts: Callable[[Settings, Given], BaselineParts] = lambda settings, given: find_encoder_parts(
        settings.encoder, given.device
    )
    """Finds the model or the vectors that the scorer needs."""
    fit: Callable[[Settings, Rows, Labels], Settings] = lambda settings, rows, labels: settings
    """Returns the settings with the weights that ``calibrate`` fits."""
    combine: Callable[[Settings, Rows], Floats] = _take_first
    """Returns the score of each pair that is compared with the threshold, ``[pairs]``; nan without fitted weights."""
    rule: str = "threshold by training F1"
    """States how a study chooses the threshold, unless it is official."""
    find_passages: Callable[[Settings, str, str], tuple[Passage, ...]] | None = None
    """Returns the passages of a target and its source; None: it decides about whole documents."""


def _compute_logistic(settings: GramLogistic, rows: Rows) -> Floats:
    if settings.weights is None:
        return np.full(len(rows), np.nan)
    return compute_probabilities(settings.weights, np.reshape(rows, (len(rows), len(settings.fitted))))


METHODS: Mapping[type[BaselineTable], BaselineEntry[Any]] = {
    CharNgrams: BaselineEntry[CharNgrams](
        lambda s: "PAN12-style n-gram overlap",
        lambda s, parts, sources, store: make_char_ngrams(s),
        rule="n and threshold by training F1",
        find_passages=lambda s, target, source: find_passages(target, source, s.n),
    ),
    Containment: BaselineEntry[Containment](
        lambda s: f"Max {s.n}-token-gram containment", lambda s, parts, sources, store: make_containment(s)
    ),
    GramLogistic: BaselineEntry[GramLogistic](
        lambda s: f"{s.n}-token-gram logistic",
        lambda s, parts, sources, store: make_gram_overlap(s),
        fit=lambda s, rows, labels: s.model_copy(update={"weights": fit_logistic(rows, labels)}),
        combine=_compute_logistic,
        rule="fitted on training, threshold by training F1",
    ),
    Bm25Pairs: BaselineEntry[Bm25Pairs](
        lambda s: "BM25 pair score", lambda s, parts, sources, store: make_bm25(s, sources)
    ),
    Cosine: BaselineEntry[Cosine](
        lambda s: f"{s.model} cosine", lambda s, parts, sources, store: parts.make_cosine(s, store)
    ),
    VectorCosine: BaselineEntry[VectorCosine](
        lambda s: f"{s.model} cosine", lambda s, parts, sources, store: require_part(parts.vectors), find_vectors
    ),
    Prompted: BaselineEntry[Prompted](
        lambda s: f"PlagBench {s.shots}-shot ({'CoT' if s.chain_of_thought else 'vanilla'})",
        lambda s, parts, sources, store: PromptJudge(s, require_part(parts.answerer), store),
        find_judge,
        rule="threshold on the label scores by training F1",
    ),
    Alignment: BaselineEntry[Alignment](
        lambda s: f"{s.model} sentence alignment",
        lambda s, parts, sources, store: parts.make_alignment(s, store),
        combine=lambda s, rows: s.compute_scores(name_numbers(rows)),
    ),
}


def find_parts(settings: BaselineSettings, given: Given) -> BaselineParts:
    """Find the model or the vectors of a baseline.

    Raises:
        UserError: something is missing, or ``vectors`` or ``model`` are given to a method that does not use them.
    """
    unused = {
        "a model folder": given.model is not None and settings.language_model is None,
        "a vectors folder": given.vectors and not settings.reads_vectors,
    }
    refuse_unused(settings, unused)
    return METHODS[type(settings)].find_parts(settings, given)
