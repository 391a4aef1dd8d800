"""Both engines on models of random weights; two parts of ``benchmarks.gpu``.

``packed``: sources with several targets each, and the targets alone. Log-probabilities in bfloat16 and float32 are
compared with those of the reference engine in float32 from the same weights; the error is the root mean square of the
differences as a share of the log-probabilities' spread. ``long``: one pair of 32,768 tokens, a quarter of them the
target, then of 65,536 and 131,072; memory is the largest beside the weights, and errors are those against the
reference engine in bfloat16.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.device_memory import Memory
from benchmarks.gpu_rows import (
    GIB,
    OUTCOME,
    VARIANTS,
    Part,
    Row,
    attempt,
    find_obstacle,
    judge,
    model_limit,
    release,
)
from benchmarks.scoring_models import SHAPES, check_weights, random_model
from pan_scdg.lm.engine import Engine, PackedEngine, ReferenceEngine
from pan_scdg.models.load import LanguageModel
from pan_scdg.scdg.sequences import ScoringInput

BUDGET, HEAD_ROWS = 16384, 1024
"""The defaults of ``pack_tokens`` and ``head_rows`` in profiles."""
WARM = 512
"""Tokens of context and target that are scored before the clock starts."""
REFERENCE = "reference"
LOW = "bfloat16"
GOAL, GOAL_TOKENS = 6 * GIB, 32768
"""Largest memory of a pair of that length beside the weights."""
NOT_COMPARED = "not compared: the reference failed"
Floats = npt.NDArray[np.float32]


class Sizes(NamedTuple):
    """Sizes of the work: sources, targets of each source, and the tokens of each long pair."""

    sources: int
    source_tokens: int
    targets: int
    target_tokens: int
    long_tokens: tuple[int, ...]


TINY, FULL = Sizes(2, 40, 3, 12, (200, 400)), Sizes(6, 3000, 4, 700, (32768, 65536, 131072))


class Run(NamedTuple):
    """An engine's log-probabilities of all targets, one after another, and what they took."""

    values: Floats
    tokens: int
    seconds: float


def choose_sizes(shape: str) -> Sizes:
    """Return the texts that are scored with a model of that shape."""
    return TINY if shape == "tiny" else FULL


