"""Rows of the program's own files, which others may have changed, and of outputs that lie where something is read."""

import json

from tests.bad_input.inputs import PAIRS, RETRIEVAL, TEXT, TRUTH, Bad, Files

RUN = "run --input {input} --output {output} --profile pan25-containment"
MARK = ".pan_scdg.json"
DIGEST = "0" * 64


def _marked(mark: str | bytes, says: str, command: str = RUN, name: str = MARK) -> Bad:
    return Bad(PAIRS | TRUTH, f"^{{output}}/{says}", command, output={name: mark})


def _target(words: str, says: str, files: Files = PAIRS | TRUTH) -> Bad:
    return Bad(files, says, words)


EVALUATE = "evaluate --input {input} --output {output}"
FILES = {"decisions.jsonl": DIGEST}
CALIBRATE = "calibrate --input {input} --profile {profile} --write"
SCORE = "score {input}/susp/s1.txt {input}/src/r1.txt --profile {profile} --model {model} --device cpu --tokens"

ROWS = {
    "a mark that is no JSON": _marked("{", f"{MARK}: is not as this program wrote it"),
    "a mark that is a list": _marked("[]", f"{MARK}: is not as this program wrote it"),
    "a mark without anything": _marked("{}", f"{MARK}: is not as this program wrote it: job: Field required"),
    "a mark without files": _marked('{"job": {}, "files": {}}', f"{MARK}: is not as this program wrote it: files"),
    "a mark in Latin-1": _marked(b'{"job": "\xe9"}', f"{MARK}: is not as this program wrote it"),
    "a mark nested 100,000 deep": _marked('{"job": ' + "[" * 100_000, f"{MARK}: .*nested deeper than 64 levels; "),
    "a mark of 5,000 digits": _marked('{"job": {"a": ' + "9" * 5000 + "}}", f"{MARK}: is not as this program wrote it"),
    "a mark of no number": _marked('{"job": {"a": NaN}}', f"{MARK}: is not as .*: NaN is not a JSON number; "),
    "a mark of an infinite number": _marked('{"job": {"a": 1e999}}', f"{MARK}: is not as .*: 1e999 is too large"),
    "a mark of another kind": _marked(
        json.dumps({"job": {}, "files": FILES, "x": 1}), f"{MARK}: is not as .*: x: Extra"
    ),
    "a mark that names a file outside": _marked(
        json.dumps({"job": {}, "files": {"../secret.txt": DIGEST}}), f"{MARK}: is not as .* leads out of its folder"
    ),
    "a mark that names an absolute place": _marked(
        json.dumps({"job": {}, "files": {"/etc/hostname": DIGEST}}), f"{MARK}: is not as .*not a relative path"
    ),
    "a mark that is a folder": _marked("", f"{MARK}: not a regular file; remove it", name=f"{MARK}/x"),
    "another's mark": _marked(
        json.dumps({"job": {}, "files": FILES}),
        "?: holds the result of another input, profile or setting; choose another --output",
    ),
    "a state nested 100,000 deep": _marked("[" * 100_000, ".*nested deeper", name=".pan_scdg/job.json"),
    "a hidden list of files outside": _marked(
        json.dumps({"job": {}, "files": {"../../x": DIGEST}}),
        ".*leads out of its folder",
        name=".pan_scdg/manifest.json",
    ),
    "a mark, evaluated": _marked("[" * 100_000, f"{MARK}: .*nested deeper than 64 levels; ", EVALUATE),
    "a mark of no number, evaluated": _marked('{"job": {"a": NaN}}', f"{MARK}: is not as .*: NaN", EVALUATE),
    "no shards": _target("merge --input {input} --output {output}", "^Missing argument 'SHARDS...'.*; see --help"),
    "a shard that is none": _target("merge --input {input} --output {output} {input}/susp", "/susp: .*; "),
    "a share of a hundred billion": _target(
        f"{RUN} --shard 1/100000000000", "^Invalid value for .--shard.: .* <= 100000; "
    ),
    # paths
    "an output in the input": _target("run --input {input} --output {input}/out", "/out: overlaps --input; "),
    "an output that is the input": _target("run --input {input} --output {input}", ": overlaps --input; "),
    "an output around the input": _target("run --input {input}/x --output {input}", ": contains --input; "),
    "a state in the input": _target(f"{RUN} --state {{input}}/state", "/state: overlaps --input; choose"),
    "a state that is the output": _target(f"{RUN} --state {{output}}", "^{output}: overlaps --output; "),
    "a ranking in its corpus": _target(
        "run --input {input} --output {input}/out --profile pan26-bm25-full", "/out: overlaps --inp", RETRIEVAL
    ),
    "an index in its corpus": _target(
        "index --input {input} --index {input}/index", "/index: overlaps --input; choose", RETRIEVAL
    ),
    "a calibration over the pairs": _target(f"{CALIBRATE} {{input}}/pairs", "/pairs: overlaps --input; choose"),
    "a calibration over a text": _target(f"{CALIBRATE} {{input}}/susp/s1.txt", "/susp/s1.txt: overlaps --input"),
    "tokens over a text": _target(f"{SCORE} {{input}}/src/r1.txt", "/src/r1.txt: overlaps SOURCE; choose"),
    "tokens over a file of another kind": _target(
        f"{SCORE} {{input}}/thesis.md",
        "/thesis.md: already exists and does not contain the ",
        {**PAIRS, "thesis.md": TEXT},
    ),
}
