"""``decide`` gives what ``run`` gives with the other threshold or profile, without a model; passages are reused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from pan_scdg.jobs.decide import NOT_SEARCHED
from pan_scdg.pan.truth import read_feature_files

Run = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
OF_A_RUN = ("ir-metadata.yml", "report.html")


def compare(one: Path, other: Path, visible: Visible) -> None:
    """Check that two results are the same, but for what only a run records."""
    files = [visible(folder) for folder in (one, other)]
    jobs = [json.loads(file.pop("job.json")) for file in files]
    assert jobs[0]["files"] == {name: digest for name, digest in jobs[1]["files"].items() if name not in OF_A_RUN}
    assert {**jobs[0], "files": {}, "report": None} == {**jobs[1], "files": {}, "report": None}
    assert files[0] == {name: data for name, data in files[1].items() if name not in OF_A_RUN}


@pytest.mark.parametrize("profile", ["pan25-containment", "pan25-char-ngrams"])
@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_another_threshold(
    profile: str, threshold: float, pairs_input: Path, cli: Run, visible: Visible, tmp_path: Path
) -> None:
    where = ("--input", pairs_input, "--profile", profile)
    assert cli("run", *where, "--output", tmp_path / "a", "--threshold", 0.1).code == 0
    assert cli("run", *where, "--output", tmp_path / "b", "--threshold", threshold).code == 0
    decide = ("decide", tmp_path / "a", "--input", pairs_input, "--threshold", threshold, "--output", tmp_path / "c")
    done = cli(*decide)
    assert (done.code, done.err.splitlines()[-1]) == (0, f"decided 6 pairs: {tmp_path / 'c' / 'decisions.jsonl'}")
    compare(tmp_path / "c", tmp_path / "b", visible)
    assert f"already complete: {tmp_path / 'c'}" in cli(*decide).err
    assert cli("evaluate", "--input", pairs_input, "--output", tmp_path / "c").code == 0


def test_a_calibrated_profile_decides_scores_of_a_model(
    pairs_input: Path, run: Run, cli: Run, profile_with: Callable[..., Path], visible: Visible, tmp_path: Path
) -> None:
    """The small profile's model is in no cache, so that `decide` could not load it."""
    uncalibrated = profile_with({"gains.q": None, "decide.threshold": None})
    scores, mine = tmp_path / "scores", tmp_path / "mine.toml"
    assert run(pairs_input, scores, "--scores-only", profile=uncalibrated).code == 0
    where = ("--input", pairs_input, "--profile", uncalibrated, "--scores", scores)
    assert cli("calibrate", *where, "--write", mine).code == 0
    done = cli("decide", scores, "--input", pairs_input, "--profile", mine, "--output", tmp_path / "c")
    assert done.code == 0, done.err
    assert run(pairs_input, tmp_path / "b", profile=mine).code == 0
    decisions = [(tmp_path / name / "decisions.jsonl").read_bytes() for name in "bc"]
    assert decisions[0] == decisions[1]
    detections = [{n: data for n, data in visible(tmp_path / name).items() if n.endswith(".xml")} for name in "bc"]
    assert detections[0] == detections[1]
    assert len(detections[0]) == 6


@pytest.fixture
def with_passages(pairs_input: Path, run: Run, records: Callable[[Path], list[dict[str, Any]]], tmp_path: Path) -> Path:
    """A result with passages, three of whose six pairs are positive, by a profile with ``[passages]``."""
    document = tomlkit.parse((Path(__file__).parents[1] / "profiles" / "small.toml").read_text(encoding="utf-8"))
    document["passages"] = tomlkit.table()
    (tmp_path / "passages.toml").write_text(tomlkit.dumps(document), encoding="utf-8")
    assert run(pairs_input, tmp_path / "scores", "--scores-only", profile=tmp_path / "passages.toml").code == 0
    scores = sorted(line["values"]["top_10"] for line in records(tmp_path / "scores" / "scores.jsonl"))
    middle = ("--threshold", (scores[2] + scores[3]) / 2)
    assert run(pairs_input, tmp_path / "a", *middle, profile=tmp_path / "passages.toml").code == 0
    return tmp_path / "a"


