"""Gains of real texts by a real model, on a device beside a CPU; a part of ``benchmarks.gpu``.

The model is the bundled one, and SmolLM2-135M-Instruct where it was fetched; the texts are the first pairs of the
examples. The error is that of the gains: the root mean square of the differences from those of the reference engine in
float32 on the CPU, as a share of their spread. The limit is larger by half than for log-probabilities, for a gain is
the difference of two of them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.gpu_engines import REFERENCE, Floats, compare, make_engine, score
from benchmarks.gpu_rows import FAILED, OUTCOME, VARIANTS, Part, Row, attempt, find_obstacle, model_limit, release
from pan_scdg.scdg.sequences import (
    ScoringInput,
    Tokenizer,
    build_retrieval_conditional,
    build_retrieval_unconditional,
    encode_text,
)

PAIRS = Path(__file__).parents[1] / "examples" / "pan25-pairs" / "test"
MODELS = ("scdg-mini", "SmolLM2-135M-Instruct")
COUNT, CHARACTERS = 24, 4000
TINY_COUNT, TINY_CHARACTERS = 2, 400


def measure_rows(shape: str, device: str) -> Iterator[Row]:
    """Yield a row for each model, attention and type."""
    for name in MODELS:
        truth: list[Floats] = []
        first = attempt({"model": name}, partial(_add_truth, name, shape, truth))
        if not truth:
            yield first
            continue
        for attention, dtype in VARIANTS:
            cells = {"model": name, "attention": attention, "type": dtype}
            if obstacle := find_obstacle(attention, device):
                yield {**cells, OUTCOME: f"not tried: {obstacle}"}
                continue
            yield attempt(cells, partial(_measure, name, attention, dtype, shape, device, truth[0]))
            release(device)


def _add_truth(name: str, shape: str, truth: list[Floats]) -> Row:
    from pan_scdg.models.find import ModelNotFoundError

    try:
        truth.append(_compute(name, REFERENCE, "float32", shape, "cpu")[0])
    except ModelNotFoundError:
        return {OUTCOME: "not tried: it was not fetched"}
    return {OUTCOME: FAILED}  # unused: there is a truth


def _measure(name: str, attention: str, dtype: str, shape: str, device: str, truth: Floats) -> Row:
    found, tokens, seconds, layers, longest = _compute(name, attention, dtype, shape, device)
    cells = {"pairs": str(_choose(shape)[0]), "tokens": f"{tokens:,}", "s": f"{seconds:.3g}"}
    return {**cells, **compare(found, truth, 1.5 * model_limit(dtype, longest, layers))}


def _compute(name: str, attention: str, dtype: str, shape: str, device: str) -> tuple[Floats, int, float, int, int]:
    """Return the gains of all pairs, tokens and seconds, the model's layers and the longest input."""
    from pan_scdg.models.find import find_model
    from pan_scdg.models.load import load_model
    from pan_scdg.profile import ModelSettings

    plain = "sdpa" if attention == REFERENCE else attention
    settings = ModelSettings.model_validate({"name": name, "dtype": dtype, "attention": plain})
    lm = load_model(find_model(name).folder, settings, device)
    items = list(build_inputs(lm.tokenizer, *_choose(shape)))
    run = score(make_engine(attention, lm), items)
    layers = int(lm.model.config.get_text_config().num_hidden_layers)
    return subtract(run.values, items), run.tokens, run.seconds, layers, max(item.length for item in items)


def build_inputs(tokenizer: Tokenizer, count: int, characters: int) -> Iterator[ScoringInput]:
    """Yield the inputs of the first pairs of the examples, of the heads of their texts: without source and with."""
    for line in (PAIRS / "pairs").read_text(encoding="utf-8").splitlines()[:count]:
        suspicious, source = line.split()
        paths = (PAIRS / "susp" / suspicious, PAIRS / "src" / source)
        target, given = (encode_text(tokenizer, path.read_text(encoding="utf-8")[:characters]) for path in paths)
        yield build_retrieval_unconditional(tokenizer, target)
        yield build_retrieval_conditional(tokenizer, target, given)


def subtract(values: Floats, items: Sequence[ScoringInput]) -> Floats:
    """Return the gains of all targets, from log-probabilities without and with the source in turn."""
    parts = np.split(values, np.cumsum([len(item.target_ids) for item in items])[:-1])
    gains: Floats = np.concatenate([given - alone for alone, given in zip(parts[::2], parts[1::2], strict=True)])
    return gains


def _choose(shape: str) -> tuple[int, int]:
    return (TINY_COUNT, TINY_CHARACTERS) if shape == "tiny" else (COUNT, CHARACTERS)


PART = Part(
    ("model", "attention", "type", "pairs", "tokens", "s", "mean nats", "largest nats", "error", "limit"),
    measure_rows,
    every_shape=False,
)
