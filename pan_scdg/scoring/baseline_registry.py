"""The methods behind the tables ``[baseline]``, by their settings.

Two places list all methods: `profile.baseline.BaselineSettings`, which profiles are read with, and `METHODS` here. What
scoring and calibration need to know about a method is a fact of its settings (`profile.baseline.BaselineTable`) or a
function of its entry here. An alignment alone does more than score: `BaselineMethod.open_alignment` gives its sentences
to reports and rankings, `jobs.check` its first stage, and `report.judge` its range of unclear scores. These name it,
since a property with one case would explain less. To add a baseline, see docs/architecture.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from pan_scdg.methods.answers import Answerer, Complete
from pan_scdg.methods.char_ngrams import find_passages
from pan_scdg.methods.cosine import CosineScorer
from pan_scdg.methods.endpoint import choose_model_name, read_endpoint
from pan_scdg.methods.lexical import Collection, make_bm25, make_char_ngrams, make_containment, make_gram_overlap
from pan_scdg.methods.local_instruct import LocalInstruct
from pan_scdg.methods.prompting import PromptJudge
from pan_scdg.methods.vectors import VectorScorer
from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from pan_scdg.logs import say
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.encoding import EncodingActors, EncodingOrders
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import check_encoder_fits
from pan_scdg.models.lock import list_lock_warnings
from pan_scdg.align.scorer import AlignmentScorer, name_numbers
from pan_scdg.profile import MatchSettings, ModelSettings, Profile
from pan_scdg.profile.baseline import (
    Alignment,
    BaselineSettings,
    BaselineTable,
    Bm25Pairs,
    CharNgrams,
    Containment,
    Cosine,
    GramLogistic,
    Prompted,
    VectorCosine,
)
from pan_scdg.records import PairScorer, Passage
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import Labels
from pan_scdg.store import Store

Part = TypeVar("Part")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
Settings = TypeVar("Settings", bound=BaselineTable)
Rows = Sequence[tuple[float, ...]]
"""The numbers of each pair."""


class Given(NamedTuple):
    """The device and the ids of all documents of a job; the folders of vectors, of a language model, and of hashes."""

    device: str
    doc_ids: Sequence[str] = ()
    vectors: Path | None = None
    model: Path | None = None
    state: Path | None = None


class BaselineParts(NamedTuple):
    """The model or vectors of a baseline, found and fingerprinted but not loaded."""

    identity: dict[str, Any]
    """Fields that identify them in the job; empty for a lexical method."""
    device: str
    """Device that computes; "cpu" for a method without a model."""
    places: dict[str, FoundModel]
    """The models, by their names in the job."""
    folder: Path | None = None
    fingerprint: str = ""
    """SHA-256 of the model's files, or its name at an endpoint; empty without a model."""
    vectors: VectorScorer | None = None
    answerer: Answerer | None = None

    def make_cosine(self, settings: Cosine, store: Store) -> CosineScorer:
        """Return the scorer of cosines."""
        folder, device, batch = require_part(self.folder), self.device, settings.batch
        return CosineScorer(settings, lambda: load_encoder(folder, device, batch), self.fingerprint, device, store)

    def make_alignment(self, settings: Alignment | MatchSettings, store: Store | None) -> AlignmentScorer:
        """Return the scorer of an alignment; without a store it keeps nothing."""
        folder, device = require_part(self.folder), self.device
        return AlignmentScorer(
            lambda: load_encoder(folder, device, settings.batch), self.fingerprint, device, settings.batch, store
        )

    def make_actors(self, settings: Alignment, cluster: Cluster) -> EncodingActors:
        """Return actors that encode as an alignment does, to be used as a context."""
        orders = EncodingOrders(require_part(self.folder), settings.batch, self.fingerprint)
        return EncodingActors(cluster, orders, self.device)


