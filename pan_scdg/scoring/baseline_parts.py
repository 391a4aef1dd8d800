"""What a baseline needs besides its profile and the texts: a model, or vectors that were made elsewhere."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.baselines.answers import Answerer, Complete
from pan_scdg.baselines.bm25_pairs import Collection
from pan_scdg.baselines.endpoint import model_name
from pan_scdg.baselines.judge import PromptJudge
from pan_scdg.baselines.local_instruct import LocalInstruct
from pan_scdg.baselines.scorer import PairScorer
from pan_scdg.baselines.scorers import Given, scorer_of
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.fit import check_encoder_fits
from pan_scdg.models.lock import read_provenance
from pan_scdg.profile import ModelSettings, Profile
from pan_scdg.profile.baseline import BaselineSettings, Cosine, Prompted, VectorCosine
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class BaselineParts(NamedTuple):
    """What a baseline needs, found and fingerprinted; nothing is loaded yet."""

    identity: dict[str, Any]
    """What the job records of it; empty for a lexical method."""
    device: str
    """Where it runs; "cpu" for a method without a model."""
    places: dict[str, FoundModel]
    """Where its models were found, by their names in the job."""
    folder: Path | None = None
    fingerprint: str = ""
    """Of its model: SHA-256 of the files, or the name at an endpoint; empty without a model."""
    vectors: VectorScorer | None = None
    local_judge: Callable[[Prompted, Store], PromptJudge] | None = None

    def make_scorer(self, settings: BaselineSettings, collection: Collection, store: Store) -> PairScorer:
        """Return the scorer of these settings."""
        if self.vectors is not None:
            return self.vectors
        given = Given(store, collection, (), self.folder, self.fingerprint, self.device, self.local_judge)
        return scorer_of(settings, given)


def need_baseline(profile: Profile) -> BaselineSettings:
    """Return the baseline of a profile.

    Raises:
        ValueError: it has none.
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
    """Find what the method needs.

    Args:
        settings: the profile's.
        device: "cpu" or "cuda".
        doc_ids: all documents of the job.
        vectors: the folder of vectors that were made elsewhere.
        model: the folder of a language model that answers on this machine.
        state: digests of its weights are remembered in this folder.

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
                f"the vectors of {settings.model} are not made here",
                "give the folder with their .npy files with --vectors",
            )
        scorer = VectorScorer(vectors, doc_ids)
        return BaselineParts({"vectors": scorer.identity()}, "cpu", {}, vectors=scorer)
    if isinstance(settings, Cosine):
        found = find_encoder(settings.model)
        say(read_provenance(found).warnings)
        check_encoder_fits(settings.model, found.folder, device, "pairs")
        fingerprint = fingerprint_folder(found.folder)
        identity = {"embedding_model": {"weights": fingerprint}}
        return BaselineParts(identity, device, {"embedding_model": found}, found.folder, fingerprint)
    if isinstance(settings, Prompted):
        return _find_judge(settings, device, model, state)
    return BaselineParts({}, "cpu", {})


def refuse_unused(settings: BaselineSettings, given: Mapping[str, object]) -> None:
    """Raise UserError if an option was given that a baseline does not use.

    Args:
        settings: the profile's.
        given: whether each option was given, by its name.
    """
    if unused := [name for name, value in given.items() if value]:
        raise UserError(f"{unused[0]} has no use for a {settings.kind} baseline", "leave it out")


def _find_judge(settings: Prompted, device: str, folder: Path | None, state: Path | None) -> BaselineParts:
    if settings.served == "endpoint":
        name = model_name(settings.model)
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
    """Find a checkpoint that answers: bfloat16 where the device has it, as such models are published."""
    if not _FOLDER.fullmatch(settings.model):
        raise UserError(
            f"baseline.model {settings.model} is no name of a folder in the model cache",
            'name the folder, without its owner, or write served = "endpoint"',
        )
    chosen = ModelSettings(name=settings.model, dtype="bfloat16", dtype_without_bf16="float32")
    return ScoringModel(chosen, device, folder=folder, state=state)
