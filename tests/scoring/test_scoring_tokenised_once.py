"""Pairs and sources are tokenised once, and the kept tokens give the same inputs as the texts."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.profile import WindowSettings, load_profile
from pan_scdg.scdg.sequences import Passes, ScoringInput, build_retrieval_conditional, encode_text
from pan_scdg.scdg.windows import SourceWindows, extract_terms
from pan_scdg.scoring import pair_plan
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import plan_pairs
from pan_scdg.scoring.pair_tokens import TokenSpool
from pan_scdg.scoring.passes import PairsWork, QueryText, SourceWork
from pan_scdg.store import Store

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
WORDS = ["tide", "turned", "noon", "nets", "came", "up", "empty", "again", "grey", "quay", "salt"]


def prose(seed: int, words: int) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, words).tolist())


@pytest.fixture
def model(tiny_folder: Callable[[str], Path]) -> ScoringModel:
    return ScoringModel(load_profile(str(SMALL)).need_model(), "cpu", folder=tiny_folder("qwen2"))


@pytest.fixture
def encoded(model: ScoringModel, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The texts that were tokenised, with how often."""
    counted: Counter[str] = Counter()
    real = model.tokenizer.encode

    def encode(text: str, **how: Any) -> Any:
        counted[text] += 1
        return real(text, **how)

    monkeypatch.setattr(model.tokenizer, "encode", encode)
    return counted


def write_pairs(folder: Path) -> Path:
    for side in ("susp", "src"):
        (folder / side).mkdir(parents=True)
        for number in (1, 2):
            (folder / side / f"{side}{number}.txt").write_text(prose(len(side) + number, 40))
    pairs = [f"susp{s}.txt src{r}.txt\n" for s in (1, 2) for r in (1, 2)]
    (folder / "pairs").write_text("".join(pairs))
    return folder


def test_a_pair_is_tokenised_once(model: ScoringModel, encoded: Counter[str], tmp_path: Path) -> None:
    pairs = read_pairs(write_pairs(tmp_path / "in"), Notices()).pairs
    settings = load_profile(str(SMALL)).need_pairs()
    planned, failed = plan_pairs(pairs, model, settings, Notices())
    with Store(tmp_path / "state") as store:
        score_pairs(planned, model, settings, store, keep_gains=False)
    assert not failed
    targets = {(tmp_path / "in" / "susp" / f"susp{number}.txt").read_text() for number in (1, 2)}
    assert {text: count for text, count in encoded.items() if count > 1} == {}
    assert {text for text in encoded if text in targets} == targets
    assert len(encoded) == 4 + 2


def test_kept_tokens_are_the_inputs_of_the_texts(
    model: ScoringModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = read_pairs(write_pairs(tmp_path), Notices()).pairs
    settings = load_profile(str(SMALL)).need_pairs()
    (first, *_), _ = plan_pairs(pairs, model, settings, Notices())
    monkeypatch.setattr(pair_plan, "TokenSpool", lambda: TokenSpool(first.tokens + 1))
    planned, _ = plan_pairs(pairs, model, settings, Notices())
    assert [plan.kept is None for plan in planned] == [False, True, True, True], "the spool is full"
    for plan in planned:
        from_texts = plan._replace(kept=None)
        for found, expected in zip(
            [*plan.make_unconditional(model.tokenizer, settings), *make_inputs(plan, model, settings)],
            [*from_texts.make_unconditional(model.tokenizer, settings), *make_inputs(from_texts, model, settings)],
            strict=True,
        ):
            np.testing.assert_array_equal(found.context_ids, expected.context_ids)
            np.testing.assert_array_equal(found.target_ids, expected.target_ids)
            assert found.context_ids.dtype == expected.context_ids.dtype == np.int64
    assert planned[0].use_segments("key")[1:3] == ("segments", "key")
    assert planned[0].use_segments("key").kept is None


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3-no-bos", "llama"])
def test_a_kept_target_is_not_tokenised_again(
    architecture: str, tiny_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder(architecture)
    model = ScoringModel(load_profile(str(SMALL)).need_model(), "cpu", folder=folder)
    pairs = read_pairs(write_pairs(tmp_path), Notices()).pairs
    (plan, *_), _ = plan_pairs(pairs, model, load_profile(str(SMALL)).need_pairs(), Notices())
    text = plan.read_texts().target
    expected = encode_text(model.tokenizer, text)
    np.testing.assert_array_equal(plan._replace(kept=None).encode_target(model.tokenizer, text), expected)
    np.testing.assert_array_equal(plan.encode_target(model.tokenizer, "not read"), expected)


def make_inputs(plan: Any, model: ScoringModel, settings: Any) -> list[ScoringInput]:
    return PairsWork([plan.prepare()], settings).make_inputs(model.tokenizer)


def test_ids_that_do_not_fit_are_refused() -> None:
    target = np.array([2**31], dtype=np.int64)
    one = np.array([1], dtype=np.int64)
    with pytest.raises(ValueError, match="ids of 32 bits"):
        TokenSpool().keep(Passes(ScoringInput(one, target), ScoringInput(one, target)))


def test_a_source_is_split_and_tokenised_once_for_all_its_queries(model: ScoringModel, encoded: Counter[str]) -> None:
    retrieval = load_profile(str(SMALL)).need_retrieval()
    settings = retrieval.model_copy(update={"windows": WindowSettings(words=20, stride=20, considered=9)})
    source, budget = prose(7, 150), 60
    asked = [prose(seed, 12) for seed in (1, 2, 3)]
    ids = [encode_text(model.tokenizer, text) for text in asked]
    queries = [QueryText(i, frozenset(extract_terms(t)), budget, t) for i, t in zip(ids, asked, strict=True)]
    expected = []
    for text, of in zip(asked, ids, strict=True):
        prefix = SourceWindows(model.tokenizer, source, settings.windows).build_prefix(extract_terms(text), budget)
        expected.append(build_retrieval_conditional(model.tokenizer, of, prefix))
    encoded.clear()
    found = SourceWork(source, queries, settings).make_inputs(model.tokenizer)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.context_ids, other.context_ids)
    assert {text: count for text, count in encoded.items() if count > 1 and text.strip()} == {}
    assert encoded[source] == 1
