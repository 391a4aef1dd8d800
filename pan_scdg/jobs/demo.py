"""``demo``: both jobs on the shipped examples with the embedded default, and a word on what came out."""

from pathlib import Path

from pan_scdg.bundled import find_bundled
from pan_scdg.evaluation.report import table
from pan_scdg.jobs.detect import DECISIONS, detect_pairs
from pan_scdg.jobs.evaluate import evaluate_pairs, evaluate_retrieval
from pan_scdg.jobs.requests import Computing, Request
from pan_scdg.jobs.retrieval_results import RUN
from pan_scdg.jobs.retrieve import retrieve_sources
from pan_scdg.pan.detections import read_decisions
from pan_scdg.profile import load_profile

EXAMPLES = find_bundled("examples")
PAIRS = EXAMPLES / "pan25-pairs" / "test"
RETRIEVAL = EXAMPLES / "pan26-retrieval"


def demo(output: Path, device: str, state: Path | None = None) -> str:
    """Run both jobs into ``output`` and return the report.

    Raises:
        UserError: ``output`` holds something else.
    """
    profile = load_profile("offline")
    computing = Computing(device, state=state)
    detect_pairs(profile, Request(PAIRS, output / "pairs"), computing)
    retrieve_sources(profile, Request(RETRIEVAL, output / "retrieval"), computing)
    pairs = evaluate_pairs(PAIRS, output / "pairs", None).figures
    ranking = evaluate_retrieval(RETRIEVAL, output / "retrieval", None).figures
    rows = [
        {"job": "pairs (test half)", "measure": name, "value": pairs[name]}
        for name in ("precision", "recall", "f1", "auroc", "plagdet_score")
        if name in pairs  # a model that the threshold is not of decides nothing
    ]
    rows += [
        {"job": "source retrieval", "measure": name, "value": ranking[name]} for name in ("nDCG@10", "R@10", "RR", "AP")
    ]
    return "\n".join(
        [
            table(rows, ["job", "measure", "value"]),
            f"decisions: {output / 'pairs' / DECISIONS}",
            f"detections: {output / 'pairs'}/*.xml",
            f"ranking: {output / 'retrieval' / RUN}",
            "",
            explain_one(output / "pairs"),
        ]
    )


def explain_one(output: Path) -> str:
    """The clearest positive decision (or, without one, the closest pair) in a sentence."""
    best = max(
        (d for d in read_decisions(output / DECISIONS) if d["score"] is not None), key=lambda d: float(d["score"])
    )
    verdict = "is compared with no threshold, since none is of this model"
    if best["threshold"] is not None:
        said = "reported as reuse" if best["decision"] else "not reported"
        verdict = f"is compared with the threshold {float(best['threshold']):.3f}, so it is {said}"
    return (
        f"One verdict explained: with {best['source']} in front of it, {best['suspicious']} takes "
        f"{float(best['mean']):.3f} nats less per token to describe on average ({best['tokens']} tokens, "
        f"{100 * float(best['positive_gain_rate']):.0f} % of them gain); its {best['aggregation']} gain "
        f"{float(best['score']):.3f} {verdict}."
    )
