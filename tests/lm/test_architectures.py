"""Models of other architectures give the numbers of a plain forward pass, or say why not.

All of them: ``python -m benchmarks.architectures``, whose table is ``docs/architectures.md``.
"""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.architectures import compare

TOLERANCE = 2e-5
PACKED = ("gpt2", "gpt_neox", "mistral", "gemma3_text", "gpt_oss")
ONE_AT_A_TIME = ("gemma2", "bloom", "mamba")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("architecture", [*PACKED, *ONE_AT_A_TIME])
def test_both_engines_equal_a_plain_forward_pass(architecture: str, tmp_path: Path) -> None:
    result = compare(architecture, tmp_path)
    assert isinstance(result.reference, float)
    assert result.reference < TOLERANCE
    if architecture in ONE_AT_A_TIME:
        assert "and cannot be packed" in str(result.packed)
    else:
        assert isinstance(result.packed, float)
        assert result.packed < TOLERANCE
