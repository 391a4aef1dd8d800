"""Pairs that are tokenised in several processes: the plans of one process, in its order, and no process is left."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.profile import load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scoring import pair_tokens
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import FailedPair
from pan_scdg.scoring.pair_plan import PlannedPair, plan_pairs
from pan_scdg.scoring.pair_tokens import PairTokens

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
MISSING = TextFile("gone", "gone.txt", Path("gone.txt"))


@pytest.fixture
def model(tiny_folder: Callable[[str], Path]) -> ScoringModel:
    return ScoringModel(load_profile(str(SMALL)).need_model(), "cpu", folder=tiny_folder("qwen2"))


@pytest.fixture
def pairs() -> list[DocumentPair]:
    """Five pairs twice, of which the third has no file and the fifth no words."""
    texts = ["The tide turned.", "Nobody said 17.5 words.", "", " ", "Salt and grey nets."]
    held = [TextFile(f"t{i}", f"t{i}.txt", Path(f"t{i}.txt"), text) for i, text in enumerate(texts)]
    chosen = [(held[0], held[1]), (held[1], held[2]), (held[0], MISSING), (held[4], held[0]), (held[3], held[0])]
    return [DocumentPair(target, source) for target, source in chosen] * 2


def plan(
    pairs: list[DocumentPair], model: ScoringModel, notices: Notices
) -> tuple[list[PlannedPair], list[FailedPair]]:
    return plan_pairs(pairs, model, load_profile(str(SMALL)).need_pairs(), notices)


def use_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_tokens, "LEAST", 0)
    monkeypatch.setattr(pair_tokens, "count_cores", lambda: 2)


def test_two_processes_plan_as_one(
    model: ScoringModel, pairs: list[DocumentPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_notices, notices = Notices(), Notices()
    expected, unfit = plan(pairs, model, expected_notices)
    use_two_processes(monkeypatch)
    planned, failed = plan(pairs, model, notices)
    assert [(of.pair, of.mode, of.key, of.tokens) for of in planned] == [
        (of.pair, of.mode, of.key, of.tokens) for of in expected
    ]
    for found, known in zip(planned, expected, strict=True):
        assert found.kept is not None
        assert known.kept is not None
        for one, other in zip(found.kept.read(), known.kept.read(), strict=True):
            np.testing.assert_array_equal(one.context_ids, other.context_ids)
            np.testing.assert_array_equal(one.target_ids, other.target_ids)
    assert [(of.pair, str(of.error)) for of in failed] == [(of.pair, str(of.error)) for of in unfit]
    assert [of.pair for of in failed] == [pairs[2], pairs[4], pairs[7], pairs[9]]
    assert notices.list_warnings() == expected_notices.list_warnings() != []
    assert multiprocessing.active_children() == []


def test_a_process_that_ends_is_an_error(
    model: ScoringModel, pairs: list[DocumentPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_two_processes(monkeypatch)

    def lose_a_process() -> None:
        with PairTokens(model, pairs) as tokens:
            result = tokens.start("The tide turned.", "Salt and grey nets.")
            for child in multiprocessing.active_children():
                os.kill(child.pid or 0, signal.SIGKILL)
            result()

    with pytest.raises(UserError, match="a process that tokenises texts ended before it was done"):
        lose_a_process()
    assert multiprocessing.active_children() == []


def test_few_texts_need_no_process(model: ScoringModel, pairs: list[DocumentPair]) -> None:
    with PairTokens(model, pairs) as tokens:
        assert tokens.ahead == 0
        assert tokens.start("The tide turned.", "Salt and grey nets.")().conditional.length
        assert multiprocessing.active_children() == []
