"""The whole retention study with the embedded model: a planted effect is found, and none where none was planted."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.models.load import load_model
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings, load_profile
from studies.retention.contexts import Context, DistractorPool, make_contexts, read_pool
from studies.retention.instances import Case
from studies.retention.scoring import (
    NEW,
    REUSED,
    ScoredContexts,
    average_contexts,
    label_tokens,
    plan_contexts,
)
from studies.retention.statistics import average_seeds, estimate_retention
from pan_scdg.retrieval.sentences import find_sentence_spans
from pan_scdg.scdg.sequences import build_pair_passes, encode_text
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.passes import PassScorer
from pan_scdg.scoring.token_offsets import TokenLocator
from pan_scdg.store import MemoryStore, Store
from tests.studies.retention_texts import some_case, some_pool
from tests.tolerances import log_prob_tolerance

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = (0, 1)
PAIRS = (1, 2)


@pytest.fixture(scope="module")
def settings() -> PairSettings:
    return load_profile("offline").need_pairs()


@pytest.fixture(scope="module")
def model() -> ScoringModel:
    small = load_profile("offline").need_model().model_copy(update={"dtype": "float32"})
    return ScoringModel(small, "cpu")


@pytest.fixture(scope="module")
def pool() -> DistractorPool:
    return read_pool(EXAMPLES / "same-topic-news", articles=20)


def opening(number: int, characters: int) -> str:
    """Whole sentences from the beginning of a source of the examples."""
    text = (EXAMPLES / "pan25-pairs" / "test" / "src" / f"source-document{100 + number:05d}.txt").read_text("utf-8")
    ends = [end for _, end in find_sentence_spans(text)][9:]
    return text[: next(end for end in ends if end >= characters)]


def case(number: int, copied: bool) -> Case:
    """A target of new text around a passage: a copy of the evidence, or one of another document."""
    evidence = opening(number, 450)
    passage = evidence if copied else opening(number + 8, 450)
    new = opening(number + 4, 400)
    half = len(new) // 2
    selected = (half + 2, half + 2 + len(passage))
    target = f"{new[:half]}\n\n{passage}\n\n{new[half:]}"
    return Case(f"s{number}-r{number}", target, evidence, selected, (selected,))


class Studied(NamedTuple):
    cases: tuple[Case, ...]
    contexts: tuple[Context, ...]
    scored: ScoredContexts


def carry_out(
    cases: tuple[Case, ...], model: ScoringModel, settings: PairSettings, pool: DistractorPool, state: Path
) -> Studied:
    contexts = make_contexts(cases, pool, SEEDS)
    planned = plan_contexts(cases, contexts, model, settings, Notices())
    with Store(state) as store:
        scored = score_pairs(planned.plans, model, planned.settings, store, keep_gains=True)
        return Studied(cases, contexts, average_contexts(planned, scored, store))


@pytest.fixture(scope="module")
def planted_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def planted(model: ScoringModel, settings: PairSettings, pool: DistractorPool, planted_state: Path) -> Studied:
    return carry_out(tuple(case(number, copied=True) for number in PAIRS), model, settings, pool, planted_state)


def test_copied_evidence_gives_a_slope_for_reused_tokens_and_none_for_new_ones(planted: Studied) -> None:
    results = estimate_retention(planted.scored.means)
    assert results.slopes.plagiarism.low > 3, "nats per token: a copy costs next to nothing"
    assert results.slopes.plagiarism_positive == 1.0
    assert max(map(abs, results.slopes.new)) < 0.1
    assert results.mixed.difference.p < 1e-4
    curve = average_seeds(planted.scored.means)[:, 0].mean(0)
    assert (np.diff(curve) > 0.5).all(), "each quarter of the evidence counts"
    assert abs(curve[0]) < 0.1, "distractors alone give nothing"


@pytest.mark.long
def test_no_effect_is_found_where_the_target_does_not_come_from_the_source(
    model: ScoringModel, settings: PairSettings, pool: DistractorPool, tmp_path: Path
) -> None:
    cases = tuple(case(number, copied=False) for number in PAIRS)
    results = estimate_retention(carry_out(cases, model, settings, pool, tmp_path).scored.means)
    for estimate in (results.slopes.plagiarism, results.slopes.new, results.slopes.difference):
        assert max(map(abs, estimate)) < 0.1
    assert min(results.mixed.difference.p, results.mixed.plagiarism.p) > 0.05


def test_means_are_those_of_the_plain_gains(planted: Studied, model: ScoringModel) -> None:
    context, of = planted.contexts[13], planted.cases[1]
    assert (context.pair_id, context.seed, context.retention) == (of.pair_id, 0, 0.75)
    passes = build_pair_passes(model.tokenizer, context.text, of.target)
    plain = PassScorer(model, MemoryStore()).compute_gains([passes])
    tokens = TokenLocator(model.tokenizer, model.tokenizer).locate(of.target, segments=False)
    assert plain.token_ids.tolist() == tokens.token_ids.tolist()
    labels = label_tokens(tokens.offsets, of.selected, of.reused, len(of.target))
    rows = list(planted.scored.means[26:28].itertuples())
    lm = load_model(model.folder, model.settings, "cpu")
    bound = 4 * log_prob_tolerance(lm.model, passes.conditional.length)
    assert [(row.content, row.retention) for row in rows] == [("plagiarism", 0.75), ("new", 0.75)]
    for row, label in zip(rows, (REUSED, NEW), strict=True):
        assert row.tokens == np.sum(labels == label)
        assert row.mean_gain == pytest.approx(plain.gains[labels == label].mean(), abs=bound)


def test_what_was_scored_is_not_scored_again(
    planted: Studied,
    model: ScoringModel,
    settings: PairSettings,
    pool: DistractorPool,
    planted_state: Path,
    forwards: list[int],
) -> None:
    again = carry_out(planted.cases, model, settings, pool, planted_state)
    assert again.scored.means.equals(planted.scored.means)
    assert again.scored.facts == planted.scored.facts
    assert forwards == []


@pytest.fixture
def tiny(tiny_folder: Callable[[str], Path]) -> ScoringModel:
    small = load_profile(str(SMALL)).need_model()
    return ScoringModel(small, "cpu", folder=tiny_folder("qwen2"), engine="reference")


def tiny_settings(**changes: Any) -> PairSettings:
    return load_profile(str(SMALL)).need_pairs().model_copy(update=changes)


CASES = (some_case("s1-r1", 1), some_case("s2-r1", 2))


def lengths(tiny: ScoringModel) -> list[int]:
    """Tokens of the contexts of the first case together with its target."""
    contexts = make_contexts(CASES[:1], some_pool(), SEEDS)
    texts = [f"{context.text}\n\n{CASES[0].target}" for context in contexts]
    return [len(encode_text(tiny.tokenizer, text, special=True)) for text in texts]


def test_a_target_is_passed_once_without_a_source(tiny: ScoringModel, tmp_path: Path, forwards: list[int]) -> None:
    found = carry_out(CASES, tiny, tiny_settings(limit=2048), some_pool(), tmp_path)
    assert found.scored.facts["targets by mode"] == {"whole": 2}
    assert len(forwards) == len(found.contexts) + len(CASES)
    assert len(found.scored.means) == 2 * len(found.contexts)


def test_one_long_context_makes_all_of_its_target_go_by_segments(tiny: ScoringModel, tmp_path: Path) -> None:
    sizes = lengths(tiny)
    limit = (min(sizes) + max(sizes)) // 2
    assert min(sizes) <= limit < max(sizes)
    found = carry_out(CASES[:1], tiny, tiny_settings(limit=limit), some_pool(), tmp_path)
    assert found.scored.facts["targets by mode"] == {"segments": 1}
    assert found.scored.means.query("content == 'new'")["tokens"].nunique() == 1
    tokens = found.scored.facts["tokens by content"]
    assert sum(tokens.values()) >= len(encode_text(tiny.tokenizer, CASES[0].target)) - len(sizes)


def test_the_papers_gain_is_measured_whatever_the_control(tiny: ScoringModel, tmp_path: Path) -> None:
    plain, controlled = (
        carry_out(CASES[:1], tiny, tiny_settings(limit=2048, control=control), some_pool(), tmp_path / control)
        for control in ("none", "both")
    )
    assert plain.scored.means.equals(controlled.scored.means)


WITHOUT_NEW = (CASES[0]._replace(reused=()), CASES[1]._replace(selected=(0, 9000)))
WITHOUT_REUSED = (CASES[0], CASES[1]._replace(selected=(0, 0), reused=()))


@pytest.mark.parametrize(
    ("changes", "cases", "fault"),
    [
        ({"limit": 4096}, CASES, "limit is 4096 tokens"),
        ({"over_long": "error"}, CASES, "with s1-r1, seed 0, retention 0 as source"),
        ({"limit": 2048}, WITHOUT_NEW, "s2-r1: the target has no token of new content; leave"),
        ({"limit": 2048}, WITHOUT_REUSED, "s2-r1: the target has no token of plagiarism content"),
    ],
)
def test_what_cannot_be_scored_is_named_before_the_model_is_loaded(
    tiny: ScoringModel,
    changes: Mapping[str, Any],
    cases: tuple[Case, ...],
    fault: str,
    forwards: list[int],
) -> None:
    contexts = make_contexts(CASES, some_pool(), SEEDS)
    with pytest.raises(UserError, match=fault) as raised:
        plan_contexts(cases, contexts, tiny, tiny_settings(**changes), Notices())
    assert forwards == []
    if isinstance(raised.value, UserErrors):
        assert len(raised.value.errors) <= len(CASES), "one line a pair"


def test_what_cannot_be_scored_is_left_out_with_the_reason(tiny: ScoringModel) -> None:
    contexts = make_contexts(CASES, some_pool(), SEEDS)
    found = plan_contexts(WITHOUT_NEW, contexts, tiny, tiny_settings(limit=2048), Notices(), on_error="leave-out")
    assert dict(found.lost) == {"s2-r1": "the target has no token of new content"}
    assert {context.pair_id for context in found.contexts} == {"s1-r1"}
    assert [plan.pair.source.doc_id for plan in found.plans] == [context.name for context in found.contexts]
