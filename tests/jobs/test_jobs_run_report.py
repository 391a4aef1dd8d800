"""``run --report``: the page shows the verdicts and the passages of the run, and changes nothing else."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pan_scdg.scoring.verification import Verifier

from tests.jobs.conftest import EXAMPLES, SMALL

Cli = Callable[..., Any]
Visible = Callable[[Path], dict[str, bytes]]
PAIRS = EXAMPLES / "pan25-pairs" / "test"
PROFILE = 'name = "own"\ndescription = "a test"\n[baseline]\nkind = "{}"\nn = {}\nthreshold = {}\n'
CONTAINMENT, NGRAMS = PROFILE.format("containment", 4, 0.02), PROFILE.format("char-ngrams", 16, 0.01)
TABLE = "[passages]\n"


class Page(HTMLParser):
    """The rows of the table, and the places of the passages of pairs in detail, by rank."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.rows: list[dict[str, str]] = []
        self.details: dict[int, dict[str, Any]] = {}
        self.text = ""
        self._pair, self._cell, self._is_data = 0, "", False
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "tr" and "data-judgement" in given:
            self.rows.append({**given, "suspicious": "", "source": ""})
        if tag in ("th", "td") and self.rows:
            self._cell = given.get("class", "")
        if tag == "section" and re.fullmatch(r"pair-\d+", given.get("id", "")):
            self._pair = int(given["id"].removeprefix("pair-"))
        self._is_data = tag == "script" and given.get("class") == "data"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self._cell = ""

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.details[self._pair] = json.loads(data)
            self._is_data = False
        elif self._cell in ("suspicious", "source"):
            self.rows[-1][self._cell] += data
        self.text += data


@pytest.fixture
def report(cli: Cli, tmp_path: Path) -> Callable[..., Page]:
    """``report(profile, *more, source=..., output=...)``: the page of a run with this profile."""

    def call(profile: str, *more: object, source: Path = PAIRS, output: str = "out") -> Page:
        (tmp_path / "own.toml").write_text(profile)
        where = ("--input", source, "--output", tmp_path / output, "--profile", tmp_path / "own.toml")
        done = cli("run", *where, "--report", "--no-metadata", "--device", "cpu", *more)
        assert done.code == 0, done.err
        assert done.err.splitlines()[-1] == f"report: {tmp_path / output / 'report.html'}"
        return Page(tmp_path / output / "report.html")

    return call


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_features(path: Path) -> list[list[int]]:
    """The passages of a detection XML as first character and the one behind the last, of both sides."""
    names = ("this_offset", "this_length", "source_offset", "source_length")
    found = []
    for feature in re.findall("<feature .*?/>", path.read_text(encoding="utf-8"), re.DOTALL):
        at, length, at2, length2 = (int(re.search(f' {name}="(\\d+)"', feature)[1]) for name in names)  # type: ignore[index]
        found.append([at, at + length, at2, at2 + length2])
    return found


def write_pairs(folder: Path, texts: Mapping[str, str], pairs: str) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "pairs").write_text(pairs)
    return folder


def test_the_page_shows_the_verdicts_and_the_passages_of_the_run(report: Callable[..., Page], tmp_path: Path) -> None:
    page = report(CONTAINMENT + TABLE)
    decided = read_lines(tmp_path / "out" / "decisions.jsonl")
    listed = {(line["suspicious"], line["source"]) for line in read_lines(tmp_path / "out" / "passages.jsonl")}
    rows = {(row["suspicious"], row["source"]): row for row in page.rows}
    assert len(page.rows) == len(decided) == 24
    for record in decided:
        names = record["suspicious"], record["source"]
        row, features = rows[names], read_features(tmp_path / "out" / f"{'-'.join(names)}.xml")
        assert float(row["data-score"]) == pytest.approx(record["score"], abs=1e-6)
        assert (row["data-judgement"] == "likely") == record["decision"]
        assert page.details[int(row["data-number"])]["passages"] == (features if names in listed else [])
    scores = [(row["data-judgement"] != "likely", -float(row["data-score"])) for row in page.rows]
    assert scores == sorted(scores)


def test_everything_else_stays_and_the_page_has_the_same_bytes(
    cli: Cli, report: Callable[..., Page], visible: Visible, tmp_path: Path
) -> None:
    report(CONTAINMENT + TABLE)
    copy = shutil.copytree(PAIRS, tmp_path / "copy")
    report(CONTAINMENT + TABLE, source=copy, output="again")
    first, again = visible(tmp_path / "out"), visible(tmp_path / "again")
    assert first == again
    where = ("--input", PAIRS, "--output", tmp_path / "plain", "--profile", tmp_path / "own.toml", "--no-metadata")
    assert cli("run", *where).code == 0
    del first["report.html"]
    assert visible(tmp_path / "plain") == first


def test_the_official_check_takes_an_output_with_a_page(report: Callable[..., Page], tmp_path: Path) -> None:
    check = pytest.importorskip("tira.check_format")
    report(CONTAINMENT + TABLE)
    assert check.check_format(tmp_path / "out", "text-alignment-features")[0] == check.FormatMsgType.OK


