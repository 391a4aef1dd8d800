"""Methods that score a pair of texts, one file each.

A method measures numbers. Its table in the profile makes one score of them (`profile.MethodSettings`), and
what decides, writes and calibrates is the same for all methods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.models.find import FoundModel
from pan_scdg.profile import Profile
from pan_scdg.records import Passage, TextPair
from pan_scdg.scdg.aggregation import Floats

if TYPE_CHECKING:
    from pan_scdg.lm.engine import EngineName
    from pan_scdg.methods.bm25 import Statistics


METHODS = {
    "gains": "gains:GainMethod",
    "alignment": "alignment:AlignmentMethod",
    "containment": "containment:ContainmentMethod",
    "char-ngrams": "char_ngrams:CharNgramMethod",
    "gram-logistic": "containment:GramLogisticMethod",
    "bm25": "bm25:Bm25Method",
    "cosine": "cosine:CosineMethod",
    "vectors": "vectors:VectorMethod",
    "prompt": "prompts:PromptMethod",
}
"""Module and class of each method; ``open(profile, options, statistics)`` makes it."""


UNKNOWN_SCRIPT = "the embedding model does not know the script"
"""Begins a warning: to such a model all texts in that script are alike."""


class Score(NamedTuple):
    """The numbers that a method measured on a pair."""

    values: dict[str, float]
    """By name; ``score`` for a method that measures one number."""
    warnings: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    """Events that may have changed the last digits, such as a lack of memory."""
    gains: Floats | None = None
    """Gain of each token of the target, ``[n]`` nats; None unless they are kept."""
    offsets: npt.NDArray[np.int64] | None = None
    """First character of each token in the target, and the one after its last, ``[n, 2]``."""


class Method(Protocol):
    """Scores pairs of texts; models are found when it is made and loaded when it scores."""

    @property
    def models(self) -> Mapping[str, FoundModel]:
        """Return the models that it uses, by their names in ``job.json``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the model that the scores depend on; empty without one."""
        ...

    def identify(self) -> dict[str, Any]:
        """Return the fields of ``job.json`` that identify the models."""
        ...

    def check(self, pair: TextPair) -> None:
        """Raise UserError if a pair cannot be scored; called for all pairs before the first is scored."""
        ...

    def score(self, pairs: Sequence[TextPair]) -> list[Score]:
        """Return the scores of a batch of pairs, in order."""
        ...

    def find_passages(self, pair: TextPair) -> tuple[Passage, ...]:
        """Return the passages of a positive pair, if the profile has no table ``[passages]``."""
        ...


@dataclass(frozen=True)
class MethodOptions:
    """Options of a command for all methods."""

    device: str = "cpu"
    """"cpu" or "cuda"."""
    model: Path | None = None
    """Folder of the language model; None: found by its name in the profile."""
    vectors: Path | None = None
    """Folder of document vectors, for the method ``vectors``."""
    engine: "EngineName" = "packed"
    keep_gains: bool = False
    """Return the gain of every token."""
    all_settings: bool = False
    """Measure what ``calibrate`` chooses from, for example all n of the grid."""


def open_method(profile: Profile, options: MethodOptions, statistics: "Statistics | None" = None) -> Method:
    """Return the method that decides the pairs of a profile.

    Args:
        profile: has a table ``[decide]``.
        options: device, folders and what is kept.
        statistics: of all sources of the input, for the method ``bm25``.

    Raises:
        UserError: a model or vectors are missing, or an option needs another method.
    """
    name = profile.need_decide().method
    unmet = {
        "--keep-gains needs a profile that decides by gains, such as scdg-mini": options.keep_gains and name != "gains",
        "a vectors folder needs a profile that reads vectors": options.vectors is not None and name != "vectors",
        "the engine reference needs a profile with gains": options.engine == "reference" and profile.gains is None,
        "a model folder needs a profile with a language model": options.model is not None
        and profile.gains is None
        and name != "prompt",
    }
    if needs := [need for need, is_unmet in unmet.items() if is_unmet]:
        raise UserError(needs[0], f"choose such a profile instead of {profile.name}, or leave it out")
    module, _, method = METHODS[name].partition(":")
    opened: Method = getattr(import_module(f"pan_scdg.methods.{module}"), method).open(profile, options, statistics)
    return opened


def cover_both(pair: TextPair) -> tuple[Passage, ...]:
    """Return one passage over both texts; none if either is empty, since evaluators fail on a feature of length 0."""
    if not pair.target or not pair.source:
        return ()
    return (Passage(0, len(pair.target), 0, len(pair.source)),)


def check_target(pair: TextPair) -> None:
    """Raise UserError if the suspicious document is empty."""
    if not pair.target.strip():
        raise UserError("the suspicious document is empty", "remove the pair", pair.target_id)
