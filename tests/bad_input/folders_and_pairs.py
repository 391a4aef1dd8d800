"""Rows of input directories and pairs."""

import gzip

from tests.bad_input.inputs import DOCX, ESCAPE, ODT, PAIRS, PDF, RETRIEVAL, TEXT, Bad, archive_of

ROWS = {
    "an empty directory": Bad({"notes.md": ""}, r": no input: expected a file whose name ends in 'pairs' or "),
    "both jobs": Bad(PAIRS | RETRIEVAL, ": contains the input of both tasks; give a folder with one"),
    "no queries": Bad(RETRIEVAL | {"queries.jsonl": None}, ": no input"),
    "no corpus": Bad(RETRIEVAL | {"corpus.jsonl": None}, ": no input"),
    "two corpora": Bad(RETRIEVAL | {"documents.jsonl": "{}\n"}, ": several corpus files"),
    "two pairs files": Bad(PAIRS | {"old-pairs": ""}, ": several pairs files"),
    "a missing source": Bad(PAIRS | {"src/r2.txt": None}, "/pairs:2: no file for the id 'r2.txt'; add"),
    "unknown ids": Bad(
        PAIRS | {"pairs": "s1.txt r1.txt\ns9.txt r1.txt\ns1.txt r9.txt\n"},
        r"/pairs:2: no file for the id 's9.txt'; .*\n.*/pairs:3: no file for the id 'r9.txt'; ",
        lines=2,
    ),
    "an id with white space": Bad(PAIRS | {"pairs": "s1.txt r1.txt\ns 2.txt r2.txt\n"}, "/pairs:2: expected two col"),
    "an id with odd white space": Bad(PAIRS | {"pairs": "s1.txt\u2003r1.txt x\n"}, "/pairs:1: expected two columns"),
    "a control character": Bad(
        PAIRS | {"pairs": f"s1.txt r1.txt\ns{ESCAPE}.txt r2.txt\n"},
        r"/pairs:2: a control character in the id 's\\x1b\]0;owned\\x07.txt'; correct",
    ),
    "markup in an unknown id": Bad(
        PAIRS | {"pairs": '<b>&amp;"s1 r1.txt\n'}, "/pairs:1: no file for the id '<b>&amp;\"s1'; "
    ),
    "one column": Bad(PAIRS | {"pairs": "s1.txt r1.txt\n\ns2.txt\n"}, "/pairs:3: expected two columns, found 1; "),
    "no pairs": Bad(PAIRS | {"pairs": "\n"}, "/pairs: contains no pairs; "),
    "a way out": Bad(PAIRS | {"pairs": "s1.txt ../../secret.txt\n"}, "/pairs:1: the id .* leads outside the directory"),
    "an absolute way out": Bad(
        PAIRS | {"pairs": "s1.txt /etc/hostname\n"}, "/pairs:1: the id .* leads outside the dir"
    ),
    "pairs not UTF-8": Bad(PAIRS | {"pairs": b"s1.txt r1.txt\ns\xff2.txt r2.txt\n"}, "/pairs:2: not UTF-8: byte 15 is"),
    "a text not UTF-8": Bad(
        PAIRS | {"susp/s2.txt": b"one\r\ntwo\r\nth\xe9 end"}, "/susp/s2.txt:3: not UTF-8: byte 12 is 0xe9 .*; convert"
    ),
    "an empty target": Bad(
        PAIRS | {"susp/s2.txt": ""}, "/susp/s2.txt: the suspicious document is empty; .*, or see --on-error$"
    ),
    "two blank targets": Bad(
        PAIRS | {"susp/s1.txt": " \n\t", "susp/s3.txt": "\u2003"},
        r"/susp/s1.txt: the suspicious document is empty; .*\n.*/susp/s3.txt: the suspicious document is empty; ",
        lines=2,
    ),
    "over-long pairs": Bad(
        PAIRS | {"susp/s1.txt": TEXT * 30, "src/r3.txt": TEXT * 40},
        r"/susp/s1.txt: with r1 as source: \d{4} tokens, the profile's limit is 512; divide over-long pairs into.*\n"
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
    "a Word document": Bad(PAIRS | {"susp/s2.txt": archive_of("[Content_Types].xml", "word/document.xml")}, DOCX),
    "an OpenDocument text": Bad(PAIRS | {"susp/s2.txt": archive_of("mimetype", "content.xml")}, ODT),
    "a ZIP archive": Bad(
        PAIRS | {"susp/s2.txt": archive_of("thesis.txt")}, "/susp/s2.txt: this is a ZIP archive, not a text"
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
}
