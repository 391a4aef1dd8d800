"""What the readers of foreign files refuse: one table for all of them, and one for each.

Every refusal names file and line, and says what to do; `tests/cli/test_bad_input.py` shows them as a user sees them.
"""

import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.prepare import prepare_pairs, read_names
from pan_scdg.pan.runs import read_run
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import read_features, read_truth
from pan_scdg.results.records import read_decisions

Write = Callable[..., Path]
Files = Mapping[str, str | bytes]
TEXTS = {f"susp/s{i}.txt": f"s {i}" for i in (1, 2, 3)} | {f"src/r{i}.txt": f"r {i}" for i in (1, 2, 3)}
LONG = "a" * 130
MANY = {
    **TEXTS,
    **dict.fromkeys(("../secret.txt", "susp/both.txt", "src/both.txt", "S1.txt", "more/q1.txt", "src/q1.txt"), "x"),
    **dict.fromkeys(("src/r-x.txt", "susp/s1-r.txt", "src/x.txt", f"susp/{LONG}", ".s2.txt", "susp/.s3.txt"), "x"),
}
XML = '<document reference="s1.txt">\n'
FEATURE = (
    '<feature name="plagiarism" source_reference="r1.txt" this_{}="{}" this_{}="{}" source_{}="{}" source_{}="{}"/>'
)


class Reader(NamedTuple):
    """A reader and an input of two good lines, after which the faulty line comes."""

    read: Callable[[Path], object]
    file: str
    """The name of the file that is faulty."""
    good: str
    others: Files = MappingProxyType({})
    end: str = ""


def _read_truth(folder: Path) -> object:
    return read_truth(folder / "truth", read_pairs(folder, Notices()).pairs)


READERS = {
    "pairs": Reader(lambda f: read_pairs(f, Notices()), "pairs", "s1 src/q1\ns1 r-x\n", MANY),
    "corpus": Reader(
        lambda f: list(stream_corpus(f, Notices())),
        "corpus.jsonl",
        '{"doc_id": "a", "text": "x"}\n{"doc_id": "b", "text": "x"}\n',
    ),
    "queries": Reader(
        lambda f: read_queries(f, Notices()),
        "queries.jsonl",
        '{"qid": "1", "query": "a"}\n{"qid": "2", "query": "a"}\n',
    ),
    "qrels": Reader(lambda f: read_qrels(f / "qrels.txt"), "qrels.txt", "1 0 a 2\n1 0 b 0\n"),
    "run": Reader(lambda f: read_run(f / "run.txt"), "run.txt", "1 Q0 a 1 9 t\n1 Q0 b 2 8 t\n"),
    "decisions": Reader(
        lambda f: read_decisions(f / "d.jsonl"),
        "d.jsonl",
        "".join(f'{{"suspicious": "s", "source": "{r}", "decision": true}}\n' for r in "ab"),
    ),
    "truth": Reader(_read_truth, "truth/s1-r1.xml", f"{XML}\n", {**TEXTS, "pairs": "s1 r1\n"}, "\n</document>"),
    "detections": Reader(lambda f: read_features(f, "plagiarism"), "s1-r1.xml", f"{XML}\n", {}, "\n</document>"),
    "table": Reader(
        lambda f: prepare_pairs(f / "pairs.csv", f.parent / "out"),
        "pairs.csv",
        "suspicious,source\nsusp/s1.txt,src/r1.txt\n",
        {**TEXTS, "empty.txt": ""},
    ),
    "names": Reader(read_names, "names.csv", "id,name\nx,1\n"),
}
PACK = ", or pack it with gzip instead"
FOREIGN = {
    "a zstd file": (b"\x28\xb5\x2f\xfd\x04\x00\x59\x00\x00{}\n", "Unpack it"),
    "a bzip2 file": (bz2.compress(b"text"), "Unpack it"),
    "an xz file": (lzma.compress(b"text"), "Unpack it"),
    "a ZIP archive": (b"PK\x03\x04 archive", "Unpack it"),
    "a PDF": (b"%PDF-1.7\n%\xe2\xe3\n", "Put the right file there"),
    "a web page": (b"\n<!DOCTYPE HTML>\n<html><title>Sign in</title>", "Fetch the file again, signed in"),
    "a pointer of Git LFS, not the file itself": (
        b"version https://git-lfs.github.com/spec/v1\n",
        "Run `git lfs pull`",
    ),
}


