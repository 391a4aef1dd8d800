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
from pan_scdg.jobs.pipeline import BATCH_CHARACTERS
from pan_scdg.methods.alignment import AlignmentMethod, AlignmentSettings
from pan_scdg.models import encoder

PAIRS = 12
KEPT = 2 * AlignmentSettings.max_batch
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


def test_a_bar_counts_tokens_before_the_first_pair_is_finished(
    folder: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "plan_calls", partial(encoder.plan_calls, max_tokens=64))
    monkeypatch.setattr(progress, "DELAY", 0.0)
    shown: list[bytes] = []
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    thread = threading.Thread(target=read_terminal, args=(leader, shown))
    thread.start()
    with open(follower, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        assert cli("run", "--input", folder, "--output", tmp_path / "out", "--device", "cpu").code == 0
    thread.join()
    os.close(leader)
    drawn = re.findall(r"scoring pairs: +0%[^\r]* 0/12 \[[^\r]*?([\d,]+) tokens", b"".join(shown).decode())
    counts = [int(count.replace(",", "")) for count in drawn]
    assert len(counts) > 3
    assert counts == sorted(counts)


def test_a_stop_in_the_middle_of_a_batch_keeps_scores(
    folder: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    whole, stopped = (("run", "--input", folder, "--output", tmp_path / n, "--device", "cpu") for n in ("a", "b"))
    assert cli(*whole).code == 0
    score, calls = AlignmentMethod.score, list[int]()

    def stop_at_third(self: AlignmentMethod, pairs: Any) -> Any:
        calls.append(len(pairs))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(self, pairs)

    with monkeypatch.context() as patch:
        patch.setattr(AlignmentMethod, "score", stop_at_third)
        ended = cli(*stopped)
    assert ended.code == 3
    last = ended.err.splitlines()[-1]
    assert last == f"error: stopped; {KEPT} scores kept. Run the same command again to continue."
    assert len((tmp_path / "b" / ".pan_scdg" / "scores.jsonl").read_text().splitlines()) == KEPT
    assert cli(*stopped).code == 0
    first, second = (visible(tmp_path / name) for name in ("a", "b"))
    assert {name: first[name] for name in first if name not in VARYING} == {
        name: second[name] for name in second if name not in VARYING
    }


VARYING = ("job.json", "ir-metadata.yml")
