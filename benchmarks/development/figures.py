"""Simple methods on the development set: ``python -m benchmarks.development.figures [--minilm] PAIRS [RETRIEVAL]``.

PAIRS is what ``build`` wrote, RETRIEVAL the folder that ``retrieval`` wrote. Prints the tables of the README.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np

from benchmarks.development.compose import Neighbours, Pair
from benchmarks.simple_pair_scores import (
    Floats,
    TextPairs,
    content_word_overlap,
    four_gram_containment,
    minilm_cosine,
    tfidf_cosine,
)
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.evaluation.retrieval import compute_per_query
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus

Method = Callable[[TextPairs], Floats]
METHODS: dict[str, Method] = {
    "4-gram containment": four_gram_containment,
    "TF-IDF": tfidf_cosine,
    "content words": content_word_overlap,
}


def row(name: str, pairs: Sequence[Pair], methods: dict[str, Method]) -> str:
    """Counts, mean lengths and the AUROC of every method, as a line of a table."""
    labels = [bool(p.label) for p in pairs]
    texts = [(p.target, p.source) for p in pairs]
    lengths = [f"{np.mean([len(t[side]) for t in texts]):,.0f}" for side in (0, 1)]
    nothing = np.zeros(len(labels), dtype=bool)
    aurocs = [f"{compute_pair_metrics(labels, method(texts), nothing)['auroc']:.3f}" for method in methods.values()]
    counts = f"{sum(labels)} + {len(labels) - sum(labels)}"
    return f"| {' | '.join([name, counts, *lengths, *aurocs])} |"


def tfidf_ndcg(folder: Path) -> dict[str, float]:
    """nDCG@10 of TF-IDF cosine of whole texts, by query."""
    corpus = sorted(stream_corpus(folder, Notices()))
    neighbours = Neighbours([d.text for d in corpus])
    runs = {
        q.query_id: [(corpus[n].doc_id, -float(rank)) for rank, n in enumerate(neighbours.order(q.text)[:100])]
        for q in read_queries(folder, Notices())
    }
    return dict(compute_per_query(read_qrels(folder / "qrels.txt"), runs)["nDCG@10"])


@click.command(help=__doc__)
@click.argument("pairs", type=click.Path(path_type=Path))
@click.argument("retrieval", type=click.Path(path_type=Path), required=False)
@click.option("--minilm", is_flag=True, help="MiniLM too (takes minutes).")
def main(pairs: Path, retrieval: Path | None, minilm: bool) -> None:
    methods = METHODS | ({"MiniLM": minilm_cosine} if minilm else {})
    groups: dict[str, list[Pair]] = defaultdict(list)
    for line in pairs.read_text("utf-8").rstrip("\n").split("\n"):
        pair = Pair(**json.loads(line))
        groups[pair.kind].append(pair)
        if pair.kind in ("same-question", "passage-inside", "summary-inside", "altered-inside"):
            groups[f"{pair.kind}, {pair.id.split('/')[1]}"].append(pair)
    click.echo(f"| kind | pairs | target | source | {' | '.join(methods)} |\n|{' --- |' * (len(methods) + 4)}")
    for name in sorted(groups):
        click.echo(row(name, groups[name], methods))
    if retrieval is not None:
        by_strength: dict[str, list[float]] = defaultdict(list)
        for query, value in tfidf_ndcg(retrieval).items():
            by_strength[query.rsplit("-", 1)[1]].append(value)
        click.echo("\n| queries | number | TF-IDF nDCG@10 |\n| --- | --- | --- |")
        for name, values in sorted(by_strength.items()):
            click.echo(f"| {name} | {len(values)} | {np.mean(values):.3f} |")


if __name__ == "__main__":
    main()
