"""Small corpora and results of ``run`` for the tests of the studies, written without a model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.profile import load_profile
from pan_scdg.records import TokenGains
from pan_scdg.results.files import GAINS, JOB, SCORES, write_lines
from pan_scdg.results.folder import write_json
from pan_scdg.results.job import JobFile, TaskName
from pan_scdg.results.records import GainsLine, ScoreLine

TRUTH = '<document reference="{0}">{1}</document>'
REUSE = (
    '<feature name="{kind}" obfuscation="{obfuscation}" this_offset="{0}" this_length="{1}" source_reference="{source}"'
    ' source_offset="{2}" source_length="{3}"/>'
)
PERCENTAGES = (1, 2, 5, 10, 20, 30, 50, 100)
Pair = tuple[str, str]


def feature(
    source: str, spans: Sequence[int] = (0, 40, 5, 45), kind: str = "plagiarism", obfuscation: str = "simple"
) -> str:
    """An XML feature; ``spans`` are offset and length in the suspicious text, then in the source."""
    return REUSE.format(*spans, kind=kind, obfuscation=obfuscation, source=source)


def write_corpus(folder: Path, truth: Mapping[str, str], texts: Mapping[str, str] | None = None) -> Path:
    """A text-alignment corpus: the features of each pair ``SUSP-SRC``, and texts by document."""
    for side in ("susp", "src", "truth"):
        (folder / side).mkdir(parents=True)
    for name, features in truth.items():
        pair = name.split("-", 1)
        for side, document in zip(("susp", "src"), pair):
            (folder / side / f"{document}.txt").write_text((texts or {}).get(document, f"text of {document}"))
        (folder / "truth" / f"{name}.xml").write_text(TRUTH.format(f"{pair[0]}.txt", features))
    (folder / "pairs").write_text("".join("{}.txt {}.txt\n".format(*name.split("-", 1)) for name in truth))
    return folder


def write_manifest(path: Path, labels: Mapping[Pair, int]) -> Path:
    """A manifest of these pairs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = (
        {"pair_id": f"{susp}-{src}", "susp_file": f"{susp}.txt", "src_file": f"{src}.txt", "doc_label": label}
        for (susp, src), label in labels.items()
    )
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def write_result(
    folder: Path,
    profile: str,
    values: Mapping[Pair, Mapping[str, float]],
    gains: Mapping[Pair, tuple[Sequence[float], Sequence[Sequence[int]]]] | None = None,
    models: Mapping[str, Any] | None = None,
    **tables: Mapping[str, Any],
) -> Path:
    """A result of pairs; ``tables`` change fields of the profile's tables, ``gains`` are gains and offsets."""
    write_job(folder, "pairs", profile, models or {}, tables)
    write_lines(folder, SCORES, (ScoreLine(*pair, of) for pair, of in values.items()))
    if gains is not None:
        lines = (GainsLine(pair, TokenGains.from_json({"gains": g, "offsets": o})) for pair, (g, o) in gains.items())
        write_lines(folder, GAINS, lines)
    return folder


def write_job(folder: Path, task: TaskName, profile: str, models: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    described = load_profile(profile).model_dump(mode="json", exclude_none=True)
    for table, fields in tables.items():
        described[table] = {**described[table], **fields}
    folder.mkdir(parents=True)
    write_json(folder / JOB, JobFile(task=task, profile=described, models=models, files={}).to_json())


def describe_gains(gains: np.ndarray) -> dict[str, float]:
    """The values of the method of gains, written out."""
    ordered = np.sort(gains)[::-1]
    positive = gains[gains > 0]
    return {
        "mean": gains.mean(),
        "median": np.median(gains),
        "positive_gain_rate": (gains > 0).mean(),
        "positive_mean": positive.mean() if len(positive) else 0.0,
        "deviation": gains.std(),
        **{f"top_{q}": ordered[: max(1, -(-len(gains) * q // 100))].mean() for q in PERCENTAGES},
    }


def read_tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table of a report."""
    tables: dict[str, Any] = json.loads((folder / "tables.json").read_text())["tables"]
    return {name: table["rows"] for name, table in tables.items()}
