"""Plagdet against the official table of cases, values worked out by hand, and a restatement with sets of characters."""

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.evaluation.plagdet import Plagdet, compute_plagdet
from pan_scdg.records import Feature, Span
from tests.passages import make_feature

A = make_feature("s1", 100, 200, "r1", 50, 100)
B = make_feature("s2", 0, 100, "r2", 0, 100)
PERFECT = Plagdet(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
NOTHING = Plagdet(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def halves(feature: Feature) -> list[Feature]:
    own, other = feature.target, feature.source_span
    at, there = own.begin + own.length // 2, other.begin + other.length // 2
    return [
        feature._replace(target=own._replace(end=at), source_span=other._replace(end=there)),
        feature._replace(target=own._replace(begin=at), source_span=other._replace(begin=there)),
    ]


class TestOfficialTable:
    def test_exact_detections(self):
        assert compute_plagdet([A, B], [A, B]) == PERFECT

    def test_one_of_two_missing(self):
        # Equal lengths, so that micro and macro agree.
        result = compute_plagdet([A, A._replace(suspicious="s2", source="r2")], [A])
        assert (result.micro_recall, result.micro_precision) == (0.5, 1.0)
        assert (result.macro_recall, result.macro_precision) == (0.5, 1.0)

    def test_no_detections(self):
        assert compute_plagdet([A, B], []) == NOTHING

    def test_both_empty(self):
        assert compute_plagdet([], []) == PERFECT

    def test_truth_empty(self):
        assert compute_plagdet([], [A]) == NOTHING

    def test_identical_feature_counts_once(self):
        assert compute_plagdet([A, B, A], [A, A, B]) == PERFECT

    def test_case_split_into_halves(self):
        result = compute_plagdet([A, B], [*halves(A), B])
        assert (result.micro_recall, result.micro_precision) == (1.0, 1.0)
        assert (result.macro_recall, result.macro_precision) == (1.0, 1.0)
        assert result.granularity == 1.5
        assert result.micro_plagdet == pytest.approx(1 / log2(2.5))
        assert round(result.macro_plagdet, 4) == 0.7565

    def test_detection_without_source(self):
        truth = [make_feature("s1", 0, 100, "r1", 0, 100), B]
        result = compute_plagdet(truth, [make_feature("s1", 0, 100, None, 0, 0), B])
        assert result.macro_recall == 0.75
        assert result.macro_precision == 1.0

    @pytest.mark.parametrize("wrong", [A._replace(source="r2"), A._replace(source_span=Span(150, 250))])
    def test_wrong_document_or_disjoint_source_span(self, wrong):
        assert compute_plagdet([A], [wrong]) == NOTHING

    def test_far_beyond_the_end_is_not_clipped_and_costs_no_memory(self):
        huge = A._replace(target=Span(100, 100 + 10**15))
        result = compute_plagdet([A], [huge])
        assert result.micro_recall == 1.0
        assert result.micro_precision == pytest.approx(300 / (10**15 + 100))

    def test_length_zero_on_one_side_is_a_false_positive(self):
        result = compute_plagdet([A, B], [A._replace(source_span=Span(50, 50)), B])
        assert (result.macro_recall, result.macro_precision) == (0.5, 0.5)

    def test_reference_with_folder_does_not_match(self):
        assert compute_plagdet([A], [A._replace(suspicious="susp/s1")]) == NOTHING


def test_score_is_the_mean_of_six_values():
    result = Plagdet(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 7.0)
    assert result.score == pytest.approx(0.35)


def test_worked_by_hand():
    # The detection covers 50 of the 100 suspicious and 25 of the 100 source characters, and 50 + 75 outside.
    result = compute_plagdet([make_feature("s", 0, 100, "r", 0, 100)], [make_feature("s", 50, 100, "r", 75, 100)])
    assert result.micro_recall == result.macro_recall == 75 / 200
    assert result.micro_precision == result.macro_precision == 75 / 200
    assert result.micro_plagdet == pytest.approx(0.375)


def test_micro_counts_a_source_used_by_two_documents_once():
    truth = [make_feature("s1", 0, 10, "r", 0, 30), make_feature("s2", 0, 10, "r", 0, 30)]
    result = compute_plagdet(truth, truth[:1])
    # 10 + 10 suspicious characters and 30 source characters in all, of which 10 + 30 are found.
    assert result.micro_recall == 40 / 50
    assert result.macro_recall == 0.5


# The definition once more, with sets of characters and a list of all overlapping pairs, lengths of 0 included.


def characters(document, span):
    return {(document, i) for i in range(*span)}


def this(feature):
    return characters(("susp", feature.suspicious), feature.target)


def source(feature):
    return characters(("src", feature.source), feature.source_span)


def meet(a, b):
    return b[1] > a[0] and b[0] < a[1]


def overlap(a, b):
    if a.suspicious != b.suspicious or not meet(a.target, b.target):
        return False
    return a.source is None or b.source is None or (a.source == b.source and meet(a.source_span, b.source_span))


def shared(a, b):
    named = a.source is not None and b.source is not None
    return this(a) & this(b) | (source(a) & source(b) if named else set())


def by_pairs(truth, detections):
    cases, found = sorted(set(truth), key=str), sorted(set(detections), key=str)
    pairs = [(s, r) for s in cases for r in found if overlap(s, r)]
    detected = {s for s, _ in pairs}
    granularity = len(pairs) / len(detected) if detected else 1.0

    def share(of, by, met):
        if not of or not by:
            return float(not of and not by)
        held = (set().union(*(shared(a, b) for b in met(a))) for a in of)
        return sum(len(h) / (a.target.length + a.source_span.length) for a, h in zip(of, held, strict=True)) / len(of)

    recall = share(cases, found, lambda s: [r for one, r in pairs if one == s])
    precision = share(found, cases, lambda r: [s for s, one in pairs if one == r])
    correct = set().union(*(shared(s, r) for s, r in pairs))
    sizes = [len(set().union(*(this(x) | source(x) for x in side))) for side in (cases, found)]
    micros = [len(correct) / n if n else float(not cases and not found) for n in sizes]
    return (*micros, recall, precision, granularity)


names = st.sampled_from("ab")
sizes = st.integers(0, 40)
lengths = st.integers(1, 12)
nested = st.one_of(
    st.builds(make_feature, names, sizes, sizes, names, sizes, sizes),
    st.builds(make_feature, names, sizes, lengths, st.none(), st.just(0), st.just(0)),
).filter(lambda feature: feature.target.length + feature.source_span.length > 0)


@settings(max_examples=150, deadline=None)
@given(st.lists(nested, max_size=9), st.lists(nested, max_size=9), st.randoms(use_true_random=False))
def test_equals_the_definition_however_passages_overlap_and_ignores_order(truth, detections, random):
    result = compute_plagdet(truth, detections)
    *rates, granularity = by_pairs(truth, detections)
    f1 = [2 * r * p / (r + p) if r + p else 0.0 for r, p in (rates[:2], rates[2:])]
    micro, macro = (value / log2(1 + granularity) for value in f1)
    expected = (micro, *rates[:2], macro, *rates[2:], granularity)
    assert result == pytest.approx(expected, abs=1e-12)
    random.shuffle(truth)
    random.shuffle(detections)
    assert compute_plagdet(truth, detections) == result


def test_passages_that_each_hold_all_detections_make_no_list_of_pairs():
    import tracemalloc

    truth = [make_feature("s", i, 9000 - i, "r", i, 9000 - i) for i in range(800)]
    tracemalloc.start()
    result = compute_plagdet(truth, [make_feature("s", i, 3, "r", i, 3) for i in range(1000, 9000, 10)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (result.granularity, result.macro_precision) == (800.0, 1.0)
    assert peak < 3 << 20, "800 times the parts of all detections take over ten times as much"
