"""Try what a long run on this machine needs, in minutes: device, models, attention and speed.

A fault that would end a submission after hours, such as an old driver, a missing shard or a kernel that computes
something else, shows here first.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from pan_scdg.errors import UserError, escape_controls, get_first_line
from pan_scdg.jobs.options import choose_device
from pan_scdg.jobs.retrieval import RetrievalWorker
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.lm.attention import BACKENDS
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.lm.model import ScoringModel
from pan_scdg.methods import MethodOptions
from pan_scdg.models.checkpoint import make_library_config, read_config
from pan_scdg.models.devices import check_device, choose_encoder_dtype, describe_device, find_driver
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import FoundModel
from pan_scdg.models.load import LanguageModel
from pan_scdg.models.norms import use_fused_norms
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task
from pan_scdg.pan.source_retrieval import Corpus, read_queries
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.profile import Profile
from pan_scdg.resources import count_cores, find_processor, measure_memory
from pan_scdg.retrieval.ranking import DEPTH
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer, encode_text

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")
LIMIT_HOURS = 24
"""TIRA's limit."""
SAMPLE = 50
"""Documents that are tokenised to estimate the tokens of all."""
MAX_DIFFERENCES = {"float32": 0.01, "bfloat16": 0.05, "float16": 0.05}
"""Largest mean difference of log-probabilities from those of written-out attention, as a share of their deviation.

On a CPU rounding differs by 0.000001 in float32, in bfloat16 by 0.003 at a width of 64 and by 0.012 at 4,096; attention
that reads later tokens by 0.09 or more."""
WRITTEN_OUT = "pan_scdg_written_out"
"""Name, in transformers, of the attention that others are compared with."""
ROWS = 256
"""Queries for which the written-out attention has all scores in memory."""


class Sizes(NamedTuple):
    """Sizes of the inputs and of the model that are tried on a device."""

    kept: int
    """Tokens of a context that is kept for the targets of later calls."""
    plain: int
    """Tokens of an input that is computed alone."""
    seconds: float
    """Time for which the speed of a model is measured."""
    config: dict[str, int]
    """Fields of the language model's config that are replaced."""


MAX_KEPT = 0.9
"""Of the positions of a model; targets follow."""
ENCODERS = ("encoder", "embedding_model", "passage_encoder", "sentence_encoder")
"""Names of encoders in a job, those that compute most first."""
SMALL = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "vocab_size": 512}
SIZES = {
    "cuda": Sizes(27_000, 40_000, 30, {}),
    "cpu": Sizes(60, 90, 2, {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2}),
}


