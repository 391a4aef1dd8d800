"""A long batch: what a terminal shows while it is computed, and what a stop in the middle of it keeps."""

import fcntl
import os
import re
import struct
import sys
import termios
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pan_scdg import progress
from pan_scdg.jobs import pipeline
from pan_scdg.jobs.pipeline import BATCH_CHARACTERS
from pan_scdg.lm.engine import PackedEngine
from pan_scdg.methods.alignment import AlignmentMethod
from pan_scdg.models import encoder

PAIRS = 12
PROFILES = {"offline": (AlignmentMethod, "score"), "scdg-mini": (PackedEngine, "_run_row")}
"""A step of each profile's work that is a part of what other profiles compute as one batch."""
SENTENCE = "The keeper of harbour {0} counted {1} boats before the tide of day {0} turned. "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pairs that are one batch for other methods."""
    root = tmp_path / "input"
    for side in ("susp", "src"):
        (root / side).mkdir(parents=True)
    for number in range(PAIRS):
        for side, first in (("susp", 0), ("src", 3)):
            text = "".join(SENTENCE.format(number + 20 * n, n) for n in range(first, first + 12))
            (root / side / f"{side}{number}.txt").write_text(text)
            assert 2 * PAIRS * len(text) < BATCH_CHARACTERS
    (root / "pairs").write_text("".join(f"susp{number}.txt src{number}.txt\n" for number in range(PAIRS)))
    return root


def read_terminal(leader: int, shown: list[bytes]) -> None:
    while True:
        try:
            shown.append(os.read(leader, 4096))
        except OSError:  # Linux at the end
            return


@pytest.mark.parametrize("profile", PROFILES)
def test_a_bar_counts_tokens_and_pairs_inside_a_batch(
    profile: str, folder: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "plan_calls", partial(encoder.plan_calls, max_tokens=64))
    monkeypatch.setattr(progress, "DELAY", 0.0)
    shown: list[bytes] = []
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    thread = threading.Thread(target=read_terminal, args=(leader, shown))
    thread.start()
    command = ("run", "--input", folder, "--output", tmp_path / "out", "--profile", profile, "--device", "cpu")
    with open(follower, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        assert cli(*command).code == 0
    thread.join()
    os.close(leader)
    drawn = re.findall(r"scoring pairs: [^\r]* (\d+)/12 \[[^\r]*?([\d,]+) tokens", b"".join(shown).decode())
    counts = [(int(pairs), int(tokens.replace(",", ""))) for pairs, tokens in drawn]
    assert counts == sorted(counts)
    assert counts[0][0] == 0, "it moves before the first pair is finished"
    assert len({tokens for _, tokens in counts}) > 5
    assert len({pairs for pairs, _ in counts}) > 2


@pytest.mark.parametrize("profile", PROFILES)
def test_a_stop_in_the_middle_of_a_batch_keeps_scores(
    profile: str,
    folder: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    whole, stopped = (
        ("run", "--input", folder, "--output", tmp_path / name, "--profile", profile, "--device", "cpu")
        for name in ("a", "b")
    )
    kind, name = PROFILES[profile]
    step, scores = getattr(kind, name), tmp_path / "b" / ".pan_scdg" / "scores.jsonl"
    kept: list[int] = []
    """Scores on disk at each step."""

    def record(*arguments: Any) -> Any:
        kept.append(len(scores.read_text().splitlines()) if scores.exists() else 0)
        if kept[-1] >= PAIRS // 2 and stops:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(pipeline, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(kind, name, record)
    stops = True
    assert cli(*whole).code == 0
    steps = len(kept)
    ended = cli(*stopped)
    assert ended.code == 3
    last = ended.err.splitlines()[-1]
    assert last == f"stopped: {kept[-1]} of 12 pairs are kept; run the same command again to continue."
    stops, begun = False, len(kept)
    assert cli(*stopped).code == 0
    assert len(kept) - begun < steps, "what is kept is not computed again"
    first, second = (visible(tmp_path / name) for name in ("a", "b"))
    assert {name: first[name] for name in first if name not in VARYING} == {
        name: second[name] for name in second if name not in VARYING
    }


VARYING = ("job.json", "ir-metadata.yml")
