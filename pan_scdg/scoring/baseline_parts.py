"""Find the model or the precomputed vectors that a baseline needs."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pan_scdg.baselines.answers import Answerer, Complete
from pan_scdg.baselines.cosine import CosineScorer
from pan_scdg.baselines.endpoint import choose_model_name
from pan_scdg.baselines.lexical import Collection, make_lexical_scorer
from pan_scdg.baselines.local_instruct import LocalInstruct
from pan_scdg.baselines.prompting import PromptJudge, make_endpoint_judge
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.encoding import EncodingActors, EncodingOrders
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import Job, check_encoder_fits
from pan_scdg.models.lock import read_provenance
from pan_scdg.passages.scorer import AlignmentScorer
from pan_scdg.profile import MatchSettings, ModelSettings, Profile
from pan_scdg.profile.baseline import (
    Alignment,
    BaselineSettings,
    Bm25Pairs,
    CharNgrams,
    Containment,
    Cosine,
    GramLogistic,
    Prompted,
    VectorCosine,
)
from pan_scdg.records import PairScorer
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

Part = TypeVar("Part")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    local_judge: Callable[[Prompted, Store], PromptJudge] | None = None

    def make_scorer(self, settings: BaselineSettings, collection: Collection, store: Store) -> PairScorer:
        """Return a scorer with these settings; nothing heavy is loaded before it scores.

        Raises:
            ValueError: a part of the method is missing.
        """
        if isinstance(settings, CharNgrams | Containment | GramLogistic | Bm25Pairs):
            return make_lexical_scorer(settings, collection)
        if isinstance(settings, VectorCosine):
            return _require(self.vectors)
        if isinstance(settings, Alignment):
            return self.make_alignment(settings, store)
        if isinstance(settings, Cosine):
            folder, device, batch = _require(self.folder), self.device, settings.batch
            return CosineScorer(settings, lambda: load_encoder(folder, device, batch), self.fingerprint, device, store)
        if settings.served == "local":
            return _require(self.local_judge)(settings, store)
        return make_endpoint_judge(settings, store)

    def make_alignment(self, settings: Alignment | MatchSettings, store: Store | None) -> AlignmentScorer:
        """Return the scorer of an alignment; without a store it keeps nothing."""
        folder, device = _require(self.folder), self.device
        return AlignmentScorer(
            lambda: load_encoder(folder, device, settings.batch), self.fingerprint, device, settings.batch, store
        )

    def make_actors(self, settings: Alignment, cluster: Cluster) -> EncodingActors:
        """Return actors that encode as an alignment does, to be used as a context."""
        orders = EncodingOrders(_require(self.folder), settings.batch, self.fingerprint)
        return EncodingActors(cluster, orders, self.device)


def _require(part: Part | None) -> Part:
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


def find_parts(
    settings: BaselineSettings,
    device: str,
    doc_ids: Sequence[str],
    *,
    vectors: Path | None = None,
    model: Path | None = None,
    state: Path | None = None,
) -> BaselineParts:
    """Find the model or the vectors of a baseline.

    Args:
        settings: the baseline of the profile.
        device: "cpu" or "cuda".
        doc_ids: ids of all documents of the job.
        vectors: folder of precomputed document vectors.
        model: folder of a language model that answers on this machine.
        state: folder that caches hashes of the model's weights.

    Raises:
        UserError: something is missing, or ``vectors`` or ``model`` are given to a method that does not use them.
    """
    local = isinstance(settings, Prompted) and settings.served == "local"
    unused = {
        "--model": model is not None and not local,
        "--vectors": vectors and not isinstance(settings, VectorCosine),
    }
    refuse_unused(settings, unused)
    if isinstance(settings, VectorCosine):
        if vectors is None:
            raise UserError(
                f"the profile needs precomputed document vectors of {settings.model}",
                "give the folder of their .npy files with --vectors",
            )
        scorer = VectorScorer(vectors, doc_ids)
        return BaselineParts({"vectors": scorer.identify()}, "cpu", {}, vectors=scorer)
    if isinstance(settings, Cosine | Alignment):
        return find_encoder_parts(settings.model, device, "pairs")
    if isinstance(settings, Prompted):
        return _find_judge(settings, device, model, state)
    return BaselineParts({}, "cpu", {})


def find_encoder_parts(model: str, device: str, job: Job) -> BaselineParts:
    """Find an embedding model.

    Raises:
        UserError: it is missing, or larger than the memory of the device.
    """
    found = find_encoder(model)
    say(read_provenance(found).warnings)
    check_encoder_fits(model, found.folder, device, job)
    fingerprint = fingerprint_folder(found.folder)
    identity = {"embedding_model": {"weights": fingerprint}}
    return BaselineParts(identity, device, {"embedding_model": found}, found.folder, fingerprint)


def refuse_unused(settings: BaselineSettings, given: Mapping[str, object]) -> None:
    """Raise UserError if an option was given that a baseline does not use."""
    if unused := [name for name, value in given.items() if value]:
        kind = f"an {settings.kind}" if settings.kind.startswith("a") else f"a {settings.kind}"
        raise UserError(f"{unused[0]} has no effect on {kind} baseline", "leave it out")


def _find_judge(settings: Prompted, device: str, folder: Path | None, state: Path | None) -> BaselineParts:
    if settings.served == "endpoint":
        name = choose_model_name(settings.model)
        return BaselineParts({"language_model": {"name": name}}, "cpu", {}, fingerprint=name)
    model = _find_instruct_model(settings, device, folder, state)
    answers_depend_on = {
        "served": "local",
        "weights": model.fingerprint,
        "dtype": model.settings.dtype,
        "device": model.device,
    }

    def load() -> Complete:
        loaded = model.loaded
        return LocalInstruct(loaded.model, loaded.tokenizer, loaded.name, loaded.positions).complete

    def make_judge(chosen: Prompted, store: Store) -> PromptJudge:
        return PromptJudge(chosen, Answerer(answers_depend_on, load, side_by_side=1), store)

    identity, places = {"language_model": answers_depend_on}, {"language_model": model.found}
    return BaselineParts(identity, device, places, fingerprint=model.fingerprint, local_judge=make_judge)


def _find_instruct_model(settings: Prompted, device: str, folder: Path | None, state: Path | None) -> ScoringModel:
    """Find the checkpoint; it computes in bfloat16 if the device can, as such models are published."""
    if not _FOLDER.fullmatch(settings.model):
        raise UserError(
            f"baseline.model {settings.model} is not the name of a folder in the model cache",
            'give the folder name without an owner, or set served = "endpoint"',
        )
    chosen = ModelSettings(name=settings.model, dtype="bfloat16", dtype_without_bf16="float32")
    return ScoringModel(chosen, device, folder=folder, state=state)
