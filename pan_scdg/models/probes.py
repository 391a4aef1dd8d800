"""Whether a tokenizer is the one that a profile was made for: known texts must give known ids."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.scdg.sequences import Tokenizer


def check_probes(tokenizer: Tokenizer, probes: Mapping[str, Sequence[int]], folder: Path) -> None:
    """Raise UserError for the first text that the tokenizer of ``folder`` gives other ids than the probes say.

    A vocabulary of another family, or a pre-tokenizer that was replaced on loading, changes every score and breaks
    nothing, so nothing else would notice it.
    """
    for text, expected in probes.items():
        found = list(tokenizer.encode(text, add_special_tokens=False))
        if found != list(expected):
            raise UserError(
                f"the tokenizer gives {text!r} the ids {found} and the profile expects {list(expected)}",
                "use the tokenizer files that were published with the checkpoint",
                folder,
            )
