"""Compute log-probabilities of many inputs: the default engine packs them and shares prefixes, the reference does not.

Both give the same numbers up to rounding (paper, Teacher-Forced Token Log Probabilities). The reference makes
exactly the paper's passes, one input per call. The default engine computes a context that several inputs share once,
puts as many tokens into a call as the budget allows, and computes logits for targets only.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from pan_scdg.lm.attention import (
    ATTENTION_NAME,
    FLASH_3,
    Packing,
    Spans,
    find_backend,
    reads_square,
    register_attention,
    use_flash_3,
)
from pan_scdg.lm.logprobs import (
    HEAD_ROWS,
    LogProbs,
    build_not_finite_error,
    check_input,
    compute_target_log_probs,
    compute_within_memory,
    gather_log_softmax,
)
from pan_scdg.lm.mlp import find_mlps, slice_mlps
from pan_scdg.lm.packing import (
    SHORT,
    Lengths,
    NotPackableError,
    PackedCall,
    build_not_packable_error,
    check_computed,
    check_config,
    check_layers,
    count_own_tokens,
    count_row_tokens,
    list_windows,
    plan_rows,
)
from pan_scdg.logs import say
from pan_scdg.models.devices import explain_too_large, free_memory, is_out_of_memory
from pan_scdg.models.load import LanguageModel, get_decoder_and_head
from pan_scdg.progress import count_tokens
from pan_scdg.scdg.sequences import ScoringInput

if TYPE_CHECKING:
    import torch

    from pan_scdg.settings import EngineName, ModelSettings

GroupResult = tuple[int, list[LogProbs]]
"""The number of a group of inputs, and the log-probabilities of each input."""
CPU_ROWS = 128
"""Fewest targets whose logits a CPU computes at a time, since each product reads all weights of the head."""
CPU_LOGITS = 1 << 22
"""Logits that a CPU computes at a time beyond that, so few that they stay in its cache."""
FALLBACK = "sdpa"
"""The attention that replaces one of which packed rows fail: needs no package, and runs on every device."""
LENGTH_STEP = 256
"""Inputs that a GPU computes alone are padded to a multiple of it: cuDNN plans its attention anew for every length."""


class Engine(Protocol):
    """Computes log-probabilities."""

    tokens: int
    """Number of tokens that the model has computed."""
    splits: list[int]
    """For each lack of memory, the largest number of tokens of a call from then on."""
    attention: str | None
    """The attention of packed rows, see `attention.BACKENDS` and `attention.FLASH_3`; None without any."""
    reason: str | None
    """Why the model cannot be packed, if inputs are computed one at a time for that."""

    def compute_log_probs(self, items: Sequence[ScoringInput]) -> list[LogProbs]:
        """Return the log-probability in nats of each target token given all before it, float32 ``[n]`` for each input.

        Raises:
            UserError: an input exceeds the model's positions or alone the device's memory, or a number is not finite.
            ValueError: no context or target token, or an id outside the vocabulary.
        """
        return next(self.compute_groups(items, [range(len(items))]))[1] if items else []

    def compute_groups(self, items: Sequence[ScoringInput], groups: Sequence[Sequence[int]]) -> Iterator[GroupResult]:
        """Yield the number of each group with its log-probabilities, as soon as they are computed.

        Args:
            items: the last digits depend on all of them, as what is computed together does.
            groups: positions of the inputs of each group; of other inputs only what shares a row is computed.

        Raises:
            UserError: see `compute_log_probs`.
            ValueError: see `compute_log_probs`.
        """
        ...


def make_engine(name: "EngineName | None", lm: LanguageModel, settings: "ModelSettings") -> Engine:
    """Return the engine of that name; without a name the packed one, or the reference if the model cannot be packed.

    Raises:
        UserError: the model cannot be packed.
    """
    if name == "reference":
        return ReferenceEngine(lm)
    try:
        return _make_packed_engine(lm, settings)
    except NotPackableError as e:
        if name is not None:
            raise
        say([f"note: inputs are computed one at a time: {e.what}"])
        return ReferenceEngine(lm, reason=e.what)


def _make_packed_engine(lm: LanguageModel, settings: "ModelSettings") -> Engine:
    """Return the packed engine; if the profile's attention fails on packed rows, sdpa computes them."""
    try:
        return PackedEngine(lm, settings.attention, settings.pack_tokens)
    except NotPackableError as e:
        if settings.attention == FALLBACK:
            raise
        engine = PackedEngine(lm, FALLBACK, settings.pack_tokens)
        say([f"warning: attention {settings.attention} is replaced by {FALLBACK}: {e.what}"])
        return engine


