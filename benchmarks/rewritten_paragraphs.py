"""Plagdet on rewritten paragraphs from scattered places: ``python -m benchmarks.rewritten_paragraphs --data DATA``.

Documents of about 20,000 characters, made from the held-out texts of ``DATA`` (``lm-text`` and ``paraphrase``) and the
own texts of the development set. Six paragraphs of the target are rewrites of scattered source paragraphs; two are
rewrites of texts that the source does not have; one, where there is one, is another answer to the question that a
source paragraph answers. Passages are found by words alone, then with the embedding model.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.development.stock import stock
from benchmarks.development.texts import Material, material_for_command
from benchmarks.pairs import format_rows
from benchmarks.passages import Spans, find_passages, measure

REUSED, ELSEWHERE, SOURCES = 6, 2, 10
"""Rewrites from the source, rewrites of other texts, and originals in the source."""
ENCODER = "reuse-minilm"


class Text(NamedTuple):
    """A text, its rewrite and how it was rewritten, and an independent text on the same question, if there is one."""

    original: str
    rewrite: str
    strength: str
    rival: str | None


class Paper(NamedTuple):
    """A target and a source, and what is reused, with the strength of each rewrite."""

    target: str
    source: str
    truth: Spans
    strengths: tuple[str, ...]


def list_texts(material: Material) -> list[Text]:
    """Return all texts with a rewrite; one of several paragraphs counts as one."""
    own = [Text(item.answer, item.paraphrase, item.strength, item.second) for item in material.items]
    held_out = [Text(r.original, r.others[-1], "held-out", None) for r in material.rewrites if len(r.original) >= 250]
    translated = [Text(r.original, r.others[0], "translated", None) for r in material.translations]
    return [*own, *held_out, *(text for text in translated if len(text.original) >= 300)]


def make_papers(material: Material, count: int) -> Iterator[Paper]:
    """Yield papers; no text comes twice in one of them."""
    rng, documents, texts = random.Random(7), stock(material), list_texts(material)
    families = sorted({document.family for document in documents})
    for _ in range(count):
        family = rng.choice(families)
        target, source = rng.sample([d for d in documents if d.family == family], 2)
        chosen = rng.sample(texts, SOURCES + ELSEWHERE)
        yield _make_paper(target.paragraphs, source.paragraphs, chosen, rng)


def _make_paper(target: Sequence[str], source: Sequence[str], chosen: Sequence[Text], rng: random.Random) -> Paper:
    originals: list[tuple[Text | None, str]] = [(None, paragraph) for paragraph in source]
    for reused in chosen[:SOURCES]:
        originals.insert(rng.randint(0, len(originals)), (reused, reused.original))
    inserted: list[tuple[Text | None, str]] = [(text, text.rewrite) for text in chosen[:REUSED]]
    inserted += [(None, text.rewrite) for text in chosen[SOURCES:]]
    inserted += [(None, text.rival) for text in chosen[REUSED : REUSED + 1] if text.rival is not None]
    paragraphs: list[tuple[Text | None, str]] = [(None, paragraph) for paragraph in target]
    for place, replacement in zip(rng.sample(range(len(paragraphs)), len(inserted)), inserted):
        paragraphs[place] = replacement
    places = {text: (start, len(part)) for text, part, start in _lay_out(originals) if text is not None}
    truth: Spans = []
    strengths = []
    for text, part, start in _lay_out(paragraphs):
        if text is not None:
            truth.append((start, len(part), *places[text]))
            strengths.append(text.strength)
    written, read = ("\n\n".join(part for _, part in parts) for parts in (paragraphs, originals))
    return Paper(written, read, truth, tuple(strengths))


def _lay_out(parts: Sequence[tuple[Text | None, str]]) -> Iterator[tuple[Text | None, str, int]]:
    start = 0
    for text, part in parts:
        yield text, part, start
        start += len(part) + 2


def overlaps(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    """Return True if two passages overlap on both sides."""
    return all(one[i] < other[i] + other[i + 1] and other[i] < one[i] + one[i + 1] for i in (0, 2))


def report(papers: Sequence[Paper], detections: Sequence[Spans]) -> list[str]:
    """Return the cells of a row: macro plagdet, recall, precision, granularity, false passages, found by strength."""
    total, hits, false = Counter[str](), Counter[str](), 0
    for paper, passages in zip(papers, detections, strict=True):
        false += sum(not any(overlaps(passage, case) for case in paper.truth) for passage in passages)
        for case, strength in zip(paper.truth, paper.strengths, strict=True):
            total[strength] += 1
            hits[strength] += any(overlaps(passage, case) for passage in passages)
    truth = {str(number): paper.truth for number, paper in enumerate(papers)}
    values = measure(truth, {str(number): passages for number, passages in enumerate(detections)})
    cells = [f"{value:.3f}" for value in values] + [f"{false} of {sum(map(len, detections))}"]
    return [*cells, *(f"{strength} {hits[strength]} of {total[strength]}" for strength in sorted(total))]


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--papers", "count", default=60, show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/rewritten"), show_default=True)
def main(data: Path, count: int, work: Path) -> None:
    papers = list(make_papers(material_for_command(data), count))
    texts = [(paper.target, paper.source) for paper in papers]
    rows = []
    for encoder in (None, ENCODER):
        detections = find_passages(texts, work / (encoder or "words"), encoder)
        rows.append([encoder or "words alone", *report(papers, detections)])
    columns = ["", "macro plagdet", "recall", "precision", "granularity", "passages that are no case"]
    click.echo(format_rows([*columns, *[""] * (len(rows[0]) - len(columns))], rows))


if __name__ == "__main__":
    main()
