"""Tables of scores: written without loss, and the columns of SCDG."""

import gzip
from pathlib import Path

import numpy as np
import pandas

from pan_scdg.profile import PAPER_GRID
from studies.pairs.scores import list_statistics, make_score_table, write_scores
from pan_scdg.scdg.aggregation import Aggregate, compute_statistics


def test_numbers_are_written_with_all_digits(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=50) * 10.0 ** np.random.default_rng(1).integers(-300, 300, 50)
    path = tmp_path / "scores" / "x.jsonl.gz"
    write_scores(path, make_score_table([f"p{i}" for i in range(50)], values > 0, {"score": values}))
    found = pandas.read_json(path, lines=True, precise_float=True)
    assert [scores["score"] for scores in found["scores"]] == values.tolist()
    assert (found["doc_label"] == (values > 0)).all()
    assert [p.name for p in path.parent.iterdir()] == ["x.jsonl.gz"]


def test_a_line_holds_id_label_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    write_scores(path, make_score_table(["p0"], [True], {"mean": np.array([1.0]), "score": np.array([2.0])}))
    line = gzip.decompress(path.read_bytes()).decode()
    assert line == '{"pair_id": "p0", "doc_label": 1, "scores": {"mean": 1.0, "score": 2.0}}\n'


def test_the_columns_of_scdg() -> None:
    gains = [np.array([1.0, -2.0, 4.0, 0.0]), np.array([0.5, 0.25])]
    found = list_statistics([compute_statistics(g, [Aggregate("top", q) for q in PAPER_GRID], 0.0) for g in gains])
    assert list(found)[3:] == [f"top_{q:g}" for q in PAPER_GRID]
    assert {name: found[name].tolist() for name in ("mean", "median", "positive_gain_rate", "top_1", "top_50")} == {
        "mean": [0.75, 0.375],
        "median": [0.5, 0.375],
        "positive_gain_rate": [0.5, 1.0],
        "top_1": [4.0, 0.5],
        "top_50": [2.5, 0.5],
    }
