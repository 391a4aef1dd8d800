"""Try what a long run on this machine needs, in minutes: device, models, attention and speed.

A fault that would end a submission after hours, such as an old driver, a missing shard or a kernel that computes
something else, shows here first.
"""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pan_scdg.errors import UserError, escape_controls, get_first_line
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.jobs.options import choose_device
from pan_scdg.jobs.retrieval import RetrievalWorker
from pan_scdg.jobs.runner import FIRST_STAGE_SHARE, LIMIT_HOURS, WRITING_SHARE
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.jobs.workload import Encoding, Scoring, count_encoding, count_scoring, read_some_pairs
from pan_scdg.lm.attention import BACKENDS
from pan_scdg.lm.engine import Engine, PackedEngine, ReferenceEngine, make_engine
from pan_scdg.lm.model import ScoringModel
from pan_scdg.lm.packing import Lengths, NotPackableError, check_config
from pan_scdg.methods import MethodOptions
from pan_scdg.models.devices import (
    Devices,
    check_device,
    check_device_exists,
    describe_device,
    find_driver,
    free_memory,
)
from pan_scdg.models.encoder import Encoder, EncoderUse
from pan_scdg.models.find import FoundModel
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.pan.inputs import detect_task
from pan_scdg.profile import Profile
from pan_scdg.records import Identity
from pan_scdg.resources import count_cores, find_processor, measure_memory
from pan_scdg.retrieval.dense import find_nearest
from pan_scdg.scdg.sequences import ScoringInput, build_pair_passes, encode_text

Value = TypeVar("Value")


class Sizes(NamedTuple):
    """Sizes of the inputs and of the model that are tried on a device."""

    kept: int
    """Tokens of a context that is kept for the targets of later calls."""
    plain: int
    """Tokens of an input that is computed alone."""
    longest: float
    """Most tokens of the largest input."""
    usual: tuple[int, int, int]
    """Tokens of a source and of each target, and number of targets, whose speed is measured without an input."""
    seconds: float
    """Time for which the speed of a model is measured: a GPU gets slower when it gets hot."""


MAX_KEPT = 0.9
"""Of the positions of a model; targets follow."""
TEXTS = [" ".join(f"word{number * i}" for i in range(1, 200)) for number in range(1, 33)]
"""What an encoder encodes unless an input is given."""
ENCODERS = ("encoder", "embedding_model", "passage_encoder", "sentence_encoder")
"""Names of encoders in a job, those that compute most first."""
SIZES = {
    "cuda": Sizes(27_000, 40_000, math.inf, (8_000, 4_700, 2), 120),
    "cpu": Sizes(60, 90, 90, (60, 40, 2), 2),
}


SENTENCE = (
    "The committee met on Tuesday to discuss the budget for the next year, and it was approved by a large majority."
)
"""Text of which a trained model predicts each token better than by chance."""
NOISE_PAIRS = 4
"""Pairs of texts whose scores by two engines are compared."""
MAX_VECTOR_DIFFERENCES = {"float32": 1e-4, "bfloat16": 0.1}
"""Largest distance of a text's unit vector in a padded batch from that alone."""
SEARCHED, SEARCHES, FOUND = 20_000, 64, 2_000
"""Vectors, query vectors, and vectors found for each, of the search that is tried on a GPU."""
MAX_SLOWER = 0.1
"""Loss of speed from the first to the last tenth of the measured time that is worth a word."""


class Speed(NamedTuple):
    """Tokens a second of a model: of the whole time, and of its first and last tenth."""

    mean: float
    first: float
    last: float

    def __str__(self) -> str:
        slower = f", {self.first:,.0f} at first and {self.last:,.0f} in the end" if self.is_falling else ""
        return f"{self.mean:,.0f} tokens per second{slower}"

    @property
    def is_falling(self) -> bool:
        """Return True if the device gets slower."""
        return self.last < (1 - MAX_SLOWER) * self.first

    @property
    def sustained(self) -> float:
        """Return the speed of a long run."""
        return self.last if self.is_falling else self.mean


