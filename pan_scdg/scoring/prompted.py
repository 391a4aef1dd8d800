"""The prompted baseline with a checkpoint of this machine."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pan_scdg.baselines.answers import Answerer, Complete
from pan_scdg.baselines.judge import PromptJudge
from pan_scdg.baselines.local_instruct import LocalInstruct
from pan_scdg.errors import UserError
from pan_scdg.profile import ModelSettings
from pan_scdg.profile.baseline import Prompted
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def instruct_model(
    settings: Prompted, device: str, folder: Path | None = None, state: Path | None = None
) -> ScoringModel:
    """The checkpoint of a local judge: bfloat16 where the device has it, as instruction-tuned models are published.

    Raises:
        UserError: it is missing or incomplete, its name is none of a folder, or the device cannot compute with it.
    """
    if not _FOLDER.fullmatch(settings.model):
        raise UserError(
            f"baseline.model {settings.model} is no name of a folder in the model cache",
            'name the folder, without its owner, or write served = "endpoint"',
        )
    chosen = ModelSettings(name=settings.model, dtype="bfloat16", dtype_without_bf16="float32")
    return ScoringModel(chosen, device, folder=folder, state=state)


def identity_of(model: ScoringModel) -> dict[str, Any]:
    """What answers of the checkpoint depend on besides the chat."""
    return {
        "served": "local",
        "weights": model.fingerprint,
        "dtype": model.settings.dtype,
        "device": model.device,
    }


def local_judge(model: ScoringModel) -> Callable[[Prompted, Store], PromptJudge]:
    """Makes the judge; the weights are loaded when the first question is asked that has no stored answer."""

    def judge(settings: Prompted, store: Store) -> PromptJudge:
        return PromptJudge(settings, Answerer(identity_of(model), lambda: _complete(model), side_by_side=1), store)

    return judge


def _complete(model: ScoringModel) -> Complete:
    loaded = model.loaded
    return LocalInstruct(loaded.model, loaded.tokenizer, loaded.name, loaded.positions).complete
