"""The batches of pairs: what they have in common is computed once."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs import pipeline
from pan_scdg.jobs.pipeline import make_batches
from pan_scdg.jobs.worker import PairWorker, ScoreTask
from pan_scdg.methods import MethodOptions
from pan_scdg.profile import load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scdg.sequences import encode_text
from tests.jobs.conftest import SMALL, example

SIDES = range(3)


def make_pair(target: int, source: int, texts: tuple[list[str], list[str]] = ([""] * 9, [""] * 9)) -> DocumentPair:
    names = f"t{target}", f"s{source}"
    first, second = (
        TextFile(name, name, Path(name), text) for name, text in zip(names, (texts[0][target], texts[1][source]))
    )
    return DocumentPair(first, second)


def test_the_tokens_of_three_sources_and_three_targets_are_those_of_theory(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each target alone and each source is computed once, and each target once for each source."""
    texts = [example("susp", n)[:400] for n in (1, 2, 3)], [example("src", n)[:1200] for n in (1, 2, 3)]
    pairs = [make_pair(target, source, texts) for target, source in product(SIDES, SIDES)]
    monkeypatch.setattr(pipeline, "BATCH_CHARACTERS", 1700)  # a pair fits, all of them do not
    profile = load_profile(str(SMALL))
    longer = profile.model_copy(update={"gains": profile.method_settings.model_copy(update={"limit": 2048})})
    worker = PairWorker(longer, MethodOptions("cpu", tiny_folder("qwen2")))
    (batch,) = make_batches(dict.fromkeys(pairs, (400, 1200)), shares_texts=True)
    worker.score(ScoreTask([worker.read_texts(pair) for pair in batch], range(len(batch))))
    count = lambda text: len(encode_text(worker.model.tokenizer, text, special=True))  # noqa: E731
    targets = sum(count(text) for text in texts[0])
    sources = sum(count(f"{text}\n\n{texts[0][0]}") - count(texts[0][0]) for text in texts[1])
    # the last token of an input predicts nothing, and the first one of a target is the last one of its context
    engine: Any = worker.model._engine
    assert engine.tokens == (targets - 3) + sources + 3 * (targets - 3)


@pytest.mark.parametrize(("shares", "expected"), [(False, 8), (True, 4)])
def test_pairs_that_share_texts_are_in_one_batch(shares: bool, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BATCH_CHARACTERS", 20)
    connected = [make_pair(0, 0), make_pair(0, 1), make_pair(1, 1), make_pair(2, 2), make_pair(2, 0)]
    alone = [make_pair(number, number) for number in (3, 4, 5, 6, 7)]
    lengths = dict.fromkeys(connected, (5, 10)) | dict.fromkeys(alone[:2], (5, 10)) | dict.fromkeys(alone[2:], (1, 1))
    batches = make_batches(lengths, shares_texts=shares)
    assert sorted(pair for batch in batches for pair in batch) == sorted(lengths)
    assert len(batches) == expected
    assert any(set(batch) == set(connected) for batch in batches) == shares


def test_a_batch_has_no_more_pairs_than_the_method_takes() -> None:
    lengths = {make_pair(0, source): (1, 1) for source in range(7)}
    assert [len(batch) for batch in make_batches(lengths, 3, shares_texts=True)] == [3, 3, 1]
