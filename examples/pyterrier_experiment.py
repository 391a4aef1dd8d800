"""Compare BM25 with BM25 >> SCDG: ``python examples/pyterrier_experiment.py examples/pan26-retrieval``.

Needs the extra ``terrier``, Java, and `pan-scdg models fetch terrier`.
"""

import gzip
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from ir_measures import AP, R, nDCG

from pan_scdg.pyterrier import Scdg
from pan_scdg.retrieval.terrier_jars import start_terrier

folder = Path(sys.argv[1])
pt = start_terrier()
with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
    texts = {document["doc_id"]: document["default_text"] for document in map(json.loads, lines)}
queries = pd.read_json(folder / "queries.jsonl", lines=True, dtype=str)
qrels = pd.read_csv(folder / "qrels.txt", sep=" ", names=["qid", "iteration", "docno", "label"], dtype={"qid": str})

with TemporaryDirectory() as index:
    indexer = pt.IterDictIndexer(index, meta={"docno": 64})
    bm25 = (
        pt.rewrite.tokenise()  # Terrier's query parser would read punctuation as operators
        >> pt.terrier.Retriever(indexer.index({"docno": i, "text": text} for i, text in texts.items()), wmodel="BM25")
        >> pt.rewrite.reset()
        >> pt.apply.text(lambda row: texts[row["docno"]])
    )
    pipelines = [bm25 % 10, bm25 % 10 >> Scdg("offline", device="cpu")]
    # AP and recall ignore the order of grades; this nDCG has linear gains, that of PAN 2026 exponential ones
    print(pt.Experiment(pipelines, queries, qrels, [nDCG @ 10, AP, R @ 3], names=["BM25", "BM25 >> SCDG"], round=4))
