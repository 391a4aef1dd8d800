"""Statistics and gains of a scored pair, stored and read back."""

from pathlib import Path

import numpy as np
import pytest

from pan_scdg.profile import Control
from pan_scdg.scdg.aggregation import Aggregate
from pan_scdg.scdg.gains import Gains
from pan_scdg.scoring.features import FeatureStore
from pan_scdg.store import Store

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
WANTED = [Aggregate("top", 2), Aggregate("top", 100)]


def some_gains(baseline: Control = "none") -> Gains:
    alone, given, shuffled = -np.random.default_rng(5).random((3, 40))
    return Gains(np.arange(40), alone, given, None if baseline == "none" else shuffled, baseline)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    gains = some_gains()
    with Store(tmp_path) as store:
        features = FeatureStore(store, WANTED, False, "none")
        saved = features.save({"k": gains})["k"]
        assert features.load(["k"]) == {"k": saved} == {"k": gains.summarise(WANTED)}
        assert features._replace(wanted=[*WANTED, Aggregate("window", 5)]).load(["k"]) is None
        assert features._replace(keep_gains=True).load(["k"]) is None
    assert saved.positive_mean == pytest.approx(gains.gains[gains.gains > 0].mean())
    assert saved.deviation == pytest.approx(gains.gains.std())


@pytest.mark.parametrize("baseline", ["none", "shuffled-source", "both"])
def test_what_is_lacking_is_made_from_kept_gains_once(tmp_path: Path, baseline: Control) -> None:
    gains, more = some_gains(baseline), [*WANTED, *(Aggregate(kind, 7) for kind in ("top", "window-median"))]
    with Store(tmp_path) as store:
        FeatureStore(store, WANTED, True, baseline).save({"k": gains})
        found = FeatureStore(store, more, False, baseline).load(["k"])
        assert found == {"k": gains.summarise(more)}
        assert b'"window_median": {"7"' in (store.get("k") or b"")


def test_an_unknown_pair_has_no_features(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        assert FeatureStore(store, WANTED, False, "none").load(["k"]) is None
