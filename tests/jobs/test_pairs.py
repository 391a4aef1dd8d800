"""Pair detection from the command line to its files, with a tiny random model."""

import json
import math
import pickle
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.retrieval import RetrievalWorker
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.lm.model import ScoringModel
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.gains import GainMethod
from pan_scdg.profile import load_profile
from tests.decisions import list_sentences
from tests.jobs.conftest import SMALL
from tests.memory_errors import MEMORY_ERRORS, limit_memory
from tests.tables import write_table

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
Change = Callable[[Mapping[str, Any]], Path]
PAIRS = [("s1", "r1"), ("s1", "r2"), ("s2", "r2"), ("s3", "r3"), ("s3", "r4"), ("s4", "r1")]
LONG = {("s3", "r3"), ("s3", "r4")}


def text_of(root: Path, name: str) -> str:
    return (root / ("susp" if name[0] == "s" else "src") / f"{name}.txt").read_text(encoding="utf-8")


def by_pair(lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(d["suspicious"], d["source"]): d for d in lines}


def top(gains: np.ndarray, q: float) -> float:
    return float(np.mean(np.sort(gains)[::-1][: max(1, math.ceil(len(gains) * q / 100))]))


def forbidden(*_: object) -> None:
    raise AssertionError("no forward pass was expected")


def test_every_pair_has_one_xml_and_one_decision(
    pairs_input: Path, finished: Callable[[Path], Path], records: Read, visible: Callable[[Path], dict[str, bytes]]
) -> None:
    output = finished(pairs_input)
    decisions = records(output / "decisions.jsonl")
    assert [(d["suspicious"], d["source"]) for d in decisions] == PAIRS
    assert set(visible(output)) == {
        "decisions.jsonl",
        "scores.jsonl",
        "job.json",
        "gains.jsonl.gz",
        *(f"{s}-{r}.xml" for s, r in PAIRS),
    }
    for (s, r), decision in by_pair(decisions).items():
        root = ET.parse(output / f"{s}-{r}.xml").getroot()
        found = [dict(f.attrib) for f in root]
        whole = {
            "name": "detected-plagiarism",
            "this_offset": "0",
            "this_length": str(len(text_of(pairs_input, s))),
            "source_reference": f"{r}.txt",
            "source_offset": "0",
            "source_length": str(len(text_of(pairs_input, r))),
        }
        assert root.attrib == {"reference": f"{s}.txt"}
        assert found == ([whole] if decision["decision"] else [])


def test_tira_accepts_the_output(pairs_input: Path, finished: Callable[[Path], Path]) -> None:
    check = pytest.importorskip("tira.check_format")
    assert check.check_format(pairs_input, "text-alignment-corpus")[0] == check.FormatMsgType.OK
    assert check.check_format(finished(pairs_input), "text-alignment-features")[0] == check.FormatMsgType.OK


@pytest.mark.parametrize("pair", [p for p in PAIRS if p not in LONG])
def test_score_equals_a_restatement_from_full_logits(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    records: Read,
    encode: Callable[..., list[int]],
    literal_log_probs: Callable[..., np.ndarray],
    gain_tolerance: Callable[[int], float],
    pair: tuple[str, str],
) -> None:
    target, source = (text_of(pairs_input, name) for name in pair)
    alone, both = encode(target, special=True), encode(f"{source}\n\n{target}", special=True)
    n = len(alone) - 1
    assert both[-n:] == alone[-n:]
    gains = literal_log_probs(both, n) - literal_log_probs(alone, n)
    decision = by_pair(records(finished(pairs_input) / "decisions.jsonl"))[pair]
    assert decision["tokens"] == n
    bound = gain_tolerance(len(both))
    assert decision["score"] == pytest.approx(top(gains, 10), abs=bound)
    assert decision["mean"] == pytest.approx(gains.mean(), abs=bound)
    assert decision["median"] == pytest.approx(np.median(gains), abs=bound)
    near_zero = (np.abs(gains) <= bound).mean()
    assert decision["positive_gain_rate"] == pytest.approx((gains > 0).mean(), abs=near_zero + 1e-6)