def require_part(part: Part | None) -> Part:
    """Return a part that the method needs; a missing one is a mistake of the caller."""
    if part is None:
        raise ValueError("a part of this baseline is missing")
    return part


def need_baseline(profile: Profile) -> BaselineSettings:
    """Return the baseline of a profile.

    Raises:
        ValueError: the profile has no baseline.
    """
    if profile.baseline is None:
        raise ValueError(f"profile {profile.name} has no [baseline] table")
    return profile.baseline


def find_vectors(settings: VectorCosine, given: Given) -> BaselineParts:
    """Find the vectors of all documents, or raise UserError."""
    if given.vectors is None:
        raise UserError(
            f"the profile needs precomputed document vectors of {settings.model}",
            "give the folder of their .npy files with --vectors",
        )
    scorer = VectorScorer(given.vectors, given.doc_ids)
    return BaselineParts({"vectors": scorer.identify()}, "cpu", {}, vectors=scorer)


def find_encoder_parts(model: str | None, device: str) -> BaselineParts:
    """Find an embedding model, if there is one.

    Raises:
        UserError: it is missing, or larger than the memory of the device.
    """
    if model is None:
        return BaselineParts({}, "cpu", {})
    found = find_encoder(model)
    say(list_lock_warnings(found))
    check_encoder_fits(model, found.folder, device)
    fingerprint = fingerprint_folder(found.folder)
    identity = {"embedding_model": {"weights": fingerprint}}
    return BaselineParts(identity, device, {"embedding_model": found}, found.folder, fingerprint)


def refuse_unused(settings: BaselineSettings, given: Mapping[str, object], remedy: str = "leave it out") -> None:
    """Raise UserError if an option was given that a baseline does not use."""
    if unused := [name for name, value in given.items() if value]:
        kind = f"an {settings.kind}" if settings.kind.startswith("a") else f"a {settings.kind}"
        raise UserError(f"{unused[0]} has no effect on {kind} baseline", remedy)


def find_judge(settings: Prompted, given: Given) -> BaselineParts:
    """Find the model that answers, at an endpoint or on this machine, or raise UserError."""
    if settings.served == "endpoint":
        name = choose_model_name(settings.model)
        # read for the first answer that is not stored, so that stored answers need no endpoint
        answerer = Answerer({"served": "endpoint", "model": name}, lambda: read_endpoint(name).complete)
        return BaselineParts({"language_model": {"name": name}}, "cpu", {}, fingerprint=name, answerer=answerer)
    model = _find_instruct_model(settings, given)
    answers_depend_on = {
        "served": "local",
        "weights": model.fingerprint,
        "dtype": model.settings.dtype,
        "device": model.device,
    }

    def load() -> Complete:
        loaded = model.loaded
        return LocalInstruct(loaded.model, loaded.tokenizer, loaded.name, loaded.positions).complete

    identity, places = {"language_model": answers_depend_on}, {"language_model": model.found}
    answerer = Answerer(answers_depend_on, load, side_by_side=1)
    return BaselineParts(identity, given.device, places, fingerprint=model.fingerprint, answerer=answerer)


def _find_instruct_model(settings: Prompted, given: Given) -> ScoringModel:
    """Find the checkpoint; it computes in bfloat16 if the device can, as such models are published."""
    if not _FOLDER.fullmatch(settings.model):
        raise UserError(
            f"baseline.model {settings.model} is not the name of a folder in the model cache",
            'give the folder name without an owner, or set served = "endpoint"',
        )
    chosen = ModelSettings(name=settings.model, dtype="bfloat16", dtype_without_bf16="float32")
    return ScoringModel(chosen, given.device, folder=given.model, state=given.state)


def _take_first(settings: BaselineTable, rows: Rows) -> Floats:
    return np.array([row[0] for row in rows], dtype=np.float64)