def draw_inputs(shape: str) -> list[ScoringInput]:
    """Return the targets after an anchor, then all targets after each source; lengths vary by a quarter."""
    sizes, rng = choose_sizes(shape), np.random.default_rng(0)

    def draw(tokens: int) -> npt.NDArray[np.int64]:
        length = int(rng.integers(tokens * 3 // 4, tokens * 5 // 4 + 1))
        return rng.integers(SHAPES[shape]["vocab_size"], size=length)

    targets = [draw(sizes.target_tokens) for _ in range(sizes.targets)]
    contexts = [np.zeros(1, np.int64), *(draw(sizes.source_tokens) for _ in range(sizes.sources))]
    return [ScoringInput(context, target) for context in contexts for target in targets]


def draw_long_pair(shape: str, tokens: int) -> ScoringInput:
    """Return an input of that length."""
    ids = np.random.default_rng(1).integers(SHAPES[shape]["vocab_size"], size=tokens)
    return ScoringInput(ids[: -(tokens // 4)], ids[-(tokens // 4) :])


def make_model(shape: str, device: str) -> LanguageModel:
    """Return a model in bfloat16 whose every weight is known to be drawn."""
    lm = random_model(shape, LOW, device)
    check_weights(lm)
    return lm


def make_engine(attention: str, lm: LanguageModel) -> Engine:
    """Return the default engine with an attention, or the reference engine."""
    if attention == REFERENCE:
        return ReferenceEngine(lm, HEAD_ROWS)
    return PackedEngine(lm, attention, BUDGET, HEAD_ROWS)


def score(engine: Engine, items: Sequence[ScoringInput]) -> Run:
    """Score the head of an input and forget it, then score all; results are on the host when the clock stops."""
    first = items[0]
    engine.compute_log_probs([ScoringInput(first.context_ids[:WARM], first.target_ids[:WARM])])
    before, began = engine.tokens, time.perf_counter()
    values = np.concatenate(engine.compute_log_probs(items))
    return Run(values, engine.tokens - before, time.perf_counter() - began)


def compare(found: Floats, truth: Floats, limit: float) -> Row:
    """Return the differences of log-probabilities, judged by their root mean square in units of the spread."""
    apart = np.abs(found.astype(np.float64) - truth)
    cells = {"mean nats": f"{apart.mean():.2g}", "largest nats": f"{apart.max():.2g}"}
    return judge(cells, float(np.sqrt(np.square(apart).mean()) / truth.std()), limit)


def measure_packed(shape: str, device: str) -> Iterator[Row]:
    """Yield a row for each engine, attention and type."""
    lm, items = make_model(shape, device), draw_inputs(shape)
    runs: dict[tuple[str, str], Run] = {}
    rows = []
    low = [(REFERENCE, LOW), *(variant for variant in VARIANTS if variant[1] == LOW)]
    for attention, dtype in low:
        rows.append(_try(lm, attention, dtype, items, runs))
    lm.model.float()  # the same numbers in a wider type
    release(device)
    for attention in (REFERENCE, "sdpa"):
        rows.append(_try(lm, attention, "float32", items, runs))
    del lm
    release(device)
    truth = runs.pop((REFERENCE, "float32"), None)
    for key, row in zip([*low, (REFERENCE, "float32"), ("sdpa", "float32")], rows, strict=True):
        yield _judged(shape, key, row, runs.get(key), truth, max(item.length for item in items))


def _try(
    lm: LanguageModel, attention: str, dtype: str, items: Sequence[ScoringInput], runs: dict[tuple[str, str], Run]
) -> Row:
    """Put a run into ``runs`` and return its speed, or the reason of its failure."""
    obstacle = None if attention == REFERENCE else find_obstacle(attention, lm.device)
    if obstacle is not None:
        return {OUTCOME: f"not tried: {obstacle}"}

    def measure() -> Row:
        run = runs[attention, dtype] = score(make_engine(attention, lm), items)
        return {"tokens": f"{run.tokens:,}", "s": f"{run.seconds:.3g}", OUTCOME: "ok"}

    row = attempt({}, measure)
    release(lm.device)
    return row


def _judged(shape: str, key: tuple[str, str], row: Row, run: Run | None, truth: Run | None, tokens: int) -> Row:
    attention, dtype = key
    cells = {"shape": shape, **_name(attention), "type": dtype, **row}
    if run is None:
        return cells
    if truth is None:
        return {**cells, OUTCOME: NOT_COMPARED}
    return {**cells, **compare(run.values, truth.values, model_limit(dtype, tokens, _layers(shape)))}


def measure_long(shape: str, device: str) -> Iterator[Row]:
    """Yield, for each length, a row for the reference engine and one for each attention of the default engine."""
    lm = make_model(shape, device)
    weights = sum(p.numel() * p.element_size() for p in lm.model.parameters()) / GIB
    for tokens in choose_sizes(shape).long_tokens:
        item, truth = draw_long_pair(shape, tokens), list[Floats]()
        limit = 2 * model_limit(LOW, tokens, _layers(shape))  # both sides are rounded
        for attention in (REFERENCE, *(name for name, dtype in VARIANTS if dtype == LOW)):
            cells = {"shape": shape, **_name(attention), "tokens": f"{tokens:,}", "weights GiB": f"{weights:.3g}"}
            obstacle = None if attention == REFERENCE else find_obstacle(attention, device)
            if obstacle is not None:
                yield {**cells, OUTCOME: f"not tried: {obstacle}"}
                continue
            yield attempt(cells, partial(_measure_long, lm, attention, item, truth, limit))
            release(device)


def _measure_long(lm: LanguageModel, attention: str, item: ScoringInput, truth: list[Floats], limit: float) -> Row:
    engine, memory = make_engine(attention, lm), Memory(lm.device)
    runs: list[Run] = []
    taken = memory.taken_by(lambda: runs.append(score(engine, [item])))
    over = taken > GOAL and item.length == GOAL_TOKENS and lm.device != "cpu"
    outcome = f"ok, above the goal of {GOAL // GIB} GiB" if over else "ok"
    row = {"GiB beside": f"{taken / GIB:.3g}", "s": f"{runs[0].seconds:.3g}", OUTCOME: outcome}
    if attention == REFERENCE:
        truth.append(runs[0].values)
        return row
    if not truth:
        return {**row, OUTCOME: NOT_COMPARED}
    judged = compare(runs[0].values, truth[0], limit)
    return {**row, **judged, **({OUTCOME: outcome} if judged[OUTCOME] == "ok" else {})}


def _name(attention: str) -> Row:
    if attention == REFERENCE:
        return {"engine": "reference", "attention": "sdpa"}
    return {"engine": "packed", "attention": attention}


def _layers(shape: str) -> int:
    return int(SHAPES[shape]["num_hidden_layers"])


PACKED = Part(
    ("shape", "engine", "attention", "type", "tokens", "s", "mean nats", "largest nats", "error", "limit"),
    measure_packed,
)
LONG = Part(
    (
        *("shape", "engine", "attention", "tokens", "weights GiB", "GiB beside", "s"),
        *("mean nats", "largest nats", "error", "limit"),
    ),
    measure_long,
    every_shape=False,
)