def test_statistics_agree_with_the_kept_gains(
    pairs_input: Path, finished: Callable[[Path], Path], records: Read
) -> None:
    output = finished(pairs_input)
    kept = by_pair(records(output / "gains.jsonl.gz"))
    for pair, decision in by_pair(records(output / "decisions.jsonl")).items():
        gains = np.array(kept[pair]["gains"])
        assert len(gains) == decision["tokens"]
        assert decision["mean"] == pytest.approx(gains.mean(), abs=2e-6)
        assert decision["score"] == pytest.approx(top(gains, 10), abs=2e-6)
        assert gains.min() < 0 < gains.max(), "signed: nothing is clipped"
        assert len(kept[pair]["offsets"]) == len(gains)


def test_batches_are_tokenised_while_the_one_before_is_computed(
    pairs_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, threads = GainMethod._plan, list[str]()

    def record(method: GainMethod, pair: Any) -> Any:
        threads.append(threading.current_thread().name)
        return plan(method, pair)

    monkeypatch.setattr(GainMethod, "_plan", record)
    assert run(pairs_input, tmp_path / "out").code == 0
    assert len(threads) == 6, "once for each pair"
    assert threading.main_thread().name not in threads


def test_exactly_the_long_pairs_are_marked_as_segments(
    pairs_input: Path, finished: Callable[[Path], Path], records: Read, encode: Callable[..., list[int]]
) -> None:
    for pair, decision in by_pair(records(finished(pairs_input) / "decisions.jsonl")).items():
        target, source = (text_of(pairs_input, name) for name in pair)
        too_long = len(encode(f"{source}\n\n{target}", special=True)) > 512
        assert too_long == (pair in LONG)
        assert any("segments" in w for w in list_sentences(decision)) == too_long


def test_positive_means_score_at_least_threshold(
    pairs_input: Path, finished: Callable[[Path], Path], records: Read, run: Run, profile_with: Change, tmp_path: Path
) -> None:
    scores = {p: d["score"] for p, d in by_pair(records(finished(pairs_input) / "decisions.jsonl")).items()}
    middle = sum(sorted(scores.values())[2:4]) / 2
    result = run(pairs_input, tmp_path / "out", profile=profile_with({"decide.threshold": middle}))
    assert result.code == 0
    decided = by_pair(records(tmp_path / "out" / "decisions.jsonl"))
    assert {p for p, d in decided.items() if d["decision"]} == {p for p, s in scores.items() if s >= middle}
    assert {d["threshold"] for d in decided.values()} == {round(middle, 6)}


def test_over_long_pairs_are_all_named_before_any_forward_pass(
    pairs_input: Path,
    run: Run,
    tmp_path: Path,
    profile_with: Change,
    monkeypatch: pytest.MonkeyPatch,
    visible: Callable[[Path], object],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ScoringModel, "compute_groups", forbidden)
        result = run(pairs_input, tmp_path / "out", profile=profile_with({"gains.over_long": "error"}))
    assert result.code == 2
    lines = [line for line in result.err.splitlines() if "tokens, the profile's limit is 512" in line]
    assert len(lines) == len(LONG)
    assert all(any(f"{s}.txt" in line and r in line for line in lines) for s, r in LONG)
    assert not visible(tmp_path / "out")
    # the remedy of the message, in the same output directory
    assert run(pairs_input, tmp_path / "out").code == 0


def test_on_error_negative_records_the_reason(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Run,
    records: Read,
    tmp_path: Path,
    profile_with: Change,
) -> None:
    profile = profile_with({"gains.over_long": "error"})
    assert run(pairs_input, tmp_path / "out", "--on-error", "negative", profile=profile).code == 0
    decisions = by_pair(records(tmp_path / "out" / "decisions.jsonl"))
    reference = by_pair(records(finished(pairs_input) / "decisions.jsonl"))
    for pair, decision in decisions.items():
        if pair in LONG:
            assert (decision["decision"], decision["score"]) == (False, None)
            assert "limit is 512" in list_sentences(decision)[0]
            assert not list(ET.parse(tmp_path / "out" / f"{pair[0]}-{pair[1]}.xml").getroot())
        else:
            assert decision == reference[pair]


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_a_pair_that_exceeds_the_memory_is_an_error_of_this_pair(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Run,
    records: Read,
    error: Exception,
    tmp_path: Path,
) -> None:
    reference = by_pair(records(finished(pairs_input) / "decisions.jsonl"))
    with limit_memory(360, error):
        stopped = run(pairs_input, tmp_path / "out")
    assert stopped.code == 2
    assert "does not fit in the memory of cpu. Use over_long" in stopped.err
    assert "or see --on-error" in stopped.err
    with limit_memory(360, error):
        assert run(pairs_input, tmp_path / "out", "--on-error", "negative", "--overwrite").code == 0
    decisions = by_pair(records(tmp_path / "out" / "decisions.jsonl"))
    large = {("s1", "r1"), ("s2", "r2")}
    assert {pair for pair, one in decisions.items() if one["score"] is None} == large
    assert all("does not fit in the memory" in list_sentences(decisions[pair])[0] for pair in large)
    for pair in decisions.keys() - large:
        assert decisions[pair]["score"] == pytest.approx(reference[pair]["score"], abs=1e-4)


@pytest.mark.parametrize("error", [RuntimeError, OSError])
def test_the_traceback_of_an_internal_error_is_in_the_output_until_the_next_run(
    error: type[Exception], pairs_input: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise error("no such kernel")

    with monkeypatch.context() as patch:
        patch.setattr(ScoringModel, "compute_groups", fail)
        failed = run(pairs_input, tmp_path / "out")
    assert failed.code == 1
    log = (tmp_path / "out" / "error.log").read_text(encoding="utf-8")
    assert log.startswith("Traceback")
    assert log.endswith(f"{error.__name__}: no such kernel\n")
    assert f"\n{error.__name__}: no such kernel\nerror: internal error: " in failed.err
    assert run(pairs_input, tmp_path / "out").code == 0
    assert not (tmp_path / "out" / "error.log").exists()


def test_other_weights_under_the_same_config_are_another_result(
    pairs_input: Path, run: Run, other_weights: Callable[[Path, float], Path], tmp_path: Path
) -> None:
    model = other_weights(tmp_path / "model", 1.0)
    assert run(pairs_input, tmp_path / "one", model=model).code == 0
    other_weights(model, 1.2)
    refused = run(pairs_input, tmp_path / "one", model=model)
    assert refused.code == 2
    assert "from another run: different models" in refused.err


def test_scores_of_any_threshold_are_those_of_the_kept_gains(
    pairs_input: Path, run: Run, finished: Callable[[Path], Path], records: Read, tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "out", "--scores-only").code == 0
    kept = by_pair(records(finished(pairs_input) / "gains.jsonl.gz"))
    for pair, line in by_pair(records(tmp_path / "out" / "scores.jsonl")).items():
        for q in (1, 2, 5, 10, 20, 30, 50, 100):
            score = top(np.array(kept[pair]["gains"]), q)
            assert line["values"][f"top_{q}"] == pytest.approx(score, abs=2e-6)
    assert not list((tmp_path / "out").glob("*.xml"))


def test_results_show_the_names_of_a_prepared_table(
    pairs_input: Path, cli: Run, run: Run, records: Read, tmp_path: Path
) -> None:
    texts = {"Märchen 1.txt": "s1", "b/Text.txt": "s2", "Quelle eins.txt": "r1", "c/Text.txt": "r2"}
    for name, old in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text_of(pairs_input, old), encoding="utf-8")
    pairs = [("Märchen 1.txt", "Quelle eins.txt"), ("b/Text.txt", "c/Text.txt"), ("Märchen 1.txt", "c/Text.txt")]
    (tmp_path / "t.csv").write_text("".join(f'"{s}","{r}"\n' for s, r in pairs), encoding="utf-8")
    assert cli("prepare", "--table", tmp_path / "t.csv", "--output", tmp_path / "in").code == 0
    assert run(tmp_path / "in", tmp_path / "out").code == 0
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    assert [(d["suspicious_name"], d["source_name"]) for d in decisions] == pairs
    names = tmp_path / "in" / "names.csv"
    names.write_text(names.read_text(encoding="utf-8").replace("Quelle eins", "Quelle zwei"), encoding="utf-8")
    assert run(tmp_path / "in", tmp_path / "out").code == 2, "other names are another result"
    assert json.loads((tmp_path / "out" / "job.json").read_text(encoding="utf-8"))["names"]


def test_a_process_with_another_model_takes_no_task(
    other_weights: Callable[[Path, float], Path], tmp_path: Path
) -> None:
    model = other_weights(tmp_path / "model", 1.0)
    profile = load_profile(str(SMALL))
    workers = (PairWorker(profile, MethodOptions(model=model)), RetrievalWorker(profile, "cpu", model))
    pickled = [pickle.dumps(one) for one in workers]
    assert [type(pickle.loads(one)) for one in pickled] == [PairWorker, RetrievalWorker]
    other_weights(model, 1.2)
    for one in pickled:
        with pytest.raises(UserError, match="another language model, .*. Install the same model"):
            pickle.loads(one)


def test_a_threshold_and_a_q_of_the_command_line_decide(
    pairs_input: Path, run: Run, finished: Callable[[Path], Path], records: Read, profile_with: Change, tmp_path: Path
) -> None:
    uncalibrated = profile_with({"decide.threshold": None, "gains.q": None})
    kept = by_pair(records(finished(pairs_input) / "gains.jsonl.gz"))
    scores = {pair: top(np.array(line["gains"]), 20) for pair, line in kept.items()}
    threshold = round(sorted(scores.values())[3] - 1e-3, 4)
    words = ("--threshold", threshold, "--q", 20)
    assert run(pairs_input, tmp_path / "out", *words, profile=uncalibrated).code == 0
    decisions = by_pair(records(tmp_path / "out" / "decisions.jsonl"))
    assert {pair for pair, one in decisions.items() if one["decision"]} == {
        pair for pair, score in scores.items() if score >= threshold
    }
    for pair, one in decisions.items():
        assert (one["score"], one["threshold"]) == (pytest.approx(scores[pair], abs=1e-4), threshold)
    refused = run(pairs_input, tmp_path / "out", "--threshold", 1, "--q", 20, profile=uncalibrated)
    assert "from another run: different profile" in refused.err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--q", 5), "--q needs --threshold"),
        (("--threshold", 1, "--scores-only"), "--threshold cannot be combined with --scores-only"),
        (("--threshold", 1, "--q", 5, "--profile", "pan25-containment"), "profile that decides by the largest gains"),
        (("--threshold", 1, "--profile", "pan25-qwen3-8b"), "a threshold needs the q it was chosen with"),
        (("--threshold", 1, "--profile", "pan25-gram-logistic"), "a threshold needs the weights"),
        (("--threshold", "nan", "--profile", "pan25-containment"), "finite number"),
        (("--threshold", "inf"), "finite number"),
    ],
)
def test_a_threshold_without_effect_is_refused(
    words: tuple[object, ...], what: str, pairs_input: Path, run: Run, tmp_path: Path
) -> None:
    refused = run(pairs_input, tmp_path / "out", *words)
    assert (refused.code, what in refused.err) == (2, True), refused.err


