"""The benchmark of both engines, small: what it counts, what it draws, and that the engines agree."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from benchmarks.scoring_inputs import Lengths, candidate_lists, long_unit, pair_units, retrieval_units
from benchmarks.scoring_models import SHAPES, Bytes, flops, peak_flops, shaped
from click.testing import CliRunner

from benchmarks import scoring
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.sequences import ScoringInput

TINY = ["--shape", "tiny", "--dtype", "float32", "--spread", "0"]
SMALL = ["--queries", "4", "--candidates", "3", "--source-tokens", "30", "--target-tokens", "10"]
KEYS = (
    *("ratio", "token_ratio", "flop_ratio", "share", "tokens_per_second", "pairs_per_second", "peak_memory_gib"),
    *("max_gain_difference", "mean_gain_difference", "top2_difference", "rank_correlation"),
    *("source_tokens", "target_tokens", "pairs", "device", "dtype", "pack_tokens", "rows"),
)


def run(*options: str) -> dict[str, Any]:
    found = CliRunner().invoke(scoring.main, [*TINY, *options])
    assert found.exit_code == 0, found.output
    figures: dict[str, Any] = json.loads(found.output.splitlines()[-1])
    assert figures.keys() >= set(KEYS)
    assert figures["max_gain_difference"] < 1e-4
    assert figures["rank_correlation"] == pytest.approx(1)
    assert figures["share"] == pytest.approx(figures["ratio"] / figures["token_ratio"], rel=1e-4)
    return figures


def test_retrieval_with_several_overlaps_scale_and_a_long_pair():
    figures = run(*SMALL, "--overlap", "2", "--overlap", "4", "--scale", "1,2", "--long", "200")
    # 4 queries alone (anchor and 10 tokens; the last is not computed), 12 pairs of anchor, 30, separator of 2 and 10.
    # The packed engine computes 32 tokens of each source once and 10 for each pair.
    reference = 4 * 11 + 12 * 43
    expected = {2.0: reference / (4 * 10 + 6 * 32 + 120), 4.0: reference / (4 * 10 + 3 * 32 + 120)}
    assert {row["overlap"]: row["token_ratio"] for row in figures["rows"]} == pytest.approx(expected, rel=1e-5)
    assert [row["documents"] for row in figures["rows"]] == [6, 3]
    assert figures["share"] == min(row["share"] for row in figures["rows"])
    assert [(row["factor"], row["pairs"]) for row in figures["scale"]] == [(1, 12), (2, 24)]
    assert isinstance(figures["long_memory_gib"], float)


def test_pairs_that_have_nothing_in_common():
    figures = run("--task", "pairs", "--pairs", "5", "--pack-tokens", "200")
    assert figures["pairs"] == 5
    # 5 targets alone and 5 pairs: the packed engine leaves out the last token of each
    lengths = 5 * (1 + 60) + 5 * (1 + 100 + 2 + 60)
    assert figures["token_ratio"] == pytest.approx(lengths / (lengths - 10), rel=1e-5)


def test_fewer_documents_than_candidates_are_refused():
    found = CliRunner().invoke(scoring.main, [*TINY, *SMALL, "--overlap", "5"])
    assert found.exit_code == 2
    assert "more queries are needed" in found.output


def test_every_source_is_in_as_many_lists():
    lists = candidate_lists(20, 100, 300, np.random.default_rng(0))
    assert all(len(set(chosen)) == 100 for chosen in lists)
    assert set(Counter(document for chosen in lists for document in chosen).values()) == {6, 7}
    with pytest.raises(ValueError, match="3 candidates of 2 documents"):
        candidate_lists(1, 3, 2, np.random.default_rng(0))


def test_a_unit_has_one_source_and_all_its_queries():
    lists = [[0, 1], [1, 2], [2, 0]]
    units = list(retrieval_units(Bytes(), lists, Lengths(40, 12, 0.5), 30))
    alone = [unit for unit in units if unit.names[0][1] is None]
    assert sorted(name for unit in alone for name in unit.names) == [(0, None), (1, None), (2, None)]
    assert [unit.names for unit in units[len(alone) :]] == [((0, 0), (2, 0)), ((0, 1), (1, 1)), ((1, 2), (2, 2))]
    for unit in units[len(alone) :]:
        assert len({item.context_ids.tobytes() for item in unit.items}) == 1
        assert all(20 <= len(item.context_ids) - 3 <= 60 and 6 <= len(item.target_ids) <= 18 for item in unit.items)


def test_pairs_are_the_same_whatever_the_batches():
    items = [
        {
            name: item
            for unit in pair_units(Bytes(), 6, Lengths(20, 9), budget)
            for name, item in zip(unit.names, unit.items)
        }
        for budget in (1, 1000)
    ]
    assert items[0].keys() == items[1].keys()
    for name, item in items[0].items():
        np.testing.assert_array_equal(np.concatenate(item), np.concatenate(items[1][name]))


def test_a_long_pair_has_the_tokens_asked_for():
    alone, both = long_unit(Bytes(), 101).items
    assert (both.length, len(both.target_ids)) == (101, 25)
    np.testing.assert_array_equal(alone.target_ids, both.target_ids)


@pytest.mark.parametrize("reuse", [False, True])
def test_operations_counted_layer_by_layer(reuse: bool):
    shape = SHAPES["tiny"]
    lm = shaped("tiny", ModelSettings(name="tiny", dtype="float32"), "cpu")
    context, targets = np.arange(7), [np.arange(n) for n in (3, 5)]
    items = [ScoringInput(context, target) for target in targets]
    # tokens at the positions of each sequence, written out; each sees itself and all before it
    # with reuse: six tokens of the context once; its last and all of a target but the last, for each target
    positions = [*range(6), *range(6, 6 + 3), *range(6, 6 + 5)] if reuse else [*range(7 + 3), *range(7 + 5)]
    hidden, inner, heads, keys, width = 32, 48, 4, 2, 16
    assert (shape["hidden_size"], shape["intermediate_size"], shape["head_dim"]) == (hidden, inner, width)
    total = 0
    for _layer in range(2):
        for position in positions:
            total += 2 * hidden * heads * width + 2 * 2 * hidden * keys * width + 2 * heads * width * hidden
            total += 3 * 2 * hidden * inner
            total += sum(2 * width + 2 * width for _head in range(heads) for _key in range(position + 1))
    total += sum(2 * hidden * 300 for target in targets for _ in target)
    assert flops(lm, items, reuse) == total


def test_a_cpu_has_no_peak_and_a_given_one_counts():
    assert peak_flops("cpu", 5.0) is None
    assert peak_flops("cuda", 5.0) == 5e12