def test_passages_are_those_of_the_result(
    with_passages: Path, pairs_input: Path, cli: Run, records: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    former = {(r["suspicious"], r["source"]): r for r in records(with_passages / "decisions.jsonl")}
    scores = sorted(record["score"] for record in former.values())
    threshold = (scores[0] + scores[1]) / 2
    done = cli("decide", with_passages, "--input", pairs_input, "--threshold", threshold, "--output", tmp_path / "b")
    assert done.code == 0, done.err
    new = 0
    for record in records(tmp_path / "b" / "decisions.jsonl"):
        name = f"{record['suspicious']}-{record['source']}.xml"
        before = former[record["suspicious"], record["source"]]
        assert record["decision"] == (record["score"] >= threshold)
        if before["decision"]:
            assert (tmp_path / "b" / name).read_bytes() == (with_passages / name).read_bytes()
            assert record["reasons"] == before["reasons"]
        elif record["decision"]:
            new += 1
            (feature,) = read_feature_files([tmp_path / "b" / name], "detected-plagiarism")
            lengths = [len((pairs_input / side / f"{record[key]}.txt").read_text(encoding="utf-8"))
                       for side, key in (("susp", "suspicious"), ("src", "source"))]  # fmt: skip
            assert [feature.target, feature.source_span] == [(0, length) for length in lengths]
            assert record["reasons"] == [*before["reasons"], NOT_SEARCHED.to_json()]
    assert new == 2
    assert "warning: 2 positive pairs have no recorded passage: the detection covers both documents" in done.err
    assert (tmp_path / "b" / "passages.jsonl").read_bytes() == (with_passages / "passages.jsonl").read_bytes()


def test_a_pair_without_a_score_keeps_its_reason(
    pairs_input: Path, cli: Run, records: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    source = Path(shutil.copytree(pairs_input, tmp_path / "in"))
    (source / "src" / "r2.txt").write_bytes(b"\xff\xfe")
    where = ("--input", source, "--profile", "pan25-containment", "--on-error", "negative")
    assert cli("run", *where, "--output", tmp_path / "a").code == 0
    done = cli("decide", tmp_path / "a", "--input", source, "--threshold", 0, "--output", tmp_path / "b")
    assert done.code == 0, done.err
    before, after = (records(tmp_path / name / "decisions.jsonl") for name in "ab")
    unscored = [(one, two) for one, two in zip(before, after) if one["score"] is None]
    assert len(unscored) == 2
    assert all(two["decision"] is False and two["reasons"] == one["reasons"] for one, two in unscored)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((), "give --threshold or --profile"),
        (("--profile", "pan25-bm25"), "these scores were computed by another method"),
        (("--threshold", "1", "--input", "OTHER"), "these scores belong to another input"),
        (("--threshold", "1", "--output", "RESULT"), "overlaps RESULT"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    change: tuple[str, ...], message: str, pairs_input: Path, cli: Run, tmp_path: Path
) -> None:
    result, other = tmp_path / "a", Path(shutil.copytree(pairs_input, tmp_path / "other"))
    (other / "susp" / "s1.txt").write_text("other")
    assert cli("run", "--input", pairs_input, "--profile", "pan25-containment", "--output", result).code == 0
    names = {"OTHER": other, "RESULT": result}
    where = ("--input", pairs_input, "--output", tmp_path / "b", *(names.get(word, word) for word in change))
    done = cli("decide", result, *where)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (tmp_path / "b").exists()


def test_calibrate_replaces_no_other_profile(pairs_input: Path, cli: Run, tmp_path: Path) -> None:
    where = ("--input", pairs_input, "--profile", "pan25-containment")
    assert cli("run", *where, "--output", tmp_path / "a").code == 0
    calibrate = ("calibrate", *where, "--scores", tmp_path / "a", "--write", tmp_path / "mine.toml")
    assert [cli(*calibrate).code for _ in range(2)] == [0, 0], "the same profile again is no loss"
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    done = cli(*calibrate, "--noise", 0.5)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "mine.toml: is another profile. Choose another --write, or --overwrite to replace it" in done.err
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == text
    assert cli(*calibrate, "--noise", 0.5, "--overwrite").code == 0
    assert "noise = 0.5" in (tmp_path / "mine.toml").read_text(encoding="utf-8")