def refuse(reader: Reader, folder: Path) -> str:
    with pytest.raises(UserError) as error:
        reader.read(folder)
    said = str(error.value)
    assert said.isprintable()
    assert len(said) < 1200
    assert re.search(r"\. [A-Z][a-z]+ ", said), "it says what to do"
    return said.removeprefix(f"{folder / reader.file}:")


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_what_is_no_text_of_its_own(name: str, write: Write) -> None:
    reader = READERS[name]
    for kind, (content, remedy) in FOREIGN.items():
        said = refuse(reader, write({**reader.others, reader.file: content}))
        assert said.startswith((f" this is {kind}. {remedy}", f" this is {kind}, not")), said
    folder = write({**reader.others, reader.file: reader.good.encode() + b"Das M\xe4dchen\n"})
    said = refuse(reader, folder)
    assert re.match(r"3: not UTF-8: byte \d+ (of the line )?is 0xe4 .*, it seems to be Latin-1 .*\. Convert", said), (
        said
    )


OF_JSON = [
    ("{", "not JSON: .*. Correct the line"),
    ("[1]", "expected a JSON object, found list. Write one object per line"),
    ('{"a": NaN}', "not readable as JSON: NaN is not a JSON number. "),
    ('{"a": 1e999}', "not readable as JSON: 1e999 is too large for a number. "),
]
OF_NUMBERS = [
    (FEATURE.format(*row), what)
    for row, what in (
        (("offset", -1, "length", 1, "offset", 1, "length", 1), "this_offset='-1' is not a whole number from 0"),
        (("offset", 1.5, "length", 1, "offset", 1, "length", 1), "this_offset='1.5' is not a whole number"),
        (("offset", "1e999", "length", 1, "offset", 1, "length", 1), "this_offset='1e999' is not a whole number"),
        (("offset", 0, "length", "", "offset", 1, "length", 1), "this_length='' is not a whole number"),
        (("offset", 0, "length", 1, "offset", "", "length", 1), "source_offset='' is not a whole number"),
        (
            ("offset", 0, "length", 1, "offset", 0, "length", "9" * 5000),
            "source_length='9{10,60}...' is not a whole num",
        ),
        (("offset", 10**15 + 1, "length", 1, "offset", 0, "length", 1), "this_offset=.* from 0 to 1000000000000000"),
    )
]
OF_XML = [
    ("<feature>", "not well-formed XML: "),
    ("&undefined;", "not well-formed XML: "),
    ('<!DOCTYPE d SYSTEM "http://example.org/d.dtd">', "contains a DOCTYPE, which is refused. Remove the DOCTYPE"),
]
FAULTS: dict[str, list[tuple[str, str]]] = {
    "pairs": [
        ("s1 r1 x", "expected two columns, found 3"),
        ("s1", "expected two columns, found 1"),
        ("s1 nowhere", "no file for the id 'nowhere'. Add"),
        ("../secret.txt r1", "the id .* leads outside the directory"),
        ("susp/../../secret.txt r1", "the id .* leads outside the directory"),
        ("/etc/passwd r1", "the id .* leads outside the directory"),
        ("link.txt r1", "the id .* leads outside the directory"),
        ("susp r1", "no file for the id 'susp'"),
        ("susp/ r1", ".* names no file"),
        ("susp/.txt r1", ".* names no file"),
        ("s1\0 r1", r"a control character in the id 's1\\x00'"),
        ("\x1b[2Js1 r1", r"a control character in the id '\\x1b\[2Js1'. Correct"),
        ("s" * 600 + " r1", "an id of 600 characters"),
        ("s" * 300 + " r1", "no file for the id"),
        ("both r1", "several files for the id 'both'"),
        (f"{LONG} {LONG}", "the result's name '.*' is too long for a file name. Shorten"),
        ("S1 src/q1", "the result 'S1-q1.xml' would overwrite that of line 1"),
        ("susp/s1 more/q1", "the result 's1-q1.xml' would overwrite that of line 1"),
        ("s1-r x", "the result 's1-r-x.xml' would overwrite that of line 2"),
        (".s2 r2", "the result '.s2-r2.xml' would be a hidden file, which evaluators skip. Rename"),
    ],
    "corpus": [
        *OF_JSON,
        ('{"text": "x"}', "no id: expected one of docno, docid, doc_id"),
        ('{"doc_id": "c"}', "no text: expected text or default_text. "),
        ('{"doc_id": "c", "text": null}', "the field text is not a string"),
        ('{"doc_id": true, "text": "x"}', ".*neither a string nor a whole number"),
        ('{"doc_id": "", "text": "x"}', "an empty id"),
        ('{"doc_id": "b c", "text": "x"}', "white space in the id"),
        ('{"doc_id": "b\\ud800", "text": "x"}', "a control character in the id"),
        ('{"doc_id": "\\u001b]0;owned\\u0007", "text": "x"}', r"a control character in the id '\\x1b\]0;owned\\x07'"),
        ('{"doc_id": "b", "docno": "c", "text": "x"}', ".* differ"),
        ('{"doc_id": "a", "text": "y"}', "the document 'a' has a different text in line 1. Keep one"),
    ],
    "queries": [
        *OF_JSON,
        ('{"qid": "3", "query": " \\n"}', "the query '3' is empty"),
        ('{"qid": "3", "text": "x"}', "no text: expected query"),
        ('{"query": "x"}', "no id: expected one of qid, query_id"),
        ('{"qid": "2", "query_id": "3", "query": "x"}', ".* differ"),
        ('{"qid": "1", "query": "x"}', "the query '1' occurs twice. "),
        ('{"qid": "a b", "query": "x"}', "white space in the id"),
        ('{"qid": "#1", "query": "x"}', "the query id '#1' begins with .* Rename"),
        ('{"qid": "\\ufeffq", "query": "x"}', r"the query id '\\ufeffq' begins with .* Rename"),
    ],
    "qrels": [
        ("1 0 c", "expected 4 columns, found 3. "),
        ("1 0 c x", "the grade 'x' is not a whole number. Correct"),
        ("1 0 c 1.0", "the grade '1.0' is not a whole number. Correct"),
        ("1 0 c 1e999", "the grade '1e999' is not a whole number. Correct"),
        ("1 0 c \u0661", "the grade '\u0661' is not a whole number. Correct"),
        ("1 0 a 1", "'a' is judged twice for query '1'. Keep one line"),
        ("#2 0 c 1", "begins with #: some evaluators skip .*. Rename the query"),
    ],
    "run": [
        ("1 Q0 c 3 5", "expected 6 columns, found 5"),
        ("1 Q0 c d 3 5.5 t", "expected 6 columns, found 7. Write .* without"),
        ("1 Q0 c 3.0 5 t", "rank '3.0'"),
        ("1 Q0 c 3 x t", "rank '3' or score 'x' is not a number"),
        ("1 Q0 c 3 1_0 t", "rank '3' or score '1_0' is not a number. "),
        ("1 Q0 c 3 nan t", "the score 'nan' is not finite. Correct the line"),
        ("1 Q0 a 3 5 t", "'a' occurs twice for query '1'. Keep one line"),
        ("#2 Q0 c 1 9 t", "begins with #: some evaluators .*. Rename"),
    ],
    "decisions": [
        *OF_JSON,
        ('{"suspicious": "s"}', ".* must be strings"),
        ('{"suspicious": "s", "source": 1}', ".* must be strings"),
        ('{"suspicious": "s", "source": "c"}', ".*'decision' must be"),
        *(
            (
                f'{{"suspicious": "s", "source": "c", "decision": false, "{name}": "0.5"}}',
                f".*'{name}' is not a valid num",
            )
            for name in ("score", "threshold")
        ),
        ('{"suspicious": "s", "source": "a", "decision": false}', ".*repeats the pair s and a. Give"),
    ],
    "truth": [
        *OF_XML,
        *OF_NUMBERS,
        (
            FEATURE.format("offset", 0, "length", 0, "offset", 0, "length", 1),
            "this_length='0' is not a whole number from",
        ),
    ],
    "detections": [
        *OF_XML,
        *OF_NUMBERS,
        (FEATURE.format("offset", 0, "length", 0, "offset", 0, "length", 0), ".*lengths of a feature are 0"),
    ],
    "table": [
        ("a,b,c", "expected 2 columns, found 3"),
        ("susp/s1.txt,none.txt", "the file 'none.txt' does not exist. Correct the path"),
        ('"susp/s2.txt,src/r2.txt', "not CSV"),
        ("x\x1b,y", ".*control characters"),
    ],
    "names": [
        ("a,b,c", "not a map 'id,name'. "),
        ("a", "not a map"),
        ("x,2", "not a map"),
        ('"x', "not (a map|CSV)"),
    ],
}


