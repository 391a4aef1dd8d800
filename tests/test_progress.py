"""Progress on stderr: plain lines at fixed times, or a bar where a person watches."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pan_scdg import progress as progress_module
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.logs import say, say_error, show_logs
from pan_scdg.models.devices import Devices
from pan_scdg.progress import DELAY, INTERVAL, Progress, count_tokens, format_count


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    return clock


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == "", "stdout is for results"
    return captured.err.splitlines()


class Timer:
    """A timer that runs out when a test says so."""

    def __init__(self, delay: float, function: Callable[[], None]) -> None:
        self.delay, self.function, self.is_running = delay, function, False

    def start(self) -> None:
        self.is_running = True

    def cancel(self) -> None:
        self.is_running = False

    def run_out(self) -> None:
        if self.is_running:
            self.function()


@pytest.mark.parametrize(("total", "line"), [(10, "scoring: 0 of 10"), (None, "scoring: started")])
def test_a_stage_is_shown_once_it_has_lasted_even_before_its_first_item(
    total: int | None, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timers: list[Timer] = []
    made = SimpleNamespace(Timer=lambda *arguments: timers.append(Timer(*arguments)) or timers[-1])
    monkeypatch.setattr(progress_module, "threading", made)
    with Progress("scoring", total):
        assert (_lines(capsys), timers[0].delay) == ([], DELAY)
        timers[0].run_out()
        assert _lines(capsys) == [line]
    with Progress("quick", total) as progress:
        progress.update(10)
    timers[1].run_out()
    assert _lines(capsys) == [], "a stage that has ended is not shown"


def test_counts_are_in_the_right_number() -> None:
    assert [format_count(number, "query") for number in (0, 1, 2000)] == ["0 queries", "1 query", "2,000 queries"]
    assert format_count(2, "pair") == "2 pairs"


def test_one_line_an_interval(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("scoring", 100) as progress:
        for _ in range(3):
            clock.now += INTERVAL / 4
            progress.update(10)
        assert _lines(capsys) == []
        clock.now += INTERVAL / 4
        progress.update(10)
        assert _lines(capsys) == ["scoring: 40 of 100, about 2 min left"]  # a quarter of a minute for ten
        clock.now += INTERVAL - 1
        progress.update()
        assert _lines(capsys) == [], "the interval counts from the last line"
    assert _lines(capsys) == [], "no line at the end"


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([1] * 8, ""),  # too few items
        ([1, 1, 1, 1, 20, 20], ""),  # 8 or 3 minutes left?
        ([10, 10, 15, 15], ", about 3 min to 4 min left"),
        ([25, 25, 25], ", about 60 s left"),
    ],
)
def test_the_time_left_is_a_range_once_two_estimates_agree(clock: Clock, items: list[int], left: str) -> None:
    with Progress("scoring", 100) as progress:
        for number in items:
            clock.now += 60
            progress.update(number)
    assert progress.describe() == f"scoring: {sum(items)} of 100{left}"


def test_nothing_is_guessed_without_a_total_or_before_anything_is_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("indexing", None) as progress:
        clock.now += INTERVAL
        progress.update(5)
        assert _lines(capsys) == ["indexing: 5"]
    assert Progress("empty", 0).describe() == "empty: 0 of 0"
    assert Progress("first", 3).describe() == "first: 0 of 3"


def test_an_error_passes_through(clock: Clock) -> None:
    with pytest.raises(KeyError), Progress("stage", 1):
        raise KeyError("x")


def test_the_real_bar_draws_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("scoring", 8) as progress:
        progress.update(2)
        progress._bar.refresh()
        say(["about 2.0 hours"])
        say(["warning: odd"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "scoring" in captured.err
    assert "2/8" in captured.err
    lines = [line.rpartition("\r")[2] for line in captured.err.split("\n")]
    assert "about 2.0 hours" in lines, "the bar gives way to a line"
    assert "warning: odd" in lines
    assert say(["after"]) is None
    assert _lines(capsys) == ["after"]


def test_quiet_leaves_warnings_and_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    show_logs(quiet=True)
    for terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with Progress("scoring", 8) as progress:
            progress.update()
            say(["models: tiny", "warning: odd"])
        say_error("bad\nid \u00fc")
        assert _lines(capsys) == ["warning: odd", "error: bad\\nid ü"]


def test_the_process_of_a_gpu_has_its_tokens_counted_here() -> None:
    show_logs()
    with Progress("scoring", 2) as progress, open_workers(count_tokens, Devices("cuda", workers=1)) as workers:
        assert list(workers.map([100, 23])) == [None, None]
        assert progress.tokens == 123
