"""Shipped profiles say what is known about their backends, and no more."""

from pathlib import Path

import pytest

from pan_scdg.methods.bm25 import Bm25PairSettings
from pan_scdg.methods.containment import ContainmentSettings, GramLogisticSettings
from pan_scdg.methods.cosine import CosineSettings
from pan_scdg.models.checkpoint import count_positions, read_config
from pan_scdg.profile import find_profile, list_profiles, load_profile
from studies.prepare import MAX_TOKENS

STAND_INS = Path(__file__).parents[1] / "stand_ins"

QWEN3 = [name for name in list_profiles() if "qwen3" in name]
PAIRS_2025 = [name for name in list_profiles() if name.startswith("pan25-") and load_profile(name).gains is not None]
SIMPLE = [name for name in list_profiles() if name.startswith("pan25-") and name not in PAIRS_2025]
PUBLISHED = {  # thresholds of the paper's table of hyperparameters
    "pan25-containment": 0.04230565838,
    "pan25-bm25": 0.6477334899,
    "pan25-linq": 0.697,
    "pan25-gte-qwen2-7b": 0.596,
    "pan25-llama-3.3-70b-vectors": 0.727,
}
SMALLER = [name for name in QWEN3 if "8b" not in name]


def test_the_smaller_members_of_the_family_are_there_for_both_jobs() -> None:
    expected = [f"{job}-qwen3-{size}b" for job in ("pan25", "pan26") for size in ("0.6", "1.7", "4")]
    assert expected == SMALLER


@pytest.mark.parametrize("name", PAIRS_2025)
def test_pan25_is_uncalibrated_and_says_so(name: str) -> None:
    profile = load_profile(name)
    decide, gains = profile.need_decide(), profile.gains
    assert gains is not None
    assert (decide.method, gains.q, gains.w, decide.threshold, decide.calibration) == ("gains", None, None, None, None)
    assert "uncalibrated" in profile.description
    assert "# Uncalibrated:" in find_profile(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_methods_carry_the_papers_thresholds_and_no_others(name: str) -> None:
    profile, text = load_profile(name), find_profile(name).read_text(encoding="utf-8")
    assert profile.need_decide().threshold == PUBLISHED.get(name)
    assert ("# Uncalibrated:" in text) == ("uncalibrated" in profile.description) == (name not in PUBLISHED)
    assert ("with the paper's threshold" in profile.description) == (name in PUBLISHED)


def test_simple_methods_have_the_papers_constants() -> None:
    tables = {name: load_profile(name).method_settings for name in SIMPLE}
    chunks = {name: table.chunk_tokens for name, table in tables.items() if isinstance(table, CosineSettings)}
    assert chunks == {"pan25-linq": 4096, "pan25-gte-qwen2-7b": 32_000, "pan25-minilm": 256}
    assert {t.n for t in tables.values() if isinstance(t, ContainmentSettings | GramLogisticSettings)} == {4}
    (bm25,) = [table for table in tables.values() if isinstance(table, Bm25PairSettings)]
    assert (bm25.k1, bm25.b) == (1.2, 0.75)


@pytest.mark.parametrize("name", QWEN3 + PAIRS_2025)
def test_context_is_stated(name: str) -> None:
    comments = [line for line in find_profile(name).read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert any("ontext" in line for line in comments)


@pytest.mark.parametrize("name", QWEN3)
def test_qwen3_profiles_carry_the_same_probes(name: str) -> None:
    model, reference = load_profile(name).need_model(), load_profile("pan25-qwen3-8b").need_model()
    assert model.probes == reference.probes
    assert model.probes["Hello world"] == (9707, 1879)
    assert all(id_ < 151_643 for ids in model.probes.values() for id_ in ids), "ids of Qwen's BPE, no control tokens"


@pytest.mark.parametrize("name", SMALLER)
def test_smaller_members_stay_inside_what_qwen3_was_trained_on(name: str) -> None:
    profile = load_profile(name)
    lengths = [profile.gains and profile.gains.limit, profile.retrieval and profile.retrieval.context]
    assert [n for n in lengths if n] == [32_768]
    model = profile.need_model()
    assert (model.dtype, model.attention) == ("bfloat16", "sdpa"), "float16 on a GPU without bfloat16"


@pytest.mark.parametrize("name", ["pan25-qwen3-8b", "pan25-llama-3.1-8b", "pan25-ministral-3-8b"])
def test_positions_reach_the_limit_of_the_papers_models(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    published = STAND_INS / f"{profile.need_model().name}.json"
    (tmp_path / "config.json").write_bytes(published.read_bytes())
    positions = count_positions(read_config(tmp_path, weights=False), profile.need_model())
    assert positions is not None
    assert profile.gains is not None
    assert MAX_TOKENS < profile.gains.limit <= positions


def test_the_profile_for_24_hours_scores_fewer_candidates_and_is_otherwise_the_leaderboards() -> None:
    whole, quick = load_profile("pan26-qwen3-8b"), load_profile("pan26-qwen3-8b-24h")
    assert quick.model == whole.model
    assert quick.retrieval == whole.need_retrieval().model_copy(update={"scored": 200})
