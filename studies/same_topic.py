"""``same-topic``: decisions on pairs with a shared topic (paper, Robustness to Same-Topic Confounding).

Methods are trained on both training parts: that of PAN25, and that of the news pairs, which count as negative.
Logistic models are fitted and every threshold is chosen on them; then both are frozen. The test parts give precision,
recall and F1 on PAN25, and the share of news pairs that are decided positive. Nobody has verified that none of these
is one of reuse, so that share is a proxy of a false-positive rate.

The paper calls its PAN25 split a fixed held-out one and does not say which of the twenty. Ours is the first: its seed,
20260714, is that of the division of the news pairs.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import bootstrap_pairs, compute_pair_metrics
from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import Intervals
from pan_scdg.methods import MethodSettings
from pan_scdg.methods.bm25 import Bm25PairSettings
from pan_scdg.methods.containment import ContainmentSettings
from pan_scdg.methods.gains import GainSettings
from pan_scdg.methods.logistic import TOLERANCE, LogisticWeights
from pan_scdg.scdg.thresholds import choose_threshold, require_both_classes
from studies import beside
from studies.beside import Counts, OwnRow, compare, list_hyperparameters, read_texts, warn_about_counts
from studies.pairs import NO_PARAMETER, THRESHOLDS, Method, compute_scores, count_parts, name_results, vary_gains
from studies.results import (
    MANIFEST,
    Flags,
    Floats,
    Names,
    Numbers,
    PairScores,
    Result,
    describe_scorers,
    read_manifest,
    read_scores,
    read_values,
    warn_about_inputs,
)
from studies.splits import Split, count_classes, read_split, read_splits
from studies.tables import Percent, Row, Section, Table, check_output, name_missing, write_report

LEXICAL, STATISTICS = "Lexical and retrieval baselines", "SCDG statistics and auxiliary calibrators"
GAIN_ROWS = {
    "Average SCDG": "mean",
    "Positive-gain rate SCDG": "positive-rate",
    "Gain-distribution logistic": "gain-logistic",
}
"""The aggregations of the rows of SCDG."""
PROXY, TRADE_OFF, NEWS_COUNTS = "tab:pan25_multinews", "tab:supp-pan25-multinews-tradeoff", "tab:supp-multinews-split"
"""Labels in the paper."""


class Pool(NamedTuple):
    """The pairs of PAN25, then those of the news."""

    labels: Flags
    is_pan25: Flags
    training: Numbers
    test: Numbers


class PooledChoice(NamedTuple):
    """A pair is positive if its score is at least ``threshold``; measures on all training pairs, one on PAN25."""

    threshold: float
    f1: float
    pan25_f1: float
    accuracy: float


class TopicResult(NamedTuple):
    """The results of a method on the two test parts."""

    method: Method
    settings: MethodSettings
    """With the fitted weights of a logistic model."""
    choice: PooledChoice
    measures: Mapping[str, float]
    """On the test part of PAN25; nan if undefined."""
    intervals: Intervals
    """Of the measures, over resampled pairs."""
    positive: int
    """News pairs of the test part that are decided positive, of ..."""
    news: int

    @property
    def positive_rate(self) -> float:
        """Return the proxy of a false-positive rate, from 0 to 1; nan without news pairs."""
        return self.positive / self.news if self.news else float("nan")

    @property
    def rate_interval(self) -> Estimate:
        """Return the rate with its exact binomial (Clopper-Pearson) 95 % interval."""
        from scipy.stats import binomtest

        if not self.news:
            return Estimate(*[float("nan")] * 3)
        return Estimate(self.positive_rate, *map(float, binomtest(self.positive, self.news).proportion_ci()))


def choose_pooled(scores: Floats, labels: Flags, is_pan25: Flags) -> PooledChoice:
    """Return the threshold with the largest pooled F1 (paper, Hyperparameter Selection).

    Ties are broken by F1 on PAN25, then pooled accuracy, then the higher threshold. Candidates are the unique scores of
    all pairs. Both F1 are quotients of whole numbers, rounded correctly, so that equal ones are equal floats (see
    `pan_scdg.scdg.thresholds`); accuracy is compared as a count. Raises UserError if all pairs have the same label.
    """
    require_both_classes(labels, "choose a threshold on")
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    hits, flagged = np.cumsum(labels[order])[last], last + 1
    own_hits, own_flagged = np.cumsum((labels & is_pan25)[order])[last], np.cumsum(is_pan25[order])[last]
    f1 = 2 * hits / (flagged + labels.sum())
    # at high thresholds there may be nothing of PAN25 yet, and at none if it has no positive pair
    own_f1 = 2 * own_hits / np.maximum(own_flagged + (labels & is_pan25).sum(), 1)
    correct = hits + (~labels).sum() - (flagged - hits)
    at = np.lexsort((ranked[last], correct, own_f1, f1))[-1]
    return PooledChoice(float(ranked[last][at]), float(f1[at]), float(own_f1[at]), float(correct[at]) / len(labels))


def make_pool(pan25: PairScores, news: PairScores, pan25_split: Split, news_split: Split) -> Pool:
    """Return the labels and parts of both sets together."""
    count = len(pan25.pairs)
    training, test = (
        np.concatenate([pan25.select(own), count + news.select(other)])
        for own, other in ((pan25_split.train, news_split.train), (pan25_split.test, news_split.test))
    )
    labels = np.concatenate([pan25.labels, news.labels])
    return Pool(labels, np.arange(len(labels)) < count, training, test)


def evaluate_topic(method: Method, pool: Pool) -> TopicResult:
    """Return the results of one method; raises UserError if the training pairs have one class alone."""
    training, own = pool.training, pool.test[pool.is_pan25[pool.test]]
    values, labels = [method.values[i] for i in training], pool.labels[training]
    settings = method.variants[NO_PARAMETER].fit(values, labels.tolist())
    scores = compute_scores(settings, method.values)
    choice = choose_pooled(scores[training], labels, pool.is_pan25[training])
    decided = scores >= choice.threshold
    of_pan25 = (pool.labels[own], scores[own], decided[own])
    measures, intervals = compute_pair_metrics(*of_pan25), bootstrap_pairs(*of_pan25)
    news = decided[pool.test[~pool.is_pan25[pool.test]]]
    return TopicResult(method, settings, choice, measures, intervals, int(news.sum()), len(news))


def list_topic_methods(results: Sequence[tuple[Result, Result]], pan25: PairScores, news: PairScores) -> list[Method]:
    """Return the rows on the pooled pairs in the order of the results (on PAN25 and news), those of SCDG last."""
    lexical, statistics = [], []
    several = sum(own.profile.gains is not None for own, _ in results) > 1
    for name, (own, other) in zip(name_results([own for own, _ in results]), results, strict=True):
        settings = own.profile.method_settings
        values = [*pan25.values[own.folder], *news.values[other.folder]]
        if not isinstance(settings, GainSettings):
            lexical.append(Method(name, LEXICAL, values, {NO_PARAMETER: settings}))
            continue
        for row, aggregation in GAIN_ROWS.items():
            title = f"{row}, {name}" if several else row
            statistics.append(Method(title, STATISTICS, values, {NO_PARAMETER: vary_gains(settings, aggregation)}))
    return [*lexical, *statistics]


def match_results(
    results: Sequence[Result], pan25: Collection[Names], news: Collection[Names]
) -> list[tuple[Result, Result]]:
    """Return the results on PAN25 and on the news of each profile, told apart by their pairs."""
    sides: dict[str, dict[str, Result]] = {}
    for result in results:
        names = read_values(result.folder).keys()
        side = next(
            (side for side, members in (("pan25", pan25), ("multinews", news)) if not names.isdisjoint(members)), None
        )
        if side is None:
            what, remedy = "has no pair of pan25/ or multinews/", "give results of the folders that `prepare` wrote"
            raise UserError(what, remedy, result.folder)
        if sides.setdefault(result.profile.name, {}).setdefault(side, result) is not result:
            raise UserError(
                f"is another result of the profile {result.profile.name} on {side}", "leave one out", result.folder
            )
    for name, own in sides.items():
        if missing := {"pan25", "multinews"} - own.keys():
            raise UserError(f"the profile {name} has no result on {missing.pop()}", "run it on both folders")
        if own["pan25"].job.models != own["multinews"].job.models:
            raise UserError(f"the two results of the profile {name} have different models", "run both with one model")
    return [(own["pan25"], own["multinews"]) for own in sides.values()]


def study_same_topic(
    prepared: Path, results: Sequence[Result], missing: Sequence[str], output: Path, overwrite: bool
) -> None:
    """Write the report of the study; for the arguments and errors see `pairs.study_pairs`.

    The results are those of ``run`` on ``pan25`` and on ``multinews``, two for each method, in any order.
    """
    check_output(output, overwrite)
    own, topic = prepared / "pan25", prepared / "multinews"
    manifest, news_manifest = read_manifest(own / MANIFEST), read_manifest(topic / MANIFEST)
    matched = match_results(results, {p.names for p in manifest}, {p.names for p in news_manifest})
    pan25 = read_scores([result for result, _ in matched], manifest)
    news = read_scores([result for _, result in matched], news_manifest)
    split = read_splits(own / "splits", manifest)[0]
    news_split = read_split(topic / "split.csv", news_manifest)
    pool = make_pool(pan25, news, split, news_split)
    outcomes = [evaluate_topic(method, pool) for method in list_topic_methods(matched, pan25, news)]
    classes: list[Row] = [
        {"Data": name, **count_classes(scores.pairs)} for name, scores in (("PAN25", pan25), ("News", news))
    ]
    deviations = [
        "Nobody has verified that no news pair is one of reuse: its rate is a proxy of a false-positive rate.",
        f"The paper calls its PAN25 split a fixed held-out one and does not name it; this is {split.name}, the first.",
        "Statistics of BM25 are over the sources of PAN25 for its pairs, and over those of the news pairs for these.",
        "The solver of the logistic models is scikit-learn's, with the paper's objective; its tolerance is "
        f"{TOLERANCE:g}, for the paper's 1e-09 would not always reach the optimum to eight digits with it.",
        *describe_scorers(
            (place, one.job) for both in matched for place, one in zip(("PAN25", "News"), both, strict=True)
        ),
        *pan25.describe_missing("PAN25"),
        *news.describe_missing("the news"),
    ]
    kept = {pair.pair_id for pair in news.pairs}
    parts = {"Training": news_split.train, "Test": news_split.test, "All": kept}
    pairs = {name: {"Pairs": len(kept.intersection(ids))} for name, ids in parts.items()}
    counts = [count_parts(pan25, split), Counts(NEWS_COUNTS, pairs)]
    tables = [
        Table("pairs", "Pairs that were scored", classes),
        *make_tables(outcomes, missing),
        *beside.make_tables(compare_outcomes(outcomes, counts)),
        Table("hyperparameters", "Hyperparameters, with the paper's choice", list_chosen(outcomes, pool)),
    ]
    warnings = [line for part in zip(*matched, strict=True) for line in warn_about_inputs(part)]
    sections = [
        Section("Results", [*warn_about_counts(counts), *warnings], tables),
        Section("Deviations from the paper", deviations),
    ]
    sources = {"results": [result.describe() for result in results], "split": split.name}
    write_report(output, "Same-topic stress test", sections, sources)


def compare_outcomes(outcomes: Sequence[TopicResult], counts: Sequence[Counts]) -> list[Row]:
    """Return the figures of both tables beside the paper's."""
    proxies, utilities = [], []
    for outcome in outcomes:
        name = outcome.method.name
        row = name.partition(", ")[0]  # of several language models, each is compared
        proxies.append(OwnRow(name, {"Proxy FPR": outcome.rate_interval}, row))
        headings = {"Prec.": "precision", "Rec.": "recall", "F1": "f1"}
        measures = {h: Estimate(outcome.measures[m], *outcome.intervals[m]) for h, m in headings.items()}
        utilities.append(OwnRow(name, {**measures, "Pos. rate": outcome.rate_interval}, row))
    return [*compare(PROXY, proxies, counts), *compare(TRADE_OFF, utilities, counts)]


