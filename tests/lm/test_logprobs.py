import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm.logprobs import compute_target_log_probs, gather_log_softmax
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.aggregation import average, average_top_q
from pan_scdg.scdg.gains import Gains, combine_passes, join_segments
from pan_scdg.scdg.segments import build_segment_passes
from pan_scdg.scdg.sequences import (
    Passes,
    ScoringInput,
    build_pair_passes,
    build_retrieval_conditional,
    build_retrieval_unconditional,
    encode_query,
)
from pan_scdg.settings import ModelSettings, SegmentSettings, WindowSettings
from tests.memory_errors import MEMORY_ERRORS
from tests.tolerances import log_prob_tolerance

torch = pytest.importorskip("torch")

ARCHITECTURES = ("qwen3", "qwen3-no-bos", "qwen2", "llama", "mistral3")
SOURCE = "The third was lost, and nobody on the quay said a word about the salt."
TARGET = " Nobody said a word.\n\nThe tide turned twice: 17.5 grams of Übermut."


@pytest.fixture(scope="module")
def tiny_lm(tiny_folder: Callable[[str], Path]) -> Callable[[str], LanguageModel]:
    def load(architecture: str) -> LanguageModel:
        settings = ModelSettings(name=architecture, dtype="float32")
        return load_model(tiny_folder(architecture), settings, "cpu")

    return cache(load)


def literal_log_probs(lm: LanguageModel, item: ScoringInput) -> np.ndarray:
    """The paper's formula over the model's own full logits: shifted labels, log-softmax in float64, gather."""
    x = [*item.context_ids.tolist(), *item.target_ids.tolist()]
    with torch.no_grad():
        z = lm.model(input_ids=torch.tensor([x])).logits[0].double().numpy()
    found = []
    for position in range(len(x) - 1):
        row = z[position]
        m = row.max()
        found.append(row[x[position + 1]] - m - np.log(np.exp(row - m).sum()))
    return np.array(found[len(item.context_ids) - 1 :])


def tolerance(lm: LanguageModel, *items: ScoringInput) -> float:
    """What rounding leaves between two log-probabilities of these inputs."""
    return 2 * log_prob_tolerance(lm.model, max(item.length for item in items))


def scored(lm: LanguageModel, passes: Passes, rows: int = 7) -> Gains:
    pair = [compute_target_log_probs(lm, item, rows) for item in passes]
    return combine_passes([item.target_ids for item in passes], *pair)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pair_gains_equal_the_literal_formula(tiny_lm: Callable[[str], LanguageModel], architecture: str) -> None:
    lm = tiny_lm(architecture)
    passes = build_pair_passes(lm.tokenizer, SOURCE, TARGET)
    before, behind = (literal_log_probs(lm, item) for item in passes)
    gains = scored(lm, passes).gains
    assert np.array_equal(passes.unconditional.target_ids, passes.conditional.target_ids)
    assert len(gains) == len(lm.tokenizer.encode(TARGET, add_special_tokens=True)) - 1
    bound = 2 * tolerance(lm, *passes)
    np.testing.assert_allclose(gains, behind - before, atol=bound)
    assert np.abs(gains).max() > 0.1, "the source must matter, or the comparison says nothing"
    assert gains.sum() == pytest.approx(-before.sum() + behind.sum(), abs=bound * len(gains))
    assert average_top_q(gains, 100) == average(gains)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_retrieval_gains_equal_the_literal_formula(tiny_lm: Callable[[str], LanguageModel], architecture: str) -> None:
    lm = tiny_lm(architecture)
    target = encode_query(lm.tokenizer, TARGET)
    prefix = np.array(lm.tokenizer.encode(SOURCE, add_special_tokens=False), dtype=np.int64)
    passes = Passes(
        build_retrieval_unconditional(lm.tokenizer, target), build_retrieval_conditional(lm.tokenizer, target, prefix)
    )
    expected = literal_log_probs(lm, passes.conditional) - literal_log_probs(lm, passes.unconditional)
    np.testing.assert_allclose(scored(lm, passes).gains, expected, atol=2 * tolerance(lm, *passes))


