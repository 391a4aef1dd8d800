"""Labelled pairs for benchmarks, scored by the command ``run``.

Pairs come from the development set (`benchmarks.development`) and from DATA/pan13-dev, DATA/answers-dev and
DATA/rewrites-dev. They are written as a PAN folder, in which equal texts are one document, so that each is encoded
once.
"""

import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.development.compose import Pair
from pan_scdg.results.files import DECISIONS
from pan_scdg.results.records import Decision, read_decisions

ROOT = Path(__file__).parents[1]
CLEAN = "pan13, no plagiarism"
SAME_HEADINGS = "same-headings"
HEADINGS = (
    "1 Introduction and Overview",
    "2 Related Work and Background",
    "3 Proposed Method and Model",
    "4 Experimental Setup and Results",
    "5 Conclusions and Future Work",
)
"""Headings that papers have."""


def read_development(path: Path) -> list[Pair]:
    """Return the pairs that ``benchmarks.development.build`` wrote."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def read_pan13(folder: Path) -> list[Pair]:
    """Return the PAN 2013 pairs; a pair is positive unless it is of the kind without plagiarism."""
    pairs = []
    for target, source, folder_name in list_pan13(folder):
        name = f"pan13, {folder_name.partition('-')[2].removesuffix('-obfuscation').replace('-', ' ')}"
        texts = [
            (folder / side / file).read_bytes().decode("utf-8-sig")
            for side, file in (("src", source), ("susp", target))
        ]
        truth = folder / "truth" / folder_name / f"{Path(target).stem}-{Path(source).stem}.xml"
        label = int('name="plagiarism"' in truth.read_text(encoding="utf-8"))
        pairs.append(Pair(f"{Path(target).stem}/{Path(source).stem}", name, label, *texts))
    return pairs


def read_answers(folder: Path) -> list[Pair]:
    """Return the pairs of texts that answer one question, and of others of their sort."""
    lines = map(json.loads, (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        Pair(line["id"], line["kind"].partition("/")[0], line["label"], line["source"], line["suspicious"])
        for line in lines
    ]


def add_headings(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Return pairs of the kind ``SAME_HEADINGS``: drawn ones, ``count`` of each label, whose texts get `HEADINGS`."""
    drawn = [pair for label in (0, 1) for pair in draw_pairs(pairs, label, seed=3)[:count]]
    return [
        pair._replace(kind=SAME_HEADINGS, target=insert_headings(pair.target), source=insert_headings(pair.source))
        for pair in drawn
    ]


def insert_headings(text: str) -> str:
    """Return a text with `HEADINGS` above its paragraphs; several above one if it has fewer paragraphs."""
    places = [0, *(match.end() for match in re.finditer(r"\n(?:[ \t\r]*\n)+(?=.*\S)", text))]
    chosen = [places[len(places) * number // len(HEADINGS)] for number in range(len(HEADINGS))]
    sections = (text[begin:end] for begin, end in pairwise([*chosen, len(text)]))
    return "".join(f"\n\n{heading}\n\n{section}" for heading, section in zip(HEADINGS, sections))


def list_pan13(folder: Path) -> list[tuple[str, str, str]]:
    """Return suspicious file, source file and the folder of the truth of each PAN 2013 pair, in their order."""
    lines = (folder / "kinds.tsv").read_text(encoding="utf-8").splitlines()
    kinds = {(target, source): kind for target, source, kind in (line.split("\t") for line in lines)}
    names = [line.split() for line in (folder / "pairs").read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(target, source, kinds[target, source]) for target, source in names]


def draw_pairs(pairs: Sequence[Pair], label: int, seed: int) -> list[Pair]:
    """Return the pairs with a label in random order."""
    drawn = [pair for pair in pairs if pair.label == label]
    random.Random(seed).shuffle(drawn)
    return drawn


def write_folder(pairs: Sequence[tuple[str, str]], folder: Path) -> list[tuple[str, str]]:
    """Write pairs of target and source as a PAN folder; return the ids of the documents of each pair."""
    ids = []
    numbers: dict[str, dict[str, int]] = {"susp": {}, "src": {}}
    for side in numbers:
        (folder / side).mkdir(parents=True, exist_ok=True)
    for texts in pairs:
        names = []
        for (side, known), prefix, text in zip(numbers.items(), ("suspicious", "source"), texts, strict=True):
            number = known.setdefault(text, len(known))
            names.append(f"{prefix}-document{number:05}")
            path = folder / side / f"{names[-1]}.txt"
            if not path.exists():
                path.write_text(text, encoding="utf-8", newline="")
        ids.append((names[0], names[1]))
    lines = "".join(f"{target}.txt {source}.txt\n" for target, source in dict.fromkeys(ids))
    (folder / "pairs").write_text(lines, encoding="utf-8")
    return ids


def run_command(*words: object, environment: dict[str, str] | None = None) -> None:
    """Run a command of the package in a process of its own."""
    command = [sys.executable, str(ROOT / "entrypoint.py"), *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def decide(pairs: Sequence[tuple[str, str]], folder: Path, profile: str) -> list[Decision]:
    """Return the decision about each pair of target and source.

    A stopped run goes on, and a finished one is not repeated.

    Args:
        pairs: texts of targets and sources.
        folder: for the input and the result.
        profile: its name or file.
    """
    ids = write_folder(pairs, folder / "input")
    output = folder / f"result-{Path(profile).stem}"
    run_command("run", "--input", folder / "input", "--output", output, "--profile", profile, "--device", "cpu")
    decisions = {decision.key: decision for decision in read_decisions(output / DECISIONS)}
    return [decisions[names] for names in ids]


def format_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
