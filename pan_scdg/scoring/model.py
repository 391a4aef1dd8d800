"""The language model of a run: checked when it is opened, loaded when something is scored."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from pan_scdg.cluster.actors import Actors
from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.lm.ahead import make_ahead
from pan_scdg.lm.attention import find_backend
from pan_scdg.lm.engine import Engine, EngineName, make_engine
from pan_scdg.lm.works import AT_ONCE, Computed, ScoringOrders, Values, Work, score_inputs
from pan_scdg.logs import say
from pan_scdg.models.config import PUBLISHED, count_positions, read_config
from pan_scdg.models.devices import check_device, choose_dtype
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_metadata, fingerprint_weights
from pan_scdg.models.fit import check_weights_fit
from pan_scdg.models.load import LanguageModel, load_model, load_tokenizer
from pan_scdg.models.lock import list_lock_warnings
from pan_scdg.profile import ModelSettings
from pan_scdg.progress import Crew
from pan_scdg.store import make_key


class ScoringModel:
    """A checkpoint with its fingerprint and tokenizer, whose weights are loaded when first needed.

    Args:
        settings: the model of the profile.
        device: "cpu" or "cuda".
        folder: the checkpoint; None: in the model cache or the Hugging Face cache.
        engine: computes log-probabilities; see `lm.engine`.
        cluster: several devices to compute with; None: one device in this process. No result depends on it.
        state: folder that caches hashes of weights; None: no cache.
        counts_only: tokens are counted and nothing else, for which neither weights nor the device are needed.
        scored_in: folder of a shard if all scores are stored already: then nothing is computed, and neither the device
            nor memory for the weights is needed. None: scores are computed.

    Raises:
        UserError: the folder is missing or incomplete, the device does not support the settings, or its memory cannot
            hold the weights.
    """

    def __init__(
        self,
        settings: ModelSettings,
        device: str,
        *,
        folder: Path | None = None,
        engine: EngineName = "packed",
        cluster: Cluster | None = None,
        state: Path | None = None,
        scored_in: Path | None = None,
        counts_only: bool = False,
    ) -> None:
        self.device, self._scored_in = device, scored_in
        self.may_compute = scored_in is None and not counts_only
        self._engine_name = engine
        self.found = find_model(settings.name, folder)
        settings = settings.model_copy(update={"name": self.found.name})
        self.folder = self.found.folder
        remembered = None if state is None else _make_folder(state) / "weights.json"
        self.config = read_config(self.folder, weights=not counts_only)
        self.positions = count_positions(self.config, settings)
        say(list_lock_warnings(self.found))
        self.settings = settings = self._settle(settings)
        if self.may_compute:
            check_weights_fit(self.folder, settings, device)
        self.fingerprint = "" if counts_only else fingerprint_weights(self.folder, remembered)
        self.tokenizer = load_tokenizer(self.folder, settings, self.config)
        self._loaded: LanguageModel | None = None
        self._engine: Engine | None = None
        self._cluster = cluster if cluster is not None and self.may_compute and cluster.needs_ray(device) else None
        self._actors: Actors[Work, Computed] | None = None
        self._actors_tokens, self._actors_splits = 0, list[int]()
        self._inherited: dict[str, None] = {}

    def _settle(self, settings: ModelSettings) -> ModelSettings:
        """Return the settings that the device supports; unchanged if nothing is computed."""
        if not self.may_compute:
            return settings
        settings = choose_dtype(settings, self.device)
        check_device(settings, self.device)
        if self.packs:
            find_backend(settings.attention)
        return settings

    @property
    def loaded(self) -> LanguageModel:
        """Return the model with its weights, which are loaded on the first call."""
        if self._loaded is None:
            self._loaded = load_model(
                self.folder, self.settings, self.device, fingerprint=self.fingerprint, tokenizer=self.tokenizer
            )
        return self._loaded

    @property
    def engine(self) -> Engine:
        """Return the engine of this process."""
        if self._engine is None:
            self._engine = make_engine(self._engine_name, self.loaded, self.settings)
        return self._engine

    def map(self, works: Iterable[Work]) -> Iterator[Values]:
        """Yield the target ids and log-probabilities of each task, in order; each task is a batch of its own.

        One device computes in this process, while a thread tokenises the next tasks; several compute in an actor each.

        Raises:
            UserError: all scores should be stored already, and one is missing.
            ValueError: the model only counts tokens.
        """
        if not self.may_compute:
            for _ in works:
                self._refuse()
            return
        if self._cluster is None:
            for first in (rest := iter(works)):
                engine = self.engine  # loaded before a thread begins, so that no two import a library at once
                with closing(make_ahead(chain([first], rest), self.tokenizer)) as prepared:
                    for work in prepared:
                        yield score_inputs(work.items, engine)
            return
        if self._actors is None:
            orders = ScoringOrders(self.folder, self.settings, self._engine_name, self.fingerprint)
            self._actors = Actors(self._cluster, orders, self.device, at_once=AT_ONCE)
        for computed in self._actors.map(works):
            self._actors_tokens += computed.tokens
            self._actors_splits += computed.splits
            yield computed.values

    def _refuse(self) -> NoReturn:
        if self._scored_in is None:
            raise ValueError("this model only counts tokens")
        raise UserError("a score is missing in all shards", "run them again with --overwrite", self._scored_in)

    @property
    def devices(self) -> list[str]:
        """Return the device of each process on this machine."""
        return [self.device] if self._cluster is None else self._cluster.list_devices(self.device)

    def count_actors(self) -> Crew | None:
        """Return the number of processes and machines that compute; None if it is this process."""
        return None if self._actors is None else self._actors.count()

    def close(self) -> None:
        """End the actors."""
        if self._actors is not None:
            self._actors.close()

    def unload(self) -> None:
        """Free the memory of the weights; incidents are kept."""
        self.inherit(self.list_incidents())
        self.close()
        self._actors, self._engine, self._loaded = None, None, None
        self._actors_tokens, self._actors_splits = 0, []

    @property
    def tokens(self) -> int:
        """Return the number of tokens that were computed so far."""
        return self._actors_tokens + (0 if self._engine is None else self._engine.tokens)

    def inherit(self, incidents: Iterable[str]) -> None:
        """Add the incidents of stored scores that are used."""
        self._inherited.update(dict.fromkeys(incidents))

    def list_incidents(self) -> list[str]:
        """Return the incidents that may have changed last digits: smaller calls for lack of memory and lost actors."""
        splits = self._actors_splits + ([] if self._engine is None else self._engine.splits)
        deaths = [] if self._actors is None else self._actors.deaths
        found = [
            *self._inherited,
            *(f"memory was short: from here on at most {tokens} tokens a call" for tokens in splits),
            *(f"a process ended and its batches were computed again: {death}" for death in deaths),
        ]
        return list(dict.fromkeys(found))

    @property
    def packs(self) -> bool:
        """Return True if inputs are computed together, so that last digits depend on the batch."""
        return self._engine_name == "packed"

    @property
    def batch_tokens(self) -> int:
        """Return the number of tokens of a batch; 1 if each input is computed alone."""
        return self.settings.pack_tokens if self.packs else 1

    def make_batch_key(self, key: str, *digests: str) -> str:
        """Return the store's key of a result of these batches; ``key`` itself if last digits do not depend on them."""
        return make_key("batched", {"key": key, "batches": digests}) if self.packs else key

    def check_length(self, tokens: int, field: str) -> None:
        """Raise UserError if the profile permits longer inputs than the model supports."""
        if self.positions is not None and tokens > self.positions:
            raise UserError(
                f"{field} is {tokens} tokens, but {self.settings.name} reads at most {self.positions}",
                f'lower {field} in the profile, or give the model more: positions = "extended" or "yarn" in [model]',
            )

    def identify(self) -> dict[str, Any]:
        """Return the hash of the weights, the paper's fingerprints of the metadata files, and the dtype."""
        return {
            "weights": self.fingerprint,
            "metadata": fingerprint_metadata(self.folder),
            "dtype": self.settings.dtype,
            **self._describe_positions(),
        }

    def list_key_parts(self) -> dict[str, Any]:
        """Return the fields of the model that are part of the store's keys.

        ``head_rows`` is left out, since it only bounds memory.
        """
        return {
            "model": self.fingerprint,
            "tokenizer": self.settings.tokenizer,
            "dtype": self.settings.dtype,
            "attention": self.settings.attention,
            "device": self.device,
            **self._describe_positions(),
            **({"engine": "packed", "pack_tokens": self.settings.pack_tokens} if self.packs else {}),
        }

    def _describe_positions(self) -> dict[str, Any]:
        """Return the position rule; nothing for the published positions, so that older entries keep their keys."""
        if self.settings.positions == PUBLISHED:
            return {}
        return {"positions": [self.settings.positions, self.settings.position_factor]}


def _make_folder(folder: Path) -> Path:
    """Create the state folder if it is missing, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"cannot write the state: {e.strerror}", "choose another --state folder", folder) from e
    return folder
