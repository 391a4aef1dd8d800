"""The language model of a run: known and checked at once, its weights loaded when something is to be scored."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.lm.attention import backend_of
from pan_scdg.lm.engine import Engine, EngineName, engine_of
from pan_scdg.lm.worker import Values, Work
from pan_scdg.lm.workers import Workers
from pan_scdg.logs import say
from pan_scdg.models.config import read_config
from pan_scdg.models.devices import check_device, choose_dtype
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_metadata, fingerprint_weights
from pan_scdg.models.fit import Job, check_weights_fit
from pan_scdg.models.load import LanguageModel, load_model, load_tokenizer
from pan_scdg.models.lock import read_provenance
from pan_scdg.profile import ModelSettings
from pan_scdg.store import key_of


class ScoringModel:
    """A checkpoint folder whose fingerprint and tokenizer are there at once and whose weights load when first needed.

    Args:
        settings: the profile's.
        device: "cpu" or "cuda".
        folder: where the checkpoint lies; None: in the model cache or the Hugging Face cache.
        engine: how passes are computed; see `lm.engine`.
        workers: processes that score side by side; None: one a GPU. No result depends on it.
        state: weights' digests are remembered in this folder; None: nowhere.
        job: what the profiles that an error names can do, too.
        scored_in: the folder that every score was stored in, with these ``settings``: nothing may be computed, and
            neither the device nor memory for the weights has to be there. None: scores are computed.

    Raises:
        UserError: the folder is missing or incomplete, the device cannot do what the profile asks, or its memory
            certainly cannot hold the weights.
    """

    def __init__(
        self,
        settings: ModelSettings,
        device: str,
        *,
        folder: Path | None = None,
        engine: EngineName = "packed",
        workers: int | None = None,
        state: Path | None = None,
        job: Job = "pairs",
        scored_in: Path | None = None,
    ) -> None:
        self.device, self._scored_in = device, scored_in
        self._engine_name = engine
        self.found = find_model(settings.name, folder)
        settings = settings.model_copy(update={"name": self.found.name})
        self.folder = self.found.folder
        remembered = None if state is None else _made(state) / "weights.json"
        self.positions = read_config(self.folder).positions
        say(read_provenance(self.found).warnings)
        self.settings = settings = self._usable(settings)
        if self.may_compute:
            check_weights_fit(self.folder, settings, device, job)
        self.fingerprint = fingerprint_weights(self.folder, remembered)
        self.tokenizer = load_tokenizer(self.folder, settings)
        self._loaded: LanguageModel | None = None
        self._engine: Engine | None = None
        self.devices = list_devices(device, workers)
        self._workers: Workers | None = None
        self._inherited: dict[str, None] = {}

    @property
    def may_compute(self) -> bool:
        """Return False if every score has to be stored already."""
        return self._scored_in is None

    def _usable(self, settings: ModelSettings) -> ModelSettings:
        """The settings as the device can do them; where nothing is computed it need not be there."""
        if not self.may_compute:
            return settings
        settings = choose_dtype(settings, self.device)
        check_device(settings, self.device)
        if self.packs:
            backend_of(settings.attention)
        return settings

    @property
    def loaded(self) -> LanguageModel:
        """The model with its weights."""
        if self._loaded is None:
            self._loaded = load_model(self.folder, self.settings, self.device, fingerprint=self.fingerprint)
        return self._loaded

    @property
    def engine(self) -> Engine:
        """What computes log-probabilities in this process."""
        if self._engine is None:
            self._engine = engine_of(self._engine_name, self.loaded, self.settings)
        return self._engine

    def map(self, works: Iterable[Work]) -> Iterator[Values]:
        """Ids and log-probabilities of what each work asks for, in order; each work is computed by itself.

        With one device it is done here, otherwise by a process for each.

        Raises:
            UserError: it may not compute, for every score should have been stored.
        """
        if self._scored_in is not None:
            for _ in works:
                raise UserError("a score is in none of the shards", "run them again", self._scored_in)
            return
        if len(self.devices) == 1:
            for work in works:
                items = work.inputs(self.tokenizer)
                values = self.engine.log_probs(items)
                yield [(item.target_ids, found) for item, found in zip(items, values, strict=True)]
            return
        if self._workers is None:
            self._workers = Workers(self.folder, self.settings, self._engine_name, self.devices, self.fingerprint)
        yield from self._workers.map(works)

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()

    @property
    def tokens(self) -> int:
        """Tokens that went through the model so far."""
        return sum(computer.tokens for computer in (self._engine, self._workers) if computer is not None)

    def inherit(self, incidents: Iterable[str]) -> None:
        """Tell also of what happened when a stored number that is used now was computed."""
        self._inherited.update(dict.fromkeys(incidents))

    def incidents(self) -> list[str]:
        """What went otherwise than planned: smaller calls for want of memory, workers that were replaced."""
        splits = [
            split for computer in (self._engine, self._workers) if computer is not None for split in computer.splits
        ]
        deaths = [] if self._workers is None else self._workers.deaths
        found = [
            *self._inherited,
            *(f"memory was short: from here on at most {split['pack_tokens']} tokens a call" for split in splits),
            *(f"a worker ended and was replaced: {death}" for death in deaths),
        ]
        return list(dict.fromkeys(found))

    @property
    def packs(self) -> bool:
        """Whether inputs are computed together, so that the last digits depend on which."""
        return self._engine_name == "packed"

    @property
    def batch_tokens(self) -> int:
        """About how many tokens are computed together; 1: each input alone."""
        return self.settings.pack_tokens if self.packs else 1

    def batched(self, key: str, *digests: str) -> str:
        """The store's key of something that was computed in these batches, where a batch moves its last digits."""
        return key_of("batched", {"key": key, "batches": digests}) if self.packs else key

    def check_length(self, tokens: int, field: str) -> None:
        """Raise UserError when the profile permits inputs that the model cannot read."""
        if self.positions is not None and tokens > self.positions:
            raise UserError(
                f"{field} is {tokens} tokens, but {self.settings.name} reads at most {self.positions}",
                f"lower {field} in the profile",
            )

    def identity(self) -> dict[str, Any]:
        """The fingerprint of the weights' bytes, the paper's fingerprints of the metadata files, and the dtype."""
        return {
            "weights": self.fingerprint,
            "metadata": fingerprint_metadata(self.folder),
            "dtype": self.settings.dtype,
        }

    def key_parts(self) -> dict[str, Any]:
        """What every stored score depends on, on the side of the model. ``head_rows`` is not among it: it bounds
        memory and changes no result."""
        return {
            "model": self.fingerprint,
            "tokenizer": self.settings.tokenizer,
            "dtype": self.settings.dtype,
            "attention": self.settings.attention,
            "device": self.device,
            **({"engine": "packed", "pack_tokens": self.settings.pack_tokens} if self.packs else {}),
        }


def list_devices(device: str, workers: int | None) -> list[str]:
    """A device for each process: every GPU there is for "cuda", unless ``workers`` says how many.

    Raises:
        UserError: there are fewer GPUs.
    """
    if device != "cuda":
        return [device] * (workers or 1)
    import torch

    count = torch.cuda.device_count()
    if workers is not None and workers > count:
        raise UserError(f"{workers} workers for {count} GPUs", "lower --workers")
    return [f"cuda:{number}" for number in range(workers or count)] if (workers or count) > 1 else [device]


def _made(folder: Path) -> Path:
    """The state folder, made when missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"cannot write the state: {e.strerror}", "choose another --state folder", folder) from e
    return folder