@dataclass(frozen=True)
class BaselineEntry(Generic[Settings]):
    """The functions of a method, which take its settings first."""

    name: Callable[[Settings], str]
    """Returns its name in the paper's tables."""
    make_scorer: Callable[[Settings, BaselineParts, Collection, Store], PairScorer]
    """Returns the scorer; nothing heavy is loaded before it scores."""
    find_parts: Callable[[Settings, Given], BaselineParts] = lambda settings, given: find_encoder_parts(
        settings.encoder, given.device
    )
    """Finds the model or the vectors that the scorer needs."""
    fit: Callable[[Settings, Rows, Labels], Settings] = lambda settings, rows, labels: settings
    """Returns the settings with the weights that ``calibrate`` fits."""
    combine: Callable[[Settings, Rows], Floats] = _take_first
    """Returns the score of each pair that is compared with the threshold, ``[pairs]``; nan without fitted weights."""
    rule: str = "threshold by training F1"
    """States how a study chooses the threshold, unless it is official."""
    find_passages: Callable[[Settings, str, str], tuple[Passage, ...]] | None = None
    """Returns the passages of a target and its source; None: it decides about whole documents."""


def _compute_logistic(settings: GramLogistic, rows: Rows) -> Floats:
    if settings.weights is None:
        return np.full(len(rows), np.nan)
    return compute_probabilities(settings.weights, np.reshape(rows, (len(rows), len(settings.fitted))))


METHODS: Mapping[type[BaselineTable], BaselineEntry[Any]] = {
    CharNgrams: BaselineEntry[CharNgrams](
        lambda s: "PAN12-style n-gram overlap",
        lambda s, parts, sources, store: make_char_ngrams(s),
        rule="n and threshold by training F1",
        find_passages=lambda s, target, source: find_passages(target, source, s.n),
    ),
    Containment: BaselineEntry[Containment](
        lambda s: f"Max {s.n}-token-gram containment", lambda s, parts, sources, store: make_containment(s)
    ),
    GramLogistic: BaselineEntry[GramLogistic](
        lambda s: f"{s.n}-token-gram logistic",
        lambda s, parts, sources, store: make_gram_overlap(s),
        fit=lambda s, rows, labels: s.model_copy(update={"weights": fit_logistic(rows, labels)}),
        combine=_compute_logistic,
        rule="fitted on training, threshold by training F1",
    ),
    Bm25Pairs: BaselineEntry[Bm25Pairs](
        lambda s: "BM25 pair score", lambda s, parts, sources, store: make_bm25(s, sources)
    ),
    Cosine: BaselineEntry[Cosine](
        lambda s: f"{s.model} cosine", lambda s, parts, sources, store: parts.make_cosine(s, store)
    ),
    VectorCosine: BaselineEntry[VectorCosine](
        lambda s: f"{s.model} cosine", lambda s, parts, sources, store: require_part(parts.vectors), find_vectors
    ),
    Prompted: BaselineEntry[Prompted](
        lambda s: f"PlagBench {s.shots}-shot ({'CoT' if s.chain_of_thought else 'vanilla'})",
        lambda s, parts, sources, store: PromptJudge(s, require_part(parts.answerer), store),
        find_judge,
        rule="threshold on the label scores by training F1",
    ),
    Alignment: BaselineEntry[Alignment](
        lambda s: f"{s.model} sentence alignment",
        lambda s, parts, sources, store: parts.make_alignment(s, store),
        combine=lambda s, rows: s.compute_scores(name_numbers(rows)),
    ),
}


def find_parts(settings: BaselineSettings, given: Given) -> BaselineParts:
    """Find the model or the vectors of a baseline.

    Raises:
        UserError: something is missing, or ``vectors`` or ``model`` are given to a method that does not use them.
    """
    unused = {
        "a model folder": given.model is not None and settings.language_model is None,
        "a vectors folder": given.vectors and not settings.reads_vectors,
    }
    refuse_unused(settings, unused)
    return METHODS[type(settings)].find_parts(settings, given)
