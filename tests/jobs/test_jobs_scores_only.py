"""``run --scores-only`` and ``calibrate --scores``: calibration from scores that were made elsewhere, in parts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit
from pan_scdg.scoring import baseline_scoring
from sklearn.linear_model import LogisticRegression

from pan_scdg.lm.engine import PackedEngine
from pan_scdg.pan.detections import read_decisions
from pan_scdg.profile import load_profile
from tests.jobs.conftest import PAIRS, POSITIVE

Run = Callable[..., Any]
UNCALIBRATED = {"pairs.q": None, "pairs.threshold": None, "pairs.calibration": None, "model.pack_tokens": 256}
LABELS = np.array([pair in POSITIVE for pair in PAIRS])


@pytest.fixture
def uncalibrated(profile_with: Callable[..., Path]) -> Callable[..., Path]:
    """``uncalibrated(**changes of [pairs])``: the small profile without a threshold, with small batches."""
    known = tomlkit.parse(profile_with({}).read_text(encoding="utf-8"))

    def write(**changes: object) -> Path:
        table: Any = known["pairs"]
        lacking = {name: value for name, value in UNCALIBRATED.items() if value is not None or name[6:] in table}
        return profile_with(lacking | {f"pairs.{name}": value for name, value in changes.items()})

    return write


@pytest.fixture
def calibrate(cli: Run, tiny_folder: Callable[[str], Path], pairs_input: Path) -> Run:
    """``calibrate(profile, target, *more)`` on the labelled pairs with the tiny model."""

    def call(profile: Path, write: Path, *more: object, source: Path = pairs_input) -> Any:
        where = ("--input", source, "--profile", profile, "--write", write, "--device", "cpu")
        return cli("calibrate", *where, "--model", tiny_folder("qwen2"), *more)

    return call


@pytest.fixture
def computes_nothing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        def fail(*_: object) -> None:
            raise AssertionError("something is computed")

        monkeypatch.setattr(PackedEngine, "compute_log_probs", fail)

    return forbid


@pytest.mark.parametrize("count", [1, 3])
def test_scores_made_in_parts_calibrate_as_one_run(
    count: int,
    run: Run,
    calibrate: Run,
    uncalibrated: Callable[..., Path],
    pairs_input: Path,
    computes_nothing: Callable[[], None],
    tmp_path: Path,
) -> None:
    profile, mine = uncalibrated(), tmp_path / "mine.toml"
    assert calibrate(profile, mine).code == 0
    expected = mine.read_bytes()
    folders = [tmp_path / f"scores-{number}" for number in range(1, count + 1)]
    for number, folder in enumerate(folders, 1):
        share = () if count == 1 else ("--shard", f"{number}/{count}")
        done = run(pairs_input, folder, "--scores-only", *share, profile=profile)
        assert done.code == 0, done.err
    assert ("scored 6 pairs" if count == 1 else "scored shard 3/3 of 6 pairs") in done.err
    computes_nothing()
    done = calibrate(profile, mine, "--scores", *folders)
    assert done.code == 0, done.err
    assert mine.read_bytes() == expected


def test_a_part_of_the_pairs_and_pairs_that_cannot_be_scored(
    run: Run, calibrate: Run, uncalibrated: Callable[..., Path], pairs_input: Path, tmp_path: Path
) -> None:
    source = Path(shutil.copytree(pairs_input, tmp_path / "in"))
    (source / "susp" / "s4.txt").write_text(" ")
    profile, mine = uncalibrated(), tmp_path / "mine.toml"
    for name, more, pairs in (("few", ("--limit", 3), 3), ("all", (), 5)):
        out = tmp_path / name
        assert run(source, out, "--scores-only", "--on-error", "negative", *more, profile=profile).code == 0
        done = calibrate(profile, mine, "--scores", out, source=source)
        assert done.code == 0, done.err
        assert f"on {pairs} pairs (" in done.out
        assert ("left out of the calibration: 1 time" in done.err) == (name == "all")


def test_scores_only_needs_no_threshold_and_merge_does(
    run: Run,
    cli: Run,
    uncalibrated: Callable[..., Path],
    pairs_input: Path,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    profile, out = uncalibrated(), tmp_path / "scores"
    assert run(pairs_input, tmp_path / "no", profile=profile).code == 2
    plan = run(pairs_input, out, "--scores-only", "--plan", "--json", profile=profile)
    assert plan.code == 0, plan.err
    assert json.loads(plan.out)["pairs"] == 6
    assert run(pairs_input, out, "--scores-only", profile=profile).code == 0
    assert sorted(path.name for path in out.iterdir() if path.name[0] != ".") == ["scores.sqlite"]
    assert run(pairs_input, out, "--scores-only", profile=profile).err == f"already complete: {out}\n"
    merged = cli("merge", "--input", pairs_input, "--output", tmp_path / "m", "--model", tiny_folder("qwen2"), out)
    assert (merged.code, "has no threshold and cannot decide" in merged.err) == (2, True)


def test_scores_of_a_calibrated_profile_can_be_merged(
    run: Run, cli: Run, pairs_input: Path, tiny_folder: Callable[[str], Path], visible: Any, tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "scores", "--scores-only").code == 0
    assert run(pairs_input, tmp_path / "run", "--no-metadata").code == 0
    where = ("--input", pairs_input, "--output", tmp_path / "m", "--model", tiny_folder("qwen2"))
    assert cli("merge", *where, tmp_path / "scores").code == 0
    assert visible(tmp_path / "m") == visible(tmp_path / "run")


def test_scores_of_something_else_are_refused(
    run: Run,
    cli: Run,
    calibrate: Run,
    uncalibrated: Callable[..., Path],
    pairs_input: Path,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    profile, mine, out = uncalibrated(), tmp_path / "mine.toml", tmp_path / "scores"
    assert run(pairs_input, out, "--scores-only", profile=profile).code == 0

    def refuse(*more: object, of: Path = profile, **rest: Any) -> str:
        done = calibrate(of, mine, *more, **rest)
        assert done.code == 2
        assert not mine.exists()
        return str(done.err)

    other = Path(shutil.copytree(pairs_input, tmp_path / "other"))
    (other / "susp" / "s1.txt").write_text("something else")
    assert "computed with another input; give" in refuse("--scores", out, source=other)
    assert "computed with another [pairs] limit; " in refuse("--scores", out, of=uncalibrated(limit=200))
    assert "computed with another [pairs] control; " in refuse("--scores", out, of=uncalibrated(control="both"))
    assert "another language model" in refuse("--scores", out, "--model", tiny_folder("llama"))
    assert "1 of 2 shards is missing (2)" in refuse("--scores", shard_of(run, pairs_input, profile, tmp_path))
    assert "holds no finished shard" in refuse("--scores", pairs_input)
    assert "list score folders after --scores" in refuse(out)
    alone = ("calibrate", "--input", pairs_input, "--profile", "pan25-bm25", "--write", mine, "--scores")
    assert "computed with another [baseline]; give" in cli(*alone, out).err
    assert "--limit has no effect: the scores" in refuse("--limit", 2, "--scores", out)
    assert "--shard and --output need each other" in refuse("--shard", "1/2")
    assert "--gpu needs --plan" in refuse("--gpu", "H200")
    assert "cannot be combined" in refuse("--plan", "--scores", out)
    assert "--write has no effect with --plan" in refuse("--plan")


def shard_of(run: Run, source: Path, profile: Path, folder: Path) -> Path:
    assert run(source, folder / "half", "--scores-only", "--shard", "1/2", profile=profile).code == 0
    return folder / "half"


def test_calibrate_scores_its_own_shards_and_plans_them(
    run: Run,
    cli: Run,
    calibrate: Run,
    uncalibrated: Callable[..., Path],
    pairs_input: Path,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """The shards of ``calibrate --shard`` are those of ``run --scores-only --shard``, and may be mixed."""
    profile, mine = uncalibrated(), tmp_path / "mine.toml"
    where = ("--input", pairs_input, "--profile", profile, "--device", "cpu", "--model", tiny_folder("qwen2"))
    first, second = tmp_path / "first", tmp_path / "second"
    assert cli("calibrate", *where, "--limit", 4, "--shard", "1/2", "--output", first).code == 0
    assert run(pairs_input, second, "--scores-only", "--limit", 4, "--shard", "2/2", profile=profile).code == 0
    done = calibrate(profile, mine, "--scores", first, second)
    assert done.code == 0, done.err
    chosen = mine.read_bytes()
    mine.unlink()
    assert calibrate(profile, mine, "--limit", 4).code == 0
    assert mine.read_bytes() == chosen
    weightless = tmp_path / "without-weights"
    shutil.copytree(tiny_folder("qwen2"), weightless, ignore=shutil.ignore_patterns("*.safetensors"))
    planned = cli("calibrate", *where[:4], "--model", weightless, "--plan", "--gpu", "H200", "--limit", 4, "--json")
    assert planned.code == 0, planned.err
    assert (json.loads(planned.out)["pairs"], list(json.loads(planned.out)["hours_by_gpu"])) == (4, ["H200"])
    baseline = cli("calibrate", "--input", pairs_input, "--profile", "pan25-bm25", "--plan")
    assert "decides pairs without one" in baseline.err


BASELINES = {
    "char-ngrams": {"n": 12, "n_grid": [8, 12, 16]},
    "gram-logistic": {"n": 2},
    "containment": {"n": 2},
    "bm25": {},
}


@pytest.mark.parametrize("kind", BASELINES)
def test_scores_of_baselines_made_in_parts_calibrate_as_one_run(
    kind: str, cli: Run, pairs_input: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, profile, mine = (
        Path(shutil.copytree(pairs_input, tmp_path / "in")),
        tmp_path / "own.toml",
        tmp_path / "m.toml",
    )
    table = "".join(f"{name} = {value}\n" for name, value in BASELINES[kind].items())
    profile.write_text(f'name = "own"\ndescription = "a test"\n\n[baseline]\nkind = "{kind}"\n{table}')
    where = ("--input", source, "--profile", profile)
    for limit in ((), ("--limit", 5)):
        assert cli("calibrate", *where, *limit, "--write", mine).code == 0
        expected = mine.read_bytes()
        mine.unlink()
        folders = [tmp_path / f"{len(limit)}-{number}" for number in (1, 2)]
        for number, folder in enumerate(folders, 1):
            share = ("--scores-only", *limit, "--shard", f"{number}/2", "--output", folder)
            done = cli("run", *where, *share)
            assert done.code == 0, done.err
            assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == ["scores.sqlite"]
        with monkeypatch.context() as patch:
            patch.setattr(baseline_scoring, "read_texts", None)  # no pair is scored again
            done = cli("calibrate", *where, "--scores", *folders, "--write", mine)
        assert done.code == 0, done.err
        assert mine.read_bytes() == expected
    (source / "susp" / "s4.txt").write_bytes(b"\xff\xfe\x00")
    assert cli("calibrate", *where, "--write", mine).code == 2
    assert "computed with another input" in cli("calibrate", *where, "--scores", *folders, "--write", mine).err
    negative = ("--scores-only", "--on-error", "negative", "--output", tmp_path / "whole")
    assert cli("run", *where, *negative).code == 0
    done = cli("calibrate", *where, "--scores", tmp_path / "whole", "--write", mine)
    assert (done.code, "left out of the calibration: 1 time" in done.err) == (0, True)
    assert "on 5 pairs (" in done.out


def read_statistics(decisions: Path) -> np.ndarray:
    fields = ("mean", "median", "positive_gain_rate")
    return np.array([[record[name] for name in fields] for record in read_decisions(decisions)])


@pytest.mark.parametrize(("aggregation", "column"), [("mean", 0), ("positive-rate", 2), ("gain-logistic", None)])
def test_aggregations_of_statistics_are_chosen_frozen_and_decide(
    aggregation: str,
    column: int | None,
    run: Run,
    cli: Run,
    calibrate: Run,
    uncalibrated: Callable[..., Path],
    pairs_input: Path,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    mine, out = tmp_path / "mine.toml", tmp_path / "out"
    done = calibrate(uncalibrated(aggregation=aggregation), mine)
    assert done.code == 0, done.err
    assert f"{aggregation}, threshold" in done.out
    assert run(pairs_input, out, profile=mine).code == 0
    records = list(read_decisions(out / "decisions.jsonl"))
    assert {record["aggregation"] for record in records} == {aggregation}
    statistics, scores = read_statistics(out / "decisions.jsonl"), np.array([record["score"] for record in records])
    if column is not None:
        np.testing.assert_allclose(scores, statistics[:, column], atol=2e-6)
    else:  # the paper's objective by scikit-learn on the reported statistics, which have six decimals
        scaled = (statistics - statistics.mean(axis=0)) / statistics.std(axis=0)
        model = LogisticRegression(C=1.0, solver="lbfgs", tol=1e-10, max_iter=10_000).fit(scaled, LABELS)
        np.testing.assert_allclose(scores, model.predict_proba(scaled)[:, 1], atol=1e-4)
    threshold = load_profile(str(mine)).need_pairs().threshold
    assert threshold is not None
    assert [record["decision"] for record in records] == (scores >= threshold - 1e-6).tolist()
    pair = (pairs_input / "susp" / "s1.txt", pairs_input / "src" / "r1.txt")
    one = cli("score", *pair, "--profile", mine, "--device", "cpu", "--model", tiny_folder("qwen2"))
    assert json.loads(one.out)["score"] == pytest.approx(scores[0], abs=1e-4)
    assert json.loads(one.out)["decision"] == records[0]["decision"]


def test_fields_that_do_not_go_together_are_named(
    uncalibrated: Callable[..., Path], run: Run, pairs_input: Path, tmp_path: Path
) -> None:
    weights = {"intercept": 0.0, "coefficients": [1.0], "mean": [0.0], "scale": [1.0]}
    for changes, says in (
        ({"aggregation": "mean", "q": 5.0}, "q is not a parameter of the aggregation mean, which uses none"),
        ({"aggregation": "gain-logistic", "threshold": 0.5}, "a threshold needs the weights"),
        ({"aggregation": "gain-logistic", "weights": weights}, "weights are of the three features"),
        ({"weights": weights}, "weights are of the three features"),
    ):
        done = run(pairs_input, tmp_path / "out", profile=uncalibrated(**changes))
        assert (done.code, says in done.err) == (2, True), done.err
