"""The pair study against the paper's rule written out, scikit-learn, and values worked out by hand."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods.cosine import choose_officially
from pan_scdg.errors import UserError
from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from studies.data.splits import PairSplit
from studies.pairs.scores import make_score_table
from studies.pairs.split_study import NO_PARAMETER, Method, evaluate_splits, make_median_table

Floats = npt.NDArray[np.float64]


class ScoreTable(NamedTuple):
    ids: tuple[str, ...]
    labels: npt.NDArray[np.bool_]
    columns: dict[str, Floats]

    def rows(self, ids: Sequence[str]) -> list[int]:
        return [self.ids.index(pair_id) for pair_id in ids]

    def method(self, name: str, columns: dict[float, str] | None = None, **more: Any) -> Method:
        """A method of these scores; by default the column ``score``."""
        table = make_score_table(self.ids, self.labels, self.columns)
        return Method(name, "", table, {NO_PARAMETER: "score"} if columns is None else columns, **more)


def study(methods: Sequence[Method], splits: Sequence[PairSplit]) -> list[dict[str, Any]]:
    return evaluate_splits(methods, splits).to_dict("records")


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
    training = table.labels[table.rows(split.train)]
    if training.all() or not training.any():
        return
    (found,) = study([table.method("SCDG", columns)], [split])
    parameter, threshold = literal_choice(table, columns, split.train)
    assert (found["parameter"], found["threshold"]) == (parameter, threshold)
    rows = table.rows(split.test)
    truth, scores = table.labels[rows], table.columns[columns[parameter]][rows]
    decided = scores >= threshold
    if truth.any() and not truth.all():
        assert found["f1"] == pytest.approx(sk.f1_score(truth, decided))
        assert found["mcc"] == pytest.approx(sk.matthews_corrcoef(truth, decided))
        assert found["auroc"] == pytest.approx(sk.roc_auc_score(truth, scores))
        assert found["average_precision"] == pytest.approx(sk.average_precision_score(truth, scores))
        assert found["fpr"] == pytest.approx(1 - sk.recall_score(truth, decided, pos_label=0))


def test_larger_parameter_wins_where_all_else_is_equal() -> None:
    table = drawn(40, ("a",))
    (found,) = study([table.method("grams", {8: "a", 50: "a", 16: "a"})], [halves(table, 1)])
    assert found["parameter"] == 50


def test_rows_are_methods_by_splits_in_their_order() -> None:
    table = drawn(60, ("mean", "score"))
    splits = [halves(table, seed, f"s{seed}") for seed in (1, 2)]
    results = study([table.method("Average", {NO_PARAMETER: "mean"}), table.method("BM25")], splits)
    rows = [(r["method"], r["split"]) for r in results]
    assert rows == [("Average", "s1"), ("Average", "s2"), ("BM25", "s1"), ("BM25", "s2")]
    alone = study([table.method("BM25")], splits[1:])[0]
    assert {k: v for k, v in results[3].items() if k != "parameter"} == {
        k: v for k, v in alone.items() if k != "parameter"
    }
    assert math.isnan(results[3]["parameter"])


def test_a_published_threshold_is_taken_as_it_is() -> None:
    table = drawn(60, ("score",))
    split = halves(table, 3)
    (found,) = study([table.method("Linq", rule=partial(choose_officially, published=0.697))], [split])
    truth = table.labels[table.rows(split.train)]
    decided = table.columns["score"][table.rows(split.train)] >= 0.697
    assert found["threshold"] == 0.697
    assert found["training_f1"] == pytest.approx(sk.f1_score(truth, decided))
    assert found["training_accuracy"] == np.mean(truth == decided)
    (none,) = study([table.method("high", rule=partial(choose_officially, published=99.0))], [split])
    assert (none["training_f1"], none["recall"], none["mcc"]) == (0.0, 0.0, 0.0)
    assert math.isnan(none["precision"])


def test_the_official_rule_looks_at_sensitivity_and_specificity() -> None:
    """At 50/99 to 90/99 all four are right; of the 100 values the first is taken."""
    ids = ("a", "b", "c", "d")
    table = ScoreTable((*ids, "t"), np.array([1, 1, 0, 0, 1], bool), {"score": np.array([0.95, 0.91, 0.5, 0.2, 0.6])})
    (found,) = study([table.method("cosine", rule=choose_officially)], [PairSplit("s", ids, ("t",))])
    assert (found["threshold"], found["training_f1"], found["training_accuracy"]) == (50 / 99, 1.0, 1.0)
    assert found["recall"] == 1.0


def test_a_logistic_method_is_fitted_on_the_training_part_alone() -> None:
    names = ("jaccard", "target_containment")
    table = drawn(80, names)
    split = halves(table, 5)
    (found,) = study([table.method("4-gram logistic", {}, features=names)], [split])
    values, rows = np.column_stack(list(table.columns.values())), table.rows(split.train)
    scores = compute_probabilities(fit_logistic(values[rows], table.labels[rows]), values)
    by_hand = ScoreTable(table.ids, table.labels, {"score": scores})
    expected = study([by_hand.method("4-gram logistic")], [split])[0]
    assert math.isnan(found.pop("parameter"))
    del expected["parameter"]
    assert found == expected


def test_medians_are_taken_measure_by_measure_where_it_is_defined() -> None:
    names = ("precision", "recall", "f1", "fpr", "balanced_accuracy", "mcc", "auroc", "average_precision")
    rows = [
        {"method": method, "group": "g", **dict.fromkeys(names, math.nan), "f1": f1, "precision": precision}
        for method, f1, precision in (("b", 0.9, 0.1), ("b", 0.5, math.nan), ("b", 0.7, 0.3), ("a", 0.2, 0.4))
    ]
    table = make_median_table(pandas.DataFrame(rows)).rows
    assert list(table["Method"]) == ["b", "a"]
    assert (table["F1"][0], table["Prec."][0]) == (0.7, pytest.approx(0.2))
    assert math.isnan(table["MCC"][0])


def test_decisions_that_are_all_alike_have_no_correlation() -> None:
    """The paper has 0.0000 for the judge that calls every pair positive."""
    table = ScoreTable(tuple("abcdef"), np.array([1, 1, 0, 1, 0, 1], bool), {"score": np.full(6, 0.8)})
    (found,) = study([table.method("judge")], [PairSplit("s", ("a", "b", "c"), ("d", "e", "f"))])
    assert (found["recall"], found["fpr"], found["mcc"]) == (1.0, 1.0, 0.0)


def test_one_class_in_training_is_the_users_error() -> None:
    table = ScoreTable(("a", "b", "c"), np.array([True, True, False]), {"score": np.arange(3.0)})
    with pytest.raises(UserError, match="no negative pair"):
        study([table.method("BM25")], [PairSplit("s", ("a", "b"), ("c",))])
