"""The default engine against the reference: shared prefixes, packed rows, small budgets, too little memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm.attention import BACKENDS
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine, make_engine
from pan_scdg.models.load import LanguageModel, get_decoder_and_head, load_model
from pan_scdg.profile import load_profile
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.memory_errors import MEMORY_ERRORS
from tests.tolerances import check_log_probs

torch = pytest.importorskip("torch")

ARCHITECTURES = ("qwen3", "qwen2", "llama", "mistral3")
MINI = Path(__file__).parents[2] / "model_cache" / "scdg-mini"


@pytest.fixture(scope="module")
def tiny_lm(tiny_folder: Callable[[str], Path]) -> Callable[[str], LanguageModel]:
    @cache
    def load(architecture: str) -> LanguageModel:
        return load_model(tiny_folder(architecture), ModelSettings(name=architecture, dtype="float32"), "cpu")

    return load


def made(rng: np.random.Generator, vocabulary: int) -> list[ScoringInput]:
    """Inputs with common contexts, with contexts of their own and with one token of context."""
    shared = [rng.integers(vocabulary, size=n) for n in (2, 9, 30)]
    contexts = [shared[i] for i in (0, 1, 2, 2, 1, 2)] + [rng.integers(vocabulary, size=n) for n in (1, 1, 12, 25)]
    return [ScoringInput(context, rng.integers(vocabulary, size=int(rng.integers(1, 20)))) for context in contexts]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("budget", [1, 25, 60, 10_000])
def test_the_reference_is_repeated_whatever_the_budget(
    tiny_lm: Callable[[str], LanguageModel], architecture: str, budget: int
) -> None:
    lm = tiny_lm(architecture)
    items = made(np.random.default_rng(3), 60)
    expected = ReferenceEngine(lm, 1024).compute_log_probs(items)
    found = PackedEngine(lm, "sdpa", budget, 7).compute_log_probs(items)
    check_log_probs(lm.model, found, expected, items)
    # The model is as it was before: its own attention gives the same once more.
    for values, others in zip(ReferenceEngine(lm, 1024).compute_log_probs(items), expected, strict=True):
        np.testing.assert_array_equal(values, others)


def test_scdg_mini_with_real_text() -> None:
    settings = load_profile("offline").need_model().model_copy(update={"dtype": "float32"})
    lm = load_model(MINI, settings, "cpu")
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    ids = np.array(lm.tokenizer.encode(text, add_special_tokens=False))
    source, targets = ids[:900], [ids[900 + 150 * i : 1050 + 150 * i] for i in range(4)]
    items = [ScoringInput(source, target) for target in targets] + [ScoringInput(ids[:1], t) for t in targets]
    reference, packed = make_engine("reference", lm, settings), make_engine("packed", lm, settings)
    check_log_probs(lm.model, packed.compute_log_probs(items), reference.compute_log_probs(items), items)
    # 899 tokens of the shared prefix and eight times 150 (the last token's output would speak of nothing)
    assert packed.tokens == 899 + 8 * 150
    assert reference.tokens == 4 * 1050 + 4 * 151


@contextmanager
def limit_calls(
    lm: LanguageModel, room: int, error: Exception | None = None, *, keeps: bool = True, full_at: int | None = None
) -> Iterator[None]:
    """Let the model fail as on a device with room for so many tokens a call.

    Every token that an engine reads costs time, so the tests compare ``tokens``, calls that did not fit included.

    Args:
        lm: the model.
        room: number of tokens.
        error: what the device raises.
        keeps: whether there is room to keep keys and values for later calls.
        full_at: number of a call for which there is no room, whatever its size.
    """
    calls = count()

    def check(_: Any, arguments: Any, options: dict[str, Any]) -> None:
        is_full = next(calls) == full_at or not (keeps or getattr(options.get("packing"), "keep", None) is None)
        if is_full or options["input_ids"].shape[1] > room:
            raise error or torch.OutOfMemoryError("CUDA out of memory")

    hook = get_decoder_and_head(lm.model)[0].register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_too_little_memory_halves_the_rows_and_is_told(
    tiny_lm: Callable[[str], LanguageModel], error: Exception
) -> None:
    lm = tiny_lm("qwen3")
    items = made(np.random.default_rng(4), 60)
    expected = ReferenceEngine(lm, 1024).compute_log_probs(items)
    engine = PackedEngine(lm, "sdpa", 200, 1024)
    with limit_calls(lm, 55, error):
        found = engine.compute_log_probs(items)
    check_log_probs(lm.model, found, expected, items)
    assert engine.splits[0] == 84
    assert engine.splits[-1] <= 55


def test_rows_that_do_not_fit_cost_one_call_a_halving(tiny_lm: Callable[[str], LanguageModel]) -> None:
    """48 inputs of 20 tokens, eight in a row, where four fit: one call fails and the other 44 inputs follow suit."""
    lm, rng = tiny_lm("qwen3"), np.random.default_rng(5)
    items = [ScoringInput(rng.integers(60, size=11), rng.integers(60, size=10)) for _ in range(48)]
    engine = PackedEngine(lm, "sdpa", 164, 1024)
    with limit_calls(lm, 90):
        found = engine.compute_log_probs(items)
        assert engine.tokens == 160 + 48 * 20
        assert engine.splits == [80]
        engine.compute_log_probs(items[:6])
    assert engine.tokens == 160 + 54 * 20, "the smaller rows are used from the start"
    check_log_probs(lm.model, found, ReferenceEngine(lm, 1024).compute_log_probs(items), items)


def test_what_was_computed_before_a_row_that_does_not_fit_is_kept(tiny_lm: Callable[[str], LanguageModel]) -> None:
    lm, rng = tiny_lm("qwen3"), np.random.default_rng(6)
    context = rng.integers(60, size=31)
    items = [ScoringInput(context, rng.integers(60, size=10)) for _ in range(7)]
    engine = PackedEngine(lm, "sdpa", 40, 1024)
    # The prefix of 30 with one continuation, four more, and the last two of which one device had too little memory.
    with limit_calls(lm, 45, full_at=2):
        found = engine.compute_log_probs(items)
    check_log_probs(lm.model, found, ReferenceEngine(lm, 1024).compute_log_probs(items), items)
    # the call of 20 that did not fit; then the prefix once more, with one continuation and the last one
    assert engine.tokens == 40 + 40 + 20 + 40 + 10
    assert engine.splits == [10]


def test_a_prefix_that_cannot_be_kept_is_not_shared(tiny_lm: Callable[[str], LanguageModel]) -> None:
    """Room for each input alone, but none beside the keys and values of a prefix."""
    lm, rng = tiny_lm("qwen3"), np.random.default_rng(7)
    context = rng.integers(60, size=31)
    items = [ScoringInput(context, rng.integers(60, size=10)) for _ in range(3)]
    engine = PackedEngine(lm, "sdpa", 15, 1024)
    with limit_calls(lm, 45, keeps=False):
        found = engine.compute_log_probs(items)
    check_log_probs(lm.model, found, ReferenceEngine(lm, 1024).compute_log_probs(items), items)
    assert engine.tokens == 40 + 3 * 40
    assert engine.splits == [15]


def test_an_input_that_alone_exceeds_the_memory_is_the_users_error(tiny_lm: Callable[[str], LanguageModel]) -> None:
    engine = PackedEngine(lm := tiny_lm("qwen3"), "sdpa", 200, 1024)
    with limit_calls(lm, 5), pytest.raises(UserError, match="an input of 39 tokens does not fit in the memory of cpu"):
        engine.compute_log_probs([ScoringInput(np.arange(30), np.arange(9))])


def test_other_failures_are_not_taken_for_too_little_memory(tiny_lm: Callable[[str], LanguageModel]) -> None:
    engine = PackedEngine(lm := tiny_lm("qwen3"), "sdpa", 200, 1024)
    with limit_calls(lm, 5, RuntimeError("broken")), pytest.raises(RuntimeError, match="broken"):
        engine.compute_log_probs([ScoringInput(np.arange(30), np.arange(9))])


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"layer_types": ["full_attention", "chunked_attention"]}, "layers of type chunked_attention"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic rotary embedding"),
    ],
)
def test_what_cannot_be_packed_is_refused(
    tiny_folder: Callable[[str], Path], changes: dict[str, Any], what: str
) -> None:
    lm = load_model(tiny_folder("qwen3"), ModelSettings(name="qwen3", dtype="float32"), "cpu")
    for name, value in changes.items():
        setattr(lm.model.config, name, value)
    with pytest.raises(UserError, match=f"{what}.*the engine reference"):
        PackedEngine(lm, "sdpa", 100, 100)


def test_the_same_faults_as_in_the_reference_are_refused(tiny_lm: Callable[[str], LanguageModel]) -> None:
    for engine in (ReferenceEngine(tiny_lm("qwen3"), 8), PackedEngine(tiny_lm("qwen3"), "sdpa", 100, 8)):
        with pytest.raises(ValueError, match="at least one"):
            engine.compute_log_probs([ScoringInput(np.arange(0), np.arange(3))])
        with pytest.raises(ValueError, match="outside the vocabulary"):
            engine.compute_log_probs([ScoringInput(np.arange(2), np.array([10**6]))])
        assert engine.compute_log_probs([]) == []


@pytest.mark.parametrize("error", [RuntimeError("no kernel image"), ImportError("no varlen"), ValueError("shape")])
def test_an_attention_that_fails_is_replaced_with_one_warning(
    tiny_lm: Callable[[str], LanguageModel],
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []

    def fail(*_: object) -> Any:
        raise error

    monkeypatch.setitem(BACKENDS, "varlen", fail)
    lm, items = tiny_lm("qwen3"), made(np.random.default_rng(3), 60)
    settings = ModelSettings(name="tiny", attention="varlen")
    monkeypatch.setattr("pan_scdg.lm.engine.say", lines.extend)
    engine = make_engine("packed", lm, settings)
    assert lines == [
        f"warning: attention varlen is replaced by sdpa: {lm.name} fails on a row ({error}) and cannot be packed"
    ]
    assert engine.attention == "sdpa"
    check_log_probs(
        lm.model, engine.compute_log_probs(items), ReferenceEngine(lm, 1024).compute_log_probs(items), items
    )
    monkeypatch.setitem(BACKENDS, "sdpa", fail)
    with pytest.raises(UserError, match="cannot be packed. Use the engine reference"):
        make_engine("packed", lm, settings)


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_too_little_memory_at_the_start_does_not_replace_the_attention(
    tiny_lm: Callable[[str], LanguageModel], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise error

    monkeypatch.setitem(BACKENDS, "varlen", fail)
    with pytest.raises(UserError, match="does not fit in the memory of cpu"):
        make_engine("packed", tiny_lm("qwen3"), ModelSettings(name="tiny", attention="varlen"))
