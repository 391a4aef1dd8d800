"""A verdict says where its target is unlike those of the calibration, and which share of negatives scored as much."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit

from pan_scdg.jobs.requests import Computing
from pan_scdg.profile import SHIPPED, CalibrationRange, load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scdg.aggregation import Aggregate, GainStatistics, compute_statistics
from pan_scdg.scdg.calibration_range import TargetFacts, find_range, list_range_warnings
from pan_scdg.scdg.sequences import build_pair_passes
from pan_scdg.scoring.calibration import measure_targets
from pan_scdg.scoring.pair_plan import PlannedPair, ScoredPair
from pan_scdg.scoring.passes import PassScorer
from pan_scdg.store import MemoryStore

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
EXAMPLES = Path(__file__).parents[2] / "examples" / "pan25-pairs"
SOURCE = "The tide turned before noon, and nobody on the quay said a word about it.\n"
ENGLISH = (
    "For most of the summer the river was so low that people walked across it in their shoes. The men who owned boats "
    "sat in front of their sheds and repaired things that were not broken. Nobody talked about the autumn, when the "
    "mill would have to stand still with the barns full of grain. Only the old teacher worked out every evening how "
    "far the water had fallen since the day before, and wrote the number in chalk on the door of the town hall. By the "
    "next morning the children had usually turned it into a face. The rain came in October, slowly at first and then "
    "for three weeks without a break, and the bridge that everyone had laughed about since spring was needed again. "
    "People stood at the rail and watched the brown water carry branches and pieces of fence towards the sea."
)
GERMAN = (
    "Der Fluss führte in jenem Sommer so wenig Wasser, dass man an den flachen Stellen hinübergehen konnte, ohne nasse "
    "Knie zu bekommen. Die Fischer saßen vor ihren Hütten und flickten Netze, die sie vorläufig nicht brauchten. "
    "Niemand sprach darüber, was im Herbst werden sollte, wenn die Mühle stillstand und das Getreide in den Scheunen "
    "lag. Nur der alte Lehrer rechnete jeden Abend aus, wie viele Zentimeter der Pegel gefallen war, und schrieb die "
    "Zahl mit Kreide an die Tür des Rathauses. Am nächsten Morgen hatten die Kinder daraus meist ein Gesicht gemalt."
)
MISREAD = {"e": "c", "l": "1", "i": "l", "o": "0", "m": "rn", "n": "u", "h": "b", "a": "o", "s": "5", "d": "cl"}


def misread(text: str) -> str:
    """One letter in six or so read wrongly, as a bad scan would have it."""
    generator = random.Random(1)
    return "".join(MISREAD.get(c, c) if generator.random() < 0.25 else c for c in text)


def example(number: int) -> str:
    return (EXAMPLES / "test" / "susp" / f"suspicious-document{100 + number:05d}.txt").read_text(encoding="utf-8")


TARGETS = {
    "english": ENGLISH,
    "first": " ".join(example(1).split()[:150]),
    "second": " ".join(example(2).split()[:150]),
    "whole": example(7),
    "german": GERMAN,
    "misread": misread(ENGLISH),
    "short": " ".join(ENGLISH.split()[:30]),
    "repeated": " ".join(ENGLISH.split()[:40] * 12),
}
ORDINARY = ("english", "first", "second", "whole")


def measure(tokenizer: Any, text: str, features: GainStatistics) -> TargetFacts:
    """Return the measurements of one target."""
    file = TextFile("target", "target", Path("target"), text)
    plan = PlannedPair(DocumentPair(file, file), "whole", "key", len(text), len(text), features.tokens)
    return next(measure_targets([ScoredPair(plan, features)], tokenizer))


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped default with windows, its range that of the calibration half of the examples.

    The range depends on the targets alone, so that no pass with a source is needed, and no threshold that is chosen.
    """
    offline = load_profile("scdg-mini")
    model = Computing("cpu").open_model(offline.model)
    scorer, facts = PassScorer(model, MemoryStore()), []
    for file in sorted((EXAMPLES / "calibration" / "susp").glob("*.txt"))[::2]:
        text = file.read_text(encoding="utf-8")
        alone = scorer.score_unconditional(build_pair_passes(model.tokenizer, "", text).unconditional)
        features = compute_statistics(np.asarray(alone), (), -float(alone.sum()))
        facts.append(measure(model.tokenizer, text, features))
    document: Any = tomlkit.parse((SHIPPED / "scdg-mini.toml").read_text(encoding="utf-8"))
    pairs = document["pairs"]
    for field in ("q", "w", "aggregation", "control", "threshold"):
        pairs.pop(field, None)
    pairs.update({"aggregation": "window", "w": 128, "threshold": 0.0})
    known = find_range(facts)
    old = {k: v for k, v in pairs["calibration"].items() if k in ("digest", "pairs", "positives", "f1", "accuracy")}
    pairs["calibration"] = {**old, "negatives": [-0.5, 0.0, 0.5], "negative_pairs": 3, "range": known.model_dump()}
    document["name"] = "ranged"
    path = tmp_path_factory.mktemp("ranged") / "ranged.toml"
    path.write_text(tomlkit.dumps(json.loads(json.dumps(document.unwrap()))), encoding="utf-8")
    return path


