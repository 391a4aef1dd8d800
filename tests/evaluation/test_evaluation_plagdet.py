"""Plagdet against the official table of cases, values worked out by hand, and a restatement with sets of characters."""

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.evaluation.plagdet import Plagdet, Span, plagdet

A = Span("s1", 100, 200, "r1", 50, 100)
B = Span("s2", 0, 100, "r2", 0, 100)
PERFECT = Plagdet(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
NOTHING = Plagdet(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


def halves(span: Span) -> list[Span]:
    this, source = span.this_length // 2, span.source_length // 2
    left = span._replace(this_length=this, source_length=source)
    right = span._replace(
        this_offset=span.this_offset + this,
        this_length=span.this_length - this,
        source_offset=span.source_offset + source,
        source_length=span.source_length - source,
    )
    return [left, right]


class TestOfficialTable:
    def test_exact_detections(self):
        assert plagdet([A, B], [A, B]) == PERFECT

    def test_one_of_two_missing(self):
        # Equal lengths, so that micro and macro agree.
        result = plagdet([A, A._replace(suspicious="s2", source="r2")], [A])
        assert (result.micro_recall, result.micro_precision) == (0.5, 1.0)
        assert (result.macro_recall, result.macro_precision) == (0.5, 1.0)

    def test_no_detections(self):
        assert plagdet([A, B], []) == NOTHING

    def test_both_empty(self):
        assert plagdet([], []) == PERFECT

    def test_truth_empty(self):
        assert plagdet([], [A]) == NOTHING

    def test_identical_feature_counts_once(self):
        assert plagdet([A, B, A], [A, A, B]) == PERFECT

    def test_case_split_into_halves(self):
        result = plagdet([A, B], [*halves(A), B])
        assert (result.micro_recall, result.micro_precision) == (1.0, 1.0)
        assert (result.macro_recall, result.macro_precision) == (1.0, 1.0)
        assert result.granularity == 1.5
        assert result.micro_plagdet == pytest.approx(1 / log2(2.5))
        assert round(result.macro_plagdet, 4) == 0.7565

    def test_detection_without_source(self):
        truth = [Span("s1", 0, 100, "r1", 0, 100), B]
        result = plagdet(truth, [Span("s1", 0, 100, None, 0, 0), B])
        assert result.macro_recall == 0.75
        assert result.macro_precision == 1.0

    @pytest.mark.parametrize("wrong", [A._replace(source="r2"), A._replace(source_offset=150)])
    def test_wrong_document_or_disjoint_source_span(self, wrong):
        assert plagdet([A], [wrong]) == NOTHING

    def test_far_beyond_the_end_is_not_clipped_and_costs_no_memory(self):
        huge = A._replace(this_length=10**15)
        result = plagdet([A], [huge])
        assert result.micro_recall == 1.0
        assert result.micro_precision == pytest.approx(300 / (10**15 + 100))

    def test_length_zero_on_one_side_is_a_false_positive(self):
        result = plagdet([A, B], [A._replace(source_length=0), B])
        assert (result.macro_recall, result.macro_precision) == (0.5, 0.5)

    def test_reference_with_folder_does_not_match(self):
        assert plagdet([A], [A._replace(suspicious="susp/s1")]) == NOTHING


class TestWhatTheOfficialProgramBreaksOn:
    @pytest.mark.parametrize(
        "bad",
        [
            A._replace(this_offset=-1),
            A._replace(source_offset=-5),
            A._replace(this_length=-3),
            A._replace(this_length=0, source_length=0),
            Span("s1", 3, 0, None, 0, 0),
        ],
    )
    def test_is_an_error_on_either_side(self, bad):
        with pytest.raises(UserError, match=r"s1"):
            plagdet([A], [bad])
        with pytest.raises(UserError, match=r"s1"):
            plagdet([bad], [A])

    def test_source_numbers_without_a_source_are_a_programming_error(self):
        with pytest.raises(ValueError, match="without a source"):
            plagdet([Span("s1", 0, 5, None, 0, 5)], [])


def test_score_is_the_mean_of_six_values():
    result = Plagdet(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 7.0)
    assert result.score == pytest.approx(0.35)


def test_worked_by_hand():
    # The detection covers 50 of the 100 suspicious and 25 of the 100 source characters, and 50 + 75 outside.
    result = plagdet([Span("s", 0, 100, "r", 0, 100)], [Span("s", 50, 100, "r", 75, 100)])
    assert result.micro_recall == result.macro_recall == 75 / 200
    assert result.micro_precision == result.macro_precision == 75 / 200
    assert result.micro_plagdet == pytest.approx(0.375)


def test_micro_counts_a_source_used_by_two_documents_once():
    truth = [Span("s1", 0, 10, "r", 0, 30), Span("s2", 0, 10, "r", 0, 30)]
    result = plagdet(truth, truth[:1])
    # 10 + 10 suspicious characters and 30 source characters in all, of which 10 + 30 are found.
    assert result.micro_recall == 40 / 50
    assert result.macro_recall == 0.5


# The definition once more, literally: a passage is the set of its characters.


def characters(document, offset, length):
    return {(document, i) for i in range(offset, offset + length)}


def this(span):
    return characters(("susp", span.suspicious), span.this_offset, span.this_length)


def source(span):
    return characters(("src", span.source), span.source_offset, span.source_length)


def hit(a, b):
    return bool(this(a) & this(b)) and (a.source is None or b.source is None or bool(source(a) & source(b)))


def covered(a, others):
    found = set()
    for b in others:
        if hit(a, b):
            found |= this(a) & this(b) | source(a) & source(b)
    return found


def macro(of, by):
    if not of or not by:
        return float(not of and not by)
    return sum(len(covered(a, by)) / len(this(a) | source(a)) for a in of) / len(of)


def micro(cases, found):
    if not cases or not found:
        return (float(not cases and not found),) * 2
    correct = set().union(*(covered(s, found) for s in cases))
    every_case = set().union(*(this(s) | source(s) for s in cases))
    every_found = set().union(*(this(r) | source(r) for r in found))
    return len(correct) / len(every_case), len(correct) / len(every_found)


def literal(truth, detections):
    cases, found = set(truth), set(detections)
    hits = [sum(hit(s, r) for r in found) for s in cases]
    detected = [h for h in hits if h]
    granularity = sum(detected) / len(detected) if detected else 1.0

    def combined(recall, precision):
        f1 = 2 * recall * precision / (recall + precision) if recall + precision else 0.0
        return f1 / log2(1 + granularity)

    small = micro(cases, found)
    large = macro(cases, found), macro(found, cases)
    return (combined(*small), *small, combined(*large), *large, granularity)


numbers = st.integers(0, 20)
lengths = st.integers(1, 12)
names = st.sampled_from("ab")
spans = st.one_of(
    st.builds(Span, names, numbers, lengths, names, numbers, lengths),
    st.builds(Span, names, numbers, lengths, st.none(), st.just(0), st.just(0)),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(spans, max_size=6), st.lists(spans, max_size=6), st.randoms(use_true_random=False))
def test_equals_the_definition_and_ignores_order(truth, detections, random):
    result = plagdet(truth, detections)
    assert result == pytest.approx(literal(truth, detections), abs=1e-12)
    random.shuffle(truth)
    random.shuffle(detections)
    assert plagdet(truth, detections) == result
