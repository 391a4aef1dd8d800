"""What does not fit in the memory of a device is refused, with the names of the profiles that would."""

from pathlib import Path
from typing import Literal

from pan_scdg import resources
from pan_scdg.errors import UserError
from pan_scdg.models.capacity import encoder_bytes
from pan_scdg.models.catalogue import CATALOGUE, size_in_words
from pan_scdg.models.devices import in_words
from pan_scdg.models.listing import needs_of
from pan_scdg.profile import Profile, load_profile, shipped_profiles

Job = Literal["pairs", "retrieval", "first stage"]
ROOM = 0.8
"""Largest share of a memory that the weights of a profile may take for it to be named: passes need some, too."""


def refuse_larger(least: int, what: str, device: str, job: Job) -> None:
    """Raise UserError if what takes at least so many bytes exceeds all the memory of a device.

    Args:
        least: bytes.
        what: for the message.
        device: must be there.
        job: what the profiles that are named can do, too.
    """
    if least <= (there := memory_of(device)):
        return
    fitting = profiles_that_fit(job, there, device)
    remedy = f"choose a profile that would fit ({', '.join(fitting)})" if fitting else "take a machine with more memory"
    raise UserError(
        f"{what} takes at least {size_in_words(least)}, and {held_by(device)}",
        f"{remedy}, or another device" if fitting else remedy,
    )


def check_encoder_fits(name: str, folder: Path, device: str, job: Job = "first stage") -> None:
    """The same for the weights of an embedding model, which is gone when a language model comes."""
    dtype = "float32" if device == "cpu" else "bfloat16"
    refuse_larger(encoder_bytes(folder, dtype), f"{name} in {dtype}", device, job)


def profiles_that_fit(job: Job, memory: int, device: str) -> list[str]:
    """The shipped profiles for a job whose models take at most ``ROOM`` of ``memory`` bytes, the largest first.

    Sizes are those of `models.catalogue`; models that come along are small.
    """
    sizes = {name: _size(profile, device) for name in shipped_profiles() if _does(profile := load_profile(name), job)}
    return sorted((name for name in sizes if sizes[name] <= ROOM * memory), key=lambda name: (-sizes[name], name))


def memory_of(device: str) -> int:
    """Bytes of all the memory of a device, whoever uses it now; of a CPU what this process may use."""
    if device == "cpu":
        return resources.memory()
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)


def held_by(device: str) -> str:
    """The memory of a device in words."""
    whose = "this process may use" if device == "cpu" else f"{in_words(device)} has"
    return f"{whose} {size_in_words(memory_of(device))}"


def _does(profile: Profile, job: Job) -> bool:
    if job == "pairs":
        return profile.pairs is not None
    return profile.retrieval is not None and (job == "first stage" or profile.retrieval.rerank)


def _size(profile: Profile, device: str) -> int:
    """Bytes of the larger model: the encoder is gone when the language model comes."""
    needs = needs_of(profile)
    known = {name: CATALOGUE[name].size for name in needs.models if name in CATALOGUE}
    if device == "cpu" and needs.encoder in known:
        known[needs.encoder] *= 2  # in float32
    return max(known.values(), default=0)
