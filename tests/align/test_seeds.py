"""Seeds and similarities against a literal restatement; grouping against its definition."""

import math
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.align import seeds
from pan_scdg.align.passages import group_seeds
from pan_scdg.align.seeds import Comparison, Seed, find_runs
from pan_scdg.text.stemming import stem_word
from pan_scdg.text.units import prepare_text

WORDS = ("cat", "cats", "sat", "mat", "dog", "dogs", "runs", "running", "hills", "green", "tea")
sentences = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), min_size=1, max_size=8)


def write(units: list[list[str]]) -> str:
    return " ".join(" ".join(words).capitalize() + "." for words in units)


@given(sentences, sentences, st.sampled_from([1, 10, 1 << 21]))
@settings(max_examples=60, deadline=None)
def test_seeds_are_those_of_the_formula(target: list[list[str]], source: list[list[str]], batch: int) -> None:
    counts = [[Counter(map(stem_word, words)) for words in units] for units in (target, source)]
    everything = [*counts[0], *counts[1]]
    weight = {t: math.log(len(everything) / sum(t in unit for unit in everything)) for unit in everything for t in unit}

    def cosine(a: Counter[str], b: Counter[str]) -> float:
        norms = [math.sqrt(sum((n * weight[t]) ** 2 for t, n in unit.items())) for unit in (a, b)]
        return sum(a[t] * b[t] * weight[t] ** 2 for t in a) / (norms[0] * norms[1]) if all(norms) else 0.0

    expected = {
        (i, j): cosine(a, b)
        for (i, a), (j, b) in product(enumerate(counts[0]), enumerate(counts[1]))
        if cosine(a, b) >= 0.33 and 2 * len(a.keys() & b.keys()) >= 0.3 * (len(a) + len(b))
    }
    comparison = Comparison(*(prepare_text(write(units), 1) for units in (target, source)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "BATCH_PAIRS", batch)
        similar = comparison.find_seeds()
    assert {(seed.target, seed.source): seed.cosine for seed in similar} == pytest.approx(expected)
    whole = [sum(units, Counter[str]()) for units in counts]
    assert comparison.compare_ranges(range(len(target)), range(len(source))) == pytest.approx(cosine(*whole), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), unique=True, max_size=30), st.integers(0, 6))
def test_groups_have_no_gap_and_could_not_be_larger(places: list[tuple[int, int]], gap: int) -> None:
    groups = group_seeds([Seed(i, j, 0.5) for i, j in places], gap)
    assert sorted((s.target, s.source) for group in groups for s in group.seeds) == sorted(places)
    for group in groups:
        for side in (0, 1):
            units = sorted(seed[side] for seed in group.seeds)
            assert all(b - a <= gap + 1 for a, b in zip(units, units[1:]))
    for a, b in product(groups, groups):  # two groups that are near in both texts would be one
        if a is not b:
            near = [min(abs(s[i] - t[i]) for s in a.seeds for t in b.seeds) <= gap + 1 for i in (0, 1)]
            joined = group_seeds([*a.seeds, *b.seeds], gap)
            assert not all(near) or len(joined) > 1


@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
@settings(max_examples=80, deadline=None)
def test_runs_are_common_and_as_long_as_they_can_be(target: list[str], source: list[str]) -> None:
    texts = " ".join(target), " ".join(source)
    covered: set[int] = set()
    for run in find_runs(prepare_text(texts[0], 1), prepare_text(texts[1], 1), 3):
        words = texts[0][slice(*run.target)].split()
        assert words == texts[1][slice(*run.source)].split()
        assert len(words) >= 3
        places = {i for i in range(len(target)) if run.target.begin <= 2 * i < run.target.end}
        assert not places & covered
        covered |= places
        after, behind = max(places) + 1, run.source.end // 2 + 1
        assert after >= len(target) or behind >= len(source) or target[after] != source[behind]
