"""Measure the GPU's share of a run: ``python -m benchmarks.model_share --task pairs|retrieval``.

Everything is real but the model: texts from files, the slow tokenizer of Qwen's class, windows, batches, statistics and
the store. The model is a clock that takes a fixed time a token, as many as an 8B model on an H200 has in packed rows
(--rate). As a GPU does, it computes what was launched before while the host goes on; a launch needs Python's global
lock, so that a thread which keeps it shows as idle time. Each row ends when all that was launched has been computed.
With --workers the models are in actors, which tokenise; `model_seconds` is then that of one of them.

``pairs``: texts of 18,000 to 170,000 characters, as those of PAN 2025, each target with one source. ``retrieval``:
papers of about 6,000 words and queries of about 3,500 words, as in PAN 2026, each source in --lists lists.

`scoring_share` is the time in which the model computes as a part of that from the first batch to the last. `share` is
the part of the whole: before a model is loaded, all texts are read, tokenised and checked, with a process for each core
(`checked_seconds`). Processor times hardly depend on other jobs of the machine: that of checking, in all processes;
that between two calls of the model, for which it waits; and that of the thread which tokenises ahead, for which it
waits where that takes longer than the model. The last line is one JSON object.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import numpy as np

from benchmarks import corpus
from pan_scdg.cluster.actor import Place
from pan_scdg.cluster.actors import Actors
from pan_scdg.cluster.session import Cluster
from pan_scdg.lm.ahead import TokenisedInputs
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.lm.packing import count_row_tokens, plan_rows
from pan_scdg.lm.works import AT_ONCE, Computed, Work, share_engine
from pan_scdg.models.config import ModelConfig
from pan_scdg.models.load import load_tokenizer
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.pan.source_retrieval import read_queries
from pan_scdg.profile import ModelSettings, PairSettings, Profile, RetrievalSettings, load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.resources import count_cores
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranked
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring import pair_tokens
from pan_scdg.scoring.candidates import prepare_targets, score_candidates
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import check_pairs
from pan_scdg.store import Store

RATE = 20_000.0
"""Tokens per second: 16 TFLOP a thousand tokens with 8 billion weights, at a third of the 990 TFLOP/s of an H200."""
LAUNCHES = 36 * 20
"""Kernels of a row: Qwen3-8B has 36 layers."""
SHORTEST, LONGEST = 18_000, 170_000
"""Characters of a document of PAN 2025, after the published sample; the logarithm is drawn evenly between."""
VOCABULARY, SAMPLE = 40_000, 100
"""Tokens of the stand-in vocabulary, and generated documents that it is learnt from."""
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Checked(NamedTuple):
    """Time of the check of all pairs, before the first score."""

    seconds: float
    processor_seconds: float
    """Of all processes."""
    clocks: tuple[float, float]
    """Processor times of this thread and of this process at the end of it."""


class ClockEngine:
    """An engine whose model takes a fixed time a token and says nothing."""

    def __init__(self, rate: float, budget: int) -> None:
        self._rate, self._budget = rate, budget
        self._until = 0.0
        self.tokens, self.launching = 0, 0.0
        self.splits: list[int] = []

    def compute_log_probs(self, items: Sequence[ScoringInput]) -> list[LogProbs]:
        """See `Engine`."""
        began = time.thread_time()
        for chain in plan_rows(items, self._budget):
            for row in chain:
                self._run(count_row_tokens(row, items))
        generator = np.random.default_rng(len(items))
        values = [-generator.random(len(item.target_ids), dtype=np.float32) for item in items]
        self.launching += time.thread_time() - began
        return values

    def _run(self, tokens: int) -> None:
        """Launch all kernels of a row and wait until they are computed."""
        needed = tokens / self._rate
        for _ in range(LAUNCHES):
            time.sleep(0)  # gives up the global lock, as each launch does
            self._until = max(self._until, time.perf_counter()) + needed / LAUNCHES
        self.tokens += tokens
        time.sleep(max(0.0, self._until - time.perf_counter()))


@dataclass(frozen=True)
class ClockOrders:
    """Orders of actors that compute with a `ClockEngine`; see `ScoringOrders`."""

    folder: Path
    settings: ModelSettings
    config: ModelConfig
    rate: float

    def prepare(self) -> None:
        """Import nothing: the tokenizer does without torch."""

    def load(self, place: Place) -> Callable[[Work], Computed]:
        """Return the function that scores a task."""
        tokenizer = load_tokenizer(self.folder, self.settings, self.config)
        return share_engine(ClockEngine(self.rate, self.settings.pack_tokens), tokenizer)


def write_checkpoint(folder: Path) -> None:
    """Write config and tokenizer of a small Qwen3 with the slow tokenizer's files, and weights that nobody reads."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator((document.text for document in corpus.generate(SAMPLE, seed=1)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = "\n".join(" ".join(merge) for merge in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 64}
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 131_072}
    (folder / "config.json").write_text(json.dumps({**config, **sizes, "vocab_size": VOCABULARY + 2}))
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")


