"""Rows of the commands that read neither an input directory nor results: score, prepare, studies."""

from tests.bad_input.inputs import PAIRS, PDF, TEXT, Bad, Files

SCORE = "score {input}/a.txt {input}/b.txt --profile {profile} --model {model} --device cpu"
PREPARE = "prepare --table {input}/table.csv --output {output}/corpus"


def _score(a: str | bytes | None, b: str | bytes | None, says: str) -> Bad:
    return Bad({"a.txt": a, "b.txt": b}, says, SCORE)


def _table(text: str | bytes, says: str, **files: str | bytes) -> Bad:
    texts: Files = {"a.txt": TEXT, "b.txt": TEXT, "empty.txt": "", **{f"{k}.txt": v for k, v in files.items()}}
    return Bad(texts | {"table.csv": text}, says, PREPARE)


ROWS = {
    "a file to score that is none": _score(TEXT, None, "/b.txt: the file does not exist; give two text files"),
    "a PDF to score": _score(PDF, TEXT, "/a.txt: this is a PDF, not a text file; export it as plain text in UTF-8"),
    "an empty file to score": _score(" \n", TEXT, "/a.txt: the suspicious document is empty; "),
    "Latin-1 to score": _score(TEXT, "Käse".encode("latin-1"), "/b.txt:1: not UTF-8: byte 1 is 0xe4 "),
    "a folder to score": Bad(
        PAIRS, "^.*is a directory.*; see --help", "score {input}/susp {input}/src/r1.txt --profile {profile}"
    ),
    "standard input twice": Bad(
        {}, "^only one of the two files can be standard input; see", "score - - --model {model}"
    ),
    # prepare
    "no table": Bad({}, "/table.csv: the file does not exist; ", PREPARE),
    "an empty table": _table("", "/table.csv: contains no pairs; add lines"),
    "a table of a header": _table("suspicious,source\n", "/table.csv: contains no pairs; add lines"),
    "a table not UTF-8": _table("a.txt,b.txt\nKäse.txt,b.txt\n".encode("latin-1"), "/table.csv:2: not UTF-8: byte 13 "),
    "a table of one column": _table("a.txt\n", "/table.csv:1: expected two or three columns, found 1; "),
    "a table of other columns below": _table("a.txt,b.txt\na.txt,b.txt,yes\n", "/table.csv:2: expected two columns"),
    "a table that names no file": _table(
        "a.txt,c.txt\n", "/table.csv:1: the file 'c.txt' does not exist; correct the path"
    ),
    "a table with control characters": _table(
        "a.txt,b\x1b.txt\n", r"/table.csv:1: the file name 'b\\x1b.txt' is empty or"
    ),
    "an answer that is none": _table(
        "a.txt,b.txt,maybe\n", "/table.csv:1: 'maybe' is not an answer in the column reused"
    ),
    "two answers": _table("a.txt,b.txt,yes\na.txt,b.txt,no\n", "/table.csv:2: contradicts an earlier line"),
    "reuse of an empty file": _table(
        "a.txt,empty.txt,yes\n", "/table.csv:1: the answer is yes, but a file of the pair is empty"
    ),
    "an open quotation": _table('"a.txt,b.txt\n', "/table.csv:1: not CSV: .*; correct the line"),
    "a PDF in a table": _table("a.txt,c.txt\n", "/c.txt: this is a PDF, not a text file; export it", c=PDF),
    "a text in UTF-16 in a table": _table(
        "a.txt,c.txt\n", "/c.txt:1: not UTF-8: it seems to be UTF-16", c=TEXT.encode("utf-16")
    ),
    "a long field": _table(f"a.txt,{'x' * 200_000}\n", "/table.csv:1: not CSV: field larger than field limit"),
}