def test_segments_score_every_token_by_the_literal_formula(tiny_lm: Callable[[str], LanguageModel]) -> None:
    lm = tiny_lm("qwen2")
    windows = WindowSettings(words=4, stride=4)
    plan = SegmentSettings(target_tokens=12, context_tokens=5, source_tokens=20, windows=windows)
    passes = list(build_segment_passes(lm.tokenizer, SOURCE, TARGET, [(0, 20), (22, len(TARGET))], plan))
    gains = join_segments(scored(lm, pair, 5) for pair in passes)
    expected = [literal_log_probs(lm, p.conditional) - literal_log_probs(lm, p.unconditional) for p in passes]
    bound = 2 * tolerance(lm, *(item for p in passes for item in p))
    np.testing.assert_allclose(gains.gains, np.concatenate(expected), atol=bound)
    assert lm.tokenizer.decode(gains.token_ids.tolist()) == TARGET


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_mask_is_built_and_none_is_missing(tiny_lm: Callable[[str], LanguageModel], architecture: str) -> None:
    """The decoder gets no [length, length] mask, and the result is still that of the plain full model."""
    lm = tiny_lm(architecture)
    item = build_pair_passes(lm.tokenizer, SOURCE, TARGET).conditional
    masks: list[object] = []
    attention = [m for name, m in lm.model.named_modules() if name.endswith("self_attn") and "vision" not in name]
    hooks = [
        m.register_forward_pre_hook(lambda _m, _a, given: masks.append(given["attention_mask"]), with_kwargs=True)
        for m in attention
    ]
    found = compute_target_log_probs(lm, item, 1000)
    for hook in hooks:
        hook.remove()
    assert len(masks) == 2
    assert all(mask is None for mask in masks), "attention is causal without a mask"
    np.testing.assert_allclose(found, literal_log_probs(lm, item), atol=tolerance(lm, item))


@pytest.mark.parametrize("architecture", ["qwen3", "mistral3"])
def test_the_number_of_rows_changes_nothing(tiny_lm: Callable[[str], LanguageModel], architecture: str) -> None:
    lm = tiny_lm(architecture)
    item = build_pair_passes(lm.tokenizer, SOURCE, TARGET).conditional
    whole = compute_target_log_probs(lm, item, 10_000)
    assert whole.dtype == np.float32
    for rows in (1, 3, len(item.target_ids) - 1, len(item.target_ids)):
        np.testing.assert_allclose(compute_target_log_probs(lm, item, rows), whole, atol=tolerance(lm, item))