class Preflight:
    """The checks of a profile.

    Args:
        profile: of the submission.
        device: "auto", "cpu" or "cuda".
        directory: an input whose tokens are counted; None: none.
    """

    def __init__(self, profile: Profile, device: str, directory: Path | None = None) -> None:
        self._profile, self._asked, self._directory = profile, device, directory
        self._device = "cpu"
        self._tokenizers: list[Tokenizer] = []
        self.failures = 0

    def run(self) -> Iterator[str]:
        """Yield a line for each check, "ok" or "failed" with what to do, and at last "ready" or "not ready"."""
        if (yield from self._check("device", self._find_device)) is not None:
            models = yield from self._check("models", self._find_models)
            if models is not None:
                yield from self._try_models(models)
        yield f"not ready: failed checks: {self.failures}" if self.failures else "ready"

    def _try_models(self, models: dict[str, FoundModel]) -> Iterator[str]:
        yield from self._check("memory", partial(check_memory, models, self._device))
        speeds: dict[str, float | None] = {}
        if "language_model" in models:
            yield from self._check("precision", self._check_precision)
            expected = yield from self._check("written-out attention", self._compute_expected)
            if expected is not None:
                for attention in self._list_attentions():
                    yield from self._check(f"attention {attention}", partial(self._compare, attention, expected))
            speeds["score"] = yield from self._check("scorer", self._measure_scorer)
        if encoder := next((models[name] for name in ENCODERS if name in models), None):
            searched = "encoder" in models
            speeds["encode"] = yield from self._check("encoder", partial(self._measure_encoder, encoder, searched))
        if self._directory is not None and speeds and None not in speeds.values():
            yield from self._check("hours", partial(self._estimate_hours, self._directory, speeds))

    def _check(self, name: str, compute: Callable[[], tuple[str, Value]]) -> Generator[str, None, Value | None]:
        """Yield the line of a check; return its value, None if it failed."""
        try:
            text, value = compute()
        except UserError as e:
            text = str(e).replace("\n", "; ")
        except Exception as e:  # whatever it is, a run would end with it
            text = f"{type(e).__name__}: {escape_controls(get_first_line(e))}; report it with this log"
        else:
            yield f"ok      {name}: {text}"
            return value
        self.failures += 1
        yield f"failed  {name}: {text}"
        return None

    def _find_device(self) -> tuple[str, str]:
        import torch

        self._device = choose_device(self._profile, self._asked)
        text = f"CPU {find_processor()}, {count_cores()} cores"
        if self._device != "cpu":  # the name of a part of a GPU ends in MIG and its size
            text = f"{describe_device(self._device)}, driver {find_driver()}, CUDA {torch.version.cuda}"
        return f"{text}, torch {torch.__version__}", self._device

    def _find_models(self) -> tuple[str, dict[str, FoundModel]]:
        """Find the models of the profile's jobs; this checks shards, recorded hashes and tokenizer probes."""
        task = None if self._directory is None else detect_task(self._directory)
        models: dict[str, FoundModel] = {}
        hashes: dict[str, Any] = {}
        if self._profile.decide is not None and task != "retrieval":
            pair_worker = PairWorker(self._profile, MethodOptions(self._device))
            models, hashes = pair_worker.list_models(), pair_worker.identify()
        if self._profile.retrieval is not None and task != "pairs":
            worker = RetrievalWorker(self._profile, self._device)
            models, hashes = models | worker.models, hashes | worker.identify()
        names = [f"{one.shown} from {one.where} ({hashes[name]['weights'][:12]})" for name, one in models.items()]
        return ", ".join(dict.fromkeys(names)) or "none needed", models

    @cached_property
    def _model(self) -> ScoringModel:
        return ScoringModel(self._profile.need_model(), self._device)

    @cached_property
    def _random_model(self) -> LanguageModel:
        drawn = draw_model(self._model, self._model.settings.dtype)
        if self._device != "cpu":  # as `load_model` does
            use_fused_norms(drawn.model)
        return drawn

    @cached_property
    def _sizes(self) -> Sizes:
        """Return the sizes of the device, no longer than the profile's model reads."""
        sizes, positions = SIZES[self._device], self._model.positions or math.inf
        return sizes._replace(kept=int(min(sizes.kept, positions * MAX_KEPT)), plain=int(min(sizes.plain, positions)))

    @cached_property
    def _items(self) -> list[ScoringInput]:
        return make_inputs(self._random_model.model.config.vocab_size, self._sizes.kept, self._sizes.plain)

    def _check_precision(self) -> tuple[str, None]:
        import torch

        check_device(self._model.settings, self._device)
        return f"{self._model.settings.dtype}; float32 products: {torch.get_float32_matmul_precision()}", None

    def _compute_expected(self) -> tuple[str, list[LogProbs]]:
        """Compute the random model in float32 with written-out attention."""
        from transformers import AttentionInterface

        AttentionInterface.register(WRITTEN_OUT, attend_written_out)
        model = draw_model(self._model, "float32").model
        model.load_state_dict(self._random_model.model.state_dict())
        model.config._attn_implementation = WRITTEN_OUT
        expected = ReferenceEngine(replace(self._random_model, model=model)).compute_log_probs(self._items)
        config = model.config
        shape = f"two random layers of width {config.hidden_size} with {config.num_attention_heads} heads"
        return f"{shape}, inputs of {', '.join(str(item.length) for item in self._items)} tokens", expected

    def _list_attentions(self) -> list[str]:
        """Return the profile's attention, and the others that the device and the installed packages permit."""
        settings = self._model.settings

        def is_possible(attention: str) -> bool:
            try:
                check_device(settings.model_copy(update={"attention": attention}), self._device)
            except UserError:
                return False
            return True

        return [name for name in BACKENDS if name == settings.attention or is_possible(name)]

    def _compare(self, attention: str, expected: Sequence[LogProbs]) -> tuple[str, None]:
        """Compare the packed engine, which keeps the context of the first inputs, with written-out attention."""
        engine = PackedEngine(self._random_model, attention, self._sizes.kept + self._items[0].length // 16)
        difference = measure_difference(engine.compute_log_probs(self._items), expected)
        limit = MAX_DIFFERENCES[self._model.settings.dtype]
        if not difference <= limit:
            what = f"differs by {difference:.3f} of the deviation, more than {limit}"
            raise UserError(what, 'set another attention in [model] of the profile, such as "sdpa"')
        return f"differs by {difference:.2g} of the deviation", None

    def _measure_scorer(self) -> tuple[str, float]:
        model, sizes = self._model, self._sizes
        vars(self).pop("_random_model", None)
        items = make_inputs(len(model.tokenizer), sizes.plain // 4, sizes.plain // 8)  # type: ignore[arg-type]
        speed = measure_speed(lambda: model.compute_log_probs(items), lambda: model.tokens, sizes.seconds)
        model.release()
        self._tokenizers.append(model.tokenizer)
        return f"{speed:,.0f} tokens per second", speed

    def _measure_encoder(self, encoder: FoundModel, searched: bool) -> tuple[str, float]:
        dtype = choose_encoder_dtype(self._device) if searched else "float32"
        loaded = load_encoder(encoder.folder, self._device, dtype=dtype)
        self._tokenizers.append(loaded.tokenizer)
        texts = [" ".join(f"word{number * i}" for i in range(1, 200)) for number in range(1, 33)]
        ids = loaded.tokenizer(texts, truncation=True, max_length=loaded.max_tokens)["input_ids"]
        computed = 0

        def encode() -> None:
            nonlocal computed
            loaded.encode(texts)
            computed += sum(map(len, ids))

        speed = measure_speed(encode, lambda: computed, SIZES[self._device].seconds)
        loaded.release()
        return f"{speed:,.0f} tokens per second", speed

    def _estimate_hours(self, directory: Path, speeds: dict[str, float | None]) -> tuple[str, None]:
        tokens = count_tokens(self._profile, directory, self._tokenizers[0])
        hours = {name: tokens[name] / speed / 3600 for name, speed in speeds.items() if speed}
        text = ", ".join(f"{name} about {tokens[name]:,} tokens: {value:.2g} h" for name, value in hours.items())
        if sum(hours.values()) > LIMIT_HOURS:
            # a run of retrieval that is given a deadline scores the best candidates first, and always ends in time
            if detect_task(directory) == "pairs" or hours.get("encode", 0.0) > LIMIT_HOURS:
                remedy = "use a faster device, or a smaller model"
                raise UserError(f"{text}; TIRA's limit is {LIMIT_HOURS} h", remedy)
            return f"{text}; not all candidates can be scored in TIRA's {LIMIT_HOURS} h: run with --deadline", None
        return f"{text} (TIRA's limit is {LIMIT_HOURS} h)", None


def check_memory(models: dict[str, FoundModel], device: str) -> tuple[str, None]:
    """Compare the free memory of a device with the weights of the largest model.

    Raises:
        UserError: it is too small.
    """
    import torch

    free = measure_memory() if device == "cpu" else torch.cuda.mem_get_info()[0]
    # a snapshot may have the same weights once more, in a file "consolidated.safetensors"
    files = [one.folder.rglob("model*.safetensors") for one in models.values()]
    weights = [sum(path.stat().st_size for path in paths) for paths in files]
    text = f"{free / 2**30:.1f} GiB, the largest weights have {max(weights, default=0) / 2**30:.1f} GiB"
    if max(weights, default=0) > free:
        raise UserError(text, "end other processes on the device, or use a larger one")
    return text, None


def draw_model(model: ScoringModel, dtype: str) -> LanguageModel:
    """Return a random model of two layers with a checkpoint's config and the profile's positions; narrow on a CPU."""
    import torch
    from transformers import AutoModelForCausalLM

    config = make_library_config(read_config(model.folder), model.settings).get_text_config()
    for field, value in {**SIZES[model.device].config, "num_hidden_layers": 2}.items():
        if hasattr(config, field):
            setattr(config, field, value)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:2]
    torch.manual_seed(0)
    with torch.device(model.device):
        drawn = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype), attn_implementation="sdpa")
    frozen = drawn.eval().requires_grad_(False)
    return LanguageModel(model.tokenizer, frozen, model.device, f"a random {config.model_type}", "")


