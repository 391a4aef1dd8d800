"""Disturb a command: the same bytes result, or one clear line is told and the same command goes on."""

import random
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from command import Command, results
from process import Ended, Process

ROOM = "free some space and run the same command again to continue"
BUSY = "another run is writing this output; wait for it"
AT_WORK = "another run is using this state; wait for it"


@dataclass
class Tally:
    """What came out of the cases of one experiment with one command."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def note(self, outcome: str, wrong: list[str]) -> None:
        """Count a case, and what was wrong with it."""
        self.cases += 1
        self.outcomes[outcome] += 1
        self.findings += [f"{outcome}: {what}" for what in wrong]


class Laboratory:
    """Carry out experiments with one command.

    Args:
        command: the command.
        folder: an empty folder for targets and logs.
    """

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.folder = command, folder
        folder.mkdir(parents=True)
        self._count = 0
        undisturbed = self.start(self.target()).wait()
        if undisturbed.code != 0:
            raise RuntimeError(f"{command.name} fails undisturbed: {undisturbed}")
        self.seconds = undisturbed.seconds
        self.reference = results(self.last)

    def target(self) -> Path:
        """Make a new target; `last` names it."""
        self._count += 1
        self.last = self.folder / str(self._count)
        self.last.mkdir()
        return self.last

    def start(
        self, target: Path, log: str = "log", largest: int | None = None, temporary: Path | None = None
    ) -> Process:
        """Start the command with this target."""
        return Process(self.command.line(target), self.folder / log, largest, temporary)

    def kill_at_random(self, moments: int, seed: int) -> Tally:
        """Kill the command at random moments of its life; it is started again until it ends."""
        tally, chance = Tally(), random.Random(f"{seed} {self.command.name}")
        for _ in range(moments):
            target = self.target()
            ended = self.start(target).kill_after(chance.uniform(0, 1.05 * self.seconds))
            wrong = self._incomplete(target) if ended.code else []
            wrong += self._goes_on(target)
            tally.note("ended before" if ended.code == 0 else "killed", wrong + _odd(ended, {0, -9}))
            shutil.rmtree(target)
        return tally

    def limit_files(self, limits: list[int]) -> Tally:
        """Limit the size of files, which is a full disk that every file system can have."""
        tally = Tally()
        for limit in limits:
            target = self.target()
            ended = self.start(target, largest=limit).wait()
            tally.note(*self._judge_full(target, ended))
            shutil.rmtree(target)
        return tally

    def fill_disks(self, sizes: list[int]) -> Tally:
        """Give the command a disk of so many KiB for all that it writes, then one with room."""
        tally = Tally()
        for size in sizes:
            target = self.target()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(target)], check=True)
            try:
                inner = target / "target"
                try:
                    inner.mkdir()
                    ended = self.start(inner, temporary=inner if self.command.scratch else None).wait()
                finally:
                    subprocess.run(["mount", "-o", "remount,size=1g", str(target)], check=True)
                tally.note(*self._judge_full(inner, ended))
            finally:
                subprocess.run(["umount", str(target)], check=True)
            target.rmdir()
        return tally

    def run_two(self, moments: int, seed: int) -> Tally:
        """Start the command twice with one target, the second a random moment later."""
        tally, chance = Tally(), random.Random(f"{seed} two {self.command.name}")
        for _ in range(moments):
            target = self.target()
            first = self.start(target, "first")
            time.sleep(chance.uniform(0, self.seconds))
            second = self.start(target, "second")
            both = [first.wait(), second.wait()]
            codes = sorted(ended.code for ended in both)
            wrong = [f"codes {codes}"] if codes not in ([0, 0], [0, 2]) else []
            wrong += [line for ended in both if ended.code == 2 for line in _not_busy(ended)]
            wrong += [] if results(target) == self.reference else ["another result"]
            tally.note("one is refused" if 2 in codes else "both end", wrong)
            shutil.rmtree(target)
        return tally

    def _judge_full(self, target: Path, ended: Ended) -> tuple[str, list[str]]:
        wrong = self._incomplete(target) if ended.code else []
        if ended.code == 3 and not ended.last.endswith(ROOM):
            wrong.append(f"says {ended.last!r}")
        wrong += _odd(ended, {0, 3}) + self._goes_on(target)
        return ("enough room" if ended.code == 0 else "full"), wrong

    def _goes_on(self, target: Path) -> list[str]:
        """The same command, undisturbed, ends with the result of one that never was disturbed."""
        ended = self.start(target).wait()
        if ended.code != 0:
            return [f"does not go on: {ended.code}, {ended.last!r}"]
        found = results(target)
        differ = sorted(name for name in found.keys() | self.reference if found.get(name) != self.reference.get(name))
        return [f"another result: {', '.join(differ[:3])}"] if differ else []

    def _incomplete(self, target: Path) -> list[str]:
        """Whatever has its final name is complete, an index's own parts excepted: its list names them when they are."""
        if self.command.name == "index":
            return []
        found = results(target)
        return [f"{name} is incomplete" for name, data in found.items() if self.reference.get(name) != data]


def _odd(ended: Ended, usual: set[int]) -> list[str]:
    if ended.code in usual and "internal error" not in ended.last:
        return []
    return [f"ends with {ended.code}: {ended.last!r}"]


def _not_busy(ended: Ended) -> list[str]:
    return [] if any(says in ended.last for says in (BUSY, AT_WORK)) else [f"says {ended.last!r}"]
