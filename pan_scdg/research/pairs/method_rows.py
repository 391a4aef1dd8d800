"""The rows of the paper's tables: what each method is called there, and how its score and threshold come about."""

from collections.abc import Mapping, Sequence

from pan_scdg.profile import PairSettings, Profile
from pan_scdg.profile.baseline import (
    BaselineSettings,
    Bm25Pairs,
    CharNgrams,
    Containment,
    Cosine,
    GramLogistic,
    Prompted,
    VectorCosine,
)
from pan_scdg.research.pairs.pair_scores import SCDG, Baseline, n_column, own_windows
from pan_scdg.research.pairs.pair_study import (
    Method,
    average,
    logistic,
    official,
    one_score,
    published,
    sparse,
    with_parameter,
)
from pan_scdg.research.pairs.same_topic_study import GRAM_OVERLAP, TopicMethod, scdg_methods
from pan_scdg.research.pairs.score_table import ScoreTable

BASELINES, OURS = "Baselines", "SCDG"
LEXICAL, STATISTICS = "Lexical and retrieval baselines", "SCDG statistics and auxiliary calibrators"


def paper_name(settings: BaselineSettings) -> str:
    """What the paper calls a baseline."""
    if isinstance(settings, CharNgrams):
        return "PAN12-style n-gram overlap"
    if isinstance(settings, Containment):
        return f"Max {settings.n}-token-gram containment"
    if isinstance(settings, GramLogistic):
        return f"{settings.n}-token-gram logistic"
    if isinstance(settings, Bm25Pairs):
        return "BM25 pair score"
    if isinstance(settings, Cosine | VectorCosine):
        return f"{settings.model} cosine"
    return f"PlagBench {settings.shots}-shot ({'CoT' if settings.chain_of_thought else 'vanilla'})"


def names_of(baselines: Sequence[Baseline]) -> list[str]:
    """The paper's names, with that of the profile where two baselines would have the same."""
    names = [paper_name(baseline.settings) for baseline in baselines]
    return [
        f"{name} ({baseline.profile.name})" if names.count(name) > 1 else name
        for name, baseline in zip(names, baselines, strict=True)
    ]


def pair_methods(
    baselines: Sequence[Baseline], tables: Mapping[str, ScoreTable], settings: PairSettings, profile: Profile
) -> dict[str, list[Method]]:
    """The rows of the pair study by group, in the paper's order.

    Args:
        baselines: with their settings.
        tables: scores by the profile's name, those of SCDG under `pair_scores.SCDG`.
        settings: of ``profile``: its windows, where it has such, are a row that the paper has not.
        profile: that of SCDG.
    """
    own = tables[SCDG]
    backend = f"SCDG & {profile.need_model().name}"
    ours = [average(f"{backend}, Average", own), sparse(f"{backend}, Top-q", own)]
    if windows := own_windows(settings):
        columns = {w: aggregate.name for w, aggregate in windows.items()}
        ours.append(with_parameter(f"{backend}, {settings.aggregation}", own, columns))
    names = names_of(baselines)
    rows = [
        _method(name, baseline.settings, tables[baseline.profile.name])
        for name, baseline in zip(names, baselines, strict=True)
    ]
    return {BASELINES: rows, OURS: ours}


def _method(name: str, settings: BaselineSettings, table: ScoreTable) -> Method:
    if isinstance(settings, CharNgrams):
        return with_parameter(name, table, {float(n): n_column(n) for n in settings.n_grid})
    if isinstance(settings, GramLogistic):
        return logistic(name, table, GRAM_OVERLAP)
    if isinstance(settings, Cosine | VectorCosine):
        return one_score(name, table, rule=official if settings.threshold is None else published(settings.threshold))
    return one_score(name, table)


def rule_in_words(settings: BaselineSettings) -> str:
    """How the threshold of a baseline comes about in the pair study."""
    if isinstance(settings, CharNgrams):
        return "n and threshold by training F1"
    if isinstance(settings, GramLogistic):
        return "fitted on training, threshold by training F1"
    if isinstance(settings, Cosine | VectorCosine):
        if settings.threshold is None:
            return "100 values on [0, 1], sensitivity + specificity on training"
        return f"published threshold {settings.threshold:g}"
    if isinstance(settings, Prompted):
        return "threshold on the label scores by training F1"
    return "threshold by training F1"


def topic_methods(
    baselines: Sequence[Baseline], pan25: Mapping[str, ScoreTable], news: Mapping[str, ScoreTable]
) -> dict[str, list[TopicMethod]]:
    """The rows of the same-topic study by group, in the paper's order; scores as in `pair_methods`."""
    rows = [
        TopicMethod(name, _features(b.settings), pan25[b.profile.name], news[b.profile.name])
        for name, b in zip(names_of(baselines), baselines, strict=True)
    ]
    return {LEXICAL: rows, STATISTICS: scdg_methods(pan25[SCDG], news[SCDG])}


def _features(settings: BaselineSettings) -> tuple[str, ...]:
    if isinstance(settings, GramLogistic):
        return GRAM_OVERLAP
    return (n_column(settings.n),) if isinstance(settings, CharNgrams) else ("score",)
