"""Rows are named as in the paper, and each method gets its own rule for the threshold."""

from typing import Any

import numpy as np
import pytest

from pan_scdg.methods.cosine import choose_official_threshold
from pan_scdg.errors import UserError
from pan_scdg.profile import Profile, list_profiles, load_profile
from studies.data.splits import PairSplit
from studies.pairs.same_topic import LEXICAL, list_topic_methods
from studies.pairs.scores import (
    Baseline,
    find_baselines,
    find_windows,
    make_score_table,
    name_baselines,
)
from studies.pairs.split_study import BASELINES, OURS, describe_rule, evaluate_splits, list_methods
from pan_scdg.scoring.baseline_registry import BaselineParts

SCORES = np.array([0.1, 0.3, 0.35, 0.62, 0.61, 0.65, 0.7, 0.9])
LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
IDS = tuple("abcdefgh")
WHOLE = PairSplit("s", IDS[::2], IDS[1::2])


def table(*columns: str) -> Any:
    return make_score_table(IDS, LABELS, dict.fromkeys(columns, SCORES))


def baseline(profile: str | Profile) -> Baseline:
    found = load_profile(profile) if isinstance(profile, str) else profile
    return Baseline(found, BaselineParts({}, "cpu", {}))


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("pan25-char-ngrams", "PAN12-style n-gram overlap"),
        ("pan25-bm25", "BM25 pair score"),
        ("pan25-containment", "Max 4-token-gram containment"),
        ("pan25-gram-logistic", "4-token-gram logistic"),
        ("pan25-linq", "Linq-Embed-Mistral cosine"),
        ("pan25-plagbench-zero", "PlagBench zero-shot (vanilla)"),
        ("pan25-plagbench-few-cot", "PlagBench few-shot (CoT)"),
    ],
)
def test_names_of_the_paper(profile: str, name: str) -> None:
    assert name_baselines([baseline(profile)]) == [name]


def test_every_shipped_baseline_has_a_row_of_its_own() -> None:
    profiles = [load_profile(name) for name in list_profiles()]
    baselines = [baseline(profile) for profile in profiles if profile.baseline is not None]
    assert len(set(name_baselines(baselines))) == len(baselines) >= 12
    assert all(describe_rule(b.settings) for b in baselines)
    other = load_profile("pan25-bm25").model_copy(update={"name": "mine"})
    assert name_baselines([baseline("pan25-bm25"), baseline(other)]) == [
        "BM25 pair score (pan25-bm25)",
        "BM25 pair score (mine)",
    ]


def test_embeddings_keep_a_published_threshold_and_else_get_the_official_one() -> None:
    scdg = load_profile("pan25-llama-3.1-8b")
    used = [baseline("pan25-linq"), baseline("pan25-minilm"), baseline("pan25-containment")]
    tables = {b.profile.name: table("score") for b in used} | {"scdg": table("mean", "median", "positive_gain_rate")}
    rows = list_methods(used, tables, scdg.need_pairs(), {"scdg": scdg.need_model()})
    assert [m.name for m in rows if m.group == OURS] == ["SCDG & Llama-3.1-8B, Average", "SCDG & Llama-3.1-8B, Top-q"]
    published, official, chosen = evaluate_splits([m for m in rows if m.group == BASELINES], [WHOLE])["threshold"]
    assert published == 0.697
    assert official == choose_official_threshold(SCORES[::2], LABELS[::2])
    assert chosen in SCORES[::2]


def test_only_a_profile_with_windows_has_a_row_for_them() -> None:
    offline = load_profile("offline")
    assert [a.name for a in find_windows(offline.need_pairs()).values()] == ["window-bounded-128"]
    assert find_windows(load_profile("pan25-llama-3.1-8b").need_pairs()) == {}
    rows = list_methods([], {"scdg": table("mean")}, offline.need_pairs(), {"scdg": offline.need_model()})
    assert rows[-1].name == "SCDG & scdg-mini, window-bounded"


def test_features_of_the_same_topic_rows() -> None:
    used = [baseline("pan25-bm25"), baseline("pan25-gram-logistic"), baseline("pan25-char-ngrams")]
    tables = {name: table("score") for name in ("scdg", *(b.profile.name for b in used))}
    rows = list_topic_methods(used, tables, tables)
    assert [row.features for row in rows if row.group == LEXICAL] == [
        ("score",),
        ("jaccard", "target_containment", "source_containment"),
        ("n_50",),
    ]


@pytest.mark.parametrize("name", ["pan25-bm25", "scdg"])
def test_names_are_those_of_the_score_files_and_differ(name: str) -> None:
    other = load_profile("pan25-containment").model_copy(update={"name": name})
    with pytest.raises(UserError, match=f"two methods have the name '{name}'"):
        find_baselines([load_profile("pan25-bm25"), other], [], "cpu", None, None)
