"""``run`` with a prompted profile, from the command line to the decisions, against an endpoint that may break down."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pan_scdg.methods.local_instruct import LocalInstruct

from pan_scdg.methods import endpoint
from tests.local_chat import Fault, LocalChat, serving, until

ROOT = Path(__file__).parents[2]
PROFILE = """
name = "own-judge"
description = "a judge of our own"
[baseline]
kind = "prompt"
model = "judge-8b"
characters = 400
"""
TEMPLATE = "{% for m in messages %}<|bos|>{{ m.role }}: {{ m.content }}<|eos|>{% endfor %}<|bos|>assistant: "
DAY = {"Retry-After": "86400"}
PAIRS = 24

Call = Callable[..., Any]
Records = Callable[[Path], list[dict[str, Any]]]


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalChat]:
    with serving(LocalChat(says=judged)) as served:
        monkeypatch.setenv(endpoint.URL, served.url)
        monkeypatch.setenv("NO_PROXY", "*")
        for name in (endpoint.KEY, endpoint.MODEL):
            monkeypatch.delenv(name, raising=False)
        yield served


def judged(user: str) -> str:
    """Every third document is a paraphrase, every fourth nothing that can be told."""
    number = int(user.rsplit("report number ", 1)[1].split()[0])
    return "Paraphrase." if number % 3 == 0 else "Who knows?" if number % 4 == 0 else "no"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Pairs whose suspicious documents have numbers."""
    root = tmp_path / "input"
    for folder in ("susp", "src", "truth"):
        (root / folder).mkdir(parents=True)
    (root / "src" / "r.txt").write_text("The tide turned before noon.", encoding="utf-8")
    reuse = '<feature name="plagiarism" this_offset="0" this_length="9" source_reference="r.txt" source_offset="0" {}/>'
    for i in range(PAIRS):
        feature = reuse.format('source_length="9"') if i % 3 == 0 else ""
        truth = f'<document reference="s{i:02}.txt">{feature}</document>'
        (root / "truth" / f"s{i:02}-r.xml").write_text(truth, encoding="utf-8")
        text = f"This is report number {i} of the harbour. {'Nothing was caught. ' * (i + 1)}"
        (root / "susp" / f"s{i:02}.txt").write_text(text, encoding="utf-8")
    (root / "pairs").write_text("".join(f"s{i:02}.txt r.txt\n" for i in range(PAIRS)), encoding="utf-8")
    return root


