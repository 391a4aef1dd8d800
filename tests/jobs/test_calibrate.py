"""``calibrate`` from the command line, against the rule restated by brute force; whose scores a threshold decides."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.jobs.calibrate import Calibrated, warn_about_separation
from pan_scdg.methods import char_ngrams
from pan_scdg.methods.char_ngrams import compute_covered_share
from pan_scdg.methods.containment import measure_overlap
from pan_scdg.methods.gains import GainSettings
from pan_scdg.methods.logistic import compute_probabilities, fit_logistic
from pan_scdg.methods.simple import split_tokens
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.pan.inputs import hash_input
from pan_scdg.profile import find_profile, load_profile
from pan_scdg.settings import Decide

Run = Callable[..., Any]
Records = Callable[[Path], list[dict[str, Any]]]
GRID = (1, 2, 5, 10, 20, 30, 50)
POSITIVE = {("s1", "r1"), ("s2", "r2"), ("s3", "r3")}
UNCALIBRATED = {"gains.q": None, "decide.threshold": None}


@pytest.fixture
def scores(run: Run, pairs_input: Path, profile_with: Callable[..., Path], tmp_path: Path) -> Path:
    """A result folder of ``run --scores-only``."""
    done = run(pairs_input, tmp_path / "scores", "--scores-only", profile=profile_with(UNCALIBRATED))
    assert done.code == 0, done.err
    return tmp_path / "scores"


@pytest.fixture
def calibrate(cli: Run, pairs_input: Path, profile_with: Callable[..., Path], scores: Path, tmp_path: Path) -> Run:
    """``calibrate(*more, changes=...)``: calibrate the small profile with these changes; writes ``mine.toml``."""

    def call(*more: object, changes: Mapping[str, Any] = UNCALIBRATED, source: Path = pairs_input) -> Any:
        where = ("--input", source, "--profile", profile_with(changes), "--write", tmp_path / "mine.toml")
        return cli("calibrate", *where, "--scores", scores, "--overwrite", *more)

    return call


def choose_by_brute_force(scores_by: Mapping[float, Mapping[tuple[str, str], float]]) -> tuple[Fraction, ...]:
    """``(f1, accuracy, parameter, threshold)``: every parameter with every score as threshold, in fractions."""
    tried = []
    for parameter, scores in scores_by.items():
        for threshold in scores.values():
            flagged = {pair for pair, score in scores.items() if score >= threshold}
            hits = len(flagged & POSITIVE)
            right = hits + len(scores.keys() - flagged - POSITIVE)
            f1 = Fraction(2 * hits, len(flagged) + len(POSITIVE))
            tried.append((f1, Fraction(right, len(scores)), Fraction(parameter), Fraction(threshold)))
    return max(tried)


def test_choice_equals_the_rule_by_brute_force(
    pairs_input: Path, finished: Callable[[Path], Path], records: Records, calibrate: Run, tmp_path: Path
) -> None:
    kept = records(finished(pairs_input) / "gains.jsonl.gz")
    gains = {(line["suspicious"], line["source"]): np.array(line["gains"]) for line in kept}
    f1, accuracy, q, threshold = choose_by_brute_force(
        {
            q: {p: float(np.sort(g)[::-1][: max(1, ceil(len(g) * q / 100))].mean()) for p, g in gains.items()}
            for q in GRID
        }
    )
    done = calibrate()
    assert done.code == 0, done.err
    profile = load_profile(str(tmp_path / "mine.toml"))
    settings, decide = profile.method_settings, profile.need_decide()
    assert isinstance(settings, GainSettings)
    assert settings.q == float(q)
    assert decide.threshold == pytest.approx(float(threshold), abs=2e-6)
    calibration = decide.calibration
    assert calibration is not None
    assert (calibration.pairs, calibration.positives, calibration.negative_pairs) == (6, 3, 3)
    assert calibration.digest == hash_input(pairs_input, "pairs")
    assert (calibration.f1, calibration.accuracy) == pytest.approx((float(f1), float(accuracy)), abs=1e-6)
    assert (
        f"gains with q {float(q):g}, threshold {decide.threshold:.6f}, strict {decide.strict:.6f}: F1 {float(f1):.4f}"
        in done.out
    )


def test_written_profile_keeps_comments_and_decides_its_own_pairs(
    pairs_input: Path, calibrate: Run, run: Run, cli: Run, records: Records, tmp_path: Path
) -> None:
    assert calibrate("--json").code == 0
    mine, output = tmp_path / "mine.toml", tmp_path / "out"
    assert mine.read_text(encoding="utf-8").startswith("# For tests")
    assert load_profile(str(mine)).name == "mine"
    assert run(pairs_input, output, profile=mine).code == 0
    decisions = records(output / "decisions.jsonl")
    threshold = decisions[0]["threshold"]
    assert all(d["decision"] for d in decisions if d["score"] == threshold), "score >= threshold is positive"
    assert threshold in {d["score"] for d in decisions}
    negatives = [d["score"] for d in decisions if (d["suspicious"], d["source"]) not in POSITIVE]
    strict = load_profile(str(mine)).use_strict().need_decide().threshold
    assert strict is not None
    assert strict == pytest.approx(max(*negatives, threshold), abs=2e-6), "no negative pair of three may reach it"
    for decision in decisions:
        share = sum(round(score, 4) >= round(decision["score"], 4) for score in negatives) / len(negatives)
        assert decision["negatives_at_least"] == pytest.approx(share, abs=1e-4)
    held = cli("evaluate", "--input", pairs_input, "--output", output)
    assert held.code == 0
    assert "the same 6 pairs (3 positive, 3 negative)" in held.out


def test_another_model_or_dtype_is_told_apart(
    pairs_input: Path,
    calibrate: Run,
    run: Run,
    cli: Run,
    records: Records,
    other_weights: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    assert calibrate().code == 0
    mine, other = tmp_path / "mine.toml", other_weights(tmp_path / "other", 1.5)
    decide = load_profile(str(mine)).need_decide()
    assert (decide.calibrated_with, decide.dtype) == (fingerprint_weights(tiny_folder("qwen2")), "float32")
    done = run(pairs_input, tmp_path / "out", profile=mine, model=other)
    assert done.code == 0
    assert f"warning: no decisions: the profile was calibrated with a model {decide.calibrated_with[:12]}" in done.err
    for record in records(tmp_path / "out" / "decisions.jsonl"):
        assert (record["threshold"], record["decision"]) == (None, None)
        assert isinstance(record["score"], float)
        assert "negatives_at_least" not in record
    held = cli("evaluate", "--input", pairs_input, "--output", tmp_path / "out")
    assert (held.code, "auroc" in held.out, "plagdet" in held.out) == (0, True, False)
    files = (pairs_input / "susp" / "s2.txt", pairs_input / "src" / "r2.txt")
    said = json.loads(cli("score", *files, "--profile", mine, "--model", other, "--device", "cpu").out)
    assert (said["decision"], said["threshold"]) == (None, None)
    assert said["warnings"][0].startswith("no decisions: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gains.limit": 500}, "another [gains]"),
        ({"model.pack_tokens": 100}, "another [model]"),
        ({"gains.segments.target_tokens": 64}, "another [gains]"),
    ],
)
def test_scores_of_other_settings_are_refused(
    calibrate: Run, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    done = calibrate(changes={**UNCALIBRATED, **changes})
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "mine.toml").exists()


def test_other_pairs_and_a_truth_of_one_class_are_refused(pairs_input: Path, calibrate: Run, tmp_path: Path) -> None:
    (tmp_path / "truth").mkdir()
    for path in (pairs_input / "truth").iterdir():
        reference = path.name.split("-")[0]
        (tmp_path / "truth" / path.name).write_text(f'<document reference="{reference}.txt"/>', encoding="utf-8")
    done = calibrate("--truth", tmp_path / "truth")
    assert (done.code, "all pairs have the same label" in done.err) == (2, True)
    shutil.copytree(pairs_input, tmp_path / "other")
    lines = (pairs_input / "pairs").read_text().splitlines(keepends=True)
    (tmp_path / "other" / "pairs").write_text("".join(lines[:-1]))
    done = calibrate(source=tmp_path / "other")
    assert (done.code, "another input" in done.err) == (2, True)
    assert not (tmp_path / "mine.toml").exists()


class ScoreItself:
    """Stands for the settings of a method whose score is the number that it measured."""

    parameters = ()

    def compute_score(self, values: Mapping[str, float]) -> float:
        return values["score"]


@pytest.mark.parametrize(
    ("positives", "negatives", "warning"),
    [
        ([0.9, 0.8, 0.7, 0.2], [0.6, 0.3, 0.2, 0.1], ""),
        ([0.9, 0.8, 0.7, 0.2], [0.9, 0.8, 0.7, 0.2], "75% of those with reuse and 75% of the others .* [(]AUROC 0.50"),
        ([0.9] * 19, [0.8], "100% of those with reuse and 100% of the others"),  # a large F1 does not help
    ],
)
def test_a_threshold_that_hardly_separates_the_pairs_is_told(
    positives: list[float], negatives: list[float], warning: str
) -> None:
    chosen = Calibrated(ScoreItself(), Decide(method="containment", threshold=0.5))  # type: ignore[arg-type]
    values = [{"score": score} for score in (*positives, *negatives)]
    labels = [True] * len(positives) + [False] * len(negatives)
    (told,) = warn_about_separation(chosen, values, labels) or [""]
    assert re.search(warning, told)
    assert bool(told) == bool(warning)


def test_the_profile_of_a_result_can_be_calibrated(pairs_input: Path, cli: Run, scores: Path, tmp_path: Path) -> None:
    where = ("--input", pairs_input, "--profile", scores / "job.json", "--scores", scores)
    assert cli("calibrate", *where, "--write", tmp_path / "mine.toml").code == 0
    assert load_profile(str(tmp_path / "mine.toml")).need_decide().threshold is not None


def test_the_noise_is_measured_or_given(
    pairs_input: Path, calibrate: Run, run: Run, records: Records, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    again = ("--scores-only", "--engine", "reference", "--limit", 3)
    assert run(pairs_input, tmp_path / "again", *again, profile=profile_with(UNCALIBRATED)).code == 0
    assert "no noise of these scores is known" in calibrate().err
    for options, noise in ((("--noise", 0.25), 0.25), (("--again", tmp_path / "again"), None)):
        done = calibrate(*options)
        assert (done.code, "no noise" in done.err) == (0, False), done.err
        profile = load_profile(str(tmp_path / "mine.toml"))
        assert profile.need_decide().noise == noise or noise is None
    settings = profile.method_settings
    (first, second) = (
        {(line["suspicious"], line["source"]): settings.compute_score(line["values"]) for line in records(path)}
        for path in (tmp_path / "scores" / "scores.jsonl", tmp_path / "again" / "scores.jsonl")
    )
    largest = max(abs(first[key] - second[key]) for key in second)
    assert len(second) == 3
    assert profile.need_decide().noise == pytest.approx(max(10 * largest, 1e-6), rel=0.05)
    assert run(pairs_input, tmp_path / "out", profile=tmp_path / "mine.toml").code == 0
    assert all("near_threshold" in record for record in records(tmp_path / "out" / "decisions.jsonl"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "packed"), "was computed in the same way as --scores. Give a result of another --engine"),
        (("--engine", "reference", "--limit", "1", "--input"), "is a result of another input"),
    ],
)
def test_noise_from_results_that_say_nothing_is_refused(
    calibrate: Run,
    run: Run,
    pairs_input: Path,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    options: tuple[str, ...],
    message: str,
) -> None:
    source = pairs_input
    if options[-1] == "--input":
        source, options = Path(shutil.copytree(pairs_input, tmp_path / "other")), options[:-1]
        (source / "susp" / "s1.txt").write_text("Another text, which is long enough to be scored with its source.")
    where = tmp_path / "again"
    assert run(source, where, "--scores-only", *options, profile=profile_with(UNCALIBRATED)).code == 0
    done = calibrate("--again", where)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


@pytest.mark.parametrize("target", ["absent/mine.toml", "my profile.toml"])
def test_an_unusable_target_is_one_line(cli: Run, pairs_input: Path, scores: Path, tmp_path: Path, target: str) -> None:
    where = ("--input", pairs_input, "--scores", scores, "--write", tmp_path / target)
    done = cli("calibrate", *where, "--profile", scores / "job.json")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not (tmp_path / target).exists()


def test_profile_without_threshold_decides_nothing(
    pairs_input: Path, run: Run, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    done = run(pairs_input, tmp_path / "out", profile=profile_with(UNCALIBRATED))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "has no threshold" in done.err
    assert "`calibrate --input DIR" in done.err
    assert not (tmp_path / "out").exists()


def score_and_calibrate(cli: Run, directory: Path, profile: object, written: Path) -> None:
    scores = written.with_suffix(".scores")
    where = ("--input", directory, "--profile", profile)
    done = cli("run", *where, "--output", scores, "--scores-only", "--device", "cpu")
    assert done.code == 0, done.err
    done = cli("calibrate", *where, "--scores", scores, "--write", written)
    assert done.code == 0, done.err


def test_n_of_character_n_grams_and_weights_are_chosen(
    cli: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    texts = {p.stem: p.read_text(encoding="utf-8") for p in sorted(pairs_input.glob("s*/*.txt"))}
    lines = (pairs_input / "pairs").read_text().splitlines()
    pairs = [tuple(name.removesuffix(".txt") for name in line.split()) for line in lines]
    where = ("--input", pairs_input, "--device", "cpu")
    score_and_calibrate(cli, pairs_input, "pan25-char-ngrams", tmp_path / "n.toml")
    chosen: Any = load_profile(str(tmp_path / "n.toml"))
    scores_by = {n: {p: compute_covered_share(texts[p[0]], texts[p[1]], n) for p in pairs} for n in char_ngrams.GRID}
    f1, _, n, threshold = choose_by_brute_force(scores_by)  # type: ignore[arg-type]
    assert (chosen.char_ngrams.n, chosen.decide.threshold) == (n, pytest.approx(float(threshold)))
    assert chosen.decide.calibration.f1 == pytest.approx(float(f1), abs=1e-6)

    score_and_calibrate(cli, pairs_input, "pan25-gram-logistic", tmp_path / "g.toml")
    rows = [measure_overlap(split_tokens(texts[s]), split_tokens(texts[r]), 4) for s, r in pairs]
    weights = fit_logistic(rows, [pair in POSITIVE for pair in pairs])
    assert load_profile(str(tmp_path / "g.toml")).gram_logistic.weights == weights  # type: ignore[union-attr]
    assert cli("run", *where, "--profile", tmp_path / "g.toml", "--output", tmp_path / "out").code == 0
    found = [record["score"] for record in records(tmp_path / "out" / "decisions.jsonl")]
    np.testing.assert_allclose(found, compute_probabilities(weights, rows), atol=1e-6)


@pytest.mark.parametrize(
    ("profile", "old", "new", "message"),
    [
        ("pan25-gram-logistic", "n = 4", "n = 5", "another [gram_logistic]"),
        ("pan25-char-ngrams", "n = 50", "n = 9", "the scores lack n_9"),
    ],
)
def test_scores_of_another_n_are_refused(
    cli: Run,
    pairs_input: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
    old: str,
    new: str,
    message: str,
) -> None:
    text = find_profile(profile).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "other.toml").write_text(text.replace(old, new), encoding="utf-8")
    scored = ("--input", pairs_input, "--profile", profile, "--scores-only", "--device", "cpu")
    assert cli("run", *scored, "--output", tmp_path / "scores").code == 0
    monkeypatch.setattr(char_ngrams, "GRID", (9,))
    where = ("--input", pairs_input, "--profile", tmp_path / "other.toml", "--scores", tmp_path / "scores")
    done = cli("calibrate", *where, "--write", tmp_path / "mine.toml")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


@pytest.mark.parametrize(
    "tables",
    [
        'decide = {method = "gram-logistic"}\ngram_logistic = {n = 4}',
        'decide.method = "gram-logistic"\ngram_logistic.n = 4\npassages.encoder = "x"',
        '[decide]\nmethod = "gram-logistic"\n[gram_logistic]\nn = 4\n[decide.calibration]\ndigest = "x"\n'
        "pairs = 1\npositives = 1\nf1 = 1.0\naccuracy = 1.0",
    ],
)
def test_a_profile_may_write_its_tables_in_any_form(cli: Run, pairs_input: Path, tmp_path: Path, tables: str) -> None:
    (tmp_path / "mine.toml").write_text(f'name = "mine"\ndescription = "of the user"\n{tables}\n', encoding="utf-8")
    where = ("--input", pairs_input)
    scored = ("--profile", "pan25-gram-logistic", "--scores-only", "--output", tmp_path / "scores")
    assert cli("run", *where, *scored, "--device", "cpu").code == 0
    for old, new in (("mine", "new"), ("new", "newer")):
        target = ("--profile", tmp_path / f"{old}.toml", "--write", tmp_path / f"{new}.toml")
        done = cli("calibrate", *where, *target, "--scores", tmp_path / "scores")
        assert done.code == 0, done.err
        profile = load_profile(str(tmp_path / f"{new}.toml"))
        assert profile.need_decide().threshold is not None
        assert (profile.passages is None) == ("passages" not in tables)
