"""Write a trimmed copy of the examples, so that documented commands take seconds instead of minutes."""

import csv
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path

CHARACTERS = 800
"""Kept of a query and of a corpus document."""
PAIR_CHARACTERS, LONG_PAIR = 2000, 4300
"""Kept of the texts of a pair, and of the first positive one: the retention study needs a long passage."""
CLUSTERS = 12
"""Kept of the news."""
FEATURE = re.compile(r".*this_offset=\"(\d+)\" this_length=\"(\d+)\".*source_offset=\"(\d+)\" source_length=\"(\d+)\"")


def write_trimmed_examples(source: Path, target: Path, pairs: int, queries: int, documents: int) -> None:
    """Write the examples of folder ``source`` into the new folder ``target``, with fewer and shorter inputs.

    Args:
        pairs: number of pairs kept of each class, in each half.
        queries: number of queries kept, the first ones.
        documents: number of corpus documents kept: the judged ones, then the first others.
    """
    for half in ("calibration", "test"):
        _trim_pairs(source / "pan25-pairs" / half, target / "pan25-pairs" / half, pairs)
    _trim_retrieval(source / "pan26-retrieval", target / "pan26-retrieval", queries, documents)
    _trim_news(source / "same-topic-news", target / "same-topic-news")
    _pick_essays(source / "essays", target / "essays")
    _trim_table(source / "own-pairs.csv", target / "own-pairs.csv")
    _write(target / "cascade.toml", (source / "cascade.toml").read_text(encoding="utf-8"))


def _trim_pairs(source: Path, target: Path, each: int) -> None:
    kept: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for line in (source / "pairs").read_text().splitlines():
        suspicious, document = line.split()
        truth = Path("truth", f"{Path(suspicious).stem}-{Path(document).stem}.xml")
        whole = (source / truth).read_text()
        reused = "<feature" in whole
        length = LONG_PAIR if reused and not kept[True] else PAIR_CHARACTERS
        lines = [line for line in whole.splitlines() if _is_within(line, length)]
        easy = any('obfuscation="simple"' in line for line in lines)  # so that `calibrate` finds a threshold
        if len(kept[reused]) == each or reused != easy:
            continue
        kept[reused].append((suspicious, document))
        for name in ("susp/" + suspicious, "src/" + document):
            _write(target / name, (source / name).read_text(encoding="utf-8")[:length])
        _write(target / truth, "\n".join(lines))
    chosen = sorted(kept[True] + kept[False])
    _write(target / "pairs", "".join(f"{suspicious} {document}\n" for suspicious, document in chosen))


def _is_within(line: str, length: int) -> bool:
    """Return True unless a line of truth is a passage that ends beyond the first ``length`` characters."""
    found = FEATURE.match(line)
    if found is None:
        return True
    start, size, source_start, source_length = map(int, found.groups())
    return max(start + size, source_start + source_length) <= length


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _pick_essays(source: Path, target: Path) -> None:
    for name in (
        "suspicious/alice.txt",
        "suspicious/liam.txt",
        "sources/bees-and-harvests.txt",
        "sources/roman-roads.txt",
    ):
        _write(target / name, (source / name).read_text(encoding="utf-8"))


def _trim_news(source: Path, target: Path) -> None:
    lines = (source / "train.src.cleaned").read_bytes().decode("utf-8").split("\n")
    _write(target / "train.src.cleaned", "".join(f"{line}\n" for line in lines[:CLUSTERS]))


def _trim_retrieval(source: Path, target: Path, queries: int, documents: int) -> None:
    target.mkdir(parents=True)
    asked = _read_records(source / "queries.jsonl")[:queries]
    ids = {query["qid"] for query in asked}
    judged = [line for line in (source / "qrels.txt").read_text().splitlines() if line.split()[0] in ids]
    relevant = {line.split()[2] for line in judged}
    corpus = sorted(_read_records(source / "corpus.jsonl.gz"), key=lambda document: document["doc_id"] not in relevant)
    (target / "queries.jsonl").write_text(_shorten(asked, "query"))
    (target / "qrels.txt").write_text("".join(f"{line}\n" for line in judged))
    (target / "corpus.jsonl.gz").write_bytes(gzip.compress(_shorten(corpus[:documents], "default_text").encode()))


def _read_records(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


def _shorten(records: list[dict[str, str]], field: str) -> str:
    return "".join(json.dumps(record | {field: record[field][:CHARACTERS]}) + "\n" for record in records)


def _trim_table(source: Path, target: Path) -> None:
    with source.open(newline="") as file:
        header, *rows = csv.reader(file)
    kept: Iterable[list[str]] = (row for row in rows if all((target.parent / path).is_file() for path in row[:2]))
    with target.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *kept])