@pytest.mark.parametrize(("name", "line", "what"), [(name, *row) for name, rows in FAULTS.items() for row in rows])
def test_a_faulty_line_is_named(name: str, line: str, what: str, write: Write) -> None:
    reader = READERS[name]
    folder = write({**reader.others, reader.file: f"{reader.good}{line}{reader.end}"})
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    assert re.match(rf"[34]: {what}", said := refuse(reader, folder)), said
    assert not (folder.parent / "out").exists(), "nothing is written"


EMPTY = {
    "pairs": ("\n", "contains no pairs"),
    "corpus": ("", "the corpus is empty"),
    "queries": ("", "the file has no queries"),
    "qrels": ("\n", "contains no judgements"),
    "run": ("", "the run is empty"),
    "truth": ("", "not well-formed XML"),
    "detections": ("", "not well-formed XML"),
    "table": ("suspicious,source\n", "contains no pairs"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_file_is_refused(name: str, write: Write) -> None:
    reader, (content, what) = READERS[name], EMPTY[name]
    assert what in refuse(reader, write({**reader.others, reader.file: content}))


@pytest.mark.parametrize("name", ["corpus", "queries", "qrels", "run", "decisions"])
def test_packed_lines_are_read_or_refused(name: str, write: Write) -> None:
    reader = READERS[name]
    good = gzip.compress(reader.good.encode())
    reader.read(write({**reader.others, reader.file: good}))
    for content, what in (
        (good[:-9], "the gzip file is cut off. Fetch it again"),
        (good + b"garbage", "cannot be read: Not a gzipped file"),
        (gzip.compress(good), "this is a gzip file. Unpack"),
        (gzip.compress(b"[" + b" " * (33 << 20)), "line longer than 33554432 bytes. "),
    ):
        assert what in refuse(reader, write({**reader.others, reader.file: content}))


def test_every_faulty_line_of_pairs_tables_and_truth_is_reported(write: Write) -> None:
    folder = write({"pairs": "s1 r1\nno1 no2\nx\n/a r1\ns1 r1 r2\n", "pairs.csv": "a,b,c\nsusp/s1.txt,none\n", **TEXTS})
    for read, lines in (
        (READERS["pairs"].read, ["2", "2", "3", "4", "5"]),
        (READERS["table"].read, ["1", "2"]),
    ):
        with pytest.raises(UserError) as error:
            read(folder)
        assert [line.split(":")[1] for line in str(error.value).split("\n")] == lines