def write_pairs(folder: Path, pairs: int, seed: int) -> list[DocumentPair]:
    """Write the texts of ``pairs`` pairs, each of two documents of their own."""
    rng, numbers = np.random.default_rng(seed), count()
    found = []
    for number in range(pairs):
        target, source = (
            TextFile(name, f"{name}.txt", folder / f"{name}.txt") for name in (f"p{number}", f"s{number}")
        )
        for file in (target, source):
            length = round(SHORTEST * (LONGEST / SHORTEST) ** rng.random())
            file.path.write_text(_take_text(numbers, length, seed), encoding="utf-8")
        found.append(DocumentPair(target, source))
    return found


def _take_text(numbers: Iterator[int], length: int, seed: int) -> str:
    text = ""
    while len(text) < length:
        text += corpus.document(next(numbers), seed).text + "\n\n"
    return text[:length].strip()


def write_retrieval(folder: Path, queries: int, candidates: int, lists: float, seed: int) -> dict[str, FirstStage]:
    """Write corpus and queries; return the candidates, each in ``lists`` lists, a few more or less."""
    documents = max(candidates, round(queries * candidates / lists))
    corpus.write(folder, documents, queries, seed)
    order = np.random.default_rng(seed).permutation(documents)
    stages = {}
    for number, query in enumerate(corpus.queries(queries, documents, seed)):
        chosen = [corpus.document_id(int(order[(number * candidates + i) % documents])) for i in range(candidates)]
        ranking = [Ranked(doc_id, 1.0 - i / candidates) for i, doc_id in enumerate(chosen)]
        stages[query.query_id] = FirstStage({}, ranking)
    return stages


def open_clock(folder: Path, profile: Profile, rate: float, actors: int) -> tuple[ScoringModel, ClockEngine]:
    """Return a model of the profile's kind that computes with a `ClockEngine`, or with one in each of ``actors``."""
    write_checkpoint(folder)
    here: dict[str, Any] = {
        "dtype": "float32",
        "attention": "sdpa",
        "positions": "as-published",
        "position_factor": None,
        "probes": {},
    }
    settings = profile.need_model().model_copy(update=here)
    cluster = Cluster("local", actors) if actors > 1 else None
    model = ScoringModel(settings, "cpu", folder=folder, cluster=cluster)
    engine = ClockEngine(rate, settings.pack_tokens)
    if cluster is None:
        model._engine = engine  # instead of the one that would load the weights
    else:
        orders = ClockOrders(folder, settings, model.config, rate)
        model._actors = Actors(cluster, orders, "cpu", at_once=AT_ONCE)
        while model._actors.count().processes < actors:  # before the clock runs
            list(model.map([TokenisedInputs([])] * actors))
    return model, engine


