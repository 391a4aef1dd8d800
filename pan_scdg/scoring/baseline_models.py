"""What a baseline takes from outside of its profile and the texts: a model, or vectors made elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.baselines.bm25_pairs import Collection
from pan_scdg.baselines.endpoint import model_name
from pan_scdg.baselines.judge import PromptJudge
from pan_scdg.baselines.scorer import PairScorer
from pan_scdg.baselines.scorers import Given, scorer_of
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.cache import FoundModel
from pan_scdg.models.device_memory import check_encoder_fits
from pan_scdg.models.encoder import folder_fingerprint
from pan_scdg.models.places import place_of_encoder, provenance
from pan_scdg.profile import Profile
from pan_scdg.profile.baseline import BaselineSettings, Cosine, Prompted, VectorCosine
from pan_scdg.scoring.prompted import identity_of, instruct_model, local_judge
from pan_scdg.store import Store


class Outside(NamedTuple):
    """Found and read as far as its identity goes; nothing is loaded yet."""

    identity: dict[str, Any]
    """What the job's identity says of it; empty for a lexical method."""
    device: str
    """Where it runs; "cpu" for what runs on no device."""
    places: dict[str, FoundModel]
    """Where its models were found, by what they are in the job."""
    folder: Path | None = None
    fingerprint: str = ""
    """What tells its model from others: SHA-256 of the files, or the name at an endpoint; empty without a model."""
    vectors: VectorScorer | None = None
    local_judge: Callable[[Prompted, Store], PromptJudge] | None = None

    def scorer(self, settings: BaselineSettings, collection: Collection, store: Store) -> PairScorer:
        """The scorer of these settings."""
        if self.vectors is not None:
            return self.vectors
        return scorer_of(
            settings, Given(store, collection, (), self.folder, self.fingerprint, self.device, self.local_judge)
        )


def settings_of(profile: Profile) -> BaselineSettings:
    """The baseline of a profile.

    Raises:
        ValueError: it has none.
    """
    if profile.baseline is None:
        raise ValueError(f"profile {profile.name} has no [baseline] table")
    return profile.baseline


def outside_of(
    settings: BaselineSettings,
    device: str,
    doc_ids: Sequence[str],
    *,
    vectors: Path | None = None,
    model: Path | None = None,
    state: Path | None = None,
) -> Outside:
    """Find what the method needs.

    Args:
        settings: the profile's.
        device: "cpu" or "cuda".
        doc_ids: all documents of the job.
        vectors: the folder of vectors that were made elsewhere.
        model: the folder of a language model that answers here.
        state: its weights' digests are remembered in this folder.

    Raises:
        UserError: it is not there, or vectors or a model were given that the method has no use for.
    """
    local = isinstance(settings, Prompted) and settings.served == "local"
    refuse_needless(
        settings,
        {"--model": model is not None and not local, "--vectors": vectors and not isinstance(settings, VectorCosine)},
    )
    if isinstance(settings, VectorCosine):
        if vectors is None:
            raise UserError(
                f"the vectors of {settings.model} are not made here",
                "give the folder with their .npy files with --vectors",
            )
        scorer = VectorScorer(vectors, doc_ids)
        return Outside({"vectors": scorer.identity()}, "cpu", {}, vectors=scorer)
    if isinstance(settings, Cosine):
        found = place_of_encoder(settings.model)
        say(provenance(found).warnings)
        check_encoder_fits(settings.model, found.folder, device, "pairs")
        fingerprint = folder_fingerprint(found.folder)
        identity = {"embedding_model": {"weights": fingerprint}}
        return Outside(identity, device, {"embedding_model": found}, found.folder, fingerprint)
    if isinstance(settings, Prompted):
        return _prompted(settings, device, model, state)
    return Outside({}, "cpu", {})


def _prompted(settings: Prompted, device: str, folder: Path | None, state: Path | None) -> Outside:
    if settings.served == "endpoint":
        name = model_name(settings.model)
        return Outside({"language_model": {"name": name}}, "cpu", {}, fingerprint=name)
    model = instruct_model(settings, device, folder, state)
    places, judge = {"language_model": model.found}, local_judge(model)
    identity = {"language_model": identity_of(model)}
    return Outside(identity, device, places, fingerprint=model.fingerprint, local_judge=judge)


def refuse_needless(settings: BaselineSettings, asked: Mapping[str, object]) -> None:
    """Raise UserError where an option asks for what a baseline does not have.

    Args:
        settings: the profile's.
        asked: the options, and whether each was given.
    """
    if needless := [name for name, given in asked.items() if given]:
        raise UserError(f"{needless[0]} has no use for a {settings.kind} baseline", "leave it out")
