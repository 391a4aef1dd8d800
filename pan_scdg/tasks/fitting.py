"""Whether a profile can run where it is started: device, threads and memory, before anything is read in full.

Nothing here decides what is computed together: that is a function of input and profile alone (`lm.packing`).
"""

from collections.abc import Sequence

from pan_scdg import resources
from pan_scdg.errors import UserError
from pan_scdg.lm.capacity import pass_bytes, weight_bytes
from pan_scdg.lm.checkpoint import read_config, settled
from pan_scdg.lm.devices import best_device, seen_gpus
from pan_scdg.model_catalogue import size_in_words
from pan_scdg.profile import Profile
from pan_scdg.tasks.device_memory import Job, held_by, memory_of, refuse_larger
from pan_scdg.tasks.model_at_hand import ModelAtHand
from pan_scdg.tasks.model_config import check_fields
from pan_scdg.tasks.model_list import needs_of
from pan_scdg.tasks.model_places import place_of_model, say
from pan_scdg.tasks.options import RunOptions
from pan_scdg.tasks.pair_plan import PlannedPair

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


def check_fits(profile: Profile, job: Job, options: RunOptions) -> None:
    """Raise UserError when the language model cannot fit in the memory of its device, naming profiles that would.

    What it takes at least is its weights and the pass over one token; see `lm.capacity`.

    Args:
        profile: has a model.
        job: what the profiles that are named can do, too.
        options: where the model is looked for, and its device.

    Raises:
        UserError: also where there is no model, or its config or weights are damaged.
    """
    if options.shards is not None:  # nothing is computed
        return
    folder = place_of_model(profile.need_model().name, options.model).folder
    config = read_config(folder)
    check_fields(config, folder)
    settings = settled(profile.need_model(), options.device)
    least = weight_bytes(folder, settings.dtype, config) + pass_bytes(config, settings, options.device, tokens=1)
    refuse_larger(least, f"{settings.name} in {settings.dtype}", options.device, job)


def check_longest(planned: Sequence[PlannedPair], model: ModelAtHand) -> None:
    """Raise UserError when the longest pair that is scored as a whole cannot fit beside the weights."""
    whole = [plan for plan in planned if plan.mode == "whole"]
    if not whole:
        return
    longest, config = max(whole, key=lambda plan: plan.tokens), read_config(model.folder)
    weights = weight_bytes(model.folder, model.settings.dtype, config)
    least = pass_bytes(config, model.settings, model.device, longest.tokens)
    if weights + least > memory_of(model.device):
        sizes = f"{size_in_words(least)} beside {size_in_words(weights)} of weights, and {held_by(model.device)}"
        raise UserError(
            f"with {longest.pair.source.doc_id} as source: {longest.tokens} tokens take at least {sizes}",
            "use --over-long segments with a smaller limit in the profile, or a device with more memory",
            longest.pair.suspicious.path,
        )
