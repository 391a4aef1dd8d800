"""The verdict about a pair of texts, and its report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple

from pan_scdg.align.align import Evidence
from pan_scdg.align.units import count_words
from pan_scdg.report.judge import judge_pair
from pan_scdg.report.records import Report, ReportText, TokenGains
from pan_scdg.scdg.aggregation import Floats, list_stored
from pan_scdg.scdg.gains import Gains
from pan_scdg.scdg.sequences import Tokenizer
from pan_scdg.scoring.calibration import GainRule, describe_gains
from pan_scdg.scoring.pair_method import LocatedGains
from pan_scdg.scoring.pair_plan import Mode


class Token(NamedTuple):
    """A scored token of the target; log-probabilities and gain are in nats."""

    token_id: int
    text: str
    start: int
    """Offset in characters of the target; ``start == end`` if the token has no characters of its own."""
    end: int
    unconditional: float
    conditional: float
    control: float | None
    """Log-probability given the shuffled source, if the profile has a control."""
    gain: float


@dataclass(frozen=True)
class PairResult:
    """The verdict about one pair."""

    score: float
    """The value compared with the threshold: the aggregated gain in nats per token, or the score of a baseline."""
    decision: bool | None
    """True if ``score >= threshold``; None without a threshold in the profile, or for this model."""
    threshold: float | None
    gains: Floats = field(repr=False)
    """Signed gain of every token, ``[n]`` nats; of length 0 if the profile has no table ``[pairs]``."""
    tokens: tuple[Token, ...] = field(repr=False)
    """Empty if the profile has no table ``[pairs]``."""
    passages: tuple[Evidence, ...] | None
    """The corresponding spans of target and source of a positive pair, with gains; None without `[passages]`."""
    warnings: tuple[str, ...]
    record: Mapping[str, Any] = field(repr=False)
    """The JSON object that the command ``score`` prints: the fields above and statistics of the gains."""
    texts: tuple[str, str] = field(repr=False)
    """Target and source."""
    facts: Mapping[str, str] = field(repr=False)
    """The profile that judged the pair and its models, by name."""

    def to_report(self, names: tuple[str, str] = ("target", "source")) -> Report:
        """Return the report of this pair.

        Args:
            names: of the target and of the source.
        """
        target, source = names
        gains = None
        if self.tokens:
            gains = TokenGains(tuple((t.start, t.end) for t in self.tokens), tuple(t.gain for t in self.tokens))
        words = count_words(self.texts[0]), count_words(self.texts[1])
        pair = replace(judge_pair(self.record, names, words), passages=self.passages or (), gains=gains)
        return Report(
            f"{target} and {source}",
            {target: ReportText(target, self.texts[0])},
            {source: ReportText(source, self.texts[1])},
            (pair,),
            self.threshold,
            self.facts,
        )

    def to_html(self, names: tuple[str, str] = ("target", "source")) -> str:
        """Return the report of this pair as an HTML page that needs no other file.

        Args:
            names: of the target and of the source, as the page shows them.
        """
        from pan_scdg.report.html import render_report

        return render_report(self.to_report(names))

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        from pan_scdg.report.html import render_summary

        return render_summary(self.to_report())


def add_gains(record: Mapping[str, Any], rule: GainRule, mode: Mode, gains: Gains) -> dict[str, Any]:
    """Return a record with the statistics of the gains, and the aggregated one beside the score of a baseline."""
    values = gains.summarise(list_stored("candidates", [rule.aggregate]))
    about = {
        **({"gain": rule.compute_score(values)} if "baseline" in record else {}),
        **rule.describe(),
        "mode": mode,
        **describe_gains(values),
        "total_gain_nats": values.total,
        **{a.field: v for a, v in values.scores.items() if a.entry.parameter == "q"},
        **rule.describe_negatives(record["score"]),
    }
    return {**{name: value for name, value in record.items() if name not in about}, **about}


def make_tokens(located: LocatedGains, tokenizer: Tokenizer) -> Iterator[Token]:
    """Yield the tokens of a target with their places and numbers."""
    of = located.gains
    controls = repeat(None) if of.control is None else of.control.tolist()
    values = zip(of.unconditional.tolist(), of.conditional.tolist(), controls, of.gains.tolist())
    for token_id, (start, end), numbers in zip(of.token_ids.tolist(), located.offsets.tolist(), values, strict=True):
        yield Token(token_id, tokenizer.decode([token_id]), start, end, *numbers)
