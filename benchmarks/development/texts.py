"""Read the texts of the development set: own texts beside this file, and held-out texts of the shared data folder."""

import json
import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.simple_pair_scores import words
from pan_scdg.errors import UserError
from training.alter import load_thesaurus

FIELDS = ("science", "technology", "society", "everyday")
OWN_TEXTS = Path(__file__).with_name("own_texts")
REWRITERS = ("ranhli/l2r_data", "Weixin-Liang/ChatGPT-Detector-Bias", "baoguangsheng/truth-mirror")
"""Held-out groups whose first text is the original and whose others are machine rewrites of it."""
TRANSLATIONS = ("cltk/", "PerseusDL/", "katherinethai/", "several Bible")
"""Sources (by their beginning) whose groups are translations of the same passage."""
FILES = ("lm-text/heldout.jsonl.xz", "paraphrase/heldout.jsonl.xz", "paraphrase/thesaurus-wordnet.jsonl.xz")
BLOCK_CHARACTERS = (500, 1400)
"""Characters of a block of running text, as host of a passage."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"'])")


@dataclass(frozen=True)
class Item:
    """One question with two independent answers, and a paraphrase and a summary of the first."""

    id: str
    question: str
    answer: str
    paraphrase: str
    second: str
    summary: str
    strength: str

    @property
    def field(self) -> str:
        """Return the file that it stands in."""
        return self.id.rpartition("-")[0]


class Rewrite(NamedTuple):
    """A text and its machine rewrites, or a passage and its other translations."""

    id: str
    collection: str
    original: str
    others: tuple[str, ...]


class Paper(NamedTuple):
    """Title and abstract of a held-out paper."""

    id: str
    title: str
    abstract: str


class Work(NamedTuple):
    """A held-out text that is not an abstract: a section of a textbook, a chapter, an article."""

    id: str
    family: str
    paragraphs: tuple[str, ...]


class Block(NamedTuple):
    """A piece of running text. Blocks of one text never overlap."""

    id: str
    text: str


@dataclass(frozen=True, eq=False)
class Material:
    """Everything that pairs are made of."""

    items: tuple[Item, ...]
    papers: tuple[Paper, ...]
    works: tuple[Work, ...]
    rewrites: tuple[Rewrite, ...]
    translations: tuple[Rewrite, ...]
    sentences: tuple[Rewrite, ...]
    thesaurus: dict[str, list[str]]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Return held-out running text in pieces of ``BLOCK_CHARACTERS`` characters; an abstract is one of them."""
        return (*self.abstracts, *(block for work in self.works for block in _blocks(work)))

    @cached_property
    def abstracts(self) -> tuple[Block, ...]:
        """Return the abstracts alone."""
        return tuple(Block(p.id, p.abstract) for p in self.papers)


def read_items(folder: Path = OWN_TEXTS) -> tuple[Item, ...]:
    """The own texts, in the order of the fields and of the files."""
    lines = (line for field in FIELDS for line in (folder / f"{field}.jsonl").read_text("utf-8").split("\n") if line)
    return tuple(Item(**json.loads(line)) for line in lines)


def read_material(data: Path) -> Material:
    """Own texts and the held-out texts below ``data``, each kind sorted by id.

    Raises:
        UserError: a file is missing below ``data``.
    """
    for name in FILES:
        if not (data / name).is_file():
            raise UserError(f"no {name}", "name the folder that holds lm-text and paraphrase", data)
    prose, groups = (sorted(_records(data / name), key=lambda r: str(r["id"])) for name in FILES[:2])
    return Material(
        read_items(),
        tuple(Paper(r["id"], *r["text"].split("\n\n", 1)) for r in prose if r["id"].startswith("arxiv/")),
        tuple(_without_repeats(_work(r) for r in prose if not r["id"].startswith("arxiv/"))),
        tuple(_rewrite(r) for r in groups if r["source"] in REWRITERS),
        tuple(_rewrite(r) for r in groups if r["source"].startswith(TRANSLATIONS)),
        tuple(_rewrite(r) for r in groups if r["source"] == "sheffieldnlp/mlqe-pe"),
        load_thesaurus(data / FILES[2]),
    )


def sentences(text: str) -> list[str]:
    """The sentences of a text, white space joined."""
    return [s for s in SENTENCE.split(" ".join(text.split())) if s]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _rewrite(record: dict[str, Any]) -> Rewrite:
    original, *others = record["texts"]
    return Rewrite(record["id"], record["source"], original, tuple(others))


def _work(record: dict[str, Any]) -> Work:
    name = str(record["id"])
    family = "textbooks" if name.startswith("osbooks") else name.split("/", 1)[0]
    family = family if family in ("textbooks", "classics") else "technical"
    return Work(name, family, tuple(p for p in record["text"].split("\n\n") if len(p) > 120))


def _without_repeats(works: Iterable[Work], run: int = 12) -> Iterator[Work]:
    """The works without paragraphs that share ``run`` words in a row with an earlier one, as textbooks' steps do."""
    seen: set[tuple[str, ...]] = set()
    for work in works:
        kept = []
        for paragraph in work.paragraphs:
            parts = words(paragraph)
            grams = set(zip(*(parts[i:] for i in range(run))))
            if not grams & seen:
                kept.append(paragraph)
            seen |= grams
        yield work._replace(paragraphs=tuple(kept))


def _blocks(work: Work) -> Iterator[Block]:
    """Consecutive paragraphs joined until a block is long enough; paragraphs that are too long are cut."""
    number, held = 0, ""
    for paragraph in work.paragraphs:
        for piece in pieces(paragraph):
            if held and len(held) + len(piece) > BLOCK_CHARACTERS[1]:
                number, held = number + 1, ""
            held = f"{held}\n\n{piece}" if held else piece
            if len(held) >= BLOCK_CHARACTERS[0]:
                yield Block(f"{work.id}#{number}", held)
                number, held = number + 1, ""


def pieces(paragraph: str) -> Iterator[str]:
    """The paragraph, cut between sentences where it is longer than a block may be."""
    held = ""
    for sentence in sentences(paragraph):
        if held and len(held) + len(sentence) >= BLOCK_CHARACTERS[1]:
            yield held
            held = ""
        held = f"{held} {sentence}".strip()
    yield held


def material_for_command(data: Path) -> Material:
    """As `read_material`; what is wrong with ``data`` becomes the one line with which a command ends."""
    try:
        return read_material(data)
    except UserError as error:
        raise click.ClickException(str(error)) from error
