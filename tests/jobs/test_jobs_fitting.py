"""Jobs that cannot run where they are started are refused at once."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pan_scdg import resources
from pan_scdg.models import fit
from pan_scdg.models.devices import Seen

torch = pytest.importorskip("torch")

NONE = Seen(visible=False)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seen], None]:
    def play(seen: Seen) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr("pan_scdg.models.devices.look_for_gpus", lambda: seen)
        monkeypatch.setattr(fit, "look_for_gpus", lambda: seen)

    return play


def test_the_longest_pair_is_refused_before_the_weights_are_loaded(
    run: Callable[..., Any],
    pairs_input: Path,
    profile_with: Callable[[Mapping[str, Any]], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = profile_with({"pairs.over_long": "error", "pairs.limit": 2048, "model.head_rows": 1})
    monkeypatch.setattr(resources, "measure_memory", lambda: 200_000)
    done = run(pairs_input, tmp_path / "out", profile=profile)
    assert done.code == 2
    assert re.search(r"/s3\.txt: with r3 as source: \d+ tokens take at least [\d.]+ MB beside [\d.]+ MB of", done.err)
    assert "and this process may use 0.2 MB; divide over-long pairs into segments" in done.err
    assert not list((tmp_path / "out").iterdir())


def test_every_command_asks_before_it_reads(
    cli: Callable[..., Any], no_gpu: Callable[[Seen], None], tmp_path: Path
) -> None:
    """What they would read is not usable, and that is not what they say."""
    no_gpu(NONE)
    (tmp_path / "in").mkdir()
    for name in ("pairs", "odd.txt"):
        (tmp_path / "in" / name).write_bytes(b"\xff no such pair\n")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "corpus.jsonl").write_text("odd\n")
    where = ("--input", tmp_path / "in", "--profile", "pan25-qwen3-0.6b")
    text = tmp_path / "in" / "text.txt"
    text.write_text("A text.\n")
    for command in (
        ("run", *where, "--output", tmp_path / "out"),
        ("calibrate", *where, "--write", tmp_path / "mine.toml"),
        ("score", text, text, "--profile", "pan25-qwen3-0.6b"),
        ("index", "--input", tmp_path / "index", "--index", tmp_path / "made", "--profile", "pan26-bge-m3-full"),
    ):
        done = cli(*command)
        assert (done.code, done.out) == (2, "")
        assert "needs a GPU and none is visible; run it on a machine with a GPU" in done.err
        assert len(done.err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "index"]


def test_a_profile_that_needs_a_gpu_gives_the_same_result_on_a_cpu(
    run: Callable[..., Any], pairs_input: Path, profile_with: Callable[[Mapping[str, Any]], Path], tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "out", profile=profile_with({"needs_gpu": True})).code == 0
    again = run(pairs_input, tmp_path / "out")
    assert again.code == 0
    assert "already complete" in again.err
