"""The same-topic study against its rule tried out threshold by threshold, scikit-learn, and values by hand."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from pan_scdg.errors import UserError
from studies.data.splits import PairSplit
from studies.pairs.same_topic import (
    SCDG_ROWS,
    TopicMethod,
    choose_pooled,
    evaluate_topic,
    list_topic_methods,
)
from studies.pairs.scores import make_score_table

GAIN_DISTRIBUTION = SCDG_ROWS["Gain-distribution logistic"]


def f1(decided: list[bool], truth: list[bool]) -> Fraction:
    hits = sum(d and t for d, t in zip(decided, truth))
    return Fraction(2 * hits, max(1, sum(decided) + sum(truth)))


def literal(scores: list[float], labels: list[bool], own: list[bool]) -> float:
    """Every unique score, judged in exact arithmetic."""

    def quality(threshold: float) -> tuple[Fraction, Fraction, int, float]:
        decided = [s >= threshold for s in scores]
        at_home = [i for i, o in enumerate(own) if o]
        own_f1 = f1([decided[i] for i in at_home], [labels[i] for i in at_home])
        return f1(decided, labels), own_f1, sum(d == t for d, t in zip(decided, labels)), threshold

    return max(set(scores), key=quality)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.booleans()), min_size=2, max_size=25))
def test_the_threshold_of_the_literal_rule(rows: list[tuple[int, bool, bool]]) -> None:
    scores, labels, own = (list(column) for column in zip(*rows))
    assume(len(set(labels)) == 2)
    found = choose_pooled(np.array(scores, float), np.array(labels), np.array(own))
    assert found.threshold == literal(scores, labels, own)
    decided = np.array(scores) >= found.threshold
    assert found.f1 == pytest.approx(sk.f1_score(labels, decided))
    assert found.accuracy == pytest.approx(sk.accuracy_score(labels, decided))


def test_equal_pooled_f1_is_decided_by_f1_on_pan25() -> None:
    """At 3: 2 of 4 found and nothing else, F1 4/6; at 1: all found with four news pairs, F1 8/12, on PAN25 alone 1."""
    scores = np.array([4.0, 3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    labels, own = np.arange(8) < 4, np.arange(8) < 4
    assert choose_pooled(scores, labels, own) == (1.0, 2 / 3, 1.0, 0.5)
    assert choose_pooled(scores, labels, ~own).threshold == 3.0


@pytest.mark.parametrize(("label", "missing"), [(True, "negative"), (False, "positive")])
def test_one_class_is_the_users_error(label: bool, missing: str) -> None:
    with pytest.raises(UserError, match=f"no {missing} pair"):
        choose_pooled(np.arange(3.0), np.full(3, label), np.ones(3, bool))


def drawn(prefix: str, pairs: int, seed: int, news: bool) -> Any:
    """Statistics of gains: news pairs have a large mean from few tokens, pairs of reuse gain on most tokens."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(pairs, bool) if news else rng.random(pairs) < 0.7
    columns = {
        "mean": rng.normal(size=pairs) * 0.3 + labels + 0.8 * news,
        "median": rng.normal(size=pairs) * 0.3 + labels * 0.5,
        "positive_gain_rate": 0.4 + rng.random(pairs) * 0.2 + 0.2 * labels,
    }
    return make_score_table([f"{prefix}{i}" for i in range(pairs)], labels, columns)


PAN25, NEWS = drawn("p", 120, 1, news=False), drawn("n", 100, 2, news=True)
SPLIT = PairSplit("s", tuple(PAN25.index[:90]), tuple(PAN25.index[90:]))
PARTS = {pair: "test" if i % 5 == 0 else "train" for i, pair in enumerate(NEWS.index)}


def test_a_logistic_row_as_written_out() -> None:
    result = evaluate_topic(TopicMethod("gains", "", GAIN_DISTRIBUTION, PAN25, NEWS), SPLIT, PARTS)
    news_training = [i for i, pair in enumerate(NEWS.index) if PARTS[pair] == "train"]
    values, news = (np.column_stack([t[c] for c in GAIN_DISTRIBUTION]) for t in (PAN25, NEWS))
    pooled = np.concatenate([values[:90], news[news_training]])
    truth = np.concatenate([PAN25["doc_label"].to_numpy()[:90], np.zeros(80, bool)])
    deviation = pooled.std(axis=0)
    model = LogisticRegression(C=1.0, tol=1e-12).fit((pooled - pooled.mean(axis=0)) / deviation, truth)

    def probability(x: np.ndarray) -> list[float]:
        return model.predict_proba((x - pooled.mean(axis=0)) / deviation)[:, 1].tolist()

    assert result.fit is not None
    np.testing.assert_allclose(result.fit.coefficients, model.coef_[0], atol=1e-4)
    threshold = literal(probability(pooled), truth.tolist(), [True] * 90 + [False] * 80)
    assert result.choice.threshold == pytest.approx(threshold, abs=1e-4)
    decided = np.array(probability(values[90:])) >= threshold
    assert result.precision == pytest.approx(sk.precision_score(PAN25["doc_label"].to_numpy()[90:], decided))
    assert result.recall == pytest.approx(sk.recall_score(PAN25["doc_label"].to_numpy()[90:], decided))
    assert result.f1 == pytest.approx(sk.f1_score(PAN25["doc_label"].to_numpy()[90:], decided))
    news_test = [i for i in range(100) if i not in news_training]
    assert result.positive == sum(p >= threshold for p in probability(news[news_test]))
    assert (result.news, result.training) == (20, (int(truth.sum()), 170 - int(truth.sum())))


def test_the_rows_of_scdg_tell_topic_from_reuse_as_planted() -> None:
    methods = list_topic_methods([], {"scdg": PAN25}, {"scdg": NEWS})
    mean, rate, model = (evaluate_topic(method, SPLIT, PARTS) for method in methods)
    assert [r.method.name for r in (mean, rate, model)] == [
        "Average SCDG",
        "Positive-gain rate SCDG",
        "Gain-distribution logistic",
    ]
    assert mean.fit is None
    assert mean.positive_rate > 0.3 > 0.1 >= model.positive_rate
    assert rate.choice.threshold in set(PAN25["positive_gain_rate"])


def test_another_table_for_another_method() -> None:
    pan25 = make_score_table(PAN25.index, PAN25["doc_label"], {"score": PAN25["doc_label"].to_numpy(float)})
    news = make_score_table(NEWS.index, NEWS["doc_label"], {"score": np.zeros(100)})
    result = evaluate_topic(TopicMethod("BM25 pair score", "", ("score",), pan25, news), SPLIT, PARTS)
    assert (result.precision, result.recall, result.f1, result.positive_rate) == (1.0, 1.0, 1.0, 0.0)
    assert result.choice == (1.0, 1.0, 1.0, 1.0)
