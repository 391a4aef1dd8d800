"""Two results side by side: every figure against scipy or a literal restatement, every tolerance at its edge."""

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.evaluation.comparison import (
    Coverage,
    Decision,
    Differences,
    Flip,
    Move,
    Tolerances,
    compare_pairs,
    compare_rankings,
    coverage,
    decisions_behind,
    differences,
    pair_faults,
    ranking_faults,
)
from pan_scdg.records import Span

DOCS = [f"d{i:02}" for i in range(16)]
PAIRS = [(f"s{i}", f"r{i}") for i in range(8)]
NONE = Tolerances(0.0, 0.0)

rankings = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "q4"]), st.lists(st.sampled_from(DOCS), min_size=1, unique=True), min_size=1
)
numbers = st.floats(-10, 10).map(lambda x: round(x, 3))
decided = st.builds(Decision, st.booleans(), st.none() | numbers, st.just(0.5))
decisions = st.dictionaries(st.sampled_from(PAIRS), decided)
passages = st.frozensets(
    st.builds(lambda p, n: Span(p[0], 0, n, p[1], 0, n), st.sampled_from(PAIRS), st.integers(1, 3))
)


def literal_tau(a: list[str], b: list[str]) -> float | None:
    """Pairs in the same order less those in another, over all of them: ranks have no ties."""
    common = [doc for doc in a if doc in b]
    signs = [np.sign(b.index(y) - b.index(x)) for x, y in combinations(common, 2)]
    return sum(signs) / len(signs) if signs else None


def literal_overlap(a: list[str], b: list[str], p: float = 0.9) -> float:
    """Shares that the first 1, 2, 3, ... documents of both have, weighted by p^depth; 1 at most."""
    depth = max(len(a), len(b))
    weights = [p**i for i in range(depth)]
    found = [len({*a[: i + 1]} & {*b[: i + 1]}) / (i + 1) for i in range(depth)]
    best = [min(i + 1, len(b)) / (i + 1) for i in range(depth)]
    return float(np.dot(weights, found) / np.dot(weights, best))


@given(rankings, rankings)
def test_rankings_agree_as_a_literal_restatement_says(a: dict[str, list[str]], b: dict[str, list[str]]) -> None:
    found = compare_rankings(a, b)
    both = [q for q in a if q in b]
    assert found.queries == Coverage(len(both), len(a) - len(both), len(b) - len(both))
    taus = [tau for q in both if (tau := literal_tau(a[q], b[q])) is not None]
    assert (found.tau is None) == (not taus)
    if found.tau is not None:
        assert (found.tau.mean, found.tau.least) == pytest.approx((np.mean(taus), min(taus)))
    overlaps = [literal_overlap(a[q], b[q]) for q in both]
    assert (found.overlap is None) == (not overlaps)
    if found.overlap is not None:
        assert (found.overlap.mean, found.overlap.least) == pytest.approx((np.mean(overlaps), min(overlaps)))
    tops = [(a[q][:10], b[q][:10]) for q in both]
    assert set(found.other_sets) == {q for q in both if {*a[q][:10]} != {*b[q][:10]}}
    assert set(found.other_orders) == {q for q in both if a[q][:10] != b[q][:10]}
    replaced = [max(sum(d not in y for d in x), sum(d not in x for d in y)) for x, y in tops]
    assert (found.replaced, found.listed) == (sum(replaced), sum(max(len(x), len(y)) for x, y in tops))
    moves = [
        abs(a[q].index(doc) - b[q].index(doc))
        for q in both
        for doc in {*a[q], *b[q]}
        if doc in a[q] and doc in b[q] and doc in [*a[q][:10], *b[q][:10]]
    ]
    if found.move is None:
        assert max(moves, default=0) == 0
    else:
        move = found.move
        assert a[move.query][move.rank_a - 1] == b[move.query][move.rank_b - 1] == move.document
        assert abs(move.rank_a - move.rank_b) == max(moves) > 0


@given(rankings)
def test_a_ranking_agrees_with_itself(a: dict[str, list[str]]) -> None:
    found = compare_rankings(a, a)
    assert found.overlap is not None
    assert (found.overlap.mean, found.overlap.least) == pytest.approx((1, 1))
    assert found.tau is None or (found.tau.mean, found.tau.least) == pytest.approx((1, 1))
    assert (found.other_sets, found.other_orders, found.move) == ((), (), None)
    assert ranking_faults(found, NONE) == []


def test_what_moves_below_the_top_10_is_no_move() -> None:
    a = {"q": DOCS}
    assert compare_rankings(a, {"q": [*DOCS[:10], *reversed(DOCS[10:])]}).move is None
    into = compare_rankings(a, {"q": [DOCS[15], *DOCS[:15]]})
    assert into.move == Move("q", "d15", 16, 1)
    assert into.other_sets == ("q",)
    turned = compare_rankings(a, {"q": [DOCS[1], DOCS[0], *DOCS[2:]]})
    assert (turned.other_sets, turned.other_orders) == ((), ("q",))


def test_a_share_of_the_documents_in_the_top_10_may_be_others() -> None:
    a = {f"q{i}": DOCS for i in range(20)}
    b = {**a, "q3": DOCS[6:], "q4": DOCS[1:], "q5": DOCS[:7]}
    found = compare_rankings(a, b)
    assert (found.replaced, found.listed) == (6 + 1 + 3, 200)
    assert ranking_faults(found, Tolerances(top10=0.05)) == []
    assert ranking_faults(found, Tolerances(top10=0.049)) == ["other documents in the top 10: 10 of 200"]
    assert ranking_faults(found, Tolerances(top10=float("nan"))), "no tolerance permits nothing"
    assert ranking_faults(compare_rankings(a, {"q0": DOCS}), Tolerances()) == ["queries only in A: 19, only in B: 0"]
    apart = compare_rankings({"q": DOCS}, {"r": DOCS})
    assert (apart.tau, apart.overlap) == (None, None)
    assert ranking_faults(apart, Tolerances()) == ["queries only in A: 1, only in B: 1"]


