"""Rows of what the studies are given, of first stages and of ready indexes."""

from tests.bad_input.inputs import PAIRS, RETRIEVAL, Bad

PREPARE = "studies prepare --data {input} --output {output} --part pan26"
PREPARE_GIVEN = f"{PREPARE} --given pan26-folds={{input}}/folds.jsonl"
RERANK = "run --input {input} --output {output} --profile {profile} --model {model} --device cpu"
QRELS = "q1 0 d/1 1\nq2 0 d/2 1\nq3 0 d/3 1\n"
FOLDS = "".join(f'{{"query_id": "q{i}", "fold": {i - 1}}}\n' for i in (1, 2, 3))


def _folds(text: str, says: str) -> Bad:
    """A file of folds that the user gives for the data of PAN 2026."""
    data = {f"pan26/{name}": content for name, content in (RETRIEVAL | {"qrels.txt": QRELS}).items()}
    return Bad(data | {"folds.jsonl": text}, f"/folds.jsonl{says}", PREPARE_GIVEN)


def _fold(second: str, says: str) -> Bad:
    return _folds(f'{{"query_id": "q1", "fold": 0}}\n{second}\n', f":2: {says}")


def _first_stage(second: str, says: str) -> Bad:
    files = RETRIEVAL | {"../first.txt": f"q1 Q0 d/1 1 9 x\n{second}\n"}
    return Bad(files, f"^.*/first.txt{says}", f"{RERANK} --candidates {{input}}/../first.txt")


def _index(catalogue: str | bytes, says: str) -> Bad:
    files = RETRIEVAL | {"../index/index.json": catalogue}
    return Bad(files, f"^.*/index.json{says}", f"{RERANK} --index {{input}}/../index")


RETENTION = "studies retention --examples --output {output}"

ROWS = {
    "scores of a study that are none": Bad(
        PAIRS, ": holds no finished shard; finish", f"{RETENTION} --scores {{input}}"
    ),
    "a planned shard of a study": Bad({}, "^--plan, --shard and --scores cannot be", f"{RETENTION} --plan --shard 1/2"),
    "a study of a share beyond all": Bad(
        {}, "^Invalid value for '--shard': '3/2' is not I/N", f"{RETENTION} --shard 3/2"
    ),
    "a study for an unknown GPU": Bad(
        {}, "^--gpu: the speed of the GPU 'abacus' is not", f"{RETENTION} --plan --gpu abacus"
    ),
    "a study of nothing": Bad(PAIRS, ".*; ", PREPARE),
    "a study of two places": Bad({}, "^give either --data or --examples; see --help", f"{PREPARE} --examples"),
    "folds that are no JSON": _fold("{", "not JSON: .*; correct the line"),
    "a fold beyond all numbers": _fold('{"query_id": "q2", "fold": 1e999}', "not readable as JSON: 1e999"),
    "a fold that is none": _fold('{"query_id": "q2", "fold": 7}', "fold: Input should be less than 5; correct"),
    "a fold of no query": _fold('{"fold": 1}', "query_id: Field required; "),
    "a fold of an unknown query": _fold('{"query_id": "q9", "fold": 1}', "the query 'q9' is not in the data; give"),
    "a query in two folds": _fold(
        '{"query_id": "q1", "fold": 1}', "the query 'q1' occurs twice, first in line 1; keep one"
    ),
    "folds nested deeply": _folds("[" * 100_000, ":1: not readable as JSON: nested deeper than 64 levels; "),
    "folds of millions of values": _folds(
        '{"a": [' + "0," * 200_000 + "0]}", ":1: not readable as JSON: more than 100000 values; "
    ),
    "a study into another's folder": _folds(FOLDS, "")._replace(
        says="^{output}: the output directory is not empty: it holds 'index.json'; ", output={"index.json": "{}"}
    ),
    "no first stage": Bad(RETRIEVAL, "^.*/none: the run does not exist; ", f"{RERANK} --candidates {{input}}/../none"),
    "a first stage scored by no number": _first_stage("q2 Q0 d/2 1 nan x", ":2: the score 'nan' is not finite; "),
    "a first stage scored beyond all": _first_stage("q2 Q0 d/2 1 1e999 x", ":2: the score '1e999' is not finite; "),
    "a first stage of an unknown document": _first_stage("q2 Q0 d/9 1 9 x", ".*d/9.*; "),
    "an index that is no JSON": _index("{", ": .*; "),
    "an index nested deeply": _index("[" * 100_000, ": .*nested deeper than 64 levels; "),
    "an index in Latin-1": _index(b'{"a": "\xe9"}', ": .*; "),
    "an index of no number": _index('{"format": NaN}', ": .*NaN is not a JSON number; "),
}
