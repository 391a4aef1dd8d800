"""``calibrate`` and ``evaluate`` from the command line, against the rule restated by brute force."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pan_scdg.scoring.model import ScoringModel

from pan_scdg.pan.inputs import hash_input
from pan_scdg.profile import load_profile

Run = Callable[..., Any]
GRID = (1, 2, 5, 10, 20, 30, 50)
POSITIVE = {("s1", "r1"), ("s2", "r2"), ("s3", "r3")}
UNCALIBRATED = {"pairs.q": None, "pairs.threshold": None}


@pytest.fixture
def calibrate(cli: Run, tiny_folder: Callable[[str], Path]) -> Run:
    def call(source: Path, profile: Path, write: Path, *more: object) -> Any:
        where = ("--input", source, "--profile", profile, "--write", write, "--device", "cpu")
        return cli("calibrate", *where, "--model", tiny_folder("qwen2"), *more)

    return call


def brute_force(gains: Mapping[tuple[str, str], np.ndarray]) -> tuple[int, float, Fraction, Fraction]:
    """``(q, threshold, f1, accuracy)``: every q with every score as threshold, counted in fractions."""
    tried = []
    for q in GRID:
        scores = {p: np.sort(g)[::-1][: max(1, ceil(len(g) * q / 100))].mean() for p, g in gains.items()}
        for threshold in scores.values():
            flagged = {p for p, score in scores.items() if score >= threshold}
            hits = len(flagged & POSITIVE)
            right = hits + len(scores.keys() - flagged - POSITIVE)
            f1 = Fraction(2 * hits, len(flagged) + len(POSITIVE))
            tried.append((f1, Fraction(right, len(scores)), q, float(threshold)))
    f1, accuracy, q, threshold = max(tried)
    return q, threshold, f1, accuracy


def test_choice_equals_the_rule_by_brute_force(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    records: Callable[[Path], list[dict[str, Any]]],
    calibrate: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
) -> None:
    kept = records(finished(pairs_input) / "gains.jsonl.gz")
    gains = {(g["suspicious"], g["source"]): np.array(g["gains"]) for g in kept}
    q, threshold, f1, accuracy = brute_force(gains)
    result = calibrate(pairs_input, profile_with(UNCALIBRATED), tmp_path / "mine.toml")
    assert result.code == 0
    chosen = load_profile(str(tmp_path / "mine.toml")).need_pairs()
    assert chosen.q == q
    assert chosen.threshold == pytest.approx(threshold, abs=2e-6)
    assert chosen.calibration is not None
    assert (chosen.calibration.pairs, chosen.calibration.positives) == (6, 3)
    assert chosen.calibration.digest == hash_input(pairs_input, "pairs")
    assert chosen.calibration.f1 == pytest.approx(float(f1), abs=1e-6)
    assert chosen.calibration.accuracy == pytest.approx(float(accuracy), abs=1e-6)
    assert f"top-{q}%" in result.out


def test_written_profile_keeps_comments_decides_and_is_told_apart(
    pairs_input: Path,
    calibrate: Run,
    run: Run,
    cli: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    records: Callable[[Path], list[dict[str, Any]]],
    tiny_folder: Callable[[str], Path],
) -> None:
    start = profile_with(UNCALIBRATED)
    mine = tmp_path / "mine.toml"
    assert calibrate(pairs_input, start, mine).code == 0
    comment = start.read_text(encoding="utf-8").splitlines()[0]
    assert comment.startswith("# For tests")
    assert mine.read_text(encoding="utf-8").startswith(comment)
    profile = load_profile(str(mine))
    assert profile.name == "mine"
    given = tiny_folder("qwen2").name
    assert profile.need_model() == load_profile(str(start)).need_model().model_copy(update={"name": given})
    assert run(pairs_input, tmp_path / "out", profile=mine).code == 0
    threshold = profile.need_pairs().threshold
    assert threshold is not None
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    at_threshold = [d for d in decisions if d["score"] == round(threshold, 6)]
    assert at_threshold, "the threshold is the score of a pair"
    assert all(d["decision"] for d in at_threshold), "and that pair is positive: score >= threshold"
    held = cli("evaluate", "--input", pairs_input, "--output", tmp_path / "out")
    assert held.code == 0
    assert "these very 6 pairs (3 positive, 3 negative)" in held.out
    assert f"6 pairs, 3 positive, {sum(d['decision'] for d in decisions)} decided positive" in held.out


def test_evaluate_on_other_data_says_nothing_of_calibration(
    pairs_input: Path, finished: Callable[[Path], Path], cli: Run
) -> None:
    held = cli("evaluate", "--input", pairs_input, "--output", finished(pairs_input))
    assert held.code == 0
    assert "these very" not in held.out
    for measure in ("precision", "recall", "f1", "auroc", "plagdet_score"):
        assert measure in held.out


def test_calibration_with_a_warm_state_scores_nothing(
    pairs_input: Path,
    calibrate: Run,
    run: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(pairs_input, tmp_path / "out", "--state", tmp_path / "state").code == 0

    def forbidden(*_: object) -> None:
        raise AssertionError("everything was scored before")

    monkeypatch.setattr(ScoringModel, "engine", property(forbidden))
    mine = tmp_path / "mine.toml"
    assert calibrate(pairs_input, profile_with(UNCALIBRATED), mine, "--state", tmp_path / "state").code == 0


def test_profile_without_threshold_decides_nothing(
    pairs_input: Path, run: Run, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    result = run(pairs_input, tmp_path / "out", profile=profile_with(UNCALIBRATED))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "has no threshold" in result.err
    assert "`calibrate --input DIR" in result.err
    assert not (tmp_path / "out").exists()


def test_one_class_alone_cannot_calibrate(
    pairs_input: Path, calibrate: Run, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "truth").mkdir()
    for path in (pairs_input / "truth").iterdir():
        reference = path.name.split("-")[0]
        (tmp_path / "truth" / path.name).write_text(f'<document reference="{reference}.txt"/>', encoding="utf-8")
    result = calibrate(pairs_input, profile_with({}), tmp_path / "mine.toml", "--truth", tmp_path / "truth")
    assert result.code == 2
    assert "all pairs have the same label" in result.err
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize("name", ["absent/mine.toml", "my profile.toml"])
def test_unusable_target_is_found_before_anything_is_scored(
    pairs_input: Path,
    calibrate: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    forwards: list[int],
    name: str,
) -> None:
    result = calibrate(pairs_input, profile_with({}), tmp_path / name)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert not forwards
    assert not (tmp_path / name).exists()