@given(decisions, decisions, passages, passages)
def test_pairs_differ_as_scipy_and_a_literal_restatement_say(
    a: dict[tuple[str, str], Decision],
    b: dict[tuple[str, str], Decision],
    of_a: frozenset[Span],
    of_b: frozenset[Span],
) -> None:
    found = compare_pairs(a, b, of_a, of_b)
    both = a.keys() & b.keys()
    assert found.pairs == coverage(a, b) == Coverage(len(both), len(a.keys() - both), len(b.keys() - both))
    flipped = {pair for pair in both if a[pair].positive != b[pair].positive}
    assert {flip.pair for flip in found.flips} == flipped
    assert all(flip.a == a[flip.pair] and flip.b == b[flip.pair] for flip in found.flips)
    x = [(a[pair].score, b[pair].score) for pair in both]
    known = [(s, t) for s, t in x if s is not None and t is not None]
    gaps = [abs(s - t) for s, t in known]
    assert found.scores.both == len(known)
    assert found.scores.largest == (max(gaps) if gaps else None)
    assert (found.scores.mean is None) == (not gaps)
    if gaps:
        assert found.scores.mean == pytest.approx(np.mean(gaps))
    if len({s for s, _ in known}) > 1 and len({t for _, t in known}) > 1:
        assert found.correlation == pytest.approx(scipy.stats.spearmanr(*zip(*known)).statistic)
    else:
        assert found.correlation is None
    assert found.passages == Coverage(len(of_a & of_b), len(of_a - of_b), len(of_b - of_a))
    apart = {(span.suspicious, span.source) for span in of_a ^ of_b}
    assert set(found.moved) == {p for p in apart if p not in flipped and (p in both or p not in {*a, *b})}


@given(decisions, passages)
def test_decisions_agree_with_themselves(a: dict[tuple[str, str], Decision], spans: frozenset[Span]) -> None:
    assert pair_faults(compare_pairs(a, a, spans, spans), NONE) == []


def test_what_scores_are_there_is_counted() -> None:
    a, b = {PAIRS[0]: 1.0, PAIRS[1]: 2.0}, {PAIRS[1]: 2.5, PAIRS[2]: 0.0, PAIRS[3]: 0.0}
    assert differences(a, b) == Differences(1, 3, 0.5, 0.5)
    assert differences(a, {}) == Differences(0, 2, None, None)


def test_a_flip_is_near_where_all_known_scores_are_near() -> None:
    def near(a: float | None, b: float | None, tolerance: float = 0.05) -> bool:
        return Flip(PAIRS[0], Decision(True, a, 0.5), Decision(False, b, 0.5)).is_near(tolerance)

    assert near(0.5, 0.46)
    assert near(0.55, None, 0.0500001)
    assert not near(0.56, 0.49)
    assert not near(0.51, 0.44)
    assert not near(None, None)
    assert not near(0.5, 0.5, float("nan"))


def test_faults_of_pairs() -> None:
    def faults(a: Decision, b: Decision, of_a: set[Span] = set(), of_b: set[Span] = set()) -> list[str]:  # noqa: B006
        return pair_faults(compare_pairs({PAIRS[0]: a}, {PAIRS[0]: b}, of_a, of_b), Tolerances())

    span = Span("s0", 0, 9, "r0", 0, 9)
    assert faults(Decision(True, 0.51, 0.5), Decision(False, 0.49, 0.5), {span}) == []
    assert faults(Decision(True, 0.8, 0.5), Decision(True, 0.851, 0.5)) == ["scores differ by 0.051 nats on average"]
    assert faults(Decision(True, 0.8, 0.5), Decision(True, 0.85, 0.5)) == []
    assert faults(Decision(True), Decision(False)) == ["decided otherwise and not near the threshold: 1 of 1 pairs"]
    assert faults(Decision(True), Decision(True), {span}) == ["other passages, though decided alike: 1 of 1 pairs"]
    one, other = {PAIRS[0]: Decision(True, 1.0, 0.5), PAIRS[1]: Decision(False)}, {PAIRS[1]: Decision(False, 0.1, 0.5)}
    assert pair_faults(compare_pairs(one, one | other, set(), set()), Tolerances()) == [
        "scored in one alone: 1 of 2 pairs"
    ]
    assert pair_faults(compare_pairs(one, other, set(), set()), Tolerances()) == ["pairs only in A: 1, only in B: 0"]


def test_passages_alone_tell_decisions() -> None:
    found = decisions_behind({Span("s0", 0, 9, "r0", 0, 9), Span("s1", 0, 9, None, 0, 0)}, [PAIRS[0], PAIRS[2]])
    assert found == {PAIRS[0]: Decision(True), PAIRS[2]: Decision(False), ("s1", ""): Decision(True)}
    scored = {PAIRS[0]: Decision(True, 0.9, 0.5), PAIRS[2]: Decision(False, 0.1, 0.5), ("s1", ""): Decision(True)}
    assert pair_faults(compare_pairs(scored, found, set(), set()), NONE) == [], "scores on one side are not compared"