def list_chosen(outcomes: Sequence[TopicResult], pool: Pool) -> list[Row]:
    """Return the thresholds that the paper names: of two methods on training pairs of PAN25, pooled ones of models.

    The paper does not say on which of its twenty training parts it chose the two; this is the one of these tables.
    """
    own = pool.training[pool.is_pan25[pool.training]]
    chosen = {}
    for outcome in outcomes:
        kind, name = type(outcome.settings).__name__, outcome.method.name
        if isinstance(outcome.settings, Bm25PairSettings | ContainmentSettings):
            scores = compute_scores(outcome.settings, outcome.method.values)[own]
            chosen[THRESHOLDS[kind]] = f"{choose_threshold({NO_PARAMETER: scores}, pool.labels[own]).threshold:.10g}"
        elif f"{name}: Pooled threshold" in read_texts():
            chosen[f"{name}: Pooled threshold"] = f"{outcome.choice.threshold:.17g}"
    return list_hyperparameters(chosen)


def make_tables(outcomes: Sequence[TopicResult], missing: Sequence[str] = ()) -> list[Table]:
    """Return the paper's two tables, the chosen thresholds, and the coefficients of standardised features.

    ``missing`` are names of rows without a result.
    """
    proxies: list[Row] = []
    utilities: list[Row] = []
    thresholds: list[Row] = []
    models: list[Row] = []
    for outcome in outcomes:
        name, rate, m = outcome.method.name, Percent(outcome.positive_rate), outcome.measures
        proxies.append({"Method": name, "Proxy FPR": rate, "Positive": outcome.positive, "News pairs": outcome.news})
        utility = {"Prec.": m["precision"], "Rec.": m["recall"], "F1": m["f1"]}
        utilities.append({"Method": name, **utility, "Pos. rate": rate})
        names = ("Threshold", "Pooled F1", "PAN25 F1", "Accuracy")
        thresholds.append({"Method": name, **dict(zip(names, outcome.choice, strict=True))})
        weights: LogisticWeights | None = getattr(outcome.settings, "weights", None)
        if weights is not None:
            models.append({"Method": name, "Feature": "intercept", "Coefficient": weights.intercept})
            models += [
                {"Method": name, "Feature": feature, "Coefficient": value, "Mean": mean, "Standard deviation": scale}
                for feature, value, mean, scale in zip(
                    outcome.settings.features, weights.coefficients, weights.mean, weights.scale, strict=True
                )
            ]
    groups = [outcome.method.group for outcome in outcomes]
    better = {"Prec.": max, "Rec.": max, "F1": max, "Pos. rate": min}
    caption = "PAN25 utility and positive decisions on the news pairs, both on the test parts"
    rates = "Proxy false-positive rates on the test part of the news"
    return [
        name_missing(Table("proxy-fpr", rates, proxies, {"Proxy FPR": min}, groups), missing),
        name_missing(Table("trade-off", caption, utilities, better, groups), missing),
        Table("thresholds", "Choices on the pooled training pairs", thresholds, groups=groups),
        Table("logistic-models", "The logistic models", models, on_page=False),
    ]
