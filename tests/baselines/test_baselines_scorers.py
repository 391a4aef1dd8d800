"""Every table ``[baseline]`` has its scorer, and scorers of different settings are told apart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from pan_scdg.baselines.bm25_pairs import Collection
from pan_scdg.baselines.prompting import PromptJudge
from pan_scdg.baselines.scorers import Given, make_scorer
from pan_scdg.profile import list_profiles, load_profile
from pan_scdg.profile.baseline import BaselineSettings, VectorCosine
from pan_scdg.records import TextPair
from pan_scdg.scoring.baseline_parts import BaselineParts
from pan_scdg.store import Store

TABLES: list[dict[str, Any]] = [
    {"kind": "char-ngrams"},
    {"kind": "char-ngrams", "n": 8},
    {"kind": "containment"},
    {"kind": "containment", "n": 3},
    {"kind": "gram-logistic"},
    {"kind": "gram-logistic", "n": 3},
    {"kind": "bm25"},
    {"kind": "bm25", "k1": 0.9},
    {"kind": "bm25", "b": 0.4},
    {"kind": "cosine", "model": "x"},
    {"kind": "cosine", "model": "x", "chunk_tokens": 64},
    {"kind": "cosine", "model": "x", "batch": 1},
    {"kind": "vectors", "model": "x"},
    {"kind": "prompt", "model": "x", "characters": 500},
    {"kind": "prompt", "model": "x", "characters": 500, "shots": "few"},
    {"kind": "prompt", "model": "x", "characters": 500, "chain_of_thought": True},
]


def settings_of(table: dict[str, Any]) -> BaselineSettings:
    adapter: TypeAdapter[BaselineSettings] = TypeAdapter(BaselineSettings)
    return adapter.validate_python(table)


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Given]:
    for name in ("p", "s"):
        np.save(tmp_path / f"{name}.npy", np.ones(3))
    with Store(tmp_path / "state") as store:
        yield Given(store, Collection("d" * 64, lambda: ["one two"]), ("p", "s"), tmp_path, "f" * 64)


def test_identities_differ_with_everything_that_moves_a_score(given: Given) -> None:
    identities = [make_scorer(settings_of(table), given).identify() for table in TABLES]
    assert all(one != other for i, one in enumerate(identities) for other in identities[:i])


@pytest.mark.parametrize("table", [t for t in TABLES if t["kind"] not in ("cosine", "prompt")])
def test_as_many_numbers_as_features(given: Given, table: dict[str, Any]) -> None:
    scorer = make_scorer(settings_of(table), given)
    pairs = [TextPair("p", "s", "one two", "one two")] * 2
    rows = list(scorer.score(pairs))
    assert [len(row) for row in rows] == [len(scorer.features)] * 2
    assert rows[0] == rows[1]


@pytest.mark.parametrize("change", [{"threshold": 0.5}, {"n_grid": (3, 4)}])
def test_what_is_chosen_after_scoring_is_no_part_of_it(given: Given, change: dict[str, Any]) -> None:
    settings = settings_of({"kind": "char-ngrams"})
    assert make_scorer(settings, given).identify() == make_scorer(settings.model_copy(update=change), given).identify()


@pytest.mark.parametrize("name", [name for name in list_profiles() if load_profile(name).baseline is not None])
def test_every_shipped_baseline_has_a_scorer(given: Given, name: str) -> None:
    settings = load_profile(name).baseline
    assert settings is not None
    parts = BaselineParts({}, "cpu", {}, given.folder, "f" * 64, local_judge=given.local_judge)
    if not isinstance(settings, VectorCosine):  # its scorer is a part that is made before
        assert parts.make_scorer(settings, Collection("d" * 64, lambda: ["one two"]), given.store).features
    else:
        assert make_scorer(settings, given).features


def test_a_method_that_was_not_given_what_it_needs_is_a_mistake(given: Given) -> None:
    bare = Given(given.store)
    for table in ({"kind": "bm25"}, {"kind": "vectors", "model": "x"}, {"kind": "cosine", "model": "x"}):
        with pytest.raises(ValueError, match="an input of this baseline is missing"):
            make_scorer(settings_of(table), bare)
    local = settings_of({"kind": "prompt", "model": "x", "characters": 500, "served": "local"})
    with pytest.raises(ValueError, match="an input of this baseline is missing"):
        make_scorer(local, bare)
    assert isinstance(make_scorer(settings_of(TABLES[-1]), bare), PromptJudge)
