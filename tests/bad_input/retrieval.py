"""Rows of corpora and queries."""

import gzip

from tests.bad_input.inputs import BLANKS, DOCUMENTS, ESCAPE, QUERIES, RETRIEVAL, Bad, corpus, lines, queries

ROWS = {
    "a corpus that is no JSON": Bad(corpus(DOCUMENTS[0], "{oops"), "/corpus.jsonl:2: not JSON: .*; correct the line"),
    "queries that are no JSON": Bad(queries(*QUERIES, "[1,"), "/queries.jsonl:4: not JSON: .*; correct the line"),
    "deep nesting": Bad(corpus("[" * 100_000), "/corpus.jsonl:1: not readable as JSON"),
    "not a number": Bad(corpus('{"doc_id": NaN}'), "/corpus.jsonl:1: not readable as JSON: NaN"),
    "a number that is too large": Bad(corpus('{"doc_id": 1e999}'), "/corpus.jsonl:1: not readable as JSON: 1e999"),
    "millions of values in a small line": Bad(
        RETRIEVAL
        | {"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(b'{"a": [' + b"{}," * (10 << 20) + b"{}]}")},
        "/corpus.jsonl.gz:1: not readable as JSON: more than 100000 values; ",
    ),
    "no object": Bad(corpus(DOCUMENTS[0], [1]), "/corpus.jsonl:2: expected a JSON object, found list; "),
    "no text": Bad(corpus({"doc_id": "d"}), "/corpus.jsonl:1: no text: expected text or default_text; "),
    "one id, two texts": Bad(
        corpus(*DOCUMENTS, DOCUMENTS[1] | {"default_text": "other"}),
        "/corpus.jsonl:5: the document 'd/2' has a different text in line 2; keep one",
    ),
    "one query twice": Bad(queries(QUERIES[0], QUERIES[0]), "/queries.jsonl:2: the query 'q1' occurs twice; "),
    "an empty query": Bad(queries(QUERIES[0], QUERIES[1] | {"query": " "}), "/queries.jsonl:2: the query 'q2' is em"),
    "a document id with white space": Bad(
        corpus(DOCUMENTS[0] | {"doc_id": "d 1"}), "/corpus.jsonl:1: white space in the id 'd 1'; correct"
    ),
    "a query id with a line break": Bad(
        queries(QUERIES[0] | {"qid": "q\n1"}), r"/queries.jsonl:1: white space in the id 'q\\n1'; correct"
    ),
    "a document id with control characters": Bad(
        corpus(DOCUMENTS[0] | {"doc_id": ESCAPE}), r"/corpus.jsonl:1: a control character in the id '\\x1b"
    ),
    "an empty corpus": Bad(corpus(), "/corpus.jsonl: the corpus is empty; "),
    "a corpus not UTF-8": Bad(
        RETRIEVAL | {"corpus.jsonl": b'{"doc_id": "\xff"}\n'}, "/corpus.jsonl:1: not UTF-8: byte 12"
    ),
    "no gzip": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": b"plain"}, "/corpus.jsonl.gz:1: cannot be read: "
    ),
    "a cut gzip": Bad(
        RETRIEVAL | {"corpus.jsonl": None, "corpus.jsonl.gz": gzip.compress(lines(*DOCUMENTS).encode())[:-12]},
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
}
