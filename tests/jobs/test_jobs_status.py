"""The command status: a run that goes on, one that stopped, one that is complete, and files that others wrote."""

import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs.output import status
from pan_scdg.jobs.output.mark import lock_output
from pan_scdg.locks import lock_folder
from pan_scdg.own_files import HIDDEN
from pan_scdg.progress import TICKS
from pan_scdg.retrieval.bm25 import fts5

Cli = Callable[..., Any]
OTHER = {"doc_id": "other", "default_text": "A document about something else, of a few words."}


@pytest.fixture
def stopped(pairs_input: Path, run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of a run that stopped after its first batch."""
    out = tmp_path / "out"
    monkeypatch.setattr(status, "INTERVAL", 0.0)

    class Stop(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            progress: Any = record.__dict__["progress"]
            if progress.stage == "scoring pairs" and progress.done:
                raise KeyboardInterrupt

    handler = Stop()
    TICKS.addHandler(handler)
    assert run(pairs_input, out).code == 3
    TICKS.removeHandler(handler)
    return out


def test_a_run_is_told_from_its_output_while_it_goes_on_and_afterwards(
    stopped: Path, pairs_input: Path, run: Cli, cli: Cli
) -> None:
    done = cli("status", stopped)
    assert done.out.startswith("state: stopped; run the same command again to continue\nstage: scoring pairs\ndone: ")
    with lock_output(stopped):
        found = json.loads(cli("status", stopped, "--json").out)
    assert found["state"] == "running"
    assert {"done", "total", "failed", "nodes", "nodes_lost", "processes", "seconds_left"} <= found.keys()
    assert run(pairs_input, stopped).code == 0
    assert cli("status", stopped).out == "state: complete\n"


def test_an_index_is_told_from_its_folder_while_it_is_built_and_afterwards(
    retrieval_input: Path,
    write_retrieval: Callable[..., Path],
    cli: Cli,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "index"
    routes = {"retrieval.routes": ["bm25-full"], "retrieval.fusion": "none", "retrieval.bm25.engine": "fts5"}
    where = ("--input", retrieval_input, "--index", folder, "--profile", profile_with(routes))
    with monkeypatch.context() as patch:
        patch.setattr(fts5, "write_seal", interrupt)
        assert cli("index", *where).code == 3
    assert cli("status", folder).out.startswith(
        "state: stopped; run the same command again to continue\nstage: indexing the corpus\ndone: "
    )
    with lock_folder(folder):
        assert json.loads(cli("status", folder, "--json").out)["state"] == "running"
        in_use = cli("index", *where)
    assert (in_use.code, in_use.err) == (
        2,
        f"error: {folder}: another run is using the index; wait for it or choose another --index folder\n",
    )
    (folder / "status.json").write_text("a file of the user")
    assert cli("index", *where).code == 0
    assert cli("status", folder).out == "state: complete\n"
    assert (folder / "status.json").read_text() == "a file of the user"
    assert "holds indexes of another corpus" in cli("index", "--input", write_retrieval([OTHER]), *where[2:]).err
    assert cli("status", folder).out == "state: complete\n"


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("content", ["{}", "[" * 9999, '{"stage": 1}', None])
def test_a_status_that_others_wrote_is_one_line(content: str | None, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / HIDDEN).mkdir()
    path = tmp_path / HIDDEN / status.STATUS
    if content is None:
        path.symlink_to("/dev/zero")
    else:
        path.write_text(content)
    done = cli("status", tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert str(path) in done.err


def test_what_is_no_output_is_an_error(tmp_path: Path, cli: Cli) -> None:
    assert "holds neither a result nor an unfinished run" in cli("status", tmp_path).err
    assert "cannot be read" in cli("status", tmp_path / "none").err


def test_a_run_that_starts_while_its_status_is_read_waits_for_the_lock(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_SH)  # as `status` does
    threading.Timer(0.2, os.close, [folder]).start()
    with lock_output(tmp_path), pytest.raises(BlockingIOError):
        fcntl.flock(os.open(tmp_path, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
