"""``python tests/faults``: kill commands, fill their disks and start them twice; tell what was lost or unclear."""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

from command import ROOT, Command, make_commands
from experiments import Laboratory, Tally
from process import Process

LOG_BYTES = 4096
"""The smallest limit on files: what the command says on stderr is written to a file, too."""
HEAVY = ("torch", "transformers", "sentence_transformers", "sklearn", "lxml.etree", "statsmodels.api")
"""Imported once, before any command is forked."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=1, help="random moments a command")
    parser.add_argument("--disks", type=int, default=1, help="sizes of a full disk a command")
    parser.add_argument("--pairs", type=int, default=1, help="moments of a second run a command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="COMMAND")
    parser.add_argument("--page", type=Path, help="write the result to this Markdown file")
    return parser.parse_args()


def _can_mount(folder: Path) -> bool:
    folder.mkdir()
    tried = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, check=False)
    return tried.returncode == 0 and subprocess.run(["umount", str(folder)], check=False).returncode == 0


def _spread(count: int, largest: int, smallest: int = 1) -> list[int]:
    """Return ``count`` sizes from ``smallest`` to ``largest``, the small ones closer together."""
    return [max(smallest, int(largest * ((i + 1) / (count + 1)) ** 2)) for i in range(count)]


def _experiments(command: Command, folder: Path, asked: argparse.Namespace, mounts: bool) -> dict[str, Tally]:
    laboratory = Laboratory(command, folder)
    largest = max(map(len, laboratory.reference.values()))
    found = {
        "SIGKILL": laboratory.kill_at_random(asked.kills, asked.seed),
        "limit of files": laboratory.limit_files(_spread(asked.disks, 2 * largest, LOG_BYTES)),
    }
    if mounts:
        found["full disk"] = laboratory.fill_disks(_spread(asked.disks, 1024))
    if command.locks:
        found["two runs"] = laboratory.run_two(asked.pairs, asked.seed)
    return found


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'an unnamed processor'} ({platform.machine()})"


def _page(found: dict[str, dict[str, Tally]], seconds: float, mounts: bool) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = [
        "# Commands that are disturbed",
        "",
        f"`python tests/faults {' '.join(sys.argv[1:])}` on {datetime.now(timezone.utc):%Y-%m-%d}, commit "
        f"{commit.stdout.strip()}, {os.cpu_count()} cores of {_processor()}, {seconds:.0f} s.",
        "",
        "Each case ends with the same command, undisturbed, and the bytes of its result are compared with those of a "
        "command that nobody disturbed. A finding is another result, an incomplete file under its final name, an exit "
        "code that is not its own, or a line that does not say what to do."
        + ("" if mounts else " No file system could be mounted here: the disk was not filled."),
        "",
        "| command | disturbed by | cases | outcomes | findings |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for name, experiments in found.items():
        for kind, tally in experiments.items():
            outcomes = ", ".join(f"{what} {count}" for what, count in sorted(tally.outcomes.items()))
            lines.append(f"| {name} | {kind} | {tally.cases} | {outcomes} | {len(tally.findings)} |")
    findings = [
        f"- {name}, {kind}: {what}"
        for name, experiments in found.items()
        for kind, tally in experiments.items()
        for what in tally.findings
    ]
    return "\n".join([*lines, *(["", *findings] if findings else [])]) + "\n"


def main() -> int:
    """Carry out the experiments; the exit code is 1 where something was found."""
    asked, began = _arguments(), time.monotonic()
    for name in HEAVY:
        __import__(name)
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        folder = Path(scratch)
        mounts = _can_mount(folder / "mount")
        commands = make_commands(folder, lambda words: Process(words, folder / "log").wait().code)
        found = {}
        for number, command in enumerate(commands):
            if asked.only is None or command.name in asked.only:
                found[command.name] = _experiments(command, folder / f"of-{number}", asked, mounts)
                print(f"{command.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        page = _page(found, time.monotonic() - began, mounts)
    print(page)
    if asked.page is not None:
        asked.page.write_text(page, encoding="utf-8")
    return int(any(tally.findings for experiments in found.values() for tally in experiments.values()))


if __name__ == "__main__":
    sys.exit(main())
