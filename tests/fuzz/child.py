"""One target in a process of its own, with limits: whatever the reader does, the parent learns which input did it."""

import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from mutations import STEP, Case, mutate, write
from target import Target
from tracing import Tracer

import pan_scdg
from pan_scdg.errors import UserError

PACKAGE = str(Path(pan_scdg.__file__).parent)
"""A clone can have the package's name, too."""
MEMORY = 1 << 30
"""Bytes that a process may allocate."""
SECONDS = 10
"""Of a core, for one input; and six times as many by the clock, for a machine may be busy with other things."""
BATCH = 16
"""Inputs of one example: drawing it takes Hypothesis longer than a reader takes for all of them."""


@dataclass
class Outcome:
    """What came of a round."""

    inputs: int = 0
    read: int = 0
    """Inputs that the reader took."""
    refused: int = 0
    """Inputs that it refused with UserError (or as its docstring says)."""
    findings: dict[str, str] = field(default_factory=dict)
    """What else left it: the kind and place of an error, and its traceback."""
    again: Counter[str] = field(default_factory=Counter)
    """Inputs with errors that were known before the round."""
    lines: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """What one process does with a target."""

    target: Target
    seed: int
    inputs: int
    kept: Path
    """Folder for the inputs of findings."""
    known: frozenset[str] = frozenset()
    """Findings that were made before: the round goes on behind them."""
    trace: bool = False
    seconds: float = SECONDS
    memory: int = MEMORY


def run_round(this: Round) -> Outcome:
    """Run a round in a child process; a child that does not come back is a finding, with its last input."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        child = os.fork()
        if not child:
            _be_the_child(this, folder)
        _, status = os.waitpid(child, 0)
        if (folder / "outcome.json").is_file():
            return _loaded(folder / "outcome.json")
        why = signal.Signals(status & 0x7F).name if status & 0x7F else f"exit code {status >> 8}"
        told = (folder / "stderr").read_text("utf-8", "replace")[-4000:]
        progress = _loaded(folder / "progress.json") if (folder / "progress.json").is_file() else Outcome(inputs=1)
        finding = f"process ended by {why}"
        _keep(folder / "case", this, finding)
        progress.findings = {finding: told}
        return progress


def _be_the_child(this: Round, folder: Path) -> None:
    code = 1
    try:
        with open(folder / "stderr", "w") as told:
            os.dup2(told.fileno(), 1)
            os.dup2(told.fileno(), 2)
            for late in (signal.SIGPROF, signal.SIGALRM):  # says where the process is, then ends it
                faulthandler.register(late, file=2, all_threads=False, chain=True)
            resource.setrlimit(resource.RLIMIT_DATA, (this.memory, this.memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            warnings.simplefilter("ignore")
            outcome = _explore(this, folder)
            (folder / "part").write_text(json.dumps(asdict(outcome)))
            (folder / "part").rename(folder / "outcome.json")
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _loaded(path: Path) -> Outcome:
    data = json.loads(path.read_text())
    return Outcome(**{**data, "again": Counter(data["again"])})


def _explore(this: Round, folder: Path) -> Outcome:
    bench = _Bench(this, folder)
    examples = max(1, this.inputs // BATCH)

    @seed(this.seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(st.binary(min_size=BATCH * STEP, max_size=BATCH * STEP))
    def feed(choices: bytes) -> None:
        for start in range(0, len(choices), STEP):
            bench.feed(choices[start : start + STEP])

    tracer = Tracer(this.target.sources()) if this.trace else None
    with tracer or nullcontext():
        bench.feed(bytes(STEP))
        if bench.outcome.refused:
            bench.outcome.findings["the valid files are refused"] = str(bench.refusal)
            return bench.outcome
        try:
            feed()
        except _FindingError as e:
            bench.outcome.findings[e.place] = e.told
    if tracer is not None:
        bench.outcome.lines = {file: sorted(lines) for file, lines in tracer.lines.items()}
    return bench.outcome


class _FindingError(Exception):
    """Something left a reader that must not."""

    def __init__(self, place: str, told: str) -> None:
        self.place, self.told = place, told
        super().__init__(place)


class _Bench:
    """A folder with the valid files, in which one after the other is changed, read, and put back."""

    def __init__(self, this: Round, folder: Path) -> None:
        self.this, self.outcome, self.refusal = this, Outcome(), ""
        self._progress = folder / "progress.json"
        self._valid, self._case = folder / "valid", folder / "case"
        this.target.lay_out(self._valid)
        shutil.copytree(self._valid, self._case)
        self._files = {name: (self._valid / name).read_bytes() for name in this.target.forms}
        self._texts = this.target.texts(self._valid)

    def feed(self, choice: bytes) -> None:
        """Let the reader read one input.

        Raises:
            _FindingError: something left it that must not, for the first time.
        """
        case = mutate(self._files, self._texts, self.this.target.forms, choice)
        self.outcome.inputs += 1
        if self.outcome.inputs % 256 == 0:
            self._progress.write_text(json.dumps(asdict(self.outcome)))
        write(case, self._case)
        try:
            _limit(self.this.seconds)
            self.this.target.read(self._case)
            self.outcome.read += 1
        except (UserError, *self.this.target.documented) as e:
            self.outcome.refused += 1
            self.refusal = str(e)
            if not all(line.isprintable() for line in self.refusal.split("\n")):
                self._note(ValueError(f"a refusal that cannot be shown: {self.refusal!r}"))
        except BaseException as e:
            self._note(e)
        finally:
            _limit(0)
            self._restore(case)

    def _note(self, error: BaseException) -> None:
        place = _place(error)
        if place in self.this.known:
            self.outcome.again[place] += 1
            return
        _keep(self._case, self.this, place)
        raise _FindingError(place, "".join(traceback.format_exception(error))[-6000:])

    def _restore(self, case: Case) -> None:
        if self.this.target.writes:
            shutil.rmtree(self._case)
            shutil.copytree(self._valid, self._case)
            return
        if case.kind == "folder":
            (self._case / case.name).rmdir()
        elif case.kind and case.kind != "missing":
            (self._case / case.name).unlink()
        write(Case(case.name, self._files[case.name]), self._case)


def _limit(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 6 * seconds)


def _place(error: BaseException) -> str:
    """The kind of an error and the innermost function of the project that it left."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(PACKAGE)]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{type(error).__name__} in {where}"


def _keep(case: Path, this: Round, place: str) -> None:
    """Copy the input of a finding; while it is made smaller the smaller ones take its place."""
    name = "".join(c if c.isalnum() else "-" for c in place)[:80]
    kept = this.kept / this.target.name / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for path in case.rglob("*"):
        inside = kept / path.relative_to(case)
        if path.is_dir() and not path.is_symlink():
            inside.mkdir(parents=True, exist_ok=True)
        elif path.is_symlink():
            inside.symlink_to(path.readlink())
        elif path.is_fifo():
            os.mkfifo(inside)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, inside)


if sys.platform != "linux":
    raise RuntimeError("limits of processes are those of Linux")