class Preflight:
    """The checks of a profile.

    Args:
        profile: of the submission.
        device: "auto", "cpu" or "cuda".
        output: a folder on the disk of the results.
        directory: an input whose tokens are counted; None: none.
        deadline: hours that the run may take.
        show: takes the line of each check as soon as it is known.
    """

    def __init__(
        self,
        profile: Profile,
        device: str,
        output: Path,
        directory: Path | None = None,
        deadline: float = LIMIT_HOURS,
        *,
        show: Callable[[str], object],
    ) -> None:
        self._output, self._deadline, self._show = output, deadline, show
        self._profile, self._asked, self._directory = profile, device, directory
        self._device = "cpu"
        self._encoders: dict[str, EncoderUse] = {}
        self._failures = 0

    def run(self) -> bool:
        """Show a line for each check, "ok" or "failed" with what to do, and at last "ready" or "not ready"."""
        if self._check("device", self._find_device) is not None:
            if self._device != "cpu" and (count := Devices(self._device).count_workers()) > 1:
                self._check("workers", lambda: try_workers(count))
            models = self._check("models", self._find_models)
            if models is not None:
                self._try_models(models)
        self._show(f"not ready: failed checks: {self._failures}" if self._failures else "ready")
        return not self._failures

    def _try_models(self, models: dict[str, FoundModel]) -> None:
        self._check("memory", lambda: check_memory(models, self._device))
        speeds: dict[str, tuple[int, Speed] | None] = {}
        if "language_model" in models:
            speeds["score"] = self._try_scorer()
            free_memory(self._device)
        if use := next((self._encoders[name] for name in ENCODERS if name in self._encoders), None):
            speeds["encode"] = self._try_encoder(use)
        directory, known = self._directory, {name: one for name, one in speeds.items() if one is not None}
        if directory is not None and known and len(known) == len(speeds):
            self._check("hours", lambda: estimate_hours(directory, known, self._deadline, "score" in speeds))

    def _check(self, name: str, compute: Callable[[], tuple[str, Value]]) -> Value | None:
        """Show the line of a check; return its value, None if it failed."""
        try:
            text, value = compute()
        except UserError as e:
            text = str(e).replace("\n", "; ")
        except Exception as e:  # whatever it is, a run would end with it
            text = f"{type(e).__name__}: {escape_controls(get_first_line(e))}; report it with this log"
        else:
            self._show(f"ok      {name}: {text}")
            return value
        self._failures += 1
        self._show(f"failed  {name}: {text}")
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
        hashes: dict[str, Identity] = {}
        if self._profile.decide is not None and task != "retrieval":
            pair_worker = PairWorker(self._profile, MethodOptions(self._device))
            models, hashes = pair_worker.list_models(), dict(pair_worker.identify())
            self._encoders |= pair_worker.list_encoders()
        if self._profile.retrieval is not None and task != "pairs":
            worker = RetrievalWorker(self._profile, self._device)
            models, hashes = models | worker.models, {**hashes, **worker.identify()}
            self._encoders |= worker.list_encoders()
        names = [f"{one.shown} from {one.where} ({str(hashes[name]['weights'])[:12]})" for name, one in models.items()]
        return ", ".join(dict.fromkeys(names)) or "none needed", models

    @cached_property
    def _model(self) -> ScoringModel:
        return ScoringModel(self._profile.need_model(), self._device)

    @cached_property
    def _sizes(self) -> Sizes:
        """Return the sizes of the device, no longer than the profile's model reads."""
        sizes, positions = SIZES[self._device], self._model.positions or math.inf
        return sizes._replace(kept=int(min(sizes.kept, positions * MAX_KEPT)), plain=int(min(sizes.plain, positions)))

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

    def _compare(self, lm: LanguageModel, attention: str) -> tuple[str, None]:
        """Compare the packed engine with the reference engine at the sizes of a run."""
        kept, plain = self._sizes.kept, self._sizes.plain
        target = max(8, kept // 32)
        engine = PackedEngine(lm, attention, kept)
        alone = (max(1, plain - target), target)
        difference = engine.check(Lengths([alone], kept, [target] * 3, [1]))
        by = "" if engine.attention == attention else f", computed by {engine.attention}"
        lengths = f"{sum(alone):,} tokens, and three of {kept + target:,} with a kept context"
        return f"differs by {difference:.2g} nats a token from the reference on an input of {lengths}{by}", None

    def _explain_reference(self, lm: LanguageModel, engine: Engine) -> tuple[str, None]:
        """Return why a run computes one input at a time; it is an error unless the architecture is the reason."""
        try:
            check_config(lm)
        except NotPackableError as e:
            return f"inputs are computed one at a time: {e.what}", None
        raise UserError(f"packed inputs fail: {engine.reason}", "set another attention in [model] of the profile")

    def _try_scorer(self) -> tuple[int, Speed] | None:
        """Check the language model; return the tokens of the input, 0 without one, and the speed."""
        loaded = self._check("language model", self._load_model)
        if loaded is None:
            return None
        lm, engine = loaded
        if engine.attention is None:
            self._check(f"attention {self._model.settings.attention}", lambda: self._explain_reference(lm, engine))
        else:
            for attention in self._list_attentions():
                self._check(f"attention {attention}", partial(self._compare, lm, attention))
        self._check("largest input", lambda: self._try_largest(lm, engine))
        scoring, directory = None, self._directory
        if directory is not None:
            scoring = self._check("tokens to score", lambda: self._count_scoring(directory))
            self._check("noise", lambda: self._measure_noise(directory, lm, engine))
        speed = self._check("scorer", lambda: self._measure_scorer(lm, engine, scoring))
        return None if speed is None else (scoring.tokens if scoring else 0, speed)

    def _load_model(self) -> tuple[str, tuple[LanguageModel, Engine]]:
        """Load the weights, and score a sentence that any trained model predicts better than by chance."""
        model = self._model
        lm = load_model(
            model.folder, model.settings, self._device, fingerprint=model.fingerprint, tokenizer=model.tokenizer
        )
        engine = make_engine(None, lm, model.settings)
        ids = encode_text(model.tokenizer, SENTENCE)
        nats = -float(np.mean(engine.compute_log_probs([ScoringInput(ids[:1], ids[1:])])[0]))
        chance = math.log(lm.model.get_input_embeddings().num_embeddings)
        text = f"{model.settings.dtype}, {nats:.2f} nats a token of an English sentence; by chance {chance:.2f}"
        if not nats < chance:
            raise UserError(f"{text}: the weights are damaged, or of another model", "fetch the model again")
        return text, (lm, engine)

    def _try_largest(self, lm: LanguageModel, engine: Engine) -> tuple[str, None]:
        """Score an input as long as the profile permits."""
        profile, limits = self._profile, [self._model.positions or math.inf, SIZES[self._device].longest]
        permitted = [profile.gains.limit] if profile.gains is not None else []
        permitted += [profile.retrieval.context] if profile.retrieval is not None else []
        length = int(min(max(permitted), *limits))
        ids = np.random.default_rng(0).integers(len(lm.tokenizer), size=length)  # type: ignore[arg-type]
        taken = measure_taken(
            self._device, lambda: engine.compute_log_probs([ScoringInput(ids[: length // 2], ids[length // 2 :])])
        )
        return f"{length:,} tokens{taken}", None

    def _count_scoring(self, directory: Path) -> tuple[str, Scoring]:
        counted = count_scoring(self._profile, directory, self._model.tokenizer)
        return f"about {counted.tokens:,}; sources of {counted.source:,}, targets of {counted.target:,}", counted

    def _measure_noise(self, directory: Path, lm: LanguageModel, engine: Engine) -> tuple[str, None]:
        """Compare the default engine with the reference engine on the beginnings of some texts."""
        pairs = read_some_pairs(self._profile, directory, NOISE_PAIRS)
        length = self._sizes.plain // 2  # in characters, of which a token has one or more
        passes = [build_pair_passes(lm.tokenizer, source[:length], target[:length]) for target, source in pairs]
        items = [item for both in passes for item in both]
        ours, theirs = (one.compute_log_probs(items) for one in (engine, ReferenceEngine(lm)))
        noise = max(abs(float(np.mean(a) - np.mean(b))) for a, b in zip(ours, theirs, strict=True))
        return f"two engines differ by at most {noise:.2g} nats in the mean of a text, {len(items)} inputs", None

    def _measure_scorer(self, lm: LanguageModel, engine: Engine, scoring: Scoring | None) -> tuple[str, Speed]:
        """Measure the speed for sources and targets as long as those of the input."""
        usual = SIZES[self._device].usual if scoring is None else scoring[1:]
        source, target, targets = (min(value, most) for value, most in zip(usual, (self._sizes.plain // 2,) * 2 + (8,)))
        draw, vocabulary = np.random.default_rng(0), len(lm.tokenizer)  # type: ignore[arg-type]
        context = draw.integers(vocabulary, size=max(2, source))
        items = [ScoringInput(context, draw.integers(vocabulary, size=max(1, target))) for _ in range(targets)]
        speed = measure_speed(
            lambda: engine.compute_log_probs(items), lambda: engine.tokens, SIZES[self._device].seconds
        )
        return f"{speed}; sources of {source:,} tokens with {targets} targets of {target:,}", speed

    def _try_encoder(self, use: EncoderUse) -> tuple[int, Speed] | None:
        """Check the encoder; return the tokens of the input, 0 without one, and the speed."""
        loaded = self._check("encoder", lambda: self._load_encoder(use))
        if loaded is None:
            return None
        limit, directory, encoding = use.max_tokens or loaded.max_tokens, self._directory, None
        if directory is not None:
            encoding = self._check("tokens to encode", lambda: self._count_encoding(directory, loaded))
        texts = encoding.texts if encoding else TEXTS
        self._check("padding", lambda: compare_padding(loaded, texts[:32], limit))
        if self._device != "cpu":
            self._check("largest batch", lambda: self._try_batch(loaded, limit))
            self._check("search", lambda: try_search(loaded.dimension, self._device))
        speed = self._check("encoder speed", lambda: measure_encoder(loaded, texts, limit, self._device))
        loaded.release()
        return None if speed is None else (encoding.tokens if encoding else 0, speed)

    def _load_encoder(self, use: EncoderUse) -> tuple[str, Encoder]:
        loaded = use.load(self._device, self._profile.raw_text)
        return f"{loaded.dtype}, vectors of {loaded.dimension:,} numbers, {loaded.batch} texts a batch", loaded

    def _try_batch(self, encoder: Encoder, limit: int) -> tuple[str, None]:
        """Encode as many texts together as a run does, each as long as it permits."""
        texts = [f"{number} " + "word " * limit for number in range(encoder.batch)]
        taken = measure_taken(self._device, lambda: encoder.encode(texts, limit))
        return f"{encoder.batch} texts of {limit:,} tokens{taken}", None

    def _count_encoding(self, directory: Path, encoder: Encoder) -> tuple[str, Encoding]:
        """Count the tokens, and compare the free disk with what an index takes."""
        counted = count_encoding(self._profile, directory, encoder.tokenizer, encoder.max_tokens)
        text = f"about {counted.tokens:,}"
        if counted.vectors:
            # numbers of two bytes, and an index of words, which is smaller than the texts
            needed, free = (
                2 * counted.vectors * encoder.dimension + counted.characters,
                shutil.disk_usage(self._output).free,
            )
            text += f"; {counted.vectors:,} vectors"
            text += f"; an index takes up to {needed / 1e9:.2g} GB, {free / 1e9:.3g} GB are free"
            if needed > free:
                raise UserError(text, "free disk space, or choose an output on another disk")
        return text, counted


def try_workers(count: int) -> tuple[str, None]:
    """Compute on every GPU of this machine in a process of its own, as a run does."""
    with open_workers(describe_gpu, Devices("cuda")) as workers:
        names = list(workers.map(range(4 * count)))
    return f"{workers.count} processes, {', '.join(sorted(set(names)))}", None


def describe_gpu(_: int) -> str:
    """Return the name of the GPU of this process, which must be usable."""
    check_device_exists("cuda", computes=True)
    return describe_device("cuda")


def measure_taken(device: str, compute: Callable[[], object]) -> str:
    """Compute, and return the GPU's memory that this takes beside the weights; empty on a CPU."""
    if device == "cpu":
        compute()
        return ""
    import torch

    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    compute()
    taken, free = torch.cuda.max_memory_allocated() - before, torch.cuda.mem_get_info()[0]
    return f" take {taken / 2**30:.1f} GiB beside the weights; {free / 2**30:.1f} GiB stay free"


def compare_padding(encoder: Encoder, texts: Sequence[str], limit: int) -> tuple[str, None]:
    """Compare the vectors of texts that are encoded together, and so padded, with those of each alone."""
    shorter = [text[: len(text) * 7 // 8] for text in texts]
    together = encoder.encode([*texts, *shorter], limit)
    alone = np.concatenate([encoder.encode([text], limit) for text in (*texts, *shorter)])
    difference = float(np.linalg.norm(together - alone, axis=1).max())
    largest = MAX_VECTOR_DIFFERENCES[encoder.dtype]
    if not difference <= largest:
        what = f"the vector of a text in a padded batch differs by {difference:.2g} from that alone, over {largest}"
        raise UserError(what, "report it with this log, and use the device cpu")
    return f"vectors in a padded batch differ by at most {difference:.2g} from those alone", None


def try_search(width: int, device: str) -> tuple[str, None]:
    """Compare the nearest vectors that a GPU finds with those that the CPU finds."""
    draw = np.random.default_rng(0)
    vectors, queries = (draw.standard_normal((n, width), np.float32) for n in (SEARCHED, SEARCHES))
    vectors, queries = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (vectors, queries))
    stored, ties = vectors.astype(np.float16), np.arange(SEARCHED)

    def read_blocks(rows: int) -> Iterator[Any]:
        return (stored[start : start + rows] for start in range(0, SEARCHED, rows))

    ours, theirs = (find_nearest(queries, read_blocks, FOUND, ties, where) for where in (device, "cpu"))
    same = sum(len(np.intersect1d(a, b)) for (a, _), (b, _) in zip(ours, theirs, strict=True))
    text = f"{same / (SEARCHES * FOUND):.4%} of the nearest vectors are those that the CPU finds"
    if same < 0.999 * SEARCHES * FOUND:  # similarities that differ in the last digit change places
        raise UserError(text, "report it with this log")
    return text, None


def measure_encoder(encoder: Encoder, texts: list[str], limit: int, device: str) -> tuple[str, Speed]:
    """Measure the speed for some texts, which are encoded together again and again."""
    tokenised = encoder.tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    tokens, computed = sum(map(len, tokenised)), 0

    def encode() -> None:
        nonlocal computed
        encoder.encode(texts, limit)
        computed += tokens

    speed = measure_speed(encode, lambda: computed, SIZES[device].seconds)
    return f"{speed}; texts of {tokens // len(texts):,} tokens", speed


def estimate_hours(
    directory: Path, speeds: dict[str, tuple[int, Speed]], deadline: float, rerank: bool
) -> tuple[str, None]:
    """Return the hours of a run; raise UserError if a run with this deadline would leave out what the profile asks for.

    Candidates may be left out: the best ones are scored first.
    """
    hours = {name: tokens / speed.sustained / 3600 for name, (tokens, speed) in speeds.items()}
    text = ", ".join(f"{name} about {speeds[name][0]:,} tokens: {value:.2g} h" for name, value in hours.items())
    encode, score = hours.get("encode", 0.0), hours.get("score", 0.0)
    if detect_task(directory) == "pairs":
        if encode + score > deadline:
            raise UserError(f"{text}; the deadline is {deadline:g} h", "use a faster device, or a smaller model")
        return f"{text} (the deadline is {deadline:g} h)", None
    share = FIRST_STAGE_SHARE if rerank else 1 - WRITING_SHARE
    if encode > share * deadline:
        what = f"{text}; with --deadline {deadline:g} the index may take {share * deadline:.3g} h, and is left out"
        raise UserError(what, "use a profile with a smaller encoder, such as pan26-bge-m3-qwen3-8b, or a faster device")
    if encode + score <= deadline:
        return f"{text} (the deadline is {deadline:g} h)", None
    scored = (deadline - encode) / score
    return f"{text}; {deadline:g} h suffice for about {scored:.0%} of the candidates: run with --deadline", None


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
    largest, host = max(weights, default=0), measure_memory()
    text = f"{free / 2**30:.1f} GiB, the largest weights have {largest / 2**30:.1f} GiB"
    if largest > free:
        raise UserError(text, "end other processes on the device, or use a larger one")
    if device != "cpu":
        text += f"; {host / 2**30:.1f} GiB of the machine"
        if largest > host:  # the files are mapped, and read in parts
            text += ", less than the weights, which may make loading slow"
    return text, None


def measure_speed(compute: Callable[[], object], count: Callable[[], int], seconds: float) -> Speed:
    """Return the speed of repeated calls; the first one, which loads kernels, does not count."""
    compute()
    marks = [(time.monotonic(), count())]
    while len(marks) == 1 or marks[-1][0] - marks[0][0] < seconds:
        compute()
        marks.append((time.monotonic(), count()))
    tenth = -(-(len(marks) - 1) // 10)
    parts = (marks[0], marks[-1]), (marks[0], marks[tenth]), (marks[-1 - tenth], marks[-1])
    return Speed(*((after[1] - before[1]) / max(after[0] - before[0], 1e-9) for before, after in parts))