def count_processor_seconds() -> float:
    """Return the processor time of this process and of those that it has ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def read_clocks() -> tuple[float, float]:
    """Return the processor times of this thread and of this process."""
    return time.thread_time(), time.process_time()


def run_pairs(folder: Path, model: ScoringModel, pairs: Sequence[DocumentPair], settings: PairSettings) -> Checked:
    """Check and score pairs; return what checking took."""
    began, used = time.perf_counter(), count_processor_seconds()
    planned, _ = check_pairs(pairs, model, settings, Notices())
    checked = Checked(time.perf_counter() - began, count_processor_seconds() - used, read_clocks())
    with Store(folder / "state") as store:
        score_pairs(planned, model, settings, store, keep_gains=False)
    return checked


def run_retrieval(
    folder: Path, model: ScoringModel, stages: Mapping[str, FirstStage], settings: RetrievalSettings
) -> Checked:
    """Tokenise the queries and score their candidates; return what came before scoring."""
    began, used = time.perf_counter(), count_processor_seconds()
    corpus, queries = Corpus(folder, Notices()), read_queries(folder, Notices())
    targets = prepare_targets(queries, model, settings, folder / "queries.jsonl", Notices())
    checked = Checked(time.perf_counter() - began, count_processor_seconds() - used, read_clocks())
    with Store(folder / "state") as store:
        score_candidates(corpus, targets, stages, model, settings, store, keep_gains=False)
    return checked


@click.command(help=__doc__)
@click.option("--task", required=True, type=click.Choice(["pairs", "retrieval"]))
@click.option("--pairs", default=24, show_default=True, type=click.IntRange(1))
@click.option("--queries", default=3, show_default=True, type=click.IntRange(1))
@click.option("--candidates", default=40, show_default=True, type=click.IntRange(1))
@click.option("--lists", default=2.3, show_default=True, type=click.FloatRange(1), help="200 queries of PAN 2026: 2.3")
@click.option("--rate", default=RATE, show_default=True, type=click.FloatRange(1), help="tokens/s of the model")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), help="Models, in an actor of Ray each."
)
def main(
    task: str, pairs: int, queries: int, candidates: int, lists: float, rate: float, seed: int, workers: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="model-share-") as name:
        folder = Path(name)
        (folder / "model").mkdir()
        profile = load_profile("pan25-qwen3-8b" if task == "pairs" else "pan26-qwen3-8b")
        model, engine = open_clock(folder / "model", profile, rate, workers)
        if task == "pairs":
            written = write_pairs(folder, pairs, seed)
            began = time.perf_counter()
            with patch.object(pair_tokens, "LEAST", 0):  # processes tokenise, as in a run over thousands of pairs
                checked = run_pairs(folder, model, written, profile.need_pairs())
        else:
            stages = write_retrieval(folder, queries, candidates, lists, seed)
            began = time.perf_counter()
            checked = run_retrieval(folder, model, stages, profile.need_retrieval())
        seconds = time.perf_counter() - began
        thread, process = (now - then for now, then in zip(read_clocks(), checked.clocks, strict=True))
        busy = model.tokens / rate / workers
        model.close()
    figures = {
        "task": task,
        "items": pairs if task == "pairs" else queries * candidates,
        "cores": count_cores(),
        "workers": workers,
        "tokens": model.tokens,
        "tokens_per_second": rate,
        "seconds": round(seconds, 2),
        "checked_seconds": round(checked.seconds, 2),
        "checked_processor_seconds": round(checked.processor_seconds, 2),
        "model_seconds": round(busy, 2),
        "between_processor_seconds": round(thread - engine.launching, 2),
        "ahead_processor_seconds": round(process - thread, 2),
        "share": round(busy / seconds, 4),
        "scoring_share": round(busy / (seconds - checked.seconds), 4),
    }
    click.echo(
        f"{figures['items']} pairs, {model.tokens:,} tokens: the model computes {figures['model_seconds']} of "
        f"{figures['seconds']} s ({figures['share']:.1%}), and {figures['scoring_share']:.1%} of the scoring"
    )
    click.echo(json.dumps(figures))


if __name__ == "__main__":
    main()
