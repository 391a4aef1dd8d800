"""Every context of the manifest in front of its target: gains by the project's engine, stored as those of any pair.

The paper's gain is measured, whatever control the profile has for its own scores. One target is always scored in one
way: where it is too long as a whole behind one of its contexts, it is scored by segments behind all of them, so that
its tokens are the same everywhere. Its pass without a source is made once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.research.retention.cases import Case
from pan_scdg.research.retention.contexts import Context, context_text
from pan_scdg.research.retention.distractors import DistractorPool
from pan_scdg.research.retention.means import CONTENT, TokenMean, means_of
from pan_scdg.research.retention.token_labels import NEITHER, Labels, token_labels
from pan_scdg.scoring.features import load_gains, load_ids
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import FailedPair, PlannedPair, make_pair_key, plan_pairs
from pan_scdg.scoring.pairs import check_longest_pair, score_pairs
from pan_scdg.scoring.token_offsets import LocatedTokens, make_locator
from pan_scdg.store import Store


class ScoredContexts(NamedTuple):
    """The rows of all contexts in their order, and what was counted on the way."""

    means: tuple[TokenMean, ...]
    facts: dict[str, dict[str, int]]
    """How many targets were scored how and had their tokens placed how, and their tokens by content."""


class LabelledTarget(NamedTuple):
    """The scored tokens of a target: ids, where they stand, what content they are of."""

    tokens: LocatedTokens
    labels: Labels


def _make_pairs(cases: Mapping[str, Case], contexts: Sequence[Context], pool: DistractorPool) -> Iterator[DocumentPair]:
    """Yield the target of each context with the context as its source."""
    for number, context in enumerate(contexts, start=1):
        case = cases[context.pair_id]
        target = TextFile(context.pair_id, context.pair_id, Path(context.pair_id), case.target)
        text = context_text(context, case.evidence, pool)
        yield DocumentPair(target, TextFile(context.name, context.name, Path(context.name), text), number)


def score_contexts(
    cases: Sequence[Case],
    contexts: Sequence[Context],
    pool: DistractorPool,
    model: ScoringModel,
    settings: PairSettings,
    store: Store,
    notices: Notices,
) -> ScoredContexts:
    """The mean gains of every context; what the store knows is not computed again.

    The store then holds the gain of every token: 24 bytes for each of a target's tokens, behind each context.

    Raises:
        UserError: contexts and cases are of other pairs or texts, a target lacks one of the contents or, with a
            context, cannot be scored.
    """
    settings = settings.model_copy(update={"control": "none"})
    by_id = {case.pair_id: case for case in cases}
    _check_pairs(by_id, contexts)
    planned = _planned(list(_make_pairs(by_id, contexts, pool)), model, settings, notices)
    modes = {plan.pair.suspicious.doc_id: plan.mode for plan in planned}
    targets = _labelled(by_id, modes, model)
    scored = score_pairs(planned, model, settings, store, keep_gains=True)
    rows: list[TokenMean] = []
    for context, done in zip(contexts, scored, strict=True):
        rows += _means(context, targets[context.pair_id], done.plan.key, store)
    names = {**CONTENT, NEITHER: "neither"}
    facts = {
        "targets by mode": _counted(modes.values()),
        "targets by origin of offsets": _counted(target.tokens.how for target in targets.values()),
        "tokens by content": _counted(names[y] for target in targets.values() for y in target.labels.tolist()),
    }
    return ScoredContexts(tuple(rows), facts)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _check_pairs(cases: Mapping[str, Case], contexts: Sequence[Context]) -> None:
    """Raise UserError unless the contexts are of exactly these cases."""
    wanted = {context.pair_id for context in contexts}
    if odd := sorted(wanted ^ cases.keys()):
        what = "has contexts and is no instance" if odd[0] in wanted else "is an instance and has no contexts"
        raise UserError(what, "prepare instances and contexts together", odd[0])


def _planned(
    pairs: Sequence[DocumentPair], model: ScoringModel, settings: PairSettings, notices: Notices
) -> list[PlannedPair]:
    """How each context is scored; all that can go wrong before weights are loaded has been looked for then."""
    model.check_length(settings.limit, "pairs.limit")
    planned, failed = plan_pairs(pairs, model, settings, notices)
    if failed:
        first: dict[str, FailedPair] = {}
        for fail in failed:
            first.setdefault(fail.pair.suspicious.doc_id, fail)
        raise UserErrors([fail.error for fail in first.values()])
    divided = {plan.pair.suspicious.doc_id for plan in planned if plan.mode == "segments"}
    planned = [
        _by_segments(plan, model, settings) if plan.pair.suspicious.doc_id in divided else plan for plan in planned
    ]
    check_longest_pair(planned, model)
    return planned


def _by_segments(plan: PlannedPair, model: ScoringModel, settings: PairSettings) -> PlannedPair:
    if plan.mode == "segments":
        return plan
    texts = plan.texts()
    key = make_pair_key(texts.source, texts.target, "segments", model, settings)
    return plan._replace(mode="segments", key=key)


def _labelled(cases: Mapping[str, Case], modes: Mapping[str, str], model: ScoringModel) -> dict[str, LabelledTarget]:
    """The tokens of every target with their labels.

    Raises:
        UserErrors: naming every target that has no token of one of the contents.
    """
    locator, found, errors = make_locator(model), dict[str, LabelledTarget](), list[UserError]()
    for pair_id, case in cases.items():
        tokens = locator.locate(case.target, modes[pair_id] == "segments")
        labels = token_labels(tokens.offsets, case.selected, case.reused, len(case.target))
        found[pair_id] = LabelledTarget(tokens, labels)
        if missing := [content for label, content in CONTENT.items() if label not in labels]:
            what = f"the target has no token of {missing[0]} content"
            errors.append(UserError(what, "leave this pair out of the instances", pair_id))
    if errors:
        raise UserErrors(errors)
    return found


def _means(context: Context, target: LabelledTarget, key: str, store: Store) -> list[TokenMean]:
    ids = load_ids(store, key)
    if ids is None or ids.tolist() != target.tokens.token_ids.tolist():
        raise ValueError(f"{context.name}: the scored tokens are not those that were labelled")
    return list(means_of(context, load_gains(store, key), target.labels))
