"""``demo``: one decision, then a part of both tasks, on the bundled examples with the profile ``offline``."""

from collections.abc import Iterator
from pathlib import Path

from pan_scdg.bundled import find_bundled
from pan_scdg.cli.score import score_files
from pan_scdg.evaluation.report import format_table
from pan_scdg.evaluation.retrieval import NDCG
from pan_scdg.jobs.evaluate import evaluate
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.pairs import detect_pairs
from pan_scdg.jobs.retrieval import retrieve_sources
from pan_scdg.profile import Profile, load_profile
from pan_scdg.progress import format_count
from pan_scdg.results.files import DECISIONS, PAGE, RUN

EXAMPLES = find_bundled("examples")
PAIRS = EXAMPLES / "pan25-pairs" / "test"
RETRIEVAL = EXAMPLES / "pan26-retrieval"


PAIR = ("suspicious-document00101", "source-document00109")
"""The pair of the first decision."""
PAIR_LIMIT, QUERY_LIMIT = 4, 1
QUICK = {"routes": ("bm25-full",), "fusion": "none", "dense": None, "scored": 5}
"""Settings of source retrieval that keep the demo below a minute on two cores: BM25 alone finds the candidates."""


def run_demo(output: Path, device: str) -> Iterator[str]:
    """Yield the decision about one pair, then the report on a part of both tasks, whose results go to ``output``.

    Raises:
        UserError: ``output`` holds something else.
    """
    profile = load_profile("offline")
    yield explain_pair(profile, device)
    retrieval = profile.need_retrieval().model_copy(update=QUICK)
    detect_pairs(profile, RunOptions(PAIRS, output / "pairs", device, limit=PAIR_LIMIT, report=True))
    retrieve_sources(
        profile.model_copy(update={"retrieval": retrieval}),
        RunOptions(RETRIEVAL, output / "retrieval", device, limit=QUERY_LIMIT),
    )
    pairs = evaluate(PAIRS, output / "pairs", None).figures
    ranking = evaluate(RETRIEVAL, output / "retrieval", None).figures
    rows = [
        {"task": f"pairs (test half), pairs scored: {PAIR_LIMIT}", "measure": name, "value": pairs[name]}
        for name in ("precision", "recall", "f1", "auroc")
        if name in pairs  # a model that the threshold is not for decides nothing
    ]
    rows += [
        {"task": f"source retrieval, queries scored: {QUERY_LIMIT}", "measure": name, "value": ranking[name]}
        for name in (NDCG.format(10), "R@10", "RR", "AP")
    ]
    yield "\n".join(
        [
            format_table(rows, ["task", "measure", "value"]),
            f"decisions: {output / 'pairs' / DECISIONS}",
            f"detections: {output / 'pairs'}/*.xml",
            f"ranking: {output / 'retrieval' / RUN}",
            f"report, to open in a browser: {output / 'pairs' / PAGE}",
        ]
    )


def explain_pair(profile: Profile, device: str) -> str:
    """Return the decision about one pair of the examples in a sentence."""
    suspicious, source = PAIRS / "susp" / f"{PAIR[0]}.txt", PAIRS / "src" / f"{PAIR[1]}.txt"
    result = score_files(profile, suspicious, source, device=device, model=None)
    passages = result.passages or ()
    decision = "the profile has no threshold for this model"
    if result.threshold is not None:
        reported = "reported as reuse" if result.decision else "not reported"
        decision = f"the threshold is {result.threshold:.3f}, so the pair is {reported}"
    places = [f"{one.target.length} characters from {one.target.begin}" for one in passages]
    return (
        f"One decision explained: {suspicious.stem} matches {source.stem} with a score of {result.score:.3f}; "
        f"{decision}. {format_count(len(places), 'passage')}: {', '.join(places)}. "
        "With the source in its context the language model takes "
        f"{result.gains.mean():.3f} nats less per token on average ({len(result.gains)} tokens, "
        f"{100 * (result.gains > 0).mean():.0f} % of them gain).\n"
    )
