"""What a run has found, for people and for the test that starts it."""

import platform
import resource
import subprocess
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from child import Outcome
from target import Target
from tracing import lines_of_functions

ROOT = Path(__file__).parents[2]


class Tally:
    """All rounds of a target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.inputs = self.read = self.refused = 0
        self.findings: Counter[str] = Counter()
        """How often each was met, its being made smaller not counted."""
        self.lines: dict[str, set[int]] = {}

    def add(self, outcome: Outcome) -> None:
        """Add a round."""
        self.inputs += outcome.inputs
        self.read += outcome.read
        self.refused += outcome.refused
        self.findings += Counter(dict.fromkeys(outcome.findings, 1)) + outcome.again
        for file, lines in outcome.lines.items():
            self.lines.setdefault(file, set()).update(lines)

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return {"inputs": self.inputs, "read": self.read, "refused": self.refused, "findings": dict(self.findings)}


def summary(tallies: dict[str, Tally], seconds: float) -> str:
    """Two lines on a run."""
    inputs, found = sum(t.inputs for t in tallies.values()), sum(len(t.findings) for t in tallies.values())
    times = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = times.ru_utime + times.ru_stime
    return f"{inputs} inputs of {len(tallies)} targets, {found} findings, {seconds:.0f} s, {spent:.0f} s of a core"


def page(tallies: dict[str, Tally], seconds: float, arguments: list[str]) -> str:
    """A page of Markdown: circumstances, targets, lines of each module that were run."""
    lines = [
        "# Changed files, read by every reader",
        "",
        f"    python tests/fuzz {' '.join(arguments)}",
        "",
        f"{datetime.now(timezone.utc):%Y-%m-%d}, commit {_commit()}, {_processor()}, "
        f"Python {platform.python_version()}: {summary(tallies, seconds)}.",
        "",
        "| target | inputs | read | refused | findings |",
        "| --- | ---: | ---: | ---: | --- |",
        *(
            f"| {name} | {t.inputs:,} | {t.read:,} | {t.refused:,} | "
            f"{'; '.join(f'{place} ({times:,})' for place, times in t.findings.items()) or 'none'} |"
            for name, t in tallies.items()
        ),
        "",
        "Lines of functions that were run by all targets together, of those that there are:",
        "",
        "| module | lines run | of | |",
        "| --- | ---: | ---: | ---: |",
    ]
    seen: dict[str, set[int]] = {}
    for tally in tallies.values():
        for file, run in tally.lines.items():
            seen.setdefault(file, set()).update(run)
    for file, run in sorted(seen.items()):
        all_lines = lines_of_functions(file)
        share = 100 * len(run & all_lines) / max(1, len(all_lines))
        lines.append(
            f"| `{Path(file).relative_to(ROOT)}` | {len(run & all_lines)} | {len(all_lines)} | {share:.0f} % |"
        )
    return "\n".join(lines) + "\n"


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def _processor() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return f"{names[0] if names else platform.machine()}, {len(names)} threads"