def kinds(warnings: list[str]) -> set[str]:
    """What is complained of, in one word each."""
    words = {
        "target tokens, calibrated": "length",
        "language or characters": "language",
        "above the maximum": "surprising",
        "nearly predictable": "predictable",
    }
    found = {word for text, word in words.items() if any(text in w for w in warnings)}
    assert len(found) == len(warnings), warnings
    return found


def test_targets_unlike_the_calibration_are_told_so_and_others_are_not(
    profile: Path, cli: Run, records: Read, tmp_path: Path
) -> None:
    (tmp_path / "in" / "susp").mkdir(parents=True)
    (tmp_path / "in" / "src").mkdir()
    (tmp_path / "in" / "src" / "r.txt").write_text(SOURCE, encoding="utf-8")
    for name, text in TARGETS.items():
        (tmp_path / "in" / "susp" / f"{name}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "in" / "pairs").write_text("".join(f"{name}.txt r.txt\n" for name in TARGETS), encoding="utf-8")
    where = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--profile", profile, "--device", "cpu")
    assert cli("run", *where).code == 0
    decisions = {d["suspicious"]: d for d in records(tmp_path / "out" / "decisions.jsonl")}
    found = {name: kinds(d["warnings"]) for name, d in decisions.items()}
    assert not any(found[name] for name in ORDINARY)
    assert found["german"] == found["misread"] == {"language", "surprising"}
    assert found["short"] == {"length"}
    assert "predictable" in found["repeated"]
    assert found["repeated"] <= {"predictable", "language"}
    negatives = np.array([-0.5, 0.0, 0.5])
    for decision in decisions.values():
        assert decision["negatives"] == 3
        expected = np.mean(negatives >= round(decision["score"], 4))
        assert decision["negatives_at_least"] == pytest.approx(expected, abs=1e-4)
    single = cli("score", tmp_path / "in" / "susp" / "german.txt", tmp_path / "in" / "src" / "r.txt", *where[4:])
    told = json.loads(single.out)
    assert told["warnings"] == decisions["german"]["warnings"]
    assert (told["negatives"], told["negatives_at_least"]) == (3, decisions["german"]["negatives_at_least"])


def test_calibrate_keeps_range_and_negatives(
    pairs_input: Path,
    cli: Run,
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    encode: Callable[..., list[int]],
    literal_log_probs: Callable[..., np.ndarray],
    tmp_path: Path,
) -> None:
    mine = tmp_path / "mine.toml"
    start = profile_with({"pairs.q": None, "pairs.threshold": None})
    where = ("--input", pairs_input, "--profile", start, "--write", mine, "--device", "cpu")
    assert cli("calibrate", *where, "--model", tiny_folder("qwen2")).code == 0
    calibration = load_profile(str(mine)).need_pairs().calibration
    assert calibration is not None
    assert calibration.range is not None
    assert run(pairs_input, tmp_path / "out", profile=mine).code == 0
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    positive = {("s1", "r1"), ("s2", "r2"), ("s3", "r3")}
    negative = sorted(d["score"] for d in decisions if (d["suspicious"], d["source"]) not in positive)
    assert calibration.negatives == pytest.approx(negative, abs=6e-5)
    assert calibration.negative_pairs == len(negative) == 3
    tokens = [d["tokens"] for d in decisions]
    assert calibration.range.tokens == (min(tokens), max(tokens))
    for d in decisions:
        assert not any("calibration" in w or "predictable" in w for w in d["warnings"]), "what chose it never warns"
        assert (d["negatives"], d["negatives_at_least"]) == (
            3,
            pytest.approx(sum(n >= d["score"] - 5e-5 for n in negative) / 3, abs=1e-4),
        )
    nats = []
    for name in ("s1", "s2", "s4"):  # s3 goes through segments
        text = (pairs_input / "susp" / f"{name}.txt").read_text(encoding="utf-8")
        ids = encode(text, special=True)
        nats.append(-literal_log_probs(ids, len(ids) - 1).sum() / len(text.encode("utf-8")))
    least, largest = calibration.range.nats_per_byte
    assert least - 1e-4 <= min(nats)
    assert max(nats) <= largest + 1e-4
    assert {round(n, 3) for n in nats} & {round(least, 3), round(largest, 3)}
    held = cli("evaluate", "--input", pairs_input, "--output", tmp_path / "out")
    assert "these very 6 pairs" in held.out, "evaluate reads what a run remembers of its calibration"


def test_without_a_range_nothing_is_said(
    pairs_input: Path, finished: Callable[[Path], Path], records: Read, cli: Run, tiny_folder: Callable[[str], Path]
) -> None:
    for decision in records(finished(pairs_input) / "decisions.jsonl"):
        assert "negatives" not in decision
        assert "negatives_at_least" not in decision
        assert not any("calibrat" in warning for warning in decision["warnings"])


def test_a_pair_that_is_not_scored_has_no_share_of_negatives(
    pairs_input: Path, run: Run, records: Read, profile_with: Callable[..., Path], tmp_path: Path
) -> None:
    calibration = {"digest": "d", "pairs": 4, "positives": 2, "f1": 1.0, "accuracy": 1.0}
    ranged = {"range": {"tokens": [10, 20], "nats_per_byte": [0.1, 9.0], "common_words": 0.0}}
    profile = profile_with({"pairs.calibration": {**calibration, "negatives": [0.1], "negative_pairs": 1, **ranged}})
    options = ("--over-long", "error", "--on-error", "negative")
    assert run(pairs_input, tmp_path / "out", *options, profile=profile).code == 0
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    failed = [d for d in decisions if d["score"] is None]
    assert failed
    assert all((d["negatives"], d["negatives_at_least"]) == (1, None) for d in failed)
    assert all(d["negatives_at_least"] in (0.0, 1.0) for d in decisions if d["score"] is not None)


def test_a_code_length_that_says_the_target_was_expected() -> None:
    """A fake one: 400 tokens that cost hardly anything without a source."""

    class Spelling:
        bos_token_id = eos_token_id = pad_token_id = None

        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return [ord(c) for c in text]

        def decode(self, ids: Any) -> str:
            return "".join(map(chr, ids))

        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return [chr(i) for i in ids]

    known = CalibrationRange(tokens=(200, 900), nats_per_byte=(1.0, 2.0), common_words=0.0)
    text = "ä" * 200  # 400 bytes
    features = compute_statistics(np.zeros(400), [Aggregate("top", 100)], 0.0)
    for code_length, told in ((40.0, "predictable"), (400.0, ""), (1000.0, "above the maximum 2.00")):
        facts = measure(Spelling(), text, features._replace(code_length=code_length))
        assert facts.nats_per_byte == code_length / 400
        warnings = list_range_warnings(facts, known, Aggregate("top", 100))
        assert len(warnings) == bool(told)
        assert all(told in w for w in warnings)


def test_verdicts_within_the_noise_are_marked(
    pairs_input: Path,
    cli: Run,
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:

    def calibrated(start: Path, mine: Path) -> dict[str, Any]:
        where = ("--input", pairs_input, "--profile", start, "--write", mine, "--device", "cpu", *state)
        assert cli("calibrate", *where, "--model", tiny_folder("qwen2")).code == 0
        return tomlkit.parse(mine.read_text(encoding="utf-8")).unwrap()

    def decided(name: str, profile: Path) -> list[dict[str, Any]]:
        assert run(pairs_input, tmp_path / name, *state, profile=profile).code == 0
        return records(tmp_path / name / "decisions.jsonl")

    state = ("--state", tmp_path / "state")
    mine, noisy = tmp_path / "mine.toml", tmp_path / "noisy.toml"
    document = calibrated(profile_with({"pairs.q": None, "pairs.threshold": None}), mine)
    silent = decided("silent", mine)
    assert not any("near_threshold" in d for d in silent), "no noise was measured"
    away = sorted(abs(d["score"] - d["threshold"]) for d in silent)
    document["pairs"]["calibration"]["noise"] = noise = (away[1] + away[2]) / 2
    noisy.write_text(tomlkit.dumps(document), encoding="utf-8")
    marked = decided("marked", noisy)
    assert [d.pop("near_threshold") for d in marked] == [abs(d["score"] - d["threshold"]) < noise for d in silent]
    assert marked == silent
    of_pair = next(d["near_threshold"] for d in records(tmp_path / "marked" / "decisions.jsonl"))
    texts = (pairs_input / "susp" / "s1.txt", pairs_input / "src" / "r1.txt")
    single = cli("score", *texts, "--profile", noisy, "--device", "cpu", "--model", tiny_folder("qwen2"))
    assert json.loads(single.out)["near_threshold"] == of_pair
    again = calibrated(noisy, tmp_path / "again.toml")
    assert again["pairs"]["calibration"]["noise"] == noise, "it belongs to the model, not to the pairs"
    document["model"]["dtype"] = "float16"
    noisy.write_text(tomlkit.dumps(document), encoding="utf-8")
    assert not any("near_threshold" in d for d in decided("other", noisy)), "nothing is known of another dtype"
    assert "noise" not in calibrated(noisy, tmp_path / "other.toml")["pairs"]["calibration"]