@pytest.fixture
def judge(tmp_path: Path) -> Callable[[str], Path]:
    """``judge("threshold = 0.6")``: the profile with more lines, as a file."""

    def write(more: str) -> Path:
        path = tmp_path / "own-judge.toml"
        path.write_text(f"{PROFILE}{more}\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(cli: Call, source: Path, judge: Callable[[str], Path], tmp_path: Path) -> Call:
    """``run(*more, profile=...)`` into ``tmp_path / "out"``."""

    def call(*more: object, profile: str = "threshold = 0.6") -> Any:
        where = ("--input", source, "--output", tmp_path / "out", "--profile", judge(profile), "--device", "cpu")
        return cli("run", *where, "--no-metadata", *more)

    return call


def test_decides_by_the_labels_and_asks_once_a_pair(
    chat: LocalChat, run: Call, records: Records, tmp_path: Path
) -> None:
    done = run()
    assert (done.code, done.err.splitlines()[-1]) == (
        0,
        f"decided {PAIRS} pairs: {tmp_path / 'out' / 'decisions.jsonl'}",
    )
    found = records(tmp_path / "out" / "decisions.jsonl")
    scores = [0.8 if i % 3 == 0 else 0.5 if i % 4 == 0 else 0.0 for i in range(PAIRS)]
    assert [record["score"] for record in found] == scores
    assert [record["decision"] for record in found] == [score >= 0.6 for score in scores]
    assert len(chat.asked) == PAIRS
    assert run().code == 0
    assert len(chat.asked) == PAIRS


def test_an_outage_costs_nothing(
    chat: LocalChat, run: Call, tmp_path: Path, visible: Callable[[Path], dict[str, bytes]]
) -> None:
    """The endpoint breaks down after five answers, and refuses the key after two more."""
    assert run("--output", tmp_path / "undisturbed").code == 0
    reference = visible(tmp_path / "undisturbed")
    chat.answered.clear()
    stops_after(chat, 5, Fault(503, b"overloaded", DAY))
    done = run()
    assert done.code == 3
    assert done.err.splitlines()[-1] == (
        f"error: {chat.url}: answers with status 503 and Retry-After 86400: overloaded; "
        "run the same command again to continue"
    )
    assert visible(tmp_path / "out") == {}
    stops_after(chat, len(chat.answered) + 2, Fault(401))
    assert (done := run()).code == 2
    assert done.err.splitlines()[-1].startswith(f"error: {chat.url}: refuses the key (status 401); set OPENAI_API_KEY")
    stops_after(chat, 10**6, Fault())
    assert run().code == 0
    assert visible(tmp_path / "out") == reference
    assert set(Counter(chat.answered).values()) == {1}
    assert until(lambda: len(chat.answered) == PAIRS)


def stops_after(chat: LocalChat, count: int, fault: Fault) -> None:
    """From this number of answers on, everything is the fault."""

    def says(user: str) -> str:
        if len(chat.answered) >= count - 1:
            chat.always = fault
        return judged(user)

    chat.says, chat.always = says, None


def test_a_killed_run_asks_for_the_rest(chat: LocalChat, run: Call, source: Path, judge: Call, tmp_path: Path) -> None:
    stops_after(chat, 3, Fault(late=True, cut=True))
    where = ["--input", source, "--output", tmp_path / "out", "--state", tmp_path / "state", "--profile"]
    command = [sys.executable, ROOT / "entrypoint.py", "run", *where, judge("threshold = 0.6"), "--no-metadata"]
    silent = subprocess.DEVNULL
    with subprocess.Popen(
        [*map(str, command), "--device", "cpu"], env=os.environ, stdout=silent, stderr=silent
    ) as process:
        try:
            assert until(lambda: len(chat.answered) >= 3 and kept(tmp_path / "state") == len(chat.answered))
        finally:
            process.kill()
    chat.ended.set()
    stops_after(chat, 10**6, Fault())
    assert run("--state", tmp_path / "state").code == 0
    assert set(Counter(chat.answered).values()) == {1}
    assert until(lambda: len(chat.answered) == PAIRS)


def kept(state: Path) -> int:
    """How many answers are stored; scores come in larger steps."""
    with closing(sqlite3.connect(f"file:{state / 'scores.sqlite'}?mode=ro", uri=True)) as db:
        return int(
            db.execute("SELECT count(*) FROM entries WHERE CAST(value AS TEXT) LIKE '%\"model\"%'").fetchone()[0]
        )


def test_calibrate_chooses_a_label_and_keeps_the_answers(
    chat: LocalChat, cli: Call, source: Path, judge: Callable[[str], Path], tmp_path: Path
) -> None:
    command = ("calibrate", "--input", source, "--profile", judge(""), "--write", tmp_path / "mine.toml")
    assert (done := cli(*command)).code == 2
    assert "answers of the model would be lost if this run stopped; give a folder for them with --state" in done.err
    assert chat.asked == []
    stops_after(chat, 9, Fault(503, headers=DAY))
    assert cli(*command, "--state", tmp_path / "state").code == 3
    stops_after(chat, 10**6, Fault())
    assert (done := cli(*command, "--state", tmp_path / "state")).code == 0
    assert done.out.startswith("prompt, threshold 0.800000: F1 1.0000, accuracy 1.0000 on 24 pairs (8 positive)")
    assert set(Counter(chat.answered).values()) == {1}


def test_a_folder_is_no_use_to_an_endpoint(chat: LocalChat, run: Call, tmp_path: Path) -> None:
    (model := tmp_path / "model").mkdir()
    assert (done := run("--model", model)).code == 2
    assert "a model folder has no effect on a prompt baseline; leave it out" in done.err


def test_without_an_address_or_a_threshold_it_says_what_is_missing(
    chat: LocalChat, run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (done := run(profile="")).code == 2
    assert "profile own-judge has no threshold and cannot decide" in done.err
    monkeypatch.delenv(endpoint.URL)
    assert (done := run()).code == 2
    assert done.err.splitlines()[-1].startswith(
        "error: OPENAI_BASE_URL is not set; give the address of a chat endpoint"
    )
    monkeypatch.setenv(endpoint.URL, chat.url)
    monkeypatch.setattr("pan_scdg.errors.find_spec", lambda name: None)
    assert (done := run()).code == 2
    assert done.err.splitlines()[-1] == (
        "error: the package openai is not installed; install the extra: pip install 'pan_scdg[endpoint]'"
    )
    assert chat.asked == []


def test_stored_answers_need_no_endpoint(
    chat: LocalChat,
    run: Call,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    state = ("--state", tmp_path / "state")
    assert run(*state, "--limit", 5).code == 0
    monkeypatch.delenv(endpoint.URL)
    assert (done := run(*state, "--output", tmp_path / "lacking")).code == 2
    assert done.err.splitlines()[-1].startswith("error: OPENAI_BASE_URL is not set; give the address")
    assert len(chat.asked) == 5
    monkeypatch.setenv(endpoint.URL, chat.url)
    assert run(*state, "--overwrite").code == 0
    monkeypatch.delenv(endpoint.URL)
    monkeypatch.setattr("pan_scdg.errors.find_spec", lambda name: None)
    assert (done := run(*state, "--output", tmp_path / "again")).code == 0, done.err
    assert visible(tmp_path / "again") == visible(tmp_path / "out") != {}
    assert len(chat.asked) == PAIRS
    assert "OPENAI" not in run("--plan").err


def test_merging_shards_needs_no_endpoint(
    chat: LocalChat, cli: Call, run: Call, source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run("--shard", "1/1").code == 0
    monkeypatch.delenv(endpoint.URL)
    done = cli("merge", "--input", source, "--output", tmp_path / "merged", tmp_path / "out")
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def instruct(tiny_folder: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random checkpoint with a chat template."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "instruct"
    shutil.copytree(tiny_folder("llama"), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def test_a_local_checkpoint_judges_and_is_asked_once(
    run: Call, instruct: Path, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = LocalInstruct.complete

    def complete(self: LocalInstruct, messages: Any) -> Any:
        asked.append(messages[-1]["content"])
        return real(self, messages)

    monkeypatch.setattr(LocalInstruct, "complete", complete)
    state = ("--state", tmp_path / "state", "--model", instruct, "--limit", 2)
    local = 'served = "local"\nthreshold = 0.5'
    assert (done := run(*state, profile=local)).code == 0, done.err
    assert len(asked) == 2
    assert all(r["score"] in (0, 0.5, 0.6, 0.8, 1) for r in records(tmp_path / "out" / "decisions.jsonl"))
    (tmp_path / "state" / "weights.json").unlink()
    assert run(*state, "--output", tmp_path / "again", profile=local).code == 0
    assert len(asked) == 2


def test_a_checkpoint_that_cannot_chat(run: Call, tiny_folder: Callable[[str], Path]) -> None:
    done = run("--model", tiny_folder("llama"), profile='served = "local"\nthreshold = 0.5')
    assert done.code == 2
    assert " has no chat template; give the folder of an instruction-tuned checkpoint" in done.err
