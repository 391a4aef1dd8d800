"""Rows of truth."""

from tests.bad_input.inputs import DOCTYPE, PAIRS, RETRIEVAL, TRUTH, Bad, results, truth

ROWS = {
    "no truth": Bad(PAIRS, ": no truth was found in the input folder; give", "calibrate"),
    "results as truth": Bad(PAIRS | results("out"), ": no truth was found in the input folder; give", "evaluate"),
    "results with a mark as truth": Bad(
        PAIRS | TRUTH | {".pan_scdg.json": None, "truth/.pan_scdg.json": "{}"}, ": no truth was found in", "evaluate"
    ),
    "results beside decisions as truth": Bad(
        PAIRS | {f"out/{name[6:]}": text for name, text in TRUTH.items()} | {"out/decisions.jsonl": ""},
        ": no truth was found in the input folder; give",
        "calibrate",
    ),
    "results as a folder of truth": Bad(
        PAIRS | results("truth"), ": no truth was found in the input folder", "calibrate"
    ),
    "truth of a pair missing": Bad(
        PAIRS | TRUTH | {"truth/s2-r2.xml": None}, "/truth: the truth file 's2-r2.xml' does not exist; ", "calibrate"
    ),
    "malformed XML": Bad(
        truth('<document reference="s2.txt">\n<feature\n'), "/truth/s2-r2.xml:3: not well-", "calibrate"
    ),
    "a DOCTYPE": Bad(truth(DOCTYPE), "/truth/s2-r2.xml:2: contains a DOCTYPE, which is refused; remove", "calibrate"),
    "a DOCTYPE, evaluated": Bad(truth(DOCTYPE), "/truth/s2-r2.xml:2: contains a DOCTYPE", "evaluate"),
    "XML not UTF-8": Bad(
        PAIRS | TRUTH | {"truth/s2-r2.xml": b"<document\nreference='\xff'/>"},
        "/truth/s2-r2.xml:2: not UTF-8",
        "calibrate",
    ),
    "an offset that is none": Bad(
        truth(TRUTH["truth/s1-r1.xml"].replace("1.txt", "2.txt").replace('"9"', '"1e9"', 1)),
        "/truth/s2-r2.xml:2: this_length='1e9' is not a whole number",
        "calibrate",
    ),
    "truth of another document": Bad(
        truth('<document reference="s1.txt"/>'), "/truth/s2-r2.xml:1: the root's reference is 's1.txt'", "calibrate"
    ),
    "one class only": Bad(
        PAIRS | TRUTH | {f"truth/s{i}-r{i}.xml": f'<document reference="s{i}.txt"/>' for i in (1, 2)},
        "/truth: all pairs have the same label; calibrate on pairs of both classes",
        "calibrate",
    ),
    "qrels of three columns": Bad(
        RETRIEVAL | {"qrels.txt": "q1 0 d/1 1\nq1 0 d/2\n"}, "/qrels.txt:2: expected 4 columns, found 3; ", "evaluate"
    ),
    "no qrels": Bad(RETRIEVAL, "/qrels.txt: the qrels are missing; give the file with --truth", "evaluate"),
}
