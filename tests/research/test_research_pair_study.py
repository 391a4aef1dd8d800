"""The pair study against the paper's rule written out, scikit-learn, and values worked out by hand."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.evaluation.logistic import fit_logistic, probabilities
from pan_scdg.research.data.pair_splits import PairSplit
from pan_scdg.research.pairs.pair_study import (
    SplitResult,
    average,
    logistic,
    official,
    one_score,
    pair_study,
    published,
    sparse,
    summaries,
    with_parameter,
)
from pan_scdg.research.pairs.score_table import ScoreTable

Floats = npt.NDArray[np.float64]


def drawn(pairs: int, columns: Sequence[str], seed: int = 0) -> ScoreTable:
    """Scores with few distinct values, so that there are ties of every kind."""
    rng = np.random.default_rng(seed)
    labels = rng.random(pairs) < 0.6
    scores = {name: np.round(rng.normal(size=pairs) + labels, 1) for name in columns}
    return ScoreTable(tuple(f"p{i}" for i in range(pairs)), labels, scores)


def halves(table: ScoreTable, seed: int, name: str = "s") -> PairSplit:
    ids = np.random.default_rng(seed).permutation(table.ids).tolist()
    return PairSplit(name, tuple(ids[: len(ids) // 2]), tuple(ids[len(ids) // 2 :]))


def literal_choice(table: ScoreTable, columns: dict[float, str], training: Sequence[str]) -> tuple[float, float]:
    """F1, then accuracy, then larger q, then higher threshold, by trying everything with scikit-learn."""
    rows = [table.ids.index(pair) for pair in training]
    truth = table.labels[rows]
    tried = []
    for parameter, column in columns.items():
        scores = table.columns[column][rows]
        for threshold in set(scores.tolist()):
            decided = scores >= threshold
            quality = round(sk.f1_score(truth, decided), 12), round(sk.accuracy_score(truth, decided), 12)
            tried.append((*quality, parameter, threshold))
    return max(tried)[2:]


@settings(max_examples=30, deadline=None)
@given(pairs=st.integers(8, 40), seed=st.integers(0, 99))
def test_choice_and_measures_as_written_out(pairs: int, seed: int) -> None:
    columns = {2.0: "top_2", 10.0: "top_10", 50.0: "top_50"}
    table = drawn(pairs, tuple(columns.values()), seed)
    split = halves(table, seed)
    training = table.labels[table.rows(split.train, "")]
    if training.all() or not training.any():
        return
    (found,) = pair_study([sparse("SCDG", table, (2, 10, 50))], [split])
    parameter, threshold = literal_choice(table, columns, split.train)
    assert (found.choice.parameter, found.choice.threshold) == (parameter, threshold)
    rows = table.rows(split.test, "")
    truth, scores = table.labels[rows], table.columns[columns[parameter]][rows]
    decided = scores >= threshold
    if truth.any() and not truth.all():
        assert found.metrics["f1"] == pytest.approx(sk.f1_score(truth, decided))
        assert found.metrics["mcc"] == pytest.approx(sk.matthews_corrcoef(truth, decided))
        assert found.metrics["auroc"] == pytest.approx(sk.roc_auc_score(truth, scores))
        assert found.metrics["average_precision"] == pytest.approx(sk.average_precision_score(truth, scores))
        assert found.metrics["fpr"] == pytest.approx(1 - sk.recall_score(truth, decided, pos_label=0))


def test_larger_parameter_wins_where_all_else_is_equal() -> None:
    table = drawn(40, ("a",))
    (found,) = pair_study([with_parameter("grams", table, {8: "a", 50: "a", 16: "a"})], [halves(table, 1)])
    assert found.choice.parameter == 50


def test_rows_are_methods_by_splits_in_their_order() -> None:
    table = drawn(60, ("mean", "score"))
    splits = [halves(table, seed, f"s{seed}") for seed in (1, 2)]
    results = pair_study([average("Average", table), one_score("BM25", table)], splits)
    assert [(r.method, r.split) for r in results] == [
        ("Average", "s1"),
        ("Average", "s2"),
        ("BM25", "s1"),
        ("BM25", "s2"),
    ]
    assert results[3] == pair_study([one_score("BM25", table)], splits[1:])[0]


def test_a_published_threshold_is_taken_as_it_is() -> None:
    table = drawn(60, ("score",))
    split = halves(table, 3)
    (found,) = pair_study([one_score("Linq", table, rule=published(0.697))], [split])
    truth = table.labels[table.rows(split.train, "")]
    decided = table.columns["score"][table.rows(split.train, "")] >= 0.697
    assert found.choice == (0.0, 0.697, pytest.approx(sk.f1_score(truth, decided)), np.mean(truth == decided))
    (none,) = pair_study([one_score("high", table, rule=published(99.0))], [split])
    assert (none.choice.f1, none.metrics["recall"], none.metrics["mcc"]) == (0.0, 0.0, 0.0)
    assert math.isnan(none.metrics["precision"])


def test_the_official_rule_looks_at_sensitivity_and_specificity() -> None:
    """At 50/99 to 90/99 all four are right; of the 100 values the first is taken."""
    ids = ("a", "b", "c", "d")
    table = ScoreTable((*ids, "t"), np.array([1, 1, 0, 0, 1], bool), {"score": np.array([0.95, 0.91, 0.5, 0.2, 0.6])})
    (found,) = pair_study([one_score("cosine", table, rule=official)], [PairSplit("s", ids, ("t",))])
    assert found.choice == (0.0, 50 / 99, 1.0, 1.0)
    assert found.metrics["recall"] == 1.0


def test_a_logistic_method_is_fitted_on_the_training_part_alone() -> None:
    table = drawn(80, ("jaccard", "target_containment"))
    split = halves(table, 5)
    (found,) = pair_study([logistic("4-gram logistic", table, ("jaccard", "target_containment"))], [split])
    values, rows = np.column_stack(list(table.columns.values())), table.rows(split.train, "")
    scores = probabilities(fit_logistic(values[rows], table.labels[rows]), values)
    by_hand = ScoreTable(table.ids, table.labels, {"score": scores})
    assert found == pair_study([one_score("4-gram logistic", by_hand)], [split])[0]


def test_medians_are_taken_measure_by_measure_where_it_is_defined() -> None:
    def result(method: str, f1: float, precision: float) -> SplitResult:
        names = ("precision", "recall", "f1", "fpr", "balanced_accuracy", "mcc", "auroc", "average_precision")
        return SplitResult(
            method, "s", (0, 0, 0, 0), dict.fromkeys(names, math.nan) | {"f1": f1, "precision": precision}
        )

    rows = [result("b", 0.9, 0.1), result("b", 0.5, math.nan), result("b", 0.7, 0.3), result("a", 0.2, 0.4)]
    first, second = summaries(rows)
    assert (first.method, second.method) == ("b", "a")
    assert (first.medians["f1"], first.medians["precision"]) == (0.7, pytest.approx(0.2))
    assert (first.undefined["f1"], first.undefined["precision"], first.undefined["mcc"]) == (0, 1, 3)
    assert math.isnan(first.medians["mcc"])


def test_decisions_that_are_all_alike_have_no_correlation() -> None:
    """The paper has 0.0000 for the judge that calls every pair positive."""
    table = ScoreTable(tuple("abcdef"), np.array([1, 1, 0, 1, 0, 1], bool), {"score": np.full(6, 0.8)})
    (found,) = pair_study([one_score("judge", table)], [PairSplit("s", ("a", "b", "c"), ("d", "e", "f"))])
    assert (found.metrics["recall"], found.metrics["fpr"], found.metrics["mcc"]) == (1.0, 1.0, 0.0)


def test_a_split_of_other_pairs_is_one_clear_line() -> None:
    table = drawn(10, ("score",))
    with pytest.raises(UserError, match=r"BM25: 1 pairs have no scores, 'q9' first; score all pairs"):
        pair_study([one_score("BM25", table)], [PairSplit("s", table.ids, ("q9",))])
    with pytest.raises(UserError, match="no score 'mean'"):
        pair_study([average("Average", table)], [halves(table, 0)])


def test_one_class_in_training_is_the_users_error() -> None:
    table = ScoreTable(("a", "b", "c"), np.array([True, True, False]), {"score": np.arange(3.0)})
    with pytest.raises(UserError, match="no negative pair"):
        pair_study([one_score("BM25", table)], [PairSplit("s", ("a", "b"), ("c",))])


def test_mixed_up_arguments_are_an_error() -> None:
    table = drawn(10, ("score",))
    with pytest.raises(ValueError, match="both parts"):
        pair_study([one_score("BM25", table)], [PairSplit("s", table.ids, table.ids[:1])])
    with pytest.raises(ValueError, match="one name"):
        pair_study([one_score("BM25", table), one_score("BM25", table)], [])
