"""Rows of the command check."""

from tests.bad_input.inputs import PDF, TEXT, Bad, Files

OPTIONS = "--output {output}/out --profile {profile} --model {model} --device cpu --no-gains"
CHECK = f"check {{input}}/susp {{input}}/src {OPTIONS}"
GOOD: Files = {"susp/a.txt": TEXT, "src/b.txt": TEXT}


def _check(changes: Files, says: str, more: str = "", lines: int = 1) -> Bad:
    return Bad(GOOD | changes, says, f"{CHECK} {more}", lines=lines)


ROWS = {
    "a folder to check that is none": _check({"susp/a.txt": None}, "/susp: the path does not exist; correct"),
    "a folder without texts": _check(
        {"src/b.txt": None, "src/photo.jpg": b"\xff\xd8"}, r"/src: contains no texts \(.txt, .md, .*\); add one"
    ),
    "Latin-1 to check": _check({"src/b.txt": "Käse".encode("latin-1")}, "/src/b.txt:1: not UTF-8: byte 1 is 0xe4 "),
    "UTF-16 to check": _check({"src/b.md": TEXT.encode("utf-16")}, "/src/b.md:1: not UTF-8: it seems to be UTF-16"),
    "a PDF that is called a text": _check({"src/b.txt": PDF}, "/src/b.txt: this is a PDF, not a text file; export it"),
    "several bad texts": _check(
        {"susp/c.txt": b"\xff\xfe", "susp/d/e.txt": PDF},
        "/susp/c.txt:1: not UTF-8: .*\n.*/susp/d/e.txt: this is a PDF, not a text file; export it",
        lines=2,
    ),
    "a page nested without end": _check(
        {"src/b.html": "<div>" * 50_000},
        "/src/b.html: not readable as HTML: elements are nested too deep; save the file",
    ),
    "a file of another format to check": Bad(
        {"a.doc": TEXT, "b.txt": TEXT},
        "/a.doc: not a format that is read: .txt, .md, .*; convert it to one of them",
        f"check {{input}}/a.doc {{input}}/b.txt {OPTIONS}",
    ),
    "a file checked with itself": Bad(
        {"b.txt": TEXT},
        "/b.txt: both sides are the same file; give another text to compare it with",
        f"check {{input}}/b.txt {{input}}/b.txt {OPTIONS}",
    ),
    "one text among itself": Bad(
        {"b.txt": TEXT},
        "/b.txt: contains only one text; give at least two with --among",
        f"check {{input}}/b.txt --among {OPTIONS}",
    ),
    "nothing to check against": Bad(GOOD, "^give SOURCES, or --among; see --help", f"check {{input}}/susp {OPTIONS}"),
    "sources of texts among each other": _check({}, "^--among takes no SOURCES; see --help", "--among"),
    "a template that is none": _check({}, "/none.txt: the file does not exist; add it", "--template {input}/none.txt"),
    "an empty template": _check(
        {"given.txt": " \n"}, "/given.txt: contains no words; give the text", "--template {input}/given.txt"
    ),
    "an output in the texts": Bad(
        GOOD,
        "/susp/out: overlaps SUSPICIOUS; choose another --output",
        "check {input}/susp {input}/src --output {input}/susp/out --profile {profile}",
    ),
    "a strict check": _check({"src/c.jpg": b"\xff\xd8"}, "/src/c.jpg: file of another format, skipped; ", "--strict"),
}
