"""Keep the tokens of checked pairs in a temporary file until they are scored, so that each is tokenised once."""

from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numpy as np

from pan_scdg.scdg.sequences import Passes, ScoringInput

MOST = 64 << 20
"""Tokens of a spool, of 4 bytes each; the pairs behind them are tokenised again when they are scored."""


class KeptPair(NamedTuple):
    """The place of a pair's tokens in a spool."""

    file: IO[bytes]
    offset: int
    """In bytes."""
    context: int
    """Number of tokens in front of the target."""
    target: int

    def read(self) -> Passes:
        """Return both inputs of the pair."""
        self.file.seek(self.offset)
        ids = np.frombuffer(self.file.read(4 * (1 + self.context + self.target)), np.int32).astype(np.int64)
        target = ids[1 + self.context :]
        return Passes(ScoringInput(ids[:1], target), ScoringInput(ids[1 : 1 + self.context], target))


class TokenSpool:
    """A temporary file of token ids, which exists as long as a pair of it is known."""

    def __init__(self, most: int = MOST) -> None:
        self._file, self._end, self._left = TemporaryFile(prefix="pan_scdg-tokens-"), 0, most  # noqa: SIM115

    def keep(self, passes: Passes) -> KeptPair | None:
        """Write the inputs of a pair and return their place; None if the spool is full."""
        item = passes.conditional
        if item.length + 1 > self._left:
            return None
        ids = np.concatenate([passes.unconditional.context_ids, item.context_ids, item.target_ids])
        if len(passes.unconditional.context_ids) != 1 or ids.max() > np.iinfo(np.int32).max:
            raise ValueError("a pair has one token of context without its source, and ids of 32 bits")
        kept = KeptPair(self._file, self._end, len(item.context_ids), len(item.target_ids))
        self._file.seek(self._end)
        self._file.write(ids.astype(np.int32).tobytes())
        self._end += 4 * len(ids)
        self._left -= len(ids)
        return kept
