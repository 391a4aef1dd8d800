"""Choose the device of a profile, and refuse a model that certainly does not fit in the device's memory.

Nothing here decides which inputs are computed together: that depends on input and profile alone (`lm.packing`).
"""

from pathlib import Path
from typing import Literal

from pan_scdg import resources
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.catalogue import CATALOGUE, describe_size
from pan_scdg.models.config import read_config
from pan_scdg.models.devices import look_for_gpus, resolve_device
from pan_scdg.models.encoder_folder import count_encoder_bytes
from pan_scdg.models.memory import (
    count_pass_bytes,
    count_weight_bytes,
    describe_memory,
    measure_memory,
)
from pan_scdg.models.needs import find_needs
from pan_scdg.profile import ModelSettings, Profile, list_profiles, load_profile

SEARCH_MIB, SEARCH_SHARE = 1024, 4
"""MiB of a dense search; on a small machine one part in ``SEARCH_SHARE`` of the memory."""
LARGEST_SHARE = 0.8
"""A profile is suggested only if its weights take at most this share of a memory: forward passes need some too."""
Job = Literal["pairs", "retrieval", "first stage"]


def choose_device(profile: Profile, wanted: str) -> str:
    """Return the device of a profile's models, "cpu" or "cuda", and limit threads to the cores of this process.

    A profile without any model needs no GPU.

    Raises:
        UserError: the device is missing or unusable, or "auto" finds no GPU for a profile that needs one.
    """
    resources.limit_threads()
    if wanted == "auto" and not find_needs(profile).models:
        return "cpu"
    device = resolve_device(wanted)
    if wanted != "auto" or device != "cpu":
        return device
    seen = look_for_gpus()
    if profile.needs_gpu:
        raise UserError(
            f"profile {profile.name} needs a GPU and none is visible{seen.why_not}",
            "run it on a machine with a GPU (in a container: docker run --gpus all), choose the profile offline, or "
            "use the device cpu",
        )
    if seen.nodes and seen.hidden_by is None:
        say([f"note: no GPU is visible{seen.why_not}; computing on the CPU"])
    return device


def choose_search_memory() -> int:
    """Return the MiB for a dense search; the result of the search does not depend on it."""
    return max(64, min(SEARCH_MIB, resources.measure_memory() // SEARCH_SHARE >> 20))


def check_weights_fit(folder: Path, settings: ModelSettings, device: str, job: Job) -> None:
    """Raise UserError if a device's memory cannot hold a language model and a forward pass over one token.

    Raises:
        UserError: it cannot, with the profiles that would fit; or the config or the weights are damaged.
    """
    config = read_config(folder)
    least = count_weight_bytes(folder, settings.dtype, config) + count_pass_bytes(config, settings, device, tokens=1)
    _refuse_larger(least, f"{settings.name} in {settings.dtype}", device, job)


def check_encoder_fits(name: str, folder: Path, device: str, job: Job = "first stage") -> None:
    """Raise UserError if a device's memory cannot hold an embedding model; see `check_weights_fit`."""
    dtype = "float32" if device == "cpu" else "bfloat16"
    _refuse_larger(count_encoder_bytes(folder, dtype), f"{name} in {dtype}", device, job)


def explain_lack_of_memory(folder: Path, settings: ModelSettings, device: str, tokens: int) -> str | None:
    """Return the reason why a forward pass over ``tokens`` cannot fit beside the weights; None if it may fit."""
    config = read_config(folder)
    weights = count_weight_bytes(folder, settings.dtype, config)
    least = count_pass_bytes(config, settings, device, tokens)
    if weights + least <= measure_memory(device):
        return None
    return f"{describe_size(least)} beside {describe_size(weights)} of weights, and {describe_memory(device)}"


def list_fitting_profiles(job: Job, memory: int, device: str) -> list[str]:
    """Return the bundled profiles for a job whose models take at most ``LARGEST_SHARE`` of a memory, largest first.

    Sizes are those of `models.catalogue`; bundled models are small.
    """
    profiles = [load_profile(name) for name in list_profiles()]
    sizes = {profile.name: _estimate_size(profile, device) for profile in profiles if _can_do(profile, job)}
    fitting = [name for name in sizes if sizes[name] <= LARGEST_SHARE * memory]
    return sorted(fitting, key=lambda name: (-sizes[name], name))


def _refuse_larger(least: int, what: str, device: str, job: Job) -> None:
    """Raise UserError if ``least`` bytes exceed all memory of a device."""
    if least <= (memory := measure_memory(device)):
        return
    fitting, remedy = list_fitting_profiles(job, memory, device), "use a machine with more memory"
    if fitting:
        remedy = f"choose a profile that would fit ({', '.join(fitting)}), or another device"
    raise UserError(f"{what} takes at least {describe_size(least)}, and {describe_memory(device)}", remedy)


def _can_do(profile: Profile, job: Job) -> bool:
    if job == "pairs":
        return profile.pairs is not None
    return profile.retrieval is not None and (job == "first stage" or profile.retrieval.rerank)


def _estimate_size(profile: Profile, device: str) -> int:
    """Return the bytes of the larger model: the encoder is released before the language model is loaded."""
    needs = find_needs(profile)
    sizes = {name: CATALOGUE[name].size for name in needs.models if name in CATALOGUE}
    if device == "cpu":
        sizes |= {name: 2 * sizes[name] for name in needs.encoders if name in sizes}  # in float32
    return max(sizes.values(), default=0)
