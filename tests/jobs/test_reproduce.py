"""``reproduce`` on results of both tasks: as they are, changed in one place, and where something is missing."""

import gzip
import json
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.jobs.agreement import count_characters, measure_common
from pan_scdg.pan.untrusted import stream_lines
from pan_scdg.records import Span
from tests.jobs.conftest import SMALL

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")

Reproduce = Callable[..., Any]
CODES = {0: "reproduced", 4: "reproduced within noise", 5: "not reproduced", 6: "cannot be reproduced"}


def edit_lines(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the records of a JSON Lines file, plain or gzip."""
    lines = [json.loads(text) for _, text in stream_lines(path)]
    change(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def flip_decision(folder: Path) -> None:
    edit_lines(folder / "decisions.jsonl", lambda lines: lines[2].update(decision=not lines[2]["decision"]))


def shift_scores(folder: Path, difference: float = 1e-6) -> None:
    name, field = (
        ("decisions.jsonl", "score") if (folder / "decisions.jsonl").exists() else ("scores.jsonl.gz", "final")
    )
    edit_lines(
        folder / name,
        lambda lines: [line.update({field: line[field] + difference}) for line in lines if line[field] is not None],
    )


def move_passage(folder: Path) -> None:
    path = next(path for path in sorted(folder.glob("*.xml")) if "this_offset" in path.read_text())
    path.write_text(path.read_text().replace('this_offset="', 'this_offset="12'))


def swap_best(folder: Path) -> None:
    path = folder / "run.txt.gz"
    lines = [line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    lines[0][2], lines[1][2] = lines[1][2], lines[0][2]
    path.write_bytes(gzip.compress("".join(" ".join(line) + "\n" for line in lines).encode()))


def keep_run(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "run.txt.gz":
            path.unlink()


def keep_detections(folder: Path) -> None:
    for path in folder.iterdir():
        if path.suffix != ".xml":
            path.unlink()


def move_detection(folder: Path) -> None:
    keep_detections(folder)
    move_passage(folder)


def record_model(folder: Path) -> None:
    edit_job(folder, model_names={"language_model": "Qwen3-8B-Base"}, model_revisions={"language_model": "4ab1"})


def edit_job(folder: Path, **changes: Any) -> None:
    job = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**job, **changes}))


@pytest.fixture
def result(source: Path, finished: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A copy of a complete result of each task in turn."""
    return Path(shutil.copytree(finished(source), tmp_path / "result"))


@pytest.fixture
def reproduce(cli: Callable[..., Any], tiny_folder: Callable[[str], Path], tmp_path: Path) -> Reproduce:
    """``reproduce(result, input, ...)``: the exit code, all lines, and ``reproduction.json``."""

    def call(result: Path, source: Path, *more: object, model: Path | None = None) -> tuple[int, list[str], Any]:
        output = tmp_path / f"again-{len(list(tmp_path.glob('again-*')))}"
        where = ("--input", source, "--output", output, "--model", model or tiny_folder("qwen2"))
        done = cli("reproduce", result, *where, *more)
        lines = done.out.splitlines()
        assert lines, done.err
        assert lines[-1].partition(": ")[0] == CODES[done.code]
        record = json.loads((output / "reproduction.json").read_text())
        assert record["verdict"] == CODES[done.code]
        return done.code, lines, record

    return call


def test_an_own_result_is_reproduced_in_whole_and_in_part(
    source: Path, result: Path, reproduce: Reproduce, tmp_path: Path
) -> None:
    code, lines, record = reproduce(result, source)
    assert code == 0, lines
    assert {condition["name"]: condition["same"] for condition in record["conditions"]} == {
        line.partition(":")[0]: True for line in lines[: len(record["conditions"])]
    }
    assert record["comparison"]["largest_difference"] == 0
    code, lines, record = reproduce(result, source, "--sample", 2, "--seed", 1)
    assert code in (0, 4), lines  # what is computed together changes last digits
    assert record["comparison"]["size"] == 2


@pytest.mark.parametrize("source", ["pairs"], indirect=True)
@pytest.mark.parametrize(
    ("change", "options", "code", "line"),
    [
        (flip_decision, (), 5, "decisions that differ: 1 of 6 pairs, near_threshold: 0"),
        (flip_decision, (), 5, "files: differs: decisions.jsonl"),
        (move_passage, (), 5, "detection XML with other features: 1"),
        (shift_scores, (), 4, "(10 times the largest difference between the engines packed and reference on 6 pairs)"),
        (shift_scores, ("--engine", "reference"), 4, "engine: differs: packed recorded, reference here"),
        (lambda folder: shift_scores(folder, 0.01), (), 5, "differences of scores: largest 0.010000"),
        (lambda folder: shift_scores(folder, 0.01), ("--noise", "0.1"), 4, "within noise: noise 0.1 (given)"),
        (lambda folder: edit_job(folder, task="retrieval"), (), 6, "the result is of the task retrieval"),
        (lambda folder: edit_job(folder, device="cuda"), (), 6, "cannot use cuda"),
        (lambda folder: edit_job(folder, machine={"processor": "Z80"}), (), 0, "differs: processor Z80 recorded"),
        (lambda folder: None, ("--input", "other"), 6, "cannot be reproduced: this is not the input of the result"),
        (lambda folder: None, ("--profile", "other"), 5, "profile: differs: decide.threshold 0.5 recorded, 9.0 here"),
        (lambda folder: None, ("--model", "other"), 6, "the model language_model is another one"),
        (lambda folder: None, ("--model", "missing"), 6, "does not exist"),
        (record_model, ("--model", "missing"), 6, "Recorded: `pan-scdg models fetch Qwen3-8B-Base --revision 4ab1`."),
        (lambda folder: None, ("--input", "copy"), 0, "input: same"),
        (keep_detections, ("--profile", SMALL), 0, "no job.json"),
        (move_detection, ("--profile", SMALL), 5, "detection XML with other features: 1"),
        (lambda folder: (folder / "job.json").unlink(), ("--profile", SMALL), 0, "no job.json"),
    ],
)  # fmt: skip
def test_a_change_gives_its_verdict(
    source: Path,
    result: Path,
    reproduce: Reproduce,
    profile_with: Callable[..., Path],
    other_weights: Callable[[Path, float], Path],
    tmp_path: Path,
    change: Callable[[Path], object],
    options: tuple[Any, ...],
    code: int,
    line: str,
) -> None:
    change(result)
    if options[:1] == ("--input",):
        source = Path(shutil.copytree(source, tmp_path / "copy"))
        if options[1] == "other":
            (source / "susp" / "s1.txt").write_text("Another text.")
        options = ()
    elif options == ("--profile", "other"):
        options = ("--profile", profile_with({"decide.threshold": 9.0}))
    elif options == ("--model", "other"):
        options = ("--model", other_weights(tmp_path / "other", 1.5))
    elif options == ("--model", "missing"):
        options = ("--model", tmp_path / "missing")
    done, lines, _ = reproduce(result, source, *options)
    assert any(line in shown for shown in lines), "\n".join(lines)
    assert done == code, lines


@pytest.mark.parametrize("source", ["retrieval"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "options", "code", "line"),
    [
        ([swap_best], (), 5, "not reproduced: the scores are the same, but not what follows from them"),
        ([swap_best], (), 5, "best rank that differs: 1; queries with other ranks: 1 query"),
        ([swap_best], (), 5, "queries with an equal top 10: 3 of 4"),
        ([shift_scores], (), 4, "engines packed and reference on 2 queries)"),
        ([swap_best, shift_scores], (), 5, "not reproduced: noise "),
        ([swap_best, shift_scores], ("--noise", "1"), 4, "reproduced within noise: noise 1 (given)"),
        ([], ("--from-corpus",), 0, "model encoder: same"),
        ([lambda folder: edit_job(folder, searched_by_words=["q"])], (), 0, "profile: same"),
        ([lambda folder: edit_job(folder, searched_by_words=["q"])], ("--from-corpus",), 6, "1 query had a first"),
        ([lambda folder: edit_job(folder, scored_ranks=2)], (), 5, "profile: differs: retrieval.scored 6 recorded, 2"),
        ([keep_run], ("--profile", SMALL), 0, "no job.json"),
    ],
)  # fmt: skip
def test_a_change_of_a_ranking_gives_its_verdict(
    source: Path,
    result: Path,
    reproduce: Reproduce,
    changes: list[Callable[[Path], object]],
    options: tuple[Any, ...],
    code: int,
    line: str,
) -> None:
    for change in changes:
        change(result)
    done, lines, _ = reproduce(result, source, *options)
    assert any(line in shown for shown in lines), "\n".join(lines)
    assert done == code, lines


@pytest.mark.parametrize("source", ["pairs"], indirect=True)
def test_a_rerun_is_taken_as_it_is_by_the_same_code_only(
    source: Path,
    result: Path,
    cli: Callable[..., Any],
    tiny_folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    where = ("--input", source, "--output", tmp_path / "again", "--model", tiny_folder("qwen2"))
    scores, former = tmp_path / "again" / "rerun" / "scores.jsonl", 0
    for code, computes in (("one", True), ("one", False), ("two", True)):
        monkeypatch.setattr("pan_scdg.jobs.options.hash_code", lambda *_, code=code: code)
        assert cli("reproduce", result, *where).code == 0
        assert (scores.stat().st_mtime_ns != former) == computes, code
        former = scores.stat().st_mtime_ns


@needs_ray
@pytest.mark.long
@pytest.mark.parametrize("source", ["pairs"], indirect=True)
def test_another_number_of_workers_reproduces_a_result(source: Path, result: Path, reproduce: Reproduce) -> None:
    code, lines, _ = reproduce(result, source, "--workers", 2)
    assert code == 0, lines


@pytest.mark.parametrize("source", ["retrieval"], indirect=True)
def test_ndcg_of_both_is_given_with_truth(source: Path, result: Path, reproduce: Reproduce, tmp_path: Path) -> None:
    first = gzip.decompress((result / "run.txt.gz").read_bytes()).decode().split()[:3]
    (tmp_path / "qrels.txt").write_text(f"{first[0]} 0 {first[2]} 1\n")
    swap_best(result)
    _, lines, record = reproduce(result, source, "--truth", tmp_path / "qrels.txt")
    assert "nDCG@10: 0.630930 in the result, 1.000000 here" in lines  # 1 / log2(3)
    assert record["comparison"]["ndcg"] == pytest.approx([0.63093, 1.0], abs=1e-5)


def test_scores_alone_are_compared_by_their_numbers(
    pairs_input: Path, run: Callable[..., Any], reproduce: Reproduce, tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "scores", "--scores-only").code == 0
    assert reproduce(tmp_path / "scores", pairs_input)[0] == 0
    edit_lines(tmp_path / "scores" / "scores.jsonl", lambda lines: lines[0]["values"].update(tokens=1))
    code, lines, _ = reproduce(tmp_path / "scores", pairs_input)
    assert code == 5, lines


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: (folder / "job.json").unlink(), "has no job.json, which records the profile. Name it with --p"),
        (lambda folder: edit_job(folder, task="check"), "is a result of `check`. Give a result of `run`"),
    ],
)
@pytest.mark.parametrize("source", ["pairs"], indirect=True)
def test_a_result_that_nothing_can_be_computed_from_is_an_error(
    source: Path, result: Path, cli: Callable[..., Any], tmp_path: Path, prepare: Callable[[Path], None], message: str
) -> None:
    prepare(result)
    done = cli("reproduce", result, "--input", source, "--output", tmp_path / "again")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


side = st.builds(lambda begin, length: Span(begin, begin + length), st.integers(0, 30), st.integers(0, 10))
sides = st.tuples(side, side)


@given(st.lists(st.tuples(st.lists(sides), st.lists(sides)), max_size=3))
def test_overlap_is_that_of_sets_of_characters(pairs: list[tuple[list[Any], list[Any]]]) -> None:
    common = union = 0
    for lists in pairs:
        for number in (0, 1):
            first, second = (set(chain(*(range(*passage[number]) for passage in one))) for one in lists)
            common, union = common + len(first & second), union + len(first | second)
            assert count_characters(passage[number] for passage in lists[0]) == len(first)
    assert measure_common(pairs) == (common / union if union else 1)
