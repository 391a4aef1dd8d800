"""``run`` with every method that needs no language model of its own, from the command line to the files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree

from pan_scdg.methods.bm25 import compute_pair_score, count_statistics
from pan_scdg.methods.char_ngrams import compute_covered_share, find_passages
from pan_scdg.methods.containment import measure_covered_tokens
from pan_scdg.methods.simple import split_tokens
from tests.decisions import list_sentences
from tests.jobs.conftest import PAIRS, SMALL, pair_texts
from tests.local_chat import Fault, LocalChat, serving
from tests.passages import make_passage

Cli = Callable[..., Any]
Records = Callable[[Path], list[dict[str, Any]]]
SUSPICIOUS, SOURCES = pair_texts()
TEXTS = {**SUSPICIOUS, **SOURCES}
STATISTICS = count_statistics(SOURCES.values())
RESTATED: dict[str, Callable[[str, str], float]] = {
    "containment": lambda p, s: measure_covered_tokens(split_tokens(p), split_tokens(s), 2),
    "char-ngrams": lambda p, s: compute_covered_share(p, s, 12),
    "bm25": lambda p, s: compute_pair_score(split_tokens(p), split_tokens(s), STATISTICS, 1.2, 0.75),
}
SETTINGS = {"containment": "n = 2", "char-ngrams": "n = 12", "bm25": "k1 = 1.2"}


@pytest.fixture
def profile(tmp_path: Path) -> Callable[..., Path]:
    """``profile(method, settings, threshold)``: a profile file."""

    def write(method: str, settings: str, threshold: float | None = 0.1) -> Path:
        path = tmp_path / f"own-{len(list(tmp_path.glob('own-*')))}.toml"
        least = "" if threshold is None else f"threshold = {threshold}\n"
        path.write_text(
            f'name = "own"\ndescription = "a test"\n[decide]\nmethod = "{method}"\n{least}'
            f"[{method.replace('-', '_')}]\n{settings}\n"
        )
        return path

    return write


@pytest.fixture
def run(cli: Cli, pairs_input: Path) -> Cli:
    def call(output: Path, profile: Path | str, *more: object, source: Path = pairs_input) -> Any:
        where = ("--input", source, "--output", output, "--profile", profile, "--device", "cpu")
        return cli("run", *where, *more)

    return call


@pytest.mark.parametrize("method", RESTATED)
def test_scores_equal_the_formula_and_detections_follow_from_them(
    method: str, run: Cli, profile: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    done = run(tmp_path / "out", profile(method, SETTINGS[method]))
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == f"decided 6 pairs: {tmp_path / 'out' / 'decisions.jsonl'}"
    for pair, record in zip(PAIRS, records(tmp_path / "out" / "decisions.jsonl"), strict=True):
        target, source = (TEXTS[name] for name in pair)
        score = RESTATED[method](target, source)
        assert record["score"] == pytest.approx(score, abs=1e-6)
        assert (record["method"], record["decision"]) == (method, score >= 0.1)
        passages = list(find_passages(target, source, 12))
        if method != "char-ngrams":
            passages = [make_passage(0, len(target), 0, len(source))]
        expected = [(p.target.begin, p.target.length, p.source.begin, p.source.length) for p in passages]
        root = etree.parse(tmp_path / "out" / f"{'-'.join(pair)}.xml").getroot()
        names = ("this_offset", "this_length", "source_offset", "source_length")
        found = [tuple(int(feature.get(name)) for name in names) for feature in root]
        assert found == (expected if record["decision"] else [])


def test_one_option_chooses_the_threshold(
    run: Cli, cli: Cli, pairs_input: Path, profile: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    plain = profile("containment", "n = 2")
    own = tmp_path / "with-strict.toml"
    own.write_text(plain.read_text().replace("threshold = 0.1", "threshold = 0.1\nstrict = 0.3"))

    def read(command: str, *more: object) -> set[float]:
        output = tmp_path / "-".join(map(str, (command, *more)))
        given = (
            [pairs_input / "susp", pairs_input / "src", "--no-gains"]
            if command == "check"
            else ["--input", pairs_input]
        )
        done = cli(command, *given, "--output", output, "--profile", own, "--device", "cpu", *more)
        assert done.code == 0, done.err
        return {record["threshold"] for record in records(output / "decisions.jsonl")}

    assert read("run") == read("run", "--threshold", "decision") == read("check", "--threshold", "decision") == {0.1}
    assert read("run", "--threshold", "strict") == read("check") == {0.3}
    assert read("check", "--threshold", "0.2") == {0.2}
    done = run(tmp_path / "none", plain, "--threshold", "strict")
    assert (done.code, "needs a profile with a strict threshold" in done.err) == (2, True)


@pytest.mark.parametrize("method", ["bm25", "gains"])
def test_two_workers_give_the_scores_of_one(
    method: str,
    run: Cli,
    profile: Callable[..., Path],
    records: Records,
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("pan_scdg.jobs.pipeline.BATCH_CHARACTERS", 1)
    more: tuple[object, ...]
    chosen, more = SMALL, ("--model", tiny_folder("qwen2"))
    if method != "gains":
        chosen, more = profile(method, SETTINGS[method]), ()
    for number in (1, 2):
        done = run(tmp_path / f"out-{number}", chosen, "--workers", number, *more)
        assert done.code == 0, done.err
    one, two = ([r["score"] for r in records(tmp_path / f"out-{n}" / "decisions.jsonl")] for n in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-4)


def test_a_pair_that_cannot_be_read_stops_the_run_or_is_negative(
    run: Cli, profile: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    for folder, texts in (("susp", SUSPICIOUS), ("src", SOURCES)):
        (tmp_path / "in" / folder).mkdir(parents=True)
        for name, text in texts.items():
            (tmp_path / "in" / folder / f"{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "in" / "pairs").write_text("".join(f"{s}.txt {r}.txt\n" for s, r in PAIRS))
    (tmp_path / "in" / "src" / "r2.txt").write_bytes(b"\xff\xfe broken")
    chosen = profile("containment", "n = 2")
    refused = run(tmp_path / "out", chosen, source=tmp_path / "in")
    assert refused.code == 2
    assert "see --on-error" in refused.err
    assert not (tmp_path / "out" / ".pan_scdg").exists()
    done = run(tmp_path / "out", chosen, "--on-error", "negative", source=tmp_path / "in")
    assert done.code == 0
    assert "warning: pair not scored, decided negative: 2 times, first at" in done.err
    failed = [r for r in records(tmp_path / "out" / "decisions.jsonl") if r["score"] is None]
    assert {(r["suspicious"], r["source"], r["decision"]) for r in failed} == {("s1", "r2", False), ("s2", "r2", False)}
    assert all("not scored, decided negative: not UTF-8" in list_sentences(r)[0] for r in failed)
    (tmp_path / "in" / "src" / "r2.txt").unlink()
    assert "no file for the id 'r2.txt'" in run(tmp_path / "missing", chosen, source=tmp_path / "in").err
    done = run(tmp_path / "missing", chosen, "--on-error", "negative", source=tmp_path / "in")
    assert (done.code, "r2.txt: the file does not exist" in done.err) == (0, True)
    assert sum(r["score"] is None for r in records(tmp_path / "missing" / "decisions.jsonl")) == 2
    refused = run(tmp_path / "strict", chosen, "--on-error", "negative", "--strict", source=tmp_path / "in")
    assert (refused.code, "decided negative. Correct the input or leave out --strict" in refused.err) == (2, True)
    (tmp_path / "in" / "src" / "r2.txt").write_bytes(b"")
    strict = run(tmp_path / "strict", chosen, "--on-error", "negative", "--strict", source=tmp_path / "in")
    assert (strict.code, "empty source document. Correct the input or leave out --strict" in strict.err) == (2, True)


def test_vectors_are_read_and_options_without_effect_are_refused(
    run: Cli, cli: Cli, pairs_input: Path, profile: Callable[..., Path], records: Records, tmp_path: Path
) -> None:
    (tmp_path / "vectors").mkdir()
    generator = np.random.default_rng(0)
    vectors = {name: generator.normal(size=8).astype(np.float32) for name in TEXTS}
    for name, vector in vectors.items():
        np.save(tmp_path / "vectors" / f"{name}.npy", vector)
    by_vectors = profile("vectors", 'model = "any"')
    assert run(tmp_path / "out", by_vectors, "--vectors", tmp_path / "vectors", "--report").code == 0
    again = (tmp_path / "out", "--input", pairs_input, "--output", tmp_path / "again")
    assert cli("reproduce", *again, "--vectors", tmp_path / "vectors").code == 0
    for pair, record in zip(PAIRS, records(tmp_path / "out" / "decisions.jsonl"), strict=True):
        one, other = (vectors[name].astype(np.float64) for name in pair)
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        assert record["score"] == pytest.approx(cosine, abs=1e-6)
    by_words = profile("containment", "n = 2")
    for option in (("--vectors", tmp_path / "vectors"), ("--keep-gains",), ("--engine", "reference")):
        done = run(tmp_path / "refused", by_words, *option)
        assert (done.code, "needs a profile" in done.err) == (2, True)


def test_answers_of_an_endpoint_decide_and_survive_a_stop(
    run: Cli, cli: Cli, pairs_input: Path, records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    profile = tmp_path / "prompt.toml"
    profile.write_text(
        'name = "p"\ndescription = "a test"\n[decide]\nmethod = "prompt"\nthreshold = 0.5\n'
        '[prompt]\nmodel = "judge"\ncharacters = 200\n'
    )
    monkeypatch.setattr("pan_scdg.jobs.pipeline.BATCH_CHARACTERS", 1)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    with serving(LocalChat(says=lambda user: "none")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)

        def answer(user: str) -> str:
            if len(server.asked) == 3:
                server.always = Fault(body=b"<html>", headers={"Content-Type": "text/html"})
            return "none"

        server.says = answer
        stopped = run(tmp_path / "out", profile)
    assert stopped.code != 0, stopped.err
    answered = len((tmp_path / "out" / ".pan_scdg" / "scores.jsonl").read_text().splitlines())
    assert 0 < answered < len(PAIRS)
    with serving(LocalChat(says=lambda user: "none")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert run(tmp_path / "out", profile).code == 0
        assert len(server.asked) == len(PAIRS) - answered
    assert len(records(tmp_path / "out" / "decisions.jsonl")) == len(PAIRS)
    assert json.loads((tmp_path / "out" / "job.json").read_text())["models"] == {"language_model": {"name": "judge"}}
