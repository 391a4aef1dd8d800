"""Results are evaluated alone, side by side with paired intervals, as JSON, and in plots."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pan_scdg.evaluation.pairs import DecidedPairs, bootstrap_pair_differences, compute_pair_metrics
from pan_scdg.evaluation.resampling import draw_resamples
from pan_scdg.evaluation.retrieval import bootstrap_query_differences
from tests.jobs.conftest import Outcome

EXAMPLES = Path(__file__).parents[2] / "examples"
PAIRS, RETRIEVAL = EXAMPLES / "pan25-pairs" / "test", EXAMPLES / "pan26-retrieval"
Cli = Callable[..., Outcome]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Results of two baselines on the example pairs."""
    from pan_scdg.cli import run_command

    folder = tmp_path_factory.mktemp("baselines")
    found = [folder / name for name in ("pan25-containment", "pan25-bm25")]
    for output in found:
        arguments = ["run", "--input", PAIRS, "--output", output, "--profile", output.name, "--no-metadata"]
        assert run_command([str(a) for a in arguments]) == 0
    return found


def _evaluate(cli: Cli, outputs: list[Path], *more: object, source: Path = PAIRS) -> Outcome:
    named = [word for output in outputs for word in ("--output", output)]
    return cli("evaluate", "--input", source, *named, *more)


def test_one_result_as_a_table_and_as_json(cli: Cli, outputs: list[Path]) -> None:
    table = _evaluate(cli, outputs[:1])
    assert table.code == 0, table.err
    assert table.out.startswith("24 pairs, 12 positive, ")
    printed = json.loads(_evaluate(cli, outputs[:1], "--json").out)
    assert printed["differences_from_first"] == []
    (record,) = printed["results"]
    assert record["output"] == str(outputs[0])
    assert record["notes"] == table.out.splitlines()[:1]
    f1 = record["measures"]["f1"]
    assert f"{f1['value']:.4f} [{f1['low']:.4f}, {f1['high']:.4f}]" in table.out
    assert "plagdet_score" in record["measures"]


def test_several_results_side_by_side(cli: Cli, outputs: list[Path]) -> None:
    shown = _evaluate(cli, [*outputs, outputs[0]])
    assert shown.code == 0, shown.err
    header = next(line for line in shown.out.splitlines() if line.startswith("measure"))
    assert [word for word in header.split() if word != "-"] == ["measure", "1", "2", "3", "2", "1", "3", "1"]
    record = json.loads(_evaluate(cli, [*outputs, outputs[0]], "--json").out)
    first, second, _ = (result["measures"] for result in record["results"])
    differences, same = record["differences_from_first"]
    assert differences["auroc"]["value"] == pytest.approx(second["auroc"]["value"] - first["auroc"]["value"])
    assert differences["auroc"]["low"] <= differences["auroc"]["value"] <= differences["auroc"]["high"]
    assert all(set(found.values()) == {0} for found in same.values()), "a result does not differ from itself"


def test_results_of_other_pairs_are_refused(cli: Cli, outputs: list[Path], tmp_path: Path) -> None:
    some = tmp_path / "some"
    done = cli("run", "--input", PAIRS, "--output", some, "--profile", "pan25-bm25", "--limit", 5)
    assert done.code == 0, done.err
    refused = _evaluate(cli, [outputs[0], some])
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith(f"error: {some}: has other pairs than ")


def test_plots_are_written(cli: Cli, outputs: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = _evaluate(cli, outputs, "--plots", tmp_path / "plots")
    assert shown.code == 0, shown.err
    names = ["precision-recall.png", "roc.png", "scores-1.png", "scores-2.png"]
    assert sorted(p.name for p in (tmp_path / "plots").iterdir()) == names
    assert all((tmp_path / "plots" / name).read_bytes().startswith(b"\x89PNG") for name in names)


def test_a_missing_matplotlib_names_the_extra_before_anything_is_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pan_scdg.errors.find_spec", lambda name: None)
    absent = tmp_path / "absent"
    shown = _evaluate(cli, [absent], "--plots", tmp_path / "plots", source=absent)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: the package matplotlib is not installed; install the extra: pip install 'pan_scdg[studies]'\n"
    )


def test_runs_side_by_side(cli: Cli, tmp_path: Path) -> None:
    qrels = [line.split() for line in (RETRIEVAL / "qrels.txt").read_text().splitlines()]
    runs = []
    for number, keep in enumerate((lambda i: True, lambda i: i % 2), 1):
        runs.append(tmp_path / f"run-{number}.txt")
        kept = [(q, d) for i, (q, _, d, _) in enumerate(qrels) if keep(i)]
        runs[-1].write_text("".join(f"{q} Q0 {d} {i} {1000 - i} x\n" for i, (q, d) in enumerate(kept, 1)))
    record = json.loads(_evaluate(cli, runs, "--json", source=RETRIEVAL).out)
    (found,) = record["differences_from_first"]
    assert found["R@10"]["value"] < 0
    assert found["R@10"]["high"] < 0, "half of the documents are missing"
    pytest.importorskip("matplotlib")
    refused = _evaluate(cli, runs, "--plots", tmp_path / "plots", source=RETRIEVAL)
    assert (refused.code, "plots are made for document pairs only" in refused.err) == (2, True)


def test_paired_intervals_are_percentiles_of_differences_on_the_same_resamples() -> None:
    rng = np.random.default_rng(3)
    labels = [bool(x) for x in rng.integers(2, size=40)]
    keys = [(f"s{i // 2}", f"r{i}") for i in range(40)]

    def judge(noise: float) -> DecidedPairs:
        scores = [float(label + rng.normal(0, noise)) for label in labels]
        return DecidedPairs(keys, labels, scores, [s > 0.5 for s in scores], 0.5)

    first, other = judge(0.5), judge(1.5)
    literal = []
    for counts in draw_resamples(40, 1000, 42, [key[0] for key in keys]):
        for row in counts:
            chosen = np.repeat(np.arange(40), row.astype(int))
            values = []
            for pairs in (first, other):
                columns = [np.array(column)[chosen] for column in (pairs.labels, pairs.scores, pairs.decisions)]
                values.append(compute_pair_metrics(*columns)["auroc"])
            literal.append(values[1] - values[0])
            if len(literal) == 50:
                break
        break
    found = bootstrap_pair_differences(first, other)
    assert found["auroc"][0] <= np.median(literal) <= found["auroc"][1]
    with pytest.raises(ValueError, match="same pairs"):
        bootstrap_pair_differences(first, other._replace(keys=keys[::-1]))


def test_paired_intervals_of_queries_leave_out_measures_of_other_queries() -> None:
    first = {"AP": {"a": 0.5, "b": 0.25}, "other": {"a": 1.0}}
    found = bootstrap_query_differences(first, {"AP": {"b": 0.5, "a": 0.75}, "other": {"b": 1.0}})
    assert dict(found) == {"AP": (0.25, 0.25)}
