"""Models of other architectures give the numbers of a plain forward pass, or say why not, as the table in docs says."""

from functools import cache
from pathlib import Path

import pytest

from benchmarks.architectures import FAMILIES, compare

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
COLUMN = {"4": 1, "5": 2}[transformers.__version__.partition(".")[0]]
IN_EVERY_RUN = ("gpt2", "gpt_neox", "mistral", "gemma3_text", "gpt_oss", "gemma2", "bloom", "mamba", "stablelm")


@cache
def read_table() -> dict[str, str]:
    """Return how each architecture is computed with the installed transformers."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return {row[0]: row[COLUMN] for row in rows[2:]}


def test_the_table_has_all_architectures() -> None:
    assert list(read_table()) == list(FAMILIES)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "architecture",
    [pytest.param(name, marks=() if name in IN_EVERY_RUN else pytest.mark.long) for name in FAMILIES],
)
def test_both_engines_equal_a_plain_forward_pass(architecture: str, tmp_path: Path) -> None:
    result = compare(architecture, tmp_path)
    assert result.status == read_table()[architecture], result
