"""Every table ``[baseline]`` has its scorer, and scorers of different settings are told apart."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import TypeAdapter

from pan_scdg.methods.answers import Answerer
from pan_scdg.methods.lexical import Collection
from pan_scdg.methods.prompting import PromptJudge
from pan_scdg.methods.vectors import VectorScorer
from pan_scdg.profile import list_profiles, load_profile
from pan_scdg.profile.baseline import BaselineSettings
from pan_scdg.records import PairScorer, TextPair
from pan_scdg.scoring.baseline_registry import METHODS, BaselineParts
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
def make(tmp_path: Path) -> Iterator[Callable[..., PairScorer]]:
    """``make(settings, **parts)``: the scorer, with all parts but those given otherwise."""
    for name in ("p", "s"):
        np.save(tmp_path / f"{name}.npy", np.ones(3))
    with Store(tmp_path / "state") as store:

        def call(settings: BaselineSettings, **other: Any) -> PairScorer:
            vectors = VectorScorer(tmp_path, ("p", "s"))
            parts = BaselineParts({}, "cpu", {}, tmp_path, "f" * 64, vectors, Answerer({}, pytest.fail))
            sources = Collection("d" * 64, lambda: ["one two"])
            return METHODS[type(settings)].make_scorer(settings, parts._replace(**other), sources, store)

        yield call


def test_every_table_has_an_entry() -> None:
    assert {*get_args(get_args(BaselineSettings)[0])} == {*METHODS}


def test_identities_differ_with_everything_that_moves_a_score(make: Callable[..., PairScorer]) -> None:
    identities = [make(settings_of(table)).identify() for table in TABLES]
    assert all(one != other for i, one in enumerate(identities) for other in identities[:i])


@pytest.mark.parametrize("table", [t for t in TABLES if t["kind"] not in ("cosine", "prompt")])
def test_as_many_numbers_as_features(make: Callable[..., PairScorer], table: dict[str, Any]) -> None:
    scorer = make(settings_of(table))
    pairs = [TextPair("p", "s", "one two", "one two")] * 2
    rows = list(scorer.score(pairs))
    assert [len(row) for row in rows] == [len(scorer.features)] * 2
    assert rows[0] == rows[1]


@pytest.mark.parametrize("change", [{"threshold": 0.5}, {"n_grid": (3, 4)}])
def test_what_is_chosen_after_scoring_is_no_part_of_it(make: Callable[..., PairScorer], change: dict[str, Any]) -> None:
    settings = settings_of({"kind": "char-ngrams"})
    assert make(settings).identify() == make(settings.model_copy(update=change)).identify()


@pytest.mark.parametrize("name", [name for name in list_profiles() if load_profile(name).baseline is not None])
def test_every_shipped_baseline_has_a_scorer(make: Callable[..., PairScorer], name: str) -> None:
    assert make(load_profile(name).baseline).features


def test_a_method_that_was_not_given_what_it_needs_is_a_mistake(make: Callable[..., PairScorer]) -> None:
    for table in ({"kind": "vectors", "model": "x"}, {"kind": "cosine", "model": "x"}, TABLES[-1]):
        with pytest.raises(ValueError, match="a part of this baseline is missing"):
            make(settings_of(table), folder=None, vectors=None, answerer=None)
    assert isinstance(make(settings_of(TABLES[-1])), PromptJudge)