def test_a_run_without_a_page_is_another_job(cli: Cli, report: Callable[..., Page], tmp_path: Path) -> None:
    report(CONTAINMENT)
    where = ("--input", PAIRS, "--output", tmp_path / "out", "--profile", tmp_path / "own.toml")
    done = cli("run", *where, "--no-metadata")
    assert done.code == 2
    assert "choose another --output, or --overwrite" in done.err


def test_passages_are_found_for_the_page_if_the_profile_looks_for_none(
    report: Callable[..., Page], tmp_path: Path
) -> None:
    page, with_table = report(CONTAINMENT), report(CONTAINMENT + TABLE, output="table")
    assert not (tmp_path / "out" / "passages.jsonl").exists()
    assert page.details == with_table.details
    assert any(detail["passages"] for detail in page.details.values())


def test_the_passages_of_character_n_grams_are_those_of_the_detections(
    report: Callable[..., Page], tmp_path: Path
) -> None:
    page = report(NGRAMS, "--limit", "6")
    shown = sorted(detail["passages"] for detail in page.details.values() if detail["passages"])
    assert shown
    assert shown == sorted(filter(None, map(read_features, (tmp_path / "out").glob("*.xml"))))
    assert "partial: the first 6 of 24 pairs" in page.text


def test_hostile_names_and_texts_and_one_that_cannot_be_read(report: Callable[..., Page], tmp_path: Path) -> None:
    words = "The tide turned before noon and the nets came up empty; nobody on the quay said a word. " * 5
    texts = {
        "susp/<b>a.txt": f"</script><script>hacked()</script> {words}",
        "susp/b.txt": "",
        "src/r.txt": words,
    }
    folder = write_pairs(tmp_path / "in", texts, "<b>a.txt r.txt\nb.txt r.txt\n")
    (folder / "susp" / "b.txt").write_bytes(b"\xff\xfe broken")
    page = report(CONTAINMENT, "--on-error", "negative", source=folder)
    source = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>hacked" not in source
    assert "<b>a" not in source
    assert "<b>a" in page.text
    assert [row["data-judgement"] for row in page.rows] == ["likely", "unclear"]
    assert "not scored, decided negative: not UTF-8" in page.text
    assert "b has 0 words" not in page.text


def test_names_of_the_user_are_shown(report: Callable[..., Page], tmp_path: Path) -> None:
    words = "The tide turned before noon and the nets came up empty; nobody on the quay said a word. " * 5
    texts = {"susp/s1.txt": words, "src/r1.txt": words, "names.csv": "id,name\ns1,essays/anna.docx\nr1,web/tide.html\n"}
    page = report(CONTAINMENT, source=write_pairs(tmp_path / "in", texts, "s1.txt r1.txt\n"))
    assert "essays/anna.docx" in page.text
    assert "web/tide.html" in page.text


@pytest.mark.parametrize("kept", [["--keep-gains"], []])
def test_gains_are_in_the_page_and_merging_writes_it_too(
    kept: list[str], run: Cli, merge: Cli, pairs_input: Path, visible: Visible, tmp_path: Path
) -> None:
    shards = [tmp_path / f"shard-{number}" for number in (1, 2)]
    for number, folder in enumerate(shards, 1):
        assert run(pairs_input, folder, "--shard", f"{number}/2", "--no-metadata", *kept).code == 0
    done = merge(pairs_input, tmp_path / "out", "--report", *shards)
    assert done.code == 0, done.err
    assert run(pairs_input, tmp_path / "single", "--report", "--no-metadata", *kept).code == 0
    single, merged = (Page(tmp_path / name / "report.html") for name in ("single", "out"))
    assert single.rows == merged.rows
    assert all(len(detail["gains"]) > 30 for detail in single.details.values())
    if kept:
        single_files, merged_files = visible(tmp_path / "single"), visible(tmp_path / "out")
        assert single_files.pop("report.html") != merged_files.pop("report.html")  # measured passages
        assert merged_files == single_files
        stored = merge(pairs_input, tmp_path / "out", "--report", *shards)
        assert f"already complete: {tmp_path / 'out'}" in stored.err
    else:  # shards hold the gains only if they were asked for them
        assert all("gains" not in detail for detail in merged.details.values())


def test_passages_are_measured_once_and_for_the_page_alone(
    run: Cli, pairs_input: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "own.toml"
    profile.write_text(f"{SMALL.read_text(encoding='utf-8')}\n[passages]\nlength = 60\n")
    options = ("--report", "--no-metadata", "--state", tmp_path / "state")
    assert run(pairs_input, tmp_path / "first", *options, profile=profile).code == 0
    assert {line["gain"] for line in read_lines(tmp_path / "first" / "passages.jsonl")} == {None}
    assert "the source makes it" in Page(tmp_path / "first" / "report.html").text
    monkeypatch.setattr(Verifier, "_compute", None)
    assert run(pairs_input, tmp_path / "again", *options, profile=profile).code == 0
    pages = [(tmp_path / name / "report.html").read_bytes() for name in ("first", "again")]
    assert pages[0] == pages[1]
