"""Progress on stderr: plain lines at fixed times, or a bar where a person watches."""

import sys
from typing import Any

import pytest

from pan_scdg import progress as progress_module
from pan_scdg.progress import INTERVAL, Progress


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Bar:
    """Stands for a tqdm bar."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options, self.done, self.note, self.closed = options, 0, "", False

    def set_postfix_str(self, note: str, refresh: bool) -> None:
        self.note = note

    def update(self, items: int) -> None:
        self.done += items

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == "", "stdout is for results"
    return captured.err.splitlines()


def test_one_line_at_the_start_and_one_an_interval(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("scoring", 10) as progress:
        assert _lines(capsys) == ["scoring: 0 of 10"]
        for _ in range(3):
            clock.now += INTERVAL / 4
            progress.update()
        assert _lines(capsys) == []
        clock.now += INTERVAL / 4
        progress.update()
        assert _lines(capsys) == ["scoring: 4 of 10, 2 min left"]  # a quarter of a minute each, six to go
        clock.now += INTERVAL - 1
        progress.update()
        assert _lines(capsys) == [], "the interval counts from the last line"
    assert _lines(capsys) == [], "no line at the end"


def test_the_line_holds_stage_done_total_speed_and_time_left(clock: Clock) -> None:
    progress = Progress("scoring", 10)
    clock.now += 120
    progress.update(4, tokens=6000)
    assert progress.line() == "scoring: 4 of 10, 50 tokens/s, 3 min left"


def test_nothing_is_guessed_without_a_total_or_before_anything_is_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("indexing", None) as progress:
        assert _lines(capsys) == ["indexing: begins"]
        clock.now += INTERVAL
        progress.update(5)
        assert _lines(capsys) == ["indexing: 5"]
    assert Progress("empty", 0).line() == "empty: 0 of 0"
    assert Progress("first", 3).line() == "first: 0 of 3"


def test_work_that_takes_no_time_divides_by_nothing(clock: Clock) -> None:
    progress = Progress("quick", 1)
    progress.update(1, tokens=1)
    assert progress.line().startswith("quick: 1 of 1, ")


def test_an_error_passes_through(clock: Clock) -> None:
    with pytest.raises(KeyError), Progress("stage", 1):
        raise KeyError("x")


def test_a_terminal_gets_a_bar_and_no_lines(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tqdm

    bars: list[Bar] = []

    def make(**options: Any) -> Bar:
        bars.append(Bar(options))
        return bars[-1]

    monkeypatch.setattr(tqdm, "tqdm", make)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("scoring", 8) as progress:
        clock.now += INTERVAL
        progress.update(2)
        assert bars[0].note == ""
        progress.update(3, tokens=int(INTERVAL) * 7)
    (bar,) = bars
    assert (bar.options["desc"], bar.options["total"], bar.done, bar.note) == ("scoring", 8, 5, "7 tokens/s")
    assert bar.closed
    assert _lines(capsys) == []


def test_the_real_bar_draws_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("scoring", 8) as progress:
        progress.update(2, tokens=5)
        progress._bar.refresh()
    text = capsys.readouterr().err
    assert "scoring" in text
    assert "2/8" in text
