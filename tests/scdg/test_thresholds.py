"""The choice of a threshold, by hand and restated in fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.scdg.thresholds import Choice, choose_threshold


def labels(text: str) -> np.ndarray:
    return np.array([c == "+" for c in text])


@pytest.mark.parametrize(
    ("scores_by", "truth", "choice"),
    [
        ({2: [0.9, 0.4, 0.1, 0.3]}, "++--", (2.0, 0.4, 1.0, 1.0)),
        # thresholds .9 .8 .7 .6: TP 1 1 2 2, FP 0 1 1 2, so F1 2/3, 1/2, 4/5, 2/3
        ({5: [0.9, 0.8, 0.7, 0.6]}, "+-+-", (5.0, 0.7, 0.8, 0.75)),
        # equal F1, decided by accuracy: one of 2 with no false one (4 of 5 right), or both with two false ones
        ({1: [9.0, 1.0, 0.0, 2.0, 3.0], 50: [5.0, 4.0, 9.0, 8.0, 1.0]}, "++---", (1.0, 9.0, 2 / 3, 0.8)),
        ({1: [4.0, 1.0, 3.0, 2.0, 0.5]}, "++---", (1.0, 4.0, 2 / 3, 0.8)),
        ({1: [2.0, 1.0], 10: [7.0, 6.0], 2: [2.0, 1.0]}, "+-", (10.0, 7.0, 1.0, 1.0)),
        ({1: [1.0, 1.0, 0.0]}, "++-", (1.0, 1.0, 1.0, 1.0)),
        ({1: [1.0, 1.0, 1.0]}, "+--", (1.0, 1.0, 0.5, 1 / 3)),
    ],
)
def test_choices_by_hand(scores_by: dict[float, list[float]], truth: str, choice: tuple[float, ...]) -> None:
    found = choose_threshold({q: np.array(scores) for q, scores in scores_by.items()}, labels(truth))
    assert found == Choice(*choice)


@pytest.mark.parametrize(("text", "missing"), [("++", "negative"), ("--", "positive"), ("", "positive")])
def test_one_class_alone_is_an_error(text: str, missing: str) -> None:
    with pytest.raises(UserError, match=f"no {missing} pair"):
        choose_threshold({1: np.arange(float(len(text)))}, labels(text))


@pytest.mark.parametrize("scores", [{}, {1: np.array([1.0])}, {1: np.array([1.0, np.nan])}])
def test_scores_that_do_not_fit_the_labels_are_an_error(scores: dict[float, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"scores of|one parameter or more"):
        choose_threshold(scores, labels("+-"))


def brute_force(scores_by_q: dict[float, list[int]], truth: list[bool]) -> tuple[Fraction, Fraction, float, float]:
    candidates = []
    for q, scores in scores_by_q.items():
        for threshold in set(scores):
            flagged = [s >= threshold for s in scores]
            hits = sum(f and t for f, t in zip(flagged, truth))
            f1 = Fraction(2 * hits, sum(flagged) + sum(truth))
            accuracy = Fraction(sum(f == t for f, t in zip(flagged, truth)), len(truth))
            candidates.append((f1, accuracy, q, float(threshold)))
    return max(candidates)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), n=st.integers(2, 25))
def test_rule_restated_in_fractions(data: st.DataObject, n: int) -> None:
    """Few different scores, so that ties are common."""
    truth = data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda t: len(set(t)) == 2))
    row = st.lists(st.integers(0, 6), min_size=n, max_size=n)
    scores = {q: data.draw(row) for q in data.draw(st.sets(st.sampled_from([1.0, 2.0, 5.0, 50.0]), min_size=1))}
    f1, accuracy, q, threshold = brute_force(scores, truth)
    found = choose_threshold({q: np.array(s, dtype=float) for q, s in scores.items()}, np.array(truth))
    assert found == Choice(q, threshold, float(f1), float(accuracy))


def test_a_limit_on_false_positives_by_hand() -> None:
    scores, labels = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]), np.array([1, 0, 1, 1, 0, 0, 0], dtype=bool)
    assert choose_threshold({2.0: scores}, labels).threshold == 0.6  # F1 6/7 with one of four negatives
    assert choose_threshold({2.0: scores}, labels, 0.25).threshold == 0.6
    limited = choose_threshold({2.0: scores}, labels, 0.24)
    assert (limited.threshold, limited.f1) == (0.9, 0.5)


def test_a_share_of_the_negatives_that_is_a_whole_number_permits_that_number() -> None:
    """In floating point 0.29 * 100 is 28.999999999999996."""
    scores = np.append(np.linspace(1.0, 0.01, 100), 0.715)  # 29 negatives score more than the positive pair
    labels = np.append(np.zeros(100, dtype=bool), True)
    assert int(0.29 * 100) == 28
    assert choose_threshold({2.0: scores}, labels, 0.29).threshold == 0.715
    assert choose_threshold({2.0: scores}, labels, 0.28).threshold > 0.715


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=40),
    st.sampled_from([0.0, 0.05, 0.1, 0.34, 0.5, 1.0]),
)
def test_a_limit_on_false_positives_against_every_threshold(pairs: list[tuple[int, bool]], limit: float) -> None:
    scores, labels = np.array([p[0] for p in pairs], dtype=float), np.array([p[1] for p in pairs])
    assume(labels.any() and not labels.all())
    rates = {t: float(np.mean(scores[~labels] >= t)) for t in set(scores.tolist())}
    f1 = {t: 2 * np.sum((scores >= t) & labels) / (np.sum(scores >= t) + np.sum(labels)) for t in rates}
    allowed = [t for t in rates if rates[t] <= limit + 1e-12]
    if not allowed:
        with pytest.raises(UserError, match="max_false_positives"):
            choose_threshold({2.0: scores}, labels, limit)
        return
    assert choose_threshold({2.0: scores}, labels, limit).f1 == pytest.approx(max(f1[t] for t in allowed))
