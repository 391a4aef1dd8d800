"""Count the tokens of all inputs that a job would score, and choose a sample of them for the probe."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pan_scdg.lm.packing import Row, count_own_tokens, count_row_tokens, plan_rows
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import PairSettings, RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.batches import make_batches
from pan_scdg.scoring.candidates import Target, group_by_source
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair
from pan_scdg.scoring.passes import PairsWork, SourceWork, digest_input

PROBED = 16
"""Largest number of batches given to the probe, evenly over all."""
SAMPLED = 64
"""Number of documents whose tokens are counted, evenly over the candidates or the corpus."""
Work = Sequence[ScoringInput]


class Tokens(NamedTuple):
    """Numbers of tokens to compute; fractions if they were sampled."""

    packed: float
    """Common prefixes count once, as in the default engine."""
    full: float
    """Every input counts in full, as in the reference engine."""
    attended: float = 0.0
    """Pairs of a token and one that it attends to, with common prefixes once."""
    targets: float = 0.0
    """Tokens whose logits are computed."""

    def __add__(self, other: "Tokens") -> "Tokens":  # type: ignore[override]
        """Return the sum."""
        return Tokens(*(one + two for one, two in zip(self, other, strict=True)))

    def multiply(self, factor: float) -> "Tokens":
        """Return the tokens multiplied by a factor."""
        return Tokens(*(number * factor for number in self))


class Counted(NamedTuple):
    """The tokens of a job, and inputs to measure its speed and memory on."""

    tokens: Tokens
    exact: bool
    """False if they were extrapolated from a sample."""
    works: list[Work]
    """The task that needs the most memory, then a sample of all tasks; empty if there is nothing to score."""


def count_tokens(items: Work, budget: int) -> Tokens:
    """Return the tokens of a batch that is computed in calls of at most ``budget`` tokens."""
    rows = [row for chain in plan_rows(items, budget) for row in chain]
    return Tokens(
        sum(count_row_tokens(row, items) for row in rows),
        sum(item.length for item in items),
        sum(_count_attended(row, items) for row in rows),
        sum(len(item.target_ids) for item in items),
    )


def _count_attended(row: Row, items: Work) -> int:
    """Return the number of pairs of a token and one up to it in the same input, for a call."""
    found = 0
    for part in row.parts:
        prefix = part.prefix * (part.prefix + 1) // 2
        found += 0 if row.kept else prefix
        for member in part.members:
            length = part.prefix + count_own_tokens(items[member], part.prefix)
            found += length * (length + 1) // 2 - prefix
    return found


def count_pairs(planned: Sequence[PlannedPair], model: ScoringModel, settings: PairSettings) -> Counted:
    """Return the tokens of all batches of pairs."""
    pairs = list({pair.key: pair for pair in planned}.values())
    budget = model.settings.pack_tokens
    texts = {(pair.pair.suspicious.doc_id, pair.mode): pair for pair in pairs}
    inputs = (item for pair in texts.values() for item in pair.make_unconditional(model.tokenizer, settings))
    alone = {digest_input(item): item for item in inputs}
    items, tokens, works = list(alone.values()), Tokens(0, 0), list[Work]()
    for batch in make_batches(list(alone), [item.length for item in items], budget):
        tokens += count_tokens([items[i] for i in batch.members], budget)
    found = make_batches([pair.key for pair in pairs], [pair.tokens for pair in pairs], budget)
    chosen = set(choose_evenly(PROBED, len(found)))  # with the first batch, which is the largest
    with Progress("counting tokens", len(pairs)) as progress:
        for number, batch in enumerate(found):
            work = PairsWork([pairs[i].prepare() for i in batch.members], settings).make_inputs(model.tokenizer)
            tokens += count_tokens(work, budget)
            works += [work] if number in chosen else []
            progress.update(len(batch.members))
    return Counted(tokens, True, works)


def count_candidates(
    corpus: Corpus,
    targets: Sequence[Target],
    stages: Mapping[str, FirstStage] | None,
    pairs: int,
    settings: RetrievalSettings,
    model: ScoringModel,
    sampled: int | None = SAMPLED,
) -> Counted:
    """Return the tokens of all candidates, counted on sampled documents and extrapolated.

    Args:
        corpus: all documents.
        targets: the queries; several of one text are scored once.
        stages: candidates by query; None: not known, so that each query is assumed to have its own sources.
        pairs: number of pairs to score if the candidates are not known.
        settings: the profile's.
        model: its tokenizer counts.
        sampled: number of documents that are counted, evenly over all; None: all.
    """
    targets = list({target.text.digest: target for target in targets}.values())
    wanted = None if stages is None else group_by_source(targets, stages, settings)
    in_all = pairs if wanted is None else sum(map(len, wanted.values()))
    names = [doc_id for doc_id in corpus.ids if wanted is None or doc_id in wanted]
    sampled = len(names) if sampled is None else sampled
    places, budget = choose_evenly(sampled, len(names)), model.settings.pack_tokens
    chosen = {names[place]: place for place in places} if targets else {}
    probed = {names[places[i]] for i in choose_evenly(PROBED, len(places))}
    tokens, counted, works, largest = Tokens(0, 0), 0, list[Work](), list[ScoringInput]()
    with Progress("counting tokens", len(chosen)) as progress:
        for document in corpus.select(chosen):
            one = targets[chosen[document.doc_id] % len(targets)]
            queries = [one] if wanted is None else wanted[document.doc_id]
            items = SourceWork(document.text, [query.text for query in queries], settings).make_inputs(model.tokenizer)
            tokens += count_tokens(items, budget)
            counted += len(queries)
            works += [items] if document.doc_id in probed else []
            largest = max(largest, items, key=lambda work: sum(item.length for item in work))
            progress.update()
    alone = [count_tokens([target.unconditional], budget) for target in targets]
    whole = sum(alone, tokens.multiply(in_all / counted if counted else 0.0))
    exact = wanted is not None and len(names) <= sampled
    return Counted(whole, exact, [largest, *works] if works else [])


def choose_evenly(count: int, of: int) -> list[int]:
    """Return at most ``count`` positions, spread evenly over ``of``."""
    return [position * of // count for position in range(count)] if of > count else list(range(of))
