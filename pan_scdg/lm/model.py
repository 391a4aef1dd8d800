"""A frozen language model that scores token ids: found at once, loaded when something is scored."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pan_scdg.errors import UserError
from pan_scdg.lm.attention import find_backend
from pan_scdg.models.checkpoint import PUBLISHED, count_positions, read_config
from pan_scdg.models.devices import are_calls_halved, check_device, choose_dtype, limit_call
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_metadata, fingerprint_weights
from pan_scdg.models.load import load_model, load_tokenizer
from pan_scdg.records import Identity
from pan_scdg.results.job import ONE_AT_A_TIME
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import EngineName, ModelSettings

if TYPE_CHECKING:
    from pan_scdg.lm.engine import Engine, GroupResult
    from pan_scdg.lm.logprobs import LogProbs


class ScoringModel:
    """A checkpoint with its tokenizer, whose weights are loaded by the first call of `compute_log_probs`.

    Args:
        settings: the model of the profile.
        device: "cpu" or "cuda".
        folder: the checkpoint; None: found by its name in the model cache or the Hugging Face cache.
        engine: "packed" computes inputs together, "reference" one at a time; None: packed if the model can be.
        raw_text: special tokens that a text spells are special tokens.

    Raises:
        UserError: the checkpoint is missing or incomplete, or the device cannot compute with the settings.
    """

    def __init__(
        self,
        settings: ModelSettings,
        device: str,
        *,
        folder: Path | None = None,
        engine: EngineName | None = None,
        raw_text: bool = False,
    ) -> None:
        self.device, self._engine_name = device, engine
        self.found = find_model(settings.name, folder)
        self.folder = self.found.folder
        config = read_config(self.folder)
        self.settings = choose_dtype(settings.model_copy(update={"name": self.found.name}), device)
        self.positions = count_positions(config, self.settings)
        """Longest input in tokens; None: the checkpoint names no limit."""
        check_device(self.settings, device)
        if engine != "reference":
            find_backend(self.settings.attention)
        self.tokenizer = load_tokenizer(self.folder, self.settings, config, raw_text=raw_text)
        self._engine: Engine | None = None
        self._taken_incidents = 0

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of weights, config and tokenizer."""
        return fingerprint_weights(self.folder)

    def identify(self) -> Identity:
        """Return the fields of ``job.json``: fingerprint, the paper's hashes of metadata files, dtype and positions."""
        positions = [self.settings.positions, self.settings.position_factor]
        return {
            "weights": self.fingerprint,
            "metadata": fingerprint_metadata(self.folder),
            "dtype": self.settings.dtype,
            **({} if self.settings.positions == PUBLISHED else {"positions": positions}),
        }

    def check_length(self, tokens: int, field: str) -> None:
        """Raise UserError if a field of the profile permits longer inputs than the model supports."""
        if self.positions is not None and tokens > self.positions:
            raise UserError(
                f"{field} is {tokens} tokens, but {self.settings.name} reads at most {self.positions}",
                f'lower {field} in the profile, or give the model more: positions = "extended" or "yarn" in [model]',
            )

    def compute_log_probs(self, inputs: Sequence[ScoringInput]) -> "list[LogProbs]":
        """Return the log-probability in nats of each target token given all before it, float32 ``[n]`` for each input.

        The inputs of a call are computed together, so that last digits depend on all of them.

        Raises:
            UserError: the weights cannot be loaded or packed, an input is too long for the positions or the memory, or
                a number is not finite.
        """
        return next(self.compute_groups(inputs, [range(len(inputs))]))[1] if inputs else []

    def compute_groups(
        self, inputs: Sequence[ScoringInput], groups: Sequence[Sequence[int]]
    ) -> "Iterator[GroupResult]":
        """Yield the number of each group with its log-probabilities, as soon as they are computed; see `Engine`."""
        if self._engine is None:
            from pan_scdg.lm.engine import make_engine

            lm = load_model(
                self.folder,
                self.settings,
                self.device,
                fingerprint=self.fingerprint,
                tokenizer=self.tokenizer,
                fused_norms=self._engine_name != "reference",
            )
            limited = self.settings.model_copy(update={"pack_tokens": limit_call(self.settings.pack_tokens)})
            self._engine = make_engine(self._engine_name, lm, limited)
        yield from self._engine.compute_groups(inputs, groups)

    @property
    def incidents(self) -> list[str]:
        """Return what may have changed last digits: one input at a time, another attention, or smaller calls."""
        if self._engine is None:
            return []
        attention, reason = self._engine.attention, self._engine.reason
        replaced = attention not in (None, self.settings.attention)
        return [
            *([] if reason is None else [f"{ONE_AT_A_TIME}: {reason}"]),
            *(
                [f"the device failed: from here on at most {limit_call(self.settings.pack_tokens)} tokens a call"]
                if are_calls_halved()
                else []
            ),
            *([f"attention {self.settings.attention} was replaced by {attention}"] if replaced else []),
            *(
                f"memory was short: from here on at most {tokens} tokens a call"
                for tokens in dict.fromkeys(self._engine.splits)
            ),
        ]

    def take_incidents(self) -> tuple[str, ...]:
        """Return the incidents since the last call, also of computations that failed."""
        incidents = tuple(self.incidents[self._taken_incidents :])
        self._taken_incidents += len(incidents)
        return incidents
