"""Rows of results, which come from anybody as input does: decisions, detections, runs, scores."""

import gzip
import json

from tests.bad_input.inputs import PAIRS, RETRIEVAL, TEXT, TRUTH, Bad, Files

DECISIONS = [
    {"suspicious": f"s{i}", "source": f"r{i}", "decision": i < 3, "score": 1.5 - i, "threshold": 0.5} for i in (1, 2, 3)
]
HUGE = "9" * 400


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
RUN = "".join(f"q{i} Q0 d/{i} 1 1000 x\n" for i in (1, 2, 3))


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


def _compared(files: Files, says: str) -> Bad:
    """A result held beside a good one."""
    good = {f"b/{name}": content for name, content in _decided({}).items()}
    return Bad({f"a/{name}": content for name, content in files.items()} | good, says, "compare {input}/a {input}/b")


ROWS = {
    "decisions that are no JSON": _of_pairs("{oops", "/decisions.jsonl:2: not JSON: .*; correct the line"),
    "decisions that are no objects": _of_pairs("[1]", "/decisions.jsonl:2: expected a JSON object, found list; "),
    "an empty line of decisions": _of_pairs("", "/decisions.jsonl:2: not JSON: "),
    "decisions not UTF-8": _of_pairs(b'{"suspicious": "\xe9"}', "/decisions.jsonl:2: not UTF-8: byte 16 of the line"),
    "decisions nested deeply": _of_pairs('{"a": ' * 9999, "/decisions.jsonl:2: not readable as JSON: nested deep"),
    "a decision of many values": _of_pairs(
        '{"a": [' + "0," * 200_000 + "0]}", "/decisions.jsonl:2: not readable as JSON: more than 100000 values; "
    ),
    "a score beyond all numbers": _of_pairs(
        json.dumps(DECISIONS[1]).replace("-0.5", "1e999"), "/decisions.jsonl:2: not readable as JSON: 1e999 is too"
    ),
    "a score that is not a number": _of_pairs(
        {"score": float("nan")}, "/decisions.jsonl:2: not readable as JSON: NaN is not a"
    ),
    "an infinite threshold": _of_pairs(
        {"threshold": float("-inf")}, "/decisions.jsonl:2: not readable as JSON: -Infinity is"
    ),
    "a score of 400 digits": _of_pairs(
        json.dumps(DECISIONS[1]).replace("-0.5", HUGE), "/decisions.jsonl:2: 'score' is not a valid number; "
    ),
    "a score of 5,000 digits": _of_pairs(
        json.dumps(DECISIONS[1]).replace("-0.5", "9" * 5000), "/decisions.jsonl:2: not readable as JSON: "
    ),
    "a score in words": _of_pairs({"score": "high"}, "/decisions.jsonl:2: 'score' is not a valid number; "),
    "a score that is true": _of_pairs({"score": True}, "/decisions.jsonl:2: 'score' is not a valid number; "),
    "a threshold that is a list": _of_pairs(
        {"threshold": [0.5]}, "/decisions.jsonl:2: 'threshold' is not a valid number"
    ),
    "a decision that is 1": _of_pairs({"decision": 1}, "/decisions.jsonl:2: 'decision' must be true, false or null"),
    "a line without a decision": _of_pairs(
        '{"suspicious": "s2", "source": "r2"}', "/decisions.jsonl:2: 'decision' must"
    ),
    "an id that is a number": _of_pairs(
        {"source": 2}, "/decisions.jsonl:2: 'suspicious' and 'source' must be strings; "
    ),
    "a pair decided twice": _of_pairs(DECISIONS[0], "/decisions.jsonl:2: repeats the pair of line 1; keep one"),
    "a pair not decided": _of_pairs({"source": "r9"}, ": no decision for s2 and r2; run again"),
    "no decisions": Bad(PAIRS | TRUTH, "^{output}: decisions.jsonl does not exist; finish `run`", "evaluate"),
    # detections
    "a detection at no number": _detected(
        'this_offset="1e999" this_length="9" source_offset="0" source_length="9"',
        "this_offset '1e999' is not an integer",
    ),
    "a detection before the text": _detected(
        'this_offset="-5" this_length="9" source_offset="0" source_length="9"', "this_offset -5 is negative; correct"
    ),
    "a detection of 5,000 digits": _detected(
        f'this_offset="{"9" * 5000}" this_length="9" source_offset="0" source_length="9"',
        "this_offset '9+[.]{3}' is not",
    ),
    "a detection without length": _detected(
        'this_offset="5" this_length="0" source_offset="0" source_length="0"', "a feature whose lengths are 0; give"
    ),
    "a detection beyond all documents": _detected(
        f'this_offset="{HUGE}" this_length="9" source_offset="0" source_length="9"',
        "this_offset 9{40}[.]{3} is larger than 1000000000000000; correct",
    ),
    "detections that are no XML": Bad(
        PAIRS | TRUTH,
        "^{output}/s1-r1.xml:1: not well-formed XML",
        "evaluate",
        output=_decided({}) | {"s1-r1.xml": "detected!"},
    ),
    # runs and judgements
    "a run of five columns": _ranked(
        "q2 Q0 d/2 1 1000\n", ":2: expected 6 columns, found 5; write 'qid Q0 doc_id rank"
    ),
    "a run scored by no number": _ranked("q2 Q0 d/2 1 nan x\n", ":2: the score 'nan' is not finite; correct the line"),
    "a run scored beyond all": _ranked(
        "q2 Q0 d/2 1 1e999 x\n", ":2: the score '1e999' is not finite; correct the line"
    ),
    "a run scored in words": _ranked("q2 Q0 d/2 1 best x\n", ":2: rank '1' or score 'best' is not a number; correct"),
    "a run ranked in words": _ranked("q2 Q0 d/2 first 1 x\n", ":2: rank 'first' or score '1' is not a number; correct"),
    "a document ranked twice": _ranked("q1 Q0 d/1 2 999 x\n", ":2: 'd/1' occurs twice for query 'q1'; keep one line"),
    "a blank line in a run": _ranked("\n", ":2: expected 6 columns, found 0; "),
    "an empty run": Bad(
        RETRIEVAL | {"qrels.txt": QRELS}, "^{output}/run.txt: the run is empty; ", "evaluate", output={"run.txt": ""}
    ),
    "a run that is no gzip": Bad(
        RETRIEVAL | {"qrels.txt": QRELS},
        "^{output}/run.txt.gz:1: cannot be read: Not a gzipped file",
        "evaluate",
        output={"run.txt.gz": RUN},
    ),
    "a run that is cut": Bad(
        RETRIEVAL | {"qrels.txt": QRELS},
        r"^{output}/run.txt.gz:\d: the gzip file is cut off; ",
        "evaluate",
        output={"run.txt.gz": gzip.compress(RUN.encode())[:-9]},
    ),
    "no run": Bad(
        RETRIEVAL | {"qrels.txt": QRELS}, "^{output}: run.txt or run.txt.gz does not exist; finish `run`", "evaluate"
    ),
    "a grade beyond all numbers": _judged("q2 0 d/2 1e999", ":2: the grade '1e999' is not a whole number; correct"),
    "a grade that is not a number": _judged("q2 0 d/2 nan", ":2: the grade 'nan' is not a whole number; correct"),
    "a grade of many digits": _judged(
        f"q2 0 d/2 {HUGE}", ":2: the grade '9+' is not a whole number; correct the grade"
    ),
    "a document judged twice": _judged("q1 0 d/1 0", ":2: 'd/1' is judged twice for query 'q1'; keep one line"),
    "empty qrels": Bad(RETRIEVAL | {"qrels.txt": "\n"}, "/qrels.txt: contains no judgements; add", "evaluate"),
    "qrels in UTF-16": Bad(
        RETRIEVAL | {"qrels.txt": QRELS.encode("utf-16")}, "/qrels.txt:1: not UTF-8: byte 0 of the line", "evaluate"
    ),
    # compared
    "a comparison with nothing": _compared({"notes.md": TEXT}, "/a: holds no finished result of a run; give an output"),
    "a comparison of both tasks": _compared(
        {"run.txt": RUN, "decisions.jsonl": "{}\n"}, "/a: holds results of both tasks; give a folder with one"
    ),
    "a comparison of bad scores": _compared(
        _decided(json.dumps(DECISIONS[1]).replace("-0.5", "1e999")),
        "/a/decisions.jsonl:2: not readable as JSON: 1e999 is too",
    ),
    "a comparison of nothing decided": _compared(
        _decided({"decision": None}), "/a/decisions.jsonl:2: the run computed scores but no decisions"
    ),
}
