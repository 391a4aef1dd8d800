"""Whether a profile can run where it is started: device, threads and memory, before anything is read in full.

Nothing here decides what is computed together: that is a function of input and profile alone (`lm.packing`).
"""

from pathlib import Path

from pan_scdg import resources
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.capacity import pass_bytes, weight_bytes
from pan_scdg.models.catalogue import size_in_words
from pan_scdg.models.checkpoint import read_config
from pan_scdg.models.device_memory import Job, held_by, memory_of, refuse_larger
from pan_scdg.models.devices import best_device, seen_gpus
from pan_scdg.models.listing import needs_of
from pan_scdg.profile import ModelSettings, Profile

SEARCH_MEMORY, SEARCH_SHARE = 1024, 4
"""MiB of a dense search, and the part of the memory (one of so many) that it takes where this is less."""


def choose_device(profile: Profile, wanted: str) -> str:
    """The device of a profile's models, "cpu" or "cuda"; threads are no more than this process has cores.

    Args:
        profile: one without any model needs no GPU, whatever is there.
        wanted: "auto": a GPU, and the CPU where no GPU is visible; otherwise the device itself.

    Raises:
        UserError: it is not there or cannot be used, or "auto" finds no GPU for a profile that needs one.
    """
    resources.limit_threads()
    if wanted == "auto" and not needs_of(profile).models:
        return "cpu"
    device = best_device(wanted)
    if wanted != "auto" or device != "cpu":
        return device
    seen = seen_gpus()
    if profile.needs_gpu:
        raise UserError(
            f"profile {profile.name} needs a GPU and none is visible{seen.why_not}",
            "run it on a machine with a GPU (in a container: docker run --gpus all), choose the profile offline, or "
            "insist on the CPU with --device cpu",
        )
    if seen.nodes and seen.hidden_by is None:
        say([f"note: no GPU is visible{seen.why_not}; computing on the CPU"])
    return device


def search_memory() -> int:
    """MiB for a dense search, which its result does not depend on: less where memory is limited."""
    return max(64, min(SEARCH_MEMORY, resources.memory() // SEARCH_SHARE >> 20))


def check_weights_fit(folder: Path, settings: ModelSettings, device: str, job: Job) -> None:
    """Check that the memory of a device can hold a language model at all: its weights and a pass over one token.

    Args:
        folder: the checkpoint.
        settings: with the dtype that the device computes in.
        device: "cpu" or "cuda".
        job: what the profiles that an error names can do, too.

    Raises:
        UserError: it cannot, with the profiles that would fit; or the config or the weights are damaged.
    """
    config = read_config(folder)
    least = weight_bytes(folder, settings.dtype, config) + pass_bytes(config, settings, device, tokens=1)
    refuse_larger(least, f"{settings.name} in {settings.dtype}", device, job)


def explain_lack_of_memory(folder: Path, settings: ModelSettings, device: str, tokens: int) -> str | None:
    """Return why a pass over ``tokens`` certainly does not fit beside the weights, in words; None: it may fit."""
    config = read_config(folder)
    weights = weight_bytes(folder, settings.dtype, config)
    least = pass_bytes(config, settings, device, tokens)
    if weights + least <= memory_of(device):
        return None
    return f"{size_in_words(least)} beside {size_in_words(weights)} of weights, and {held_by(device)}"