def test_no_logits_beyond_the_rows_and_only_for_the_target(
    tiny_lm: Callable[[str], LanguageModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = tiny_lm("llama")
    item = build_pair_passes(lm.tokenizer, SOURCE, TARGET).conditional
    seen: list[int] = []
    hook = lm.model.get_output_embeddings().register_forward_hook(lambda _m, _i, out: seen.append(out.shape[0]))
    compute_target_log_probs(lm, item, 8)
    hook.remove()
    assert max(seen) == 8
    assert sum(seen) == len(item.target_ids)


def test_target_does_not_see_what_comes_after_it(tiny_lm: Callable[[str], LanguageModel]) -> None:
    lm = tiny_lm("qwen3")
    item = build_pair_passes(lm.tokenizer, SOURCE, TARGET).conditional
    shorter = ScoringInput(item.context_ids, item.target_ids[:5])
    found, whole = (compute_target_log_probs(lm, each, 8)[:5] for each in (shorter, item))
    np.testing.assert_allclose(found, whole, atol=tolerance(lm, item))


def test_log_softmax_is_stable_and_in_fp32() -> None:
    logits = torch.tensor([[3000.0, 2999.0, -3000.0]], dtype=torch.bfloat16)
    expected = np.array([3008.0, 2992.0])  # what bfloat16 makes of 3000 and 2999
    assert logits[0, :2].tolist() == expected.tolist()
    found = gather_log_softmax(logits, torch.tensor([1]))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(-16.0 - np.log1p(np.exp(-16.0)), abs=1e-6)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads for one test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("vocabulary", [12_288, 151_936])
def test_the_number_of_threads_moves_no_digit(rows: int, vocabulary: int, threads: Callable[[int], None]) -> None:
    # Sums that differ in their last digit have the same logarithm more often than not, hence several tries and a
    # distribution so peaked that the logarithm is small and shows every digit.
    logits = torch.randn(40, rows, vocabulary, generator=torch.Generator().manual_seed(0))
    logits[:, :, 0] = logits.amax() + 14
    ids = torch.zeros(rows, dtype=torch.int64)
    found = []
    for count in (1, 2, 4):
        threads(count)
        found.append(torch.stack([gather_log_softmax(each.clone(), ids) for each in logits]))
    assert found[0].shape == (40, rows)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_too_long_an_input_is_named(tiny_lm: Callable[[str], LanguageModel]) -> None:
    item = ScoringInput(np.zeros(1, dtype=np.int64), np.full(2048, 5, dtype=np.int64))
    with pytest.raises(UserError, match="2049 tokens exceeds the 2048"):
        compute_target_log_probs(tiny_lm("llama"), item, 8)


@pytest.mark.parametrize(
    ("context", "target", "rows"), [([], [5], 1), ([0], [], 1), ([0], [400], 1), ([-1], [5], 1), ([0], [5], 0)]
)
def test_wrong_arguments_are_an_error(
    tiny_lm: Callable[[str], LanguageModel], context: list[int], target: list[int], rows: int
) -> None:
    item = ScoringInput(np.array(context, dtype=np.int64), np.array(target, dtype=np.int64))
    with pytest.raises(ValueError, match=r"at least|vocabulary"):
        compute_target_log_probs(tiny_lm("llama"), item, rows)


def with_decoder(lm: LanguageModel, decoder: Callable[..., Any]) -> LanguageModel:
    """``lm`` with another decoder, to play what a real machine does rarely."""
    names = ("config", "dtype", "get_input_embeddings", "get_output_embeddings")
    parts = {name: getattr(lm.model, name) for name in names}
    decoder.forward = decoder  # type: ignore[attr-defined]  # as a module has it
    return replace(lm, model=SimpleNamespace(**parts, get_decoder=lambda: decoder))


def failing(error: Exception) -> Callable[..., Any]:
    def decoder(**_: Any) -> Any:
        raise error

    return decoder


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_running_out_of_memory_names_the_length(tiny_lm: Callable[[str], LanguageModel], error: Exception) -> None:
    item = ScoringInput(np.array([0]), np.array([5, 6]))
    with pytest.raises(UserError, match="an input of 3 tokens does not fit in the memory of cpu"):
        compute_target_log_probs(with_decoder(tiny_lm("llama"), failing(error)), item, 8)


def test_nothing_keeps_the_tensors_of_an_input_that_did_not_fit(tiny_lm: Callable[[str], LanguageModel]) -> None:
    made = []

    def decode(**_: Any) -> Any:
        hidden = torch.zeros(1, 3, 32)
        made.append(weakref.ref(hidden))
        raise torch.OutOfMemoryError("CUDA out of memory")

    gc.disable()
    try:
        with pytest.raises(UserError) as raised:
            compute_target_log_probs(
                with_decoder(tiny_lm("llama"), decode), ScoringInput(np.array([0]), np.array([5, 6])), 8
            )
        assert (made[0](), raised.value.__context__) == (None, None)
    finally:
        gc.enable()


def test_other_faults_are_not_taken_for_memory(tiny_lm: Callable[[str], LanguageModel]) -> None:
    item = ScoringInput(np.array([0]), np.array([5, 6]))
    with pytest.raises(RuntimeError, match="shapes"):
        compute_target_log_probs(with_decoder(tiny_lm("llama"), failing(RuntimeError("shapes"))), item, 8)


def test_probabilities_that_are_not_finite_are_an_error(tiny_lm: Callable[[str], LanguageModel]) -> None:
    hidden = SimpleNamespace(last_hidden_state=torch.full((1, 3, 32), float("nan")))
    item = ScoringInput(np.array([0]), np.array([5, 6]))
    with pytest.raises(UserError, match="not finite in torch.float32"):
        compute_target_log_probs(with_decoder(tiny_lm("llama"), lambda **_: hidden), item, 8)