@pytest.mark.parametrize("name", ["paths.csv", "texts.csv", "texts.jsonl", "texts.parquet"])
def test_a_table_of_pairs_decides_as_its_folder(
    name: str, pairs_input: Path, tmp_path: Path, cli: Callable[..., Any], records: Read
) -> None:
    pairs = [line.split() for line in (pairs_input / "pairs").read_text().splitlines()]
    paths = [(pairs_input / "susp" / own, pairs_input / "src" / other) for own, other in pairs]
    rows = [dict(zip(("suspicious", "source"), row)) for row in paths]
    if name.startswith("texts"):
        rows = [{side: path.read_text(encoding="utf-8") for side, path in row.items()} for row in rows]
    write_table(tmp_path / name, [{side: str(cell) for side, cell in row.items()} for row in rows])
    for number, path in enumerate((pairs_input, tmp_path / name)):
        where = ("--input", path, "--output", tmp_path / f"out{number}", "--profile", "pan25-containment")
        assert cli("run", *where).code == 0
    folder, table = (records(tmp_path / f"out{number}" / "decisions.jsonl") for number in (0, 1))
    decisions = {(row["suspicious"], row["source"]): (row["score"], row["decision"]) for row in folder}
    expected = [decisions[own.removesuffix(".txt"), other.removesuffix(".txt")] for own, other in pairs]
    assert [(row["score"], row["decision"]) for row in table] == expected
