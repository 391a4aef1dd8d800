from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from pan_scdg.errors import UserError
from pan_scdg.pan.inputs import detect_task, hash_input

Write = Callable[..., Path]
PAIRS = {"pairs": "s1 r1\ns1 r2\n", "susp/s1.txt": "s", "src/r1.txt": "r1", "src/r2.txt": "r2"}
RETRIEVAL = {"corpus.jsonl": '{"doc_id": "a", "text": "x"}\n', "queries.jsonl": '{"qid": "1", "query": "q"}\n'}


def test_each_task_is_found(write: Write) -> None:
    directory = write(PAIRS)
    assert detect_task(directory) == "pairs"


def test_retrieval_is_found(write: Write) -> None:
    directory = write(RETRIEVAL)
    assert detect_task(directory) == "retrieval"
    (directory / "queries.jsonl").unlink()
    with pytest.raises(UserError, match="no input: expected a file whose name ends in 'pairs' or queries"):
        detect_task(directory)


def test_both_tasks_are_refused(write: Write) -> None:
    directory = write({**PAIRS, **RETRIEVAL})
    with pytest.raises(UserError, match="both tasks. Give a folder with one of them"):
        detect_task(directory)


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the directory does not exist"):
        detect_task(tmp_path / "none")


@pytest.mark.parametrize(("files", "task"), [(PAIRS, "pairs"), (RETRIEVAL, "retrieval")])
def test_the_digest_depends_on_every_file_that_matters(
    write: Write, files: dict[str, str], task: Literal["pairs", "retrieval"]
) -> None:
    directory = write(files)
    digests = {hash_input(directory, task)}
    for name, content in files.items():
        write({name: content + " "})
        digests.add(hash_input(directory, task))
        write({name: content})
    assert len(digests) == len(files) + 1
    assert hash_input(directory, task) in digests


def test_the_digest_ignores_place_and_bystanders(write: Write) -> None:
    directory = write(PAIRS)
    digest = hash_input(directory, "pairs")
    write({"readme.txt": "x", "truth/s1-r1.xml": "x"})
    moved = directory.rename(directory.parent / "elsewhere")
    assert hash_input(moved, "pairs") == digest
    (moved / "src" / "r1.txt").rename(moved / "src" / "r1")
    assert hash_input(moved, "pairs") != digest


def test_the_digest_needs_its_files(write: Write) -> None:
    directory = write({"queries.jsonl": RETRIEVAL["queries.jsonl"]})
    with pytest.raises(UserError, match="no input for retrieval"):
        hash_input(directory, "retrieval")
    with pytest.raises(UserError, match="no file whose name ends in 'pairs'"):
        hash_input(directory, "pairs")
