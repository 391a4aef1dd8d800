"""``python tests/fuzz``: feed changed valid files to every reader and tell what else than UserError comes out."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from child import MEMORY, SECONDS, Outcome, Round, run_round
from planted import PLANTED
from report import Tally, page, summary
from target import Target
from targets import TARGETS

PER_ROUND = 2048
"""Inputs of a quick target in one round of a long run."""
TRACED = 16
"""One of so many rounds notes the lines that are run, which takes several times as long."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--inputs", type=int, default=512, help="one round, of so many inputs of each quick target")
    limit.add_argument("--seconds", type=int, help="rounds until so many seconds have passed")
    parser.add_argument("--most", type=int, help="stop after so many inputs")
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--only", nargs="+", metavar="TARGET")
    parser.add_argument("--planted", action="store_true", help="targets that are at fault, to try the harness itself")
    parser.add_argument("--case-seconds", type=float, default=SECONDS)
    parser.add_argument("--memory", type=int, default=MEMORY)
    parser.add_argument("--kept", type=Path, help="folder for the inputs of findings")
    parser.add_argument("--page", type=Path, help="write the result to this Markdown file after each round")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    return parser.parse_args()


def _rounds(targets: Sequence[Target], asked: argparse.Namespace) -> Iterator[tuple[Target, int, int, bool]]:
    """Target, seed, inputs and whether lines are noted: one round, or rounds without end."""
    for number in [0] if asked.seconds is None else count():
        inputs = asked.inputs if asked.seconds is None else PER_ROUND
        for target in targets:
            yield (
                target,
                asked.seed + number,
                int(inputs * target.rate),
                asked.seconds is not None and number % TRACED == 0,
            )


def _save(tallies: dict[str, Tally], asked: argparse.Namespace, seconds: float) -> None:
    if asked.page is not None:
        asked.page.write_text(page(tallies, seconds, sys.argv[1:]), encoding="utf-8")
    if asked.json is not None:
        asked.json.write_text(json.dumps({name: tally.record() for name, tally in tallies.items()}), encoding="utf-8")


def main() -> int:
    """Run until the limit; returns 1 when something was found."""
    asked = _arguments()
    table = PLANTED if asked.planted else TARGETS
    targets = [table[name] for name in asked.only or table]
    kept = asked.kept or Path(tempfile.mkdtemp(prefix="fuzz-kept-"))
    tallies = {target.name: Tally(target) for target in targets}
    begun, saved = time.monotonic(), 0.0
    for target, seed, inputs, trace in _rounds(targets, asked):
        passed, tally = time.monotonic() - begun, tallies[target.name]
        enough = asked.most is not None and sum(t.inputs for t in tallies.values()) >= asked.most
        if enough or (asked.seconds is not None and passed > asked.seconds):
            break
        this = Round(target, seed, inputs, kept, frozenset(tally.findings), trace, asked.case_seconds, asked.memory)
        outcome: Outcome = run_round(this)
        for place, told in outcome.findings.items():
            print(f"{target.name}: {place} (seed {seed}; input in {kept / target.name})\n{told}", flush=True)
        tally.add(outcome)
        if passed - saved > 60:
            _save(tallies, asked, saved := passed)
    _save(tallies, asked, time.monotonic() - begun)
    print(summary(tallies, time.monotonic() - begun))
    return 1 if any(tally.findings for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
