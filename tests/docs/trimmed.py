"""Write a trimmed copy of the examples, so that documented commands take seconds instead of minutes."""

import csv
import gzip
import json
import re
import shutil
from pathlib import Path

CHARACTERS, PAIR_CHARACTERS, LONG_PAIR = 800, 2000, 4300
"""Kept of a query and of a corpus document, of the texts of a pair, and of the first positive one: the retention study
needs a long passage."""
CLUSTERS = 12
FEATURE = re.compile(r".*this_offset=\"(\d+)\" this_length=\"(\d+)\".*source_offset=\"(\d+)\" source_length=\"(\d+)\"")


def write_trimmed_examples(source: Path, target: Path, pairs: int, queries: int, documents: int) -> None:
    """Write the examples into a new folder, with fewer and shorter inputs.

    Args:
        source: the examples.
        target: the new folder.
        pairs: number of pairs kept of each class, in each half.
        queries: number of queries kept, the first ones.
        documents: number of corpus documents kept: the judged ones, then the first others.
    """
    for half in ("calibration", "test"):
        _trim_pairs(source / "pan25-pairs" / half, target / "pan25-pairs" / half, pairs)
    _trim_retrieval(source / "pan26-retrieval", target / "pan26-retrieval", queries, documents)
    news = (source / "same-topic-news" / "train.src.cleaned").read_bytes().decode("utf-8").split("\n")
    _write(target / "same-topic-news" / "train.src.cleaned", "".join(f"{line}\n" for line in news[:CLUSTERS]))
    for name in ("suspicious/alice", "suspicious/liam", "sources/bees-and-harvests", "sources/roman-roads"):
        _write(target / "essays" / f"{name}.txt", (source / "essays" / f"{name}.txt").read_text(encoding="utf-8"))
    with (source / "own-pairs.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    kept = [header, *(row for row in rows if all((target / path).is_file() for path in row[:2]))]
    _write(target / "own-pairs.csv", "".join(f"{','.join(row)}\n" for row in kept))
    shutil.copytree(source / "slurm", target / "slurm")
    shutil.copy(source / "pyterrier_experiment.py", target)


def _trim_pairs(source: Path, target: Path, each: int) -> None:
    kept: dict[bool, list[str]] = {True: [], False: []}
    for line in (source / "pairs").read_text().splitlines():
        suspicious, document = line.split()
        truth = Path("truth", f"{Path(suspicious).stem}-{Path(document).stem}.xml")
        whole = (source / truth).read_text()
        positive = "<feature" in whole
        length = LONG_PAIR if positive and not kept[True] else PAIR_CHARACTERS
        lines = [line for line in whole.splitlines() if _is_within(line, length)]
        easy = any('obfuscation="simple"' in line for line in lines)  # so that `calibrate` finds a threshold
        if len(kept[positive]) == each or positive != easy:
            continue
        kept[positive].append(line)
        for name in (f"susp/{suspicious}", f"src/{document}"):
            _write(target / name, (source / name).read_text(encoding="utf-8")[:length])
        _write(target / truth, "\n".join(lines))
    _write(target / "pairs", "".join(f"{line}\n" for line in sorted(kept[True] + kept[False])))


def _is_within(line: str, length: int) -> bool:
    """Return True unless a line of truth is a passage that ends beyond the first ``length`` characters."""
    found = FEATURE.match(line)
    if found is None:
        return True
    start, size, source_start, source_length = map(int, found.groups())
    return max(start + size, source_start + source_length) <= length


def _trim_retrieval(source: Path, target: Path, queries: int, documents: int) -> None:
    target.mkdir(parents=True)
    chosen = [json.loads(line) for line in (source / "queries.jsonl").read_text("utf-8").splitlines()[:queries]]
    ids = {query["qid"] for query in chosen}
    judged = [line for line in (source / "qrels.txt").read_text().splitlines() if line.split()[0] in ids]
    relevant = {line.split()[2] for line in judged}
    corpus = [json.loads(line) for line in gzip.decompress((source / "corpus.jsonl.gz").read_bytes()).splitlines()]
    corpus.sort(key=lambda document: document["doc_id"] not in relevant)
    _write(target / "queries.jsonl", _shorten(chosen, "query"))
    _write(target / "qrels.txt", "".join(f"{line}\n" for line in judged))
    (target / "corpus.jsonl.gz").write_bytes(gzip.compress(_shorten(corpus[:documents], "default_text").encode()))


def _shorten(records: list[dict[str, str]], field: str) -> str:
    return "".join(json.dumps(record | {field: record[field][:CHARACTERS]}) + "\n" for record in records)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
