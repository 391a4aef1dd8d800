"""Score each target after every context of its evidence, and average the gains of reused and of new tokens.

The paper's gain is measured, whatever control the profile has for its own scores. A target is always scored in one way:
if it is too long as a whole after one of its contexts, it is scored in segments after all of them, so that its tokens
are the same everywhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings
from pan_scdg.records import DocumentPair, TextFile
from studies.retention.contexts import Context
from studies.retention.instances import Case, Span
from studies.study import OnError
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.sequences import Offsets
from pan_scdg.scoring.features import load_gains, load_ids
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import refuse_failed
from pan_scdg.scoring.pair_plan import PlannedPair, ScoredPair, check_longest_pair, make_pair_key, plan_pairs
from pan_scdg.scoring.token_offsets import LocatedTokens, make_locator
from pan_scdg.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame

REUSED, NEW, NEITHER = 1, 0, -1
"""Y of a token: in an annotated span, in none, or on a boundary (or no piece of the text at all)."""
CONTENT = {REUSED: "plagiarism", NEW: "new"}
"""Names of the labels in results, in the order of `statistics.average_seeds`."""
Labels = npt.NDArray[np.int8]


class ScoredContexts(NamedTuple):
    """The mean gains of all contexts, and counts of targets and tokens."""

    means: "DataFrame"
    """Columns pair_id, retention, seed, content, tokens and mean_gain (nats per token); two rows per context."""
    facts: dict[str, dict[str, int]]


class LabelledTarget(NamedTuple):
    """The scored tokens of a target with their positions and labels."""

    tokens: LocatedTokens
    labels: Labels


def _make_pairs(cases: Sequence[Case], contexts: Sequence[Context]) -> Iterator[DocumentPair]:
    """Yield the target of each context with the context as its source."""
    targets = {case.pair_id: TextFile(case.pair_id, case.pair_id, Path(case.pair_id), case.target) for case in cases}
    for number, context in enumerate(contexts, start=1):
        source = TextFile(context.name, context.name, Path(context.name), context.text)
        yield DocumentPair(targets[context.pair_id], source, number)


class PlannedContexts(NamedTuple):
    """The plan of scoring the targets after their contexts with one model."""

    model: ScoringModel
    settings: PairSettings
    """Those of the profile without a control: the paper's gain is measured."""
    contexts: Sequence[Context]
    plans: Sequence[PlannedPair]
    """One for each context."""
    targets: Mapping[str, LabelledTarget]
    lost: Mapping[str, str]
    """The reasons why pairs cannot be scored and are left out, by their ids."""

    def leave_out(self, lost: Mapping[str, str]) -> "PlannedContexts":
        """Return the contexts of other pairs than those of ``lost``."""
        kept = [(c, plan) for c, plan in zip(self.contexts, self.plans, strict=True) if c.pair_id not in lost]
        return self._replace(contexts=[c for c, _ in kept], plans=[plan for _, plan in kept], lost=lost)


def plan_contexts(
    cases: Sequence[Case],
    contexts: Sequence[Context],
    model: ScoringModel,
    settings: PairSettings,
    notices: Notices,
    on_error: OnError = "stop",
) -> PlannedContexts:
    """Return the scoring of each context; all that can be refused without the weights is refused here.

    Raises:
        UserError: with "stop", a target lacks one of the contents or cannot be scored after a context.
    """
    settings = settings.model_copy(update={"control": "none"})
    model.check_length(settings.limit, "pairs.limit")
    planned, failed = plan_pairs(list(_make_pairs(cases, contexts)), model, settings, notices)
    errors: dict[str, UserError] = {}
    for fail in failed:
        errors.setdefault(fail.pair.suspicious.doc_id, fail.error)
    divided = {plan.pair.suspicious.doc_id for plan in planned if plan.mode == "segments"}
    targets = _label_targets([case for case in cases if case.pair_id not in errors], divided, model, errors)
    if on_error == "stop":
        refuse_failed(list(errors.values()))
    whole = [plan for plan in planned if plan.pair.suspicious.doc_id not in errors]
    plans = [_use_segments(plan, model, settings) if _name_target(plan) in divided else plan for plan in whole]
    kept = [context for context in contexts if context.pair_id not in errors]
    if model.may_compute:
        check_longest_pair(plans, model)
    return PlannedContexts(model, settings, kept, plans, targets, {name: error.what for name, error in errors.items()})