class ReferenceEngine(Engine):
    """Scores one input per call, as in the paper."""

    def __init__(self, lm: LanguageModel, rows: int = HEAD_ROWS, reason: str | None = None) -> None:
        self._lm, self._rows, self.reason = lm, rows, reason
        self.tokens = 0
        self.splits: list[int] = []
        self.attention: str | None = None

    def compute_groups(self, items: Sequence[ScoringInput], groups: Sequence[Sequence[int]]) -> Iterator[GroupResult]:
        """See `Engine`."""
        results: dict[int, LogProbs] = {}
        open_groups = _OpenGroups(groups)
        for number in open_groups.list_numbers():
            self.tokens += items[number].length
            count_tokens(items[number].length)
            results[number] = compute_target_log_probs(self._lm, items[number], self._rows)
            yield from open_groups.take(results)


class _OpenGroups:
    """The groups whose inputs are not all computed."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._groups = dict(enumerate(groups))

    def list_numbers(self) -> list[int]:
        """Return the positions of their inputs: first those that several groups need, then group by group."""
        counts = Counter(number for group in self._groups.values() for number in group)
        return sorted(counts, key=lambda number: counts[number] == 1)

    def take(self, results: Mapping[int, LogProbs]) -> list[GroupResult]:
        """Return and forget the groups all of whose inputs have results."""
        done = [place for place, group in self._groups.items() if all(number in results for number in group)]
        return [(place, [results[number] for number in self._groups.pop(place)]) for place in done]


class _Plan:
    """The rows of inputs that have no results yet."""

    def __init__(self, items: Sequence[ScoringInput], results: Container[int], budget: int) -> None:
        self.numbers = [number for number in range(len(items)) if number not in results]
        """Positions of the inputs among all items, by member of a row."""
        self.inputs = [items[number] for number in self.numbers]
        self.chains = plan_rows(self.inputs, budget)

    def list_chains(self, numbers: Iterable[int]) -> list[list[PackedCall]]:
        """Return the rows that contain inputs, in the order of their first inputs."""
        places = {
            self.numbers[member]: place
            for place, chain in enumerate(self.chains)
            for row in chain
            for member in row.members
        }
        return [self.chains[place] for place in dict.fromkeys(places[number] for number in numbers)]


class PackedEngine(Engine):
    """Scores packed rows with shared prefixes; see `packing` and `attention`.

    Args:
        lm: the model.
        attention: the profile's; see `attention.BACKENDS`.
        budget: largest number of tokens of a call; a longer input is a call of its own.
        rows: largest number of targets whose logits exist at one time.

    Raises:
        UserError: the attention has no packed form, or the model gives other numbers when packed.
    """

    reason: str | None = None

    def __init__(self, lm: LanguageModel, attention: str, budget: int, rows: int = HEAD_ROWS) -> None:
        check_config(lm)
        self._lm, self._backend, self._budget = lm, find_backend(attention), budget
        with_flash_3 = attention == "varlen" and use_flash_3(lm.model.dtype, lm.device)
        self.attention: str | None = FLASH_3 if with_flash_3 else attention
        self._decoder, self._head = get_decoder_and_head(lm.model)
        self._windows, self._mlps = list_windows(lm), find_mlps(self._decoder)
        vocabulary, on_cpu = self._head.weight.shape[0], lm.device == "cpu"
        self._rows = min(rows, max(CPU_ROWS, CPU_LOGITS // vocabulary)) if on_cpu else rows
        self._length_step = 1 if on_cpu else LENGTH_STEP
        self.tokens = 0
        self.splits: list[int] = []
        self.check()
        if not compute_within_memory(lambda: reads_square(self._backend, lm.model.dtype, lm.device), 1, lm.device):
            what = f"is given log-sum-exps in another order by attention {attention!r} of the installed version"
            raise build_not_packable_error(lm, what)

    def check(self, lengths: Lengths = SHORT) -> float:
        """Compare inputs of these lengths with the reference; return the mean difference in nats a token.

        Raises:
            UserError: the model fails on a packed row or gives other numbers.
        """
        budget = self._budget
        difference = check_computed(self._lm, self._compute_with_budget, lengths)
        self._budget, self.tokens, self.splits = budget, 0, []
        return difference

    def compute_groups(self, items: Sequence[ScoringInput], groups: Sequence[Sequence[int]]) -> Iterator[GroupResult]:
        """See `Engine`; what is packed together depends on the inputs and the budget alone, not on the groups."""
        for item in items:
            check_input(self._lm, item)
        for place, log_probs in self._score_planned(items, groups):
            if not all(np.isfinite(values).all() for values in log_probs):
                raise build_not_finite_error(self._lm)
            yield place, log_probs

    def _compute_with_budget(self, items: Sequence[ScoringInput], budget: int) -> list[LogProbs]:
        self._budget = budget
        return next(self._score_planned(items, [range(len(items))]))[1]

    def _score_planned(self, items: Sequence[ScoringInput], groups: Sequence[Sequence[int]]) -> Iterator[GroupResult]:
        """Yield log-probabilities of groups; if a row exceeds memory, plan the rest again in smaller rows."""
        results: dict[int, LogProbs] = {}
        open_groups = _OpenGroups(groups)
        while missing := [number for number in open_groups.list_numbers() if number not in results]:
            plan = _Plan(items, results, self._budget)
            for chain in plan.list_chains(missing):
                fits = self._run_planned(chain, plan, results)
                yield from open_groups.take(results)
                if not fits:
                    break

    def _run_planned(self, chain: Sequence[PackedCall], plan: _Plan, results: dict[int, LogProbs]) -> bool:
        """Add the log-probabilities of consecutive rows to the results; return False if memory was too short."""
        finished, failed = self._run_chain(chain, plan.inputs)
        results |= {plan.numbers[member]: values for member, values in finished.items()}
        if failed is None:
            return True
        self._shrink(chain, failed, plan.inputs)
        if len(failed.members) == 1:  # no row is smaller, but without the others it needs no kept prefix
            left = [member for row in chain for member in row.members if member not in finished]
            results |= {
                plan.numbers[member]: next(self._score_planned([plan.inputs[member]], [[0]]))[1][0] for member in left
            }
        return False

    def _shrink(self, chain: Sequence[PackedCall], failed: PackedCall, rest: Sequence[ScoringInput]) -> None:
        """Set the budget to half of the call that did not fit, for the rest of the run; one input cannot be halved."""
        if len(failed.members) > 1:
            # A row may be much smaller than the budget: half of that could be more than what just failed.
            self._budget = min(self._budget, max(1, count_row_tokens(failed, rest) // 2))
        elif len(chain) == 1:
            raise explain_too_large(rest[failed.members[0]].length, self._lm.device)
        self.splits.append(self._budget)

    def _run_chain(
        self, chain: Sequence[PackedCall], items: Sequence[ScoringInput]
    ) -> tuple[dict[int, LogProbs], PackedCall | None]:
        """Return the log-probabilities of consecutive rows by member, and the row for which memory was too short."""
        import torch

        kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        finished: dict[int, LogProbs] = {}
        for row in chain:
            try:
                with torch.inference_mode():
                    finished |= zip(row.members, self._run_row(row, items, kept), strict=True)
                continue
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as e:
                if not is_out_of_memory(e):
                    raise
            # Outside the except block the exception, and the memory that its frames hold, are freed.
            kept.clear()
            free_memory(self._lm.device)
            return finished, row
        return finished, None

    def _run_row(
        self, row: PackedCall, items: Sequence[ScoringInput], kept: "list[tuple[torch.Tensor, torch.Tensor]]"
    ) -> list[LogProbs]:
        """Call the decoder once; return the log-probabilities of its inputs in the order of ``row.members``."""
        import torch

        ids, positions, packing = self._pack_row(row, items)
        self.tokens += len(ids)
        count_tokens(len(ids))
        if packing.is_plain and self._decoder.config._attn_implementation != "eager":
            # no token attends to the padding after it
            tokens = torch.from_numpy(np.pad(ids, (0, self._count_padding(len(ids))))).to(self._lm.device)[None]
            # the model's own attention is the fastest; why with a mask: see `compute_target_log_probs`
            with slice_mlps(self._mlps):
                hidden = self._decoder(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False)
            return self._score_row(hidden.last_hidden_state[0, : len(ids)], row, items)
        tokens = torch.from_numpy(ids).to(self._lm.device)[None]
        packing.keep = kept if row.keep else None
        packing.kept = kept if row.kept else None
        position_ids = torch.from_numpy(positions).to(self._lm.device)[None]
        with _use_packed_attention(self._decoder), slice_mlps(self._mlps):
            hidden = self._decoder(input_ids=tokens, position_ids=position_ids, use_cache=False, packing=packing)
        check_layers(self._lm, packing, self._windows)
        return self._score_row(hidden.last_hidden_state[0], row, items)

    def _pack_row(
        self, row: PackedCall, items: Sequence[ScoringInput]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Packing]:
        """Return ids, positions and attention of a row: prefixes first, then inputs alone, then continuations."""
        shared = [part for part in row.parts if part.prefix]
        heads = [] if row.kept else [items[part.members[0]].context_ids[: part.prefix] for part in shared]
        pieces = [(ids, 0) for ids in heads]
        for part in _order_parts(row):
            for member in part.members:
                item = items[member]
                # the output of the context's last token predicts the target
                ids = np.concatenate([item.context_ids[part.prefix :], item.target_ids[:-1]])
                pieces.append((ids, part.prefix))
        packing = Packing(self._backend, self._make_spans(len(ids) for ids, _ in pieces))
        if shared:
            packing.counts = [len(part.members) for part in shared]
            packing.prefixes = self._make_spans(part.prefix for part in shared)
            packing.continued = self._make_spans(
                sum(count_own_tokens(items[member], part.prefix) for member in part.members) for part in shared
            )
        ids = np.concatenate([ids for ids, _ in pieces])
        positions = np.concatenate([np.arange(start, start + len(ids)) for ids, start in pieces])
        return ids, positions, packing

    def _count_padding(self, length: int) -> int:
        padded = -(-length // self._length_step) * self._length_step
        return max(0, min(padded, self._lm.positions or padded) - length)

    def _make_spans(self, lengths: Iterator[int]) -> Spans:
        return Spans(tuple(lengths), self._lm.device)

    def _score_row(self, hidden: "torch.Tensor", row: PackedCall, items: Sequence[ScoringInput]) -> list[LogProbs]:
        """Return log-probabilities from the hidden states of a row, in the order of ``row.members``."""
        import torch

        ordered = [(member, part.prefix) for part in _order_parts(row) for member in part.members]
        lengths = [count_own_tokens(items[member], prefix) for member, prefix in ordered]
        first = len(hidden) - sum(lengths)
        ends = [first + end for end in accumulate(lengths)]
        before = torch.cat(
            [hidden[end - len(items[member].target_ids) : end] for (member, _), end in zip(ordered, ends, strict=True)]
        )
        targets = torch.from_numpy(np.concatenate([items[member].target_ids for member, _ in ordered]))
        chunks = zip(torch.split(before, self._rows), torch.split(targets.to(hidden.device), self._rows), strict=True)
        values: LogProbs = torch.cat([gather_log_softmax(self._head(h), t) for h, t in chunks]).cpu().numpy()
        cuts = np.cumsum([len(items[member].target_ids) for member, _ in ordered])[:-1]
        by_member = {member: part for (member, _), part in zip(ordered, np.split(values, cuts), strict=True)}
        return [by_member[member] for member in row.members]


def _order_parts(row: PackedCall) -> list[Any]:
    """Return the parts of a row, those that share nothing first."""
    return sorted(row.parts, key=lambda part: part.prefix > 0)


@contextmanager
def _use_packed_attention(decoder: Any) -> Iterator[None]:
    """Make the decoder use packed attention inside the context."""
    register_attention()
    config = decoder.config
    former = config._attn_implementation
    config._attn_implementation = ATTENTION_NAME
    try:
        yield
    finally:
        config._attn_implementation = former
