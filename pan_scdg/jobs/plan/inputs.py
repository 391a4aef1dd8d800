"""Count the tokens of all inputs that a job would score, and choose a sample of them for the probe."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pan_scdg.jobs.plan.probe import Work
from pan_scdg.jobs.plan.tokens import Tokens, count_tokens
from pan_scdg.pan.corpus import Corpus
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


class Counted(NamedTuple):
    """The tokens of a job, and inputs to measure its speed and memory on."""

    tokens: Tokens
    exact: bool
    """False if they were extrapolated from a sample."""
    largest: Work
    """The task that needs the most memory."""
    works: list[Work]
    """A sample of all tasks; empty if there is nothing to score."""


def count_pairs(planned: Sequence[PlannedPair], model: ScoringModel, settings: PairSettings) -> Counted:
    """Return the tokens of all batches of pairs."""
    pairs = list({pair.key: pair for pair in planned}.values())
    budget = model.settings.pack_tokens
    texts = {(pair.pair.suspicious.doc_id, pair.mode): pair for pair in pairs}
    inputs = (item for pair in texts.values() for item in pair.make_unconditional(model.tokenizer, settings))
    alone = {digest_input(item): item for item in inputs}
    items, tokens, sampled = list(alone.values()), Tokens(0, 0), dict[int, Work]()
    for batch in make_batches(list(alone), [item.length for item in items], budget):
        tokens += count_tokens([items[i] for i in batch.members], budget)
    found = make_batches([pair.key for pair in pairs], [pair.tokens for pair in pairs], budget)
    chosen = set(choose_evenly(PROBED, len(found)))
    with Progress("counting tokens", len(pairs)) as progress:
        for number, batch in enumerate(found):
            work = PairsWork([pairs[i].prepare() for i in batch.members], settings).make_inputs(model.tokenizer)
            tokens += count_tokens(work, budget)
            if number in chosen:
                sampled[number] = work
            progress.update(len(batch.members))
    return Counted(tokens, True, sampled.get(0, []), list(sampled.values()))


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
    tokens, counted, tasks, largest = Tokens(0, 0), 0, list[Work](), list[ScoringInput]()
    with Progress("counting tokens", len(chosen)) as progress:
        for document in corpus.select(chosen):
            one = targets[chosen[document.doc_id] % len(targets)]
            queries = [one] if wanted is None else wanted[document.doc_id]
            items = SourceWork(document.text, [query.text for query in queries], settings).make_inputs(model.tokenizer)
            tokens += count_tokens(items, budget)
            counted += len(queries)
            tasks += [items] if document.doc_id in probed else []
            largest = max(largest, items, key=lambda work: sum(item.length for item in work))
            progress.update()
    alone = [count_tokens([target.unconditional], budget) for target in targets]
    whole = sum(alone, tokens.multiply(in_all / counted if counted else 0.0))
    return Counted(whole, wanted is not None and len(names) <= sampled, largest, tasks)


def choose_evenly(count: int, of: int) -> list[int]:
    """Return at most ``count`` positions, spread evenly over ``of``."""
    return [position * of // count for position in range(count)] if of > count else list(range(of))
