"""Sentences of a report, in ordinary language."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pan_scdg.progress import format_count
from pan_scdg.records import MeasuredPassage, Reason
from pan_scdg.report.ranking import has_points, measure_points
from pan_scdg.report.records import QUOTED, Report
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import (
    ANNOUNCED,
    DISGUISED,
    NOT_SCORED,
    SHARED,
    SIDES,
    SIGNS,
    TOO_SHORT,
    Decision,
    Finding,
)
from pan_scdg.text.parts import MAX_QUOTATION_WORDS
from pan_scdg.version import __version__

FINDING_SYMBOLS: dict[Finding, str] = {"likely": "●", "unclear": "◐", "no sign": "○"}
FINDING_MEANINGS: dict[Finding, str] = {
    "likely": "The score reaches the threshold: reuse is likely. Read the passages before you conclude anything.",
    "unclear": "The score is just below the threshold, or a text is too short to tell.",
    "no sign": "No sign of reuse was found. This does not prove independence, because summaries and free rewording are "
    "often missed.",
}
POINTS = "50 is the threshold, not a probability"
LOOK_NEXT = "Look at these next (reworded text often scores just below the threshold)"
CAUTION = "Read the passages: a likely pair does not prove misconduct, and no sign does not prove independence."
FINGERPRINT_CHARACTERS = 12
"""Characters of a fingerprint that are shown."""
MIN_COPY = 0.995
"""Verbatim share from which on all words of a passage are copied."""
MIN_GAIN = 0.05
"""Smaller gains, in nats per token, are reported as no gain."""
QUOTATION_RULE = (
    f"a decision by alignment leaves out quotations of at most {MAX_QUOTATION_WORDS} words and formal parts, if "
    "either are no more than a third of the text, and lists of references that are no more than half of it"
)
REASON_BELOW = "Unclear, for the reason below. Read both texts."
UNREAD_SCRIPT = "the embedding model does not know the script"
NOT_ENGLISH = "not calibrated for this language (English is)"
DISGUISE = "characters that disguise the text"
UNLIKE_WORDS = "outside calibration: language or characters"
EQUAL_SOURCES = "Another source explains it as well."
UNDECIDED = "no decisions: the threshold was chosen with another model"


def summarise(report: Report) -> str:
    """Return the number of pairs with each decision in one sentence."""
    counts = Counter(pair.finding for pair in report.pairs)
    if len(report.pairs) == 1 and not report.not_listed:
        return f"One pair was compared: {report.pairs[0].finding}."
    counts["no sign"] += report.not_listed
    parts = [f"{counts[finding]:,} {finding}" for finding in FINDING_SYMBOLS]
    return f"{counts.total():,} pairs were compared: {', '.join(parts)}."


def explain_findings(threshold: float | None) -> str:
    """Return the explanation of the words for decisions, for a terminal."""
    if threshold is None:
        return "No decision: the threshold was calibrated for another model."
    least = f"at least 50 points ({POINTS})" if has_points(threshold) else f"a score of at least {threshold:.3f}"
    return f"Likely: {least}. Unclear: just below it, or a short text."


def format_score(score: float | None, threshold: float | None) -> str:
    """Return a score for people: points if there are any, else the score itself."""
    points = measure_points(score, threshold)
    return "–" if score is None else f"{score:.3f}" if points is None else str(points)


def format_share(share: float) -> str:
    """Return a share, 0 to 1, in percent; halves are rounded up, as the script of the page does."""
    return f"{int(100 * share + 0.5)} %"


def describe_reasons(decision: Decision) -> list[str]:
    """Return a sentence for each reason of a decision."""
    return [describe_reason(reason, decision) for reason in decision.reasons]


def describe_reason(reason: Reason, decision: Decision) -> str:
    """Return the sentence of a reason; one that only an own method knows is its code with its numbers."""
    values: dict[str, Any] = dict(reason.numbers)
    if "side" in values:
        values["text"] = decision.suspicious if values["side"] == SIDES[0] else decision.source
    if reason.code in _SENTENCES:
        return _SENTENCES[reason.code](values, decision)
    numbers = ", ".join(f"{name} {value}" for name, value in values.items())
    return f"{reason.code}: {numbers}" if numbers else reason.code


def name_kind(reason: Reason, decision: Decision) -> str | None:
    """Return the words by which a run counts the texts with a reason; None for a reason that it does not count."""
    return describe_reason(reason, decision) if reason.code == "unknown_script" else _KINDS.get(reason.code)


def describe_fact(reason: Reason) -> str:
    """Return the sentence of a reason that concerns all pairs."""
    return describe_reason(reason, Decision("", "", None, None, None, "unclear"))


def explain_unclear(decision: Decision) -> str:
    """Return why a pair is unclear, in one sentence; empty for any other pair."""
    codes = (*SIGNS, *TOO_SHORT, DISGUISED, "unknown_script", NOT_SCORED)
    reason = decision.find_reason(*codes) if decision.finding == "unclear" else None
    return "" if reason is None else describe_reason(reason, decision)


def _describe_usual(values: Mapping[str, Any], decision: Decision) -> str:
    own, other = (format_score(score, decision.threshold) for score in (decision.score, values["highest"]))
    own = f"{own} points" if has_points(decision.threshold) else f"score {own}"
    return f"{own}; other pairs of these texts reach {other}"


_KINDS = {"rare_words": UNLIKE_WORDS, "other_language": NOT_ENGLISH, "disguised": DISGUISE}
_SENTENCES: dict[str, Callable[[Mapping[str, Any], Decision], str]] = {
    "segments": lambda n, d: "longer than the profile's limit: scored in segments",
    "empty_source": lambda n, d: "the source document is empty",
    "unknown_script": lambda n, d: UNREAD_SCRIPT + (": only copied words decide" if "decides" in n else ""),
    "few_sentences": lambda n, d: (
        f"{n['text']} has {format_count(n['sentences'], 'sentence')} to compare: too short to tell"
    ),
    "few_words": lambda n, d: f"{n['text']} has {format_count(n['words'], 'word')}: too short to tell",
    "disguised": lambda n, d: f"{n['text']} has characters that disguise it ({n['characters']}): read it as it looks",
    "other_language": lambda n, d: f"{n['text']} does not seem to be English: not calibrated for its language",
    "long_texts": lambda n, d: "longer than the texts of the calibration: more matches by chance",
    "left_out": lambda n, d: (
        f"{format_count(n['passages'], 'passage')} left out: in quotations, lists of references, formal parts or tables"
    ),
    "only_similar": lambda n, d: "weak evidence: only the overall similarity reaches the threshold",
    "few_tokens": lambda n, d: (
        f"outside calibration: {n['tokens']} target tokens, calibrated on {n['least']} to {n['most']}"
    ),
    "many_tokens": lambda n, d: (
        f"outside calibration: {n['tokens']} target tokens, calibrated on at most {n['most']}: more windows"
    ),
    "rare_words": lambda n, d: (
        f"{UNLIKE_WORDS}: share of common words {n['share']:.2f}, calibrated on at least {n['least']:.2f}"
    ),
    "unpredictable": lambda n, d: (
        f"outside calibration: {n['nats_per_byte']:.2f} nats per byte without the source, above the maximum "
        f"{n['most']:.2f}"
    ),
    "predictable": lambda n, d: (
        f"target nearly predictable without the source: {n['nats_per_byte']:.2f} nats per byte, calibrated on at "
        f"least {n['least']:.2f}"
    ),
    "few_sources": lambda n, d: (
        f"{format_count(n['sources'], 'source')}, and a score of {n['score']:.3f} needs {n['needed']} or more: among "
        "few sources all words are common, so that even a copy can be negative"
    ),
    "not_scored": lambda n, d: (
        f"{'not scored' if d.decision is None else 'not scored, decided negative'}: {n['cause']}"
    ),
    "just_below": lambda n, d: "the score is just below the threshold",
    "too_little_text": lambda n, d: "the score reaches the threshold, but there is too little text to decide",
    "usual_score": _describe_usual,
    "no_passage": lambda n, d: "no passage found: the detection covers both documents",
    "not_searched": lambda n, d: (
        "decided again from its score, and no passage is recorded: the detection covers both documents"
    ),
    "undetected": lambda n, d: "decided positive without a passage",
}
"""The sentence of each code, from its numbers and the decision."""


def describe_numbers(decision: Decision) -> str:
    """Return what the numbers of a decision mean; empty if they say nothing about sentences."""
    numbers = decision.numbers
    if "corresponding" not in numbers:
        return ""
    corresponding, sentences, copied = (int(numbers[name]) for name in ("corresponding", "sentences", "copied"))
    count = f"{corresponding} of {format_count(sentences, 'sentence')} correspond{'s' * (corresponding == 1)}"
    longest = f"; longest copied stretch {format_count(copied, 'word')}" if copied else ""
    return f"{count} to one of the source{longest}"


def describe_passage(passage: MeasuredPassage, words: int, equal_words: int) -> str:
    """Return what shows a passage: what is copied or equal, and why it does not count if it does not.

    Args:
        passage: the passage.
        words: number of its words in the suspicious text.
        equal_words: number of those that are marked as equal, copied ones included.
    """
    copied = round(passage.verbatim * words)
    if passage.verbatim > MIN_COPY:
        text = f"All {words:,} words are copied."
    elif not copied:
        text = f"Reworded: {equal_words:,} of its {words:,} words are equal."
    elif equal_words > copied:
        others = f"{equal_words - copied:,} others also occur in the source passage"
        text = f"{copied:,} of its {words:,} words are copied, and {others}."
    else:
        text = f"{copied:,} of its {words:,} words are copied."
    if passage.within is not None:
        place = QUOTED[passage.within].removeprefix("in ")
        effect = f"counts: {QUOTATION_RULE}" if passage.counts else "does not count"
        text += f" It is part of {place} and {effect}."
    notes = [_NOTES[reason.code](reason.numbers, passage) for reason in passage.reasons if reason.code in _NOTES]
    return f"{text} {'; '.join(notes)}." if notes else text


_NOTES: dict[str, Callable[[Mapping[str, Any], MeasuredPassage], str]] = {
    SHARED: lambda n, p: (
        f"{n['texts']} of {n['of']} suspicious texts {'share it' if 2 * p.verbatim > 1 else 'have a similar passage'}"
    ),
    ANNOUNCED: lambda n, p: "it may be given material: a colon announces it in both texts",
}
"""What is added to the sentence of a passage, by the code of a reason."""


def describe_measures(passage: MeasuredPassage) -> str:
    """Return what was measured on a passage: the similarity of its words and its gain."""
    text = f"Word similarity {passage.similarity:.2f}, on a scale from 0 to 1."
    return text if passage.gain is None else f"{text} {_describe_gain(passage.gain)}"


def _describe_gain(gain: float) -> str:
    if gain < MIN_GAIN:
        return f"The source makes it no easier to predict ({gain:.2f} nats per token)."
    return f"The source makes it {gain:.2f} nats per token easier to predict."


def describe_explanation(passage: MeasuredPassage, words: int, margin: float | None) -> str:
    """Return what shows the source of a passage of a query, and its distance to the second-best one.

    Args:
        passage: the passage; its place in the source is empty if there is none.
        words: number of its words in the query.
        margin: difference of the best source to the second-best, in nats per token; None without another source.
    """
    parts = [f"{100 * passage.verbatim:.0f} % of its {words:,} words are copied."]
    if passage.gain is not None:
        parts.append(_describe_gain(passage.gain))
    if margin is not None:
        parts.append(f"The second-best source explains {margin:.2f} less." if margin >= MIN_GAIN else EQUAL_SOURCES)
    if not passage.source.length:
        parts.append("No part of the source resembles it in its words.")
    return " ".join(parts)


def list_origins(job: JobFile) -> dict[str, str]:
    """Return the facts of a report about program, profile and models, each with the beginning of its fingerprint."""
    facts = {"program": f"pan_scdg {__version__}", "profile": job.profile["name"]}
    for name, identity in job.models.items():
        shown = job.model_names.get(name, "")
        facts[name] = f"{shown} {str(identity.get('weights', ''))[:FINGERPRINT_CHARACTERS]}".strip()
    if job.handout is not None:
        facts["handout"] = f"{job.handout} (text in common with it does not count)"
    return facts


def list_facts(report: Report) -> list[tuple[str, str]]:
    """Return the facts of a report as name and value, both as they are shown."""
    facts = {**report.facts, **({} if report.threshold is None else {"threshold": report.threshold})}
    return [(name.replace("_", " "), _format_fact(value)) for name, value in facts.items()]


def _format_fact(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