def average_contexts(planned: PlannedContexts, scored: Sequence[ScoredPair], store: Store) -> ScoredContexts:
    """Return the mean gains of every context.

    The store holds the gain of every token: 24 bytes for each of a target's tokens, for each context.
    """
    import pandas

    rows: list[dict[str, Any]] = []
    for context, done in zip(planned.contexts, scored, strict=True):
        target = planned.targets[context.pair_id]
        ids = load_ids(store, done.plan.key)
        if ids is None or ids.tolist() != target.tokens.token_ids.tolist():
            raise ValueError(f"{context.name}: the scored tokens are not those that were labelled")
        rows += average_gains(context, load_gains(store, done.plan.key).gains, target.labels)
    names, modes = {**CONTENT, NEITHER: "neither"}, {_name_target(plan): plan.mode for plan in planned.plans}
    targets = [planned.targets[pair_id] for pair_id in modes]
    facts = {
        "targets by mode": _count(modes.values()),
        "targets by origin of offsets": _count(target.tokens.how for target in targets),
        "tokens by content": _count(names[y] for target in targets for y in target.labels.tolist()),
    }
    return ScoredContexts(pandas.DataFrame(rows), facts)


def _name_target(plan: PlannedPair) -> str:
    return plan.pair.suspicious.doc_id


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def average_gains(context: Context, gains: Floats, labels: Labels) -> Iterator[dict[str, Any]]:
    """Yield the rows of one context: the mean gain of its reused and of its new tokens.

    Args:
        context: the context that the target was scored with.
        gains: gains of the scored tokens, ``[n]`` nats.
        labels: labels of the same tokens; those that are neither content are left out.
    """
    for label, content in CONTENT.items():
        chosen = gains[labels == label]
        yield {
            "pair_id": context.pair_id,
            "retention": context.retention,
            "seed": context.seed,
            "content": content,
            "tokens": len(chosen),
            "mean_gain": float(chosen.mean()),
        }


def _use_segments(plan: PlannedPair, model: ScoringModel, settings: PairSettings) -> PlannedPair:
    if plan.mode == "segments":
        return plan
    texts = plan.read_texts()
    key = make_pair_key(texts.source, texts.target, "segments", model, settings)
    return plan.use_segments(key)


def _label_targets(
    cases: Sequence[Case], divided: Set[str], model: ScoringModel, errors: dict[str, UserError]
) -> dict[str, LabelledTarget]:
    """Return the tokens of every target with their labels; add targets without a token of a content to ``errors``."""
    locator, found = make_locator(model), dict[str, LabelledTarget]()
    for case in cases:
        tokens = locator.locate(case.target, case.pair_id in divided)
        labels = label_tokens(tokens.offsets, case.selected, case.reused, len(case.target))
        found[case.pair_id] = LabelledTarget(tokens, labels)
        if missing := [content for label, content in CONTENT.items() if label not in labels]:
            what = f"the target has no token of {missing[0]} content"
            errors[case.pair_id] = UserError(what, "leave this pair out", case.pair_id)
    return found


def label_tokens(offsets: Offsets, selected: Span, reused: Iterable[Span], characters: int) -> Labels:
    """Return the label of each token (paper, Eq. supp-retention-token-label), ``[n]``.

    The first that covers at least half of a token's characters decides: the selected span, the other annotated spans,
    the text outside of all. A token without characters, such as BOS, is neither.

    Args:
        offsets: half-open intervals in characters of the target, ``[n, 2]``.
        selected: the span whose source is the evidence.
        reused: all annotated spans; they may overlap each other and ``selected``.
        characters: the target's length; spans may reach beyond it, intervals may not.
    """
    starts, ends = offsets.T
    of_selected = _mask([selected], characters)
    of_others = _mask(reused, characters) & ~of_selected
    size = ends - starts
    covered, others = (_count_before(mask)[ends] - _count_before(mask)[starts] for mask in (of_selected, of_others))
    new = size - covered - others
    rules = [size == 0, 2 * covered >= size, 2 * others >= size, 2 * new >= size]
    return np.select(rules, [NEITHER, REUSED, REUSED, NEW], NEITHER).astype(np.int8)


def _mask(spans: Iterable[Span], characters: int) -> npt.NDArray[np.bool_]:
    """Return True for each character in any of the spans, ``[characters]``."""
    mask = np.zeros(characters, dtype=bool)
    for start, end in spans:
        mask[max(0, start) : max(0, end)] = True
    return mask


def _count_before(mask: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the number of True values before each place, ``[characters + 1]``."""
    return np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
