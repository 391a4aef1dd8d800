"""Build the retrieval part: ``python -m benchmarks.development.retrieval --data DATA --out FOLDER``.

FOLDER gets the layout of PAN 2026: ``corpus.jsonl.gz``, ``queries.jsonl`` and ``qrels.txt``. The README beside this
file says what the documents and the queries are.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.development.compose import Neighbours, Pool, deal, draw, opening, with_passages
from benchmarks.development.texts import FIELDS, Block, Item, Material, material_for_command, sentences

DISTRACTORS = 284
"""Abstracts as documents: with two documents an item, about 500 in all."""
STRENGTHS = ("light", "medium", "heavy")
SECTIONS = ("Introduction", "Background", "Approach", "Findings", "Discussion", "Outlook")
ORDERS = (
    "explain discuss describe compare assess advise review report write tell answer assessing briefly critically "
    "to non-statisticians beginner a an the this your short few in on of for and newspaper continuous prose sentences "
    "question pet neighbourhood garden forum: abstract introduction motivation paper study essay encyclopaedia entry "
    "related-work section paragraph result instructions appreciation"
)
"""Words that an assignment begins with; what follows them is its topic."""


class Topic(NamedTuple):
    """A query with its relevant documents and their grades."""

    id: str
    text: str
    grades: dict[str, int]


class Shares(NamedTuple):
    """Held-out texts, each in one use only, so that no query shares a paragraph with a document by accident."""

    distractors: list[Block]
    for_documents: Pool
    for_queries: Pool


def document_id(name: str) -> str:
    """An id that says nothing about the document, since ids break ties."""
    return f"doc-{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def title(question: str) -> str:
    """The topic of an assignment, from its first sentence."""
    first = re.split(r"(?<=[.?]) ", question)[0].rstrip(".")
    orders = set(ORDERS.split())
    topic = " ".join(dropwhile(lambda word: word.lower() in orders, first.split()))
    return topic[:1].upper() + topic[1:]


def share_out(material: Material) -> Shares:
    """Abstracts nearest to the own answers become documents; the rest is drawn for either use, by work."""
    neighbours = Neighbours([b.text for b in material.abstracts])
    orders = [neighbours.order(item.answer) for item in material.items]
    ranked = dict.fromkeys(order[rank] for rank in range(len(material.abstracts)) for order in orders)
    chosen = [material.abstracts[i] for i in list(ranked)[:DISTRACTORS]]
    taken = {b.id for b in chosen}
    left = [b for b in material.blocks if b.id not in taken]
    for_queries = {b.id for b in left if draw("share", b.id.partition("#")[0]).random() < 0.35}
    return Shares(
        chosen,
        Pool(b for b in left if b.id not in for_queries),
        Pool(b for b in left if b.id in for_queries),
    )


def documents(material: Material, shares: Shares) -> Iterator[dict[str, str]]:
    """Corpus lines, sorted by id: both answers to every question among other text, and abstracts."""
    papers = {p.id: p for p in material.papers}
    texts = {document_id(b.id): f"{papers[b.id].title}\n\nAbstract\n{b.text}" for b in shares.distractors}
    used: set[str] = set()
    for item in material.items:
        for name, text in (("answer", item.answer), ("second", item.second)):
            full = _document(item, name, text, shares.for_documents, used)
            texts[document_id(f"{item.id}/{name}")] = full
    return ({"doc_id": key, "default_text": texts[key]} for key in sorted(texts))


def _document(item: Item, name: str, text: str, pool: Pool, used: set[str]) -> str:
    """Title, the first sentences as abstract, and the others among text of the same topic."""
    parts = sentences(text)
    rng = draw("document", item.id, name)
    around = deal(_unused(pool, text, used), [rng.randint(1200, 2600)], rng)[0]
    body = with_passages(around, [" ".join(parts[2:])], rng)
    return f"{title(item.question)}\n\nAbstract\n{' '.join(parts[:2])}\n\n{body}"


def _unused(pool: Pool, text: str, used: set[str]) -> Iterator[Block]:
    """The nearest blocks that no document or query has yet; each is marked once it is given out."""
    for block in pool.nearest(text, lambda b: b.id not in used):
        used.add(block.id)
        yield block


def topics(material: Material, shares: Shares) -> Iterator[Topic]:
    """60 queries: in every field each strength with two to five sources, and summaries alone of three to five."""
    used: set[str] = set()
    for field in FIELDS:
        members = [i for i in material.items if i.field == field]
        for strength in STRENGTHS:
            alike = [i for i in members if i.strength == strength]
            for count in (2, 3, 4, 5):
                chosen = _cluster(alike, 2 * (count - 2), count)
                texts = [i.paraphrase for i in chosen]
                abstract = " ".join(i.summary for i in chosen)
                name = f"{field}-n{count}-{strength}"
                yield Topic(name, _query(abstract, texts, shares.for_queries, used), _grades(chosen, 2))
        for count in (3, 4, 5):
            chosen = _cluster(members, 7 * (count - 2), count)
            texts = [i.summary for i in chosen]
            name = f"{field}-n{count}-summary"
            yield Topic(name, _query(texts[0], texts[1:], shares.for_queries, used), _grades(chosen, 1))


def _cluster(items: list[Item], first: int, count: int) -> list[Item]:
    """An item and those with the answers nearest to its own."""
    order = Neighbours([i.answer for i in items]).order(items[first].answer)
    return [items[i] for i in order[:count]]


def _grades(items: Iterable[Item], grade: int) -> dict[str, int]:
    return {document_id(f"{i.id}/answer"): grade for i in items}


def _query(abstract: str, texts: list[str], pool: Pool, used: set[str]) -> str:
    """An abstract, and a section for each text, which opens with a few sentences of something else."""
    parts = [f"## Abstract\n\n{abstract}"]
    for heading, text in zip(SECTIONS, texts):
        block = next(_unused(pool, text, used))
        parts.append(f"## {heading}\n\n{opening(block.text, 500) or sentences(block.text)[0]}\n\n{text}")
    return "\n\n".join(parts)


def write_collection(material: Material, folder: Path) -> None:
    """The three files; the same texts give the same bytes."""
    shares = share_out(material)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.jsonl.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(_lines(documents(material, shares)))
    made = sorted(topics(material, shares), key=lambda t: t.id)
    (folder / "queries.jsonl").write_bytes(_lines({"qid": t.id, "query": t.text} for t in made))
    judged = [f"{t.id} 0 {doc} {grade}\n" for t in made for doc, grade in sorted(t.grades.items())]
    (folder / "qrels.txt").write_text("".join(judged), encoding="utf-8", newline="\n")


def _lines(records: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with lm-text and paraphrase.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
def main(data: Path, out: Path) -> None:
    write_collection(material_for_command(data), out)
    click.echo(f"retrieval collection: {out}")


if __name__ == "__main__":
    main()