def make_inputs(vocabulary: int, kept: int, plain: int) -> list[ScoringInput]:
    """Return three inputs with a common context of ``kept`` random tokens, and one of ``plain`` tokens."""
    rng = np.random.default_rng(0)
    target, context = max(8, kept // 32), rng.integers(vocabulary, size=kept)
    items = [ScoringInput(context, rng.integers(vocabulary, size=target)) for _ in range(3)]
    alone = rng.integers(vocabulary, size=max(plain, target + 1))
    return [*items, ScoringInput(alone[:-target], alone[-target:])]


def measure_difference(values: Sequence[LogProbs], expected: Sequence[LogProbs]) -> float:
    """Return the mean difference of log-probabilities as a share of their standard deviation."""
    literal = np.concatenate(expected)
    return float(np.abs(np.concatenate(values) - literal).mean() / literal.std())


def attend_written_out(
    _module: Any,
    query: "torch.Tensor",
    key: "torch.Tensor",
    value: "torch.Tensor",
    _mask: Any,
    *,
    scaling: float,
    **_: Any,
) -> "tuple[torch.Tensor, None]":
    """Return causal attention by its formula in float32, ``[1, n, heads, d]``; transformers calls this function."""
    import torch

    k, v = (x.float().repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    rows = []
    for start in range(0, query.shape[2], ROWS):
        q = query[:, :, start : start + ROWS].float()
        end = start + q.shape[2]
        scores = q @ k[:, :, :end].transpose(-1, -2) * scaling
        later = torch.ones(q.shape[2], end, dtype=torch.bool, device=q.device).triu(start + 1)
        rows.append(scores.masked_fill(later, -torch.inf).softmax(-1) @ v[:, :, :end])
    return torch.cat(rows, 2).transpose(1, 2).contiguous().to(query.dtype), None


def measure_speed(compute: Callable[[], object], count: Callable[[], int], seconds: float) -> float:
    """Return the tokens per second of repeated calls; the first one, which loads the model, does not count."""
    compute()
    begun, before = time.monotonic(), count()
    while time.monotonic() - begun < seconds:
        compute()
    return (count() - before) / (time.monotonic() - begun)


def count_tokens(profile: Profile, directory: Path, tokenizer: Tokenizer) -> dict[str, int]:
    """Return about the number of tokens that a run computes, by what computes them: "score" and "encode".

    Characters are counted of all texts, tokens of the first `SAMPLE`. A pair costs the language model its source and
    its target, and a target alone once; a candidate costs it the query, and a query alone once. A source is computed
    once for all its queries, one that exceeds the context once for each, as its windows differ; candidates are assumed
    to be spread evenly over the corpus. A document costs the encoder its sentences or overlapping chunks.
    """

    def measure_rate(texts: Iterator[str]) -> float:
        sample = list(islice(texts, SAMPLE))
        return sum(len(encode_text(tokenizer, text)) for text in sample) / max(1, sum(map(len, sample)))

    if detect_task(directory) == "pairs":
        pairs = read_pairs(directory, Notices()).pairs
        files = {file.path: file for pair in pairs for file in (pair.suspicious, pair.source)}
        rate = measure_rate(read_text(file) for file in files.values())
        sizes = {path: len(read_text(file)) for path, file in files.items()}
        targets = {pair.suspicious.path for pair in pairs}
        both = sum(sizes[pair.suspicious.path] + sizes[pair.source.path] for pair in pairs)
        score = round(rate * (both + sum(sizes[path] for path in targets)))
        return {"score": score, "encode": round(rate * sum(sizes.values()))}
    settings, notices = profile.need_retrieval(), Notices()
    corpus, queries = Corpus(directory, notices), list(read_queries(directory, notices))
    rate = measure_rate(document.text for document in corpus)
    lengths = [rate * len(document.text) for document in corpus]
    candidates = min(settings.scored or DEPTH, DEPTH, len(corpus))
    budget, uses = settings.source_tokens or settings.context, candidates * len(queries) / len(corpus)
    sources = math.fsum(min(n, budget) * (uses if n > budget else min(uses, 1)) for n in lengths)
    scored = sources + (candidates + 1) * rate * math.fsum(len(query.text) for query in queries)
    dense = settings.dense
    overlap = 1.0 if dense is None else dense.chunk_words / dense.chunk_stride
    return {"score": round(scored), "encode": round(overlap * sum(lengths))}
