"""How often a method takes a shared topic for reuse (paper, Robustness to Same-Topic Confounding).

Training is the training part of PAN25 together with that of the news pairs, which count as negative. Logistic models
are fitted on it and every threshold is chosen on it; then both are frozen. What is measured on the test parts goes
into both of the paper's tables: precision, recall and F1 on PAN25, and the share of news pairs that are decided
positive. Nobody has verified that none of these is one of reuse, so that share is a proxy of a false-positive rate.

The paper calls its PAN25 split a fixed held-out one and does not say which of the twenty. We take the first: its seed,
20260714, is that of the division of the news pairs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pan_scdg.evaluation.logistic import LogisticFit, fit_logistic, probabilities
from pan_scdg.evaluation.pairs import pair_metrics
from pan_scdg.research.data.membership import TEST, TRAIN
from pan_scdg.research.data.pair_splits import PairSplit
from pan_scdg.research.pairs.pooled_threshold import PooledChoice, choose_pooled
from pan_scdg.research.pairs.score_table import AVERAGE, MEDIAN, POSITIVE_RATE, Flags, ScoreTable
from pan_scdg.scdg.arrays import Floats

GAIN_DISTRIBUTION = (AVERAGE, MEDIAN, POSITIVE_RATE)
"""Features of the gain-distribution model."""
GRAM_OVERLAP = ("jaccard", "target_containment", "source_containment")
"""Features of the 4-gram model, as `pan_scdg.baselines.token_grams` calls them."""


class TopicMethod(NamedTuple):
    """One row of the tables: a score, or with several features a logistic model of them."""

    name: str
    features: tuple[str, ...]
    """Columns of both tables."""
    pan25: ScoreTable
    news: ScoreTable


class TopicResult(NamedTuple):
    """What a method does on the two test parts."""

    method: str
    fit: LogisticFit | None
    """None where one column is the score."""
    choice: PooledChoice
    training: tuple[int, int]
    """Positive and negative pairs of the pooled training set."""
    precision: float
    recall: float
    f1: float
    """On the test part of PAN25; nan where undefined."""
    positive: int
    """News pairs of the test part that are decided positive, of ..."""
    news: int

    @property
    def positive_rate(self) -> float:
        """The proxy of a false-positive rate, from 0 to 1; nan where there are no news pairs."""
        return self.positive / self.news if self.news else math.nan


def scdg_methods(pan25: ScoreTable, news: ScoreTable) -> list[TopicMethod]:
    """The three rows of SCDG, from tables with the columns of `gain_columns`."""
    rows = {
        "Average SCDG": (AVERAGE,),
        "Positive-gain rate SCDG": (POSITIVE_RATE,),
        "Gain-distribution logistic": GAIN_DISTRIBUTION,
    }
    return [TopicMethod(name, features, pan25, news) for name, features in rows.items()]


def same_topic_study(
    methods: Sequence[TopicMethod], split: PairSplit, news_parts: Mapping[str, str]
) -> list[TopicResult]:
    """Every method, in order.

    Args:
        methods: rows of the tables.
        split: training and test part of PAN25.
        news_parts: ``train`` or ``test`` of each news pair, by id (see `pan_scdg.research.data.same_topic_pairs`).

    Raises:
        UserError: a pair has no score, a column is missing, or the training pairs have one class alone.
    """
    parts = {part: [pair for pair, of in news_parts.items() if of == part] for part in (TRAIN, TEST)}
    return [_result(method, split, parts) for method in methods]


def _result(method: TopicMethod, split: PairSplit, parts: Mapping[str, Sequence[str]]) -> TopicResult:
    own_features, own_labels = _part(method, method.pan25, split.train)
    topic_features, topic_labels = _part(method, method.news, parts[TRAIN])
    features, labels = np.concatenate([own_features, topic_features]), np.concatenate([own_labels, topic_labels])
    fit = fit_logistic(features, labels) if len(method.features) > 1 else None
    choice = choose_pooled(_scores(fit, features), labels, np.arange(len(labels)) < len(own_labels))

    test_features, test_labels = _part(method, method.pan25, split.test)
    scores = _scores(fit, test_features)
    measured = pair_metrics(test_labels, scores, scores >= choice.threshold)
    news_scores = _scores(fit, _part(method, method.news, parts[TEST])[0])
    return TopicResult(
        method.name,
        fit,
        choice,
        (int(labels.sum()), int((~labels).sum())),
        measured["precision"],
        measured["recall"],
        measured["f1"],
        int((news_scores >= choice.threshold).sum()),
        len(news_scores),
    )


def _part(method: TopicMethod, table: ScoreTable, ids: Sequence[str]) -> tuple[Floats, Flags]:
    """Features ``[ids, features]`` and labels ``[ids]``."""
    rows = table.rows(ids, method.name)
    return table.features(method.features)[rows], table.labels[rows]


def _scores(fit: LogisticFit | None, features: Floats) -> Floats:
    return features[:, 0] if fit is None else probabilities(fit, features)
