"""What a baseline takes from outside of its profile and the texts: a model, or vectors made elsewhere."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.baselines.bm25_pairs import Collection
from pan_scdg.baselines.endpoint import model_name
from pan_scdg.baselines.judge import PromptJudge
from pan_scdg.baselines.scorer import PairScorer
from pan_scdg.baselines.scorers import Given, scorer_of
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.errors import UserError
from pan_scdg.model_cache import FoundModel
from pan_scdg.profile import Profile
from pan_scdg.profile.baseline import BaselineSettings, Cosine, Prompted, VectorCosine
from pan_scdg.retrieval.encoder import folder_fingerprint
from pan_scdg.store import Store
from pan_scdg.tasks.device_memory import check_encoder_fits
from pan_scdg.tasks.model_places import place_of_encoder, provenance, say
from pan_scdg.tasks.options import RunOptions
from pan_scdg.tasks.prompted import identity_of, instruct_model, local_judge


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


def outside_of(settings: BaselineSettings, options: RunOptions, doc_ids: Sequence[str]) -> Outside:
    """Find what the method needs.

    Args:
        settings: the profile's.
        options: the device, and the folder of vectors.
        doc_ids: all documents of the job.

    Raises:
        UserError: it is not there, or options were given that the method has no use for.
    """
    refuse_needless(settings, options)
    if isinstance(settings, VectorCosine):
        if options.vectors is None:
            raise UserError(
                f"the vectors of {settings.model} are not made here",
                "give the folder with their .npy files with --vectors",
            )
        vectors = VectorScorer(options.vectors, doc_ids)
        return Outside({"vectors": vectors.identity()}, "cpu", {}, vectors=vectors)
    if isinstance(settings, Cosine):
        found = place_of_encoder(settings.model)
        say(provenance(found).warnings)
        check_encoder_fits(settings.model, found.folder, options.device, "pairs")
        fingerprint = folder_fingerprint(found.folder)
        identity = {"embedding_model": {"weights": fingerprint}}
        return Outside(identity, options.device, {"embedding_model": found}, found.folder, fingerprint)
    if isinstance(settings, Prompted):
        return _prompted(settings, options)
    return Outside({}, "cpu", {})


def _prompted(settings: Prompted, options: RunOptions) -> Outside:
    if settings.served == "endpoint":
        name = model_name(settings.model)
        return Outside({"language_model": {"name": name}}, "cpu", {}, fingerprint=name)
    model = instruct_model(settings, options)
    places, judge = {"language_model": model.found}, local_judge(model)
    identity = {"language_model": identity_of(model)}
    return Outside(identity, options.device, places, fingerprint=model.fingerprint, local_judge=judge)


def refuse_needless(settings: BaselineSettings, options: RunOptions) -> None:
    """Raise UserError where an option asks for what a baseline does not have."""
    local = isinstance(settings, Prompted) and settings.served == "local"
    asked = {
        "--keep-gains": options.keep_gains,
        "--shard": options.share is not None,
        "--engine reference": options.engine == "reference",
        "--workers": options.workers is not None,
        "--model": options.model is not None and not local,
        "--vectors": options.vectors is not None and not isinstance(settings, VectorCosine),
    }
    if needless := [name for name, given in asked.items() if given]:
        raise UserError(f"{needless[0]} has no use for a {settings.kind} baseline", "leave it out")
