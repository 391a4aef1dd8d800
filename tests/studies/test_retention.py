"""``retention``: labels, curves, resampled slopes and the mixed model, each against a literal restatement."""

import gzip
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from pan_scdg.records import Span
from studies.__main__ import main
from studies.contexts import LEVELS
from studies.retention import (
    LEAST_SQUARES,
    NEITHER,
    NEW,
    OPTIMISERS,
    REUSED,
    draw_weights,
    estimate_curves,
    estimate_retention,
    fit_mixed,
    label_tokens,
    make_design,
    resample_slopes,
)
from tests.studies.made_results import read_tables, write_result

LENGTH = 40
SPANS = st.tuples(st.integers(0, LENGTH + 5), st.integers(0, LENGTH + 5)).map(lambda ends: Span(min(ends), max(ends)))
TOKENS = st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted), max_size=12)
NEW_SLOPE, DIFFERENCE, PLAGIARISM = "New (b2)", "Difference (b3)", "Plag. (b2 + b3)"


def literal_label(start: int, end: int, selected: Span, reused: list[Span]) -> int:
    characters = set(range(start, end))
    target = characters & set(range(*selected))
    others = {c for c in characters - target if any(c in range(*span) for span in reused)}
    half = 0.5 * len(characters)
    if not characters:
        return -1
    if len(target) >= half or len(others) >= half:
        return 1
    return 0 if len(characters - target - others) >= half else -1


@settings(max_examples=200, deadline=None)
@given(TOKENS, SPANS, st.lists(SPANS, max_size=4))
def test_labels_are_those_of_the_rules(tokens: list[list[int]], selected: Span, others: list[Span]) -> None:
    offsets = np.array(tokens, dtype=np.int64).reshape(-1, 2)
    expected = [literal_label(start, end, selected, others) for start, end in tokens]
    assert label_tokens(offsets, selected, others).tolist() == expected
    assert label_tokens(offsets, selected, [*others, selected]).tolist() == expected


def test_each_rule_once() -> None:
    tokens = np.array([[0, 4], [8, 12], [9, 13], [20, 24], [18, 21], [28, 32], [15, 18], [7, 7]])
    labels = label_tokens(tokens, Span(10, 16), [Span(17, 22), Span(10, 16)])
    #        outside, half in, more, half in another, inside it, outside, a third of each, no characters
    assert labels.tolist() == [NEW, REUSED, REUSED, REUSED, REUSED, NEW, NEITHER, NEITHER]


def draw_gains(
    pairs: int, slopes: tuple[float, float] = (0.16, 0.01), intercepts: float = 0.1, noise: float = 0.02, seed: int = 0
) -> np.ndarray:
    """Gains with these slopes of plagiarism-labelled and new content, in the mean of many pairs."""
    rng = np.random.default_rng(seed)
    curves = np.array(slopes)[:, None] * np.array(LEVELS)
    return rng.normal(0, intercepts, (pairs, 1, 1)) + curves + rng.normal(0, noise, (pairs, 2, 5))


def test_resamples_are_those_of_one_generator() -> None:
    rng = np.random.default_rng(42)
    drawn = [rng.choice(300, size=300, replace=True) for _ in range(1000)]
    expected = np.stack([np.bincount(sample, minlength=300) for sample in drawn]) / 300
    assert np.array_equal(draw_weights(300), expected)


def test_points_are_means_of_bootstrap_means() -> None:
    gains = draw_gains(40)
    curves, rng = estimate_curves(gains), np.random.default_rng(42)
    means = [rng.choice(gains[:, 0, 4], size=40, replace=True).mean() for _ in range(1000)]
    expected = [np.mean(means), np.percentile(means, 2.5), np.percentile(means, 97.5)]
    np.testing.assert_allclose(curves["plagiarism"][4], expected, atol=1e-12)
    assert {name: len(curve) for name, curve in curves.items()} == {"plagiarism": 5, "new": 5}


def test_slopes_are_those_of_a_least_squares_refit_of_every_resample() -> None:
    gains = draw_gains(25, noise=0.1)
    slopes = resample_slopes(gains)
    rng, refits = np.random.default_rng(42), []
    for _ in range(1000):
        sample = gains[rng.choice(25, size=25, replace=True)]
        refits.append(np.linalg.lstsq(make_design(25), sample.ravel(), rcond=None)[0])
    _, _, new, difference = np.array(refits).T
    for estimate, values in (
        (slopes["Plag. slope"], new + difference),
        (slopes["New slope"], new),
        (slopes["Difference"], difference),
    ):
        np.testing.assert_allclose(estimate, [values.mean(), *np.percentile(values, [2.5, 97.5])], atol=1e-10)
    assert slopes["Pr(plag. slope > 0)"] == np.mean(new + difference > 0)


def test_known_slopes_are_found_and_none_where_there_is_none() -> None:
    planted = estimate_retention(draw_gains(60))
    for name, slope in (("Plag. slope", 0.16), ("New slope", 0.01)):
        assert planted.slopes[name].low < slope < planted.slopes[name].high
    assert planted.mixed["ours"].slopes[DIFFERENCE][2] < 1e-4
    nothing = estimate_retention(draw_gains(60, slopes=(0.0, 0.0), seed=3))
    assert all(estimate.low < 0 < estimate.high for estimate in list(nothing.slopes.values())[:3])
    assert min(p for _, _, p in nothing.mixed["ours"].slopes.values()) > 0.01


def negative_likelihood(parameters: np.ndarray, gains: np.ndarray) -> float:
    """Of the random-intercept model: normal with the covariance of a pair written out."""
    *beta, log_between, log_within = parameters
    covariance = np.exp(log_between) * np.ones((10, 10)) + np.exp(log_within) * np.eye(10)
    residuals = gains.reshape(len(gains), 10) - make_design(1) @ np.array(beta)
    return -float(stats.multivariate_normal(np.zeros(10), covariance).logpdf(residuals).sum())


def test_the_mixed_model_is_at_the_maximum_of_the_likelihood() -> None:
    gains = draw_gains(30, intercepts=0.3, noise=0.2)
    fits = fit_mixed(gains)
    assert fits["paper"] == fits["ours"], "a covariance that is not singular"
    fit = fits["ours"]
    start = np.array([0.0, 0.0, 0.0, 0.0, np.log(0.1), np.log(0.05)])
    best = optimize.minimize(negative_likelihood, start, args=(gains,), method="BFGS", options={"gtol": 1e-6})
    # at the maximum the covariance of the coefficients is that of generalised least squares
    within, between = np.exp(best.x[5]), np.exp(best.x[4])
    design, covariance = make_design(1), between * np.ones((10, 10)) + within * np.eye(10)
    expected = np.linalg.inv(30 * design.T @ np.linalg.solve(covariance, design))
    for name, weights in ((NEW_SLOPE, [0, 0, 1, 0]), (DIFFERENCE, [0, 0, 0, 1]), (PLAGIARISM, [0, 0, 1, 1])):
        value, error, p = fit.slopes[name]
        assert value == pytest.approx(weights @ best.x[:4], abs=1e-5)
        assert error == pytest.approx(np.sqrt(weights @ expected @ weights), rel=1e-3)
        z = value / error
        assert p == pytest.approx(1 - stats.norm.cdf(z) if name == PLAGIARISM else 2 - 2 * stats.norm.cdf(abs(z)))
    assert (fit.optimiser, fit.warnings) == ("lbfgs", [])


@pytest.mark.parametrize(("pairs", "intercepts", "pooled"), [(60, 0.02, False), (23, 0.0, True)])
def test_a_covariance_that_looks_singular_costs_a_warning_and_no_accuracy(
    pairs: int, intercepts: float, pooled: bool
) -> None:
    gains = draw_gains(pairs, intercepts=intercepts, noise=0.05, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits = fit_mixed(gains)
    fit = fits["ours"]
    assert fits["paper"].optimiser in ("lbfgs", LEAST_SQUARES)
    assert any("ConvergenceWarning" in line for line in fit.warnings)
    # standard errors in closed form: all pairs have one design
    values, design = gains.reshape(pairs, 10), make_design(1)[:, 1:]
    centred, design = values - values.mean(1, keepdims=True), design - design.mean(0)
    slopes = np.linalg.lstsq(np.tile(design, (pairs, 1)), centred.ravel(), rcond=None)[0]
    squares = ((centred - design @ slopes) ** 2).sum()
    between = 10 * ((values.mean(1) - values.mean()) ** 2).sum()
    variance = (squares + between) / (10 * pairs) if pooled else squares / (9 * pairs)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(pairs * design.T @ design)))
    assert [fit.slopes[name][1] for name in (NEW_SLOPE, DIFFERENCE)] == pytest.approx(errors[1:], rel=2e-3)
    assert [fit.slopes[name][0] for name in (NEW_SLOPE, DIFFERENCE)] == pytest.approx(slopes[1:], abs=1e-9)


@pytest.mark.parametrize(("failures", "optimiser"), [(2, "cg"), (4, LEAST_SQUARES)])
def test_failing_optimisers_are_reported(monkeypatch: pytest.MonkeyPatch, failures: int, optimiser: str) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    real, tried = MixedLM.fit, []

    def fit(self: object, reml: bool, method: str) -> object:
        tried.append(method)
        if len(tried) <= failures:
            raise np.linalg.LinAlgError("Singular matrix")
        return real(self, reml=reml, method=method)

    monkeypatch.setattr(MixedLM, "fit", fit)
    gains = draw_gains(12)
    result = fit_mixed(gains)["ours"]
    assert result.optimiser == optimiser
    expected = [f"{name} failed: LinAlgError: Singular matrix" for name in OPTIMISERS[:failures]]
    assert [line for line in result.warnings if " failed: " in line] == expected
    slopes = np.linalg.lstsq(make_design(12), gains.ravel(), rcond=None)[0]
    assert [result.slopes[name][0] for name in (NEW_SLOPE, DIFFERENCE)] == pytest.approx(slopes[2:])


def test_gains_without_any_noise_are_fitted_all_the_same() -> None:
    fit = fit_mixed(np.zeros((3, 2, 5)) + np.array(LEVELS))["ours"]
    assert fit.slopes[PLAGIARISM][0] == pytest.approx(1.0)


PAIRS, SEEDS = ("s1-r1", "s2-r1", "s3-r3"), (0, 1)
TOKENS_OF_TARGET = [[0, 0], [0, 5], [5, 10], [10, 15], [15, 20], [20, 25]]
"""The first is empty; of the others two are reused (10 to 20), three new."""


def write_data(folder: Path, leave_out: str = "") -> tuple[Path, Path]:
    """A prepared folder with contexts, and a result whose gains are known."""
    records, gains = [], {}
    for pair_number, pair_id in enumerate(PAIRS):
        susp = pair_id.partition("-")[0]
        for seed in SEEDS:
            for level in LEVELS:
                source = f"{pair_id}-s{seed}-r{100 * level:03.0f}"
                spans = {"selected": [10, 20], "reused": [[10, 20]]}
                names = {"pair_id": pair_id, "susp_file": f"{susp}.txt", "src_file": f"{source}.txt"}
                records.append({**names, "seed": seed, "retention": level, **spans})
                reused = level + 0.1 * pair_number + 0.01 * seed
                if source != leave_out:
                    gains[susp, source] = ([9.0, 0.1, 0.2, reused, reused + 1, 0.3], TOKENS_OF_TARGET)
    (folder / "retention").mkdir(parents=True)
    (folder / "retention" / "manifest.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return folder, write_result(folder / "result", "pan25-qwen3-8b", {}, gains)


def test_the_report_of_known_gains(tmp_path: Path) -> None:
    prepared, result = write_data(tmp_path)
    for output in ("one", "two"):
        argv = ["retention", "--prepared", prepared, "--output", tmp_path / output, result, f"Again={result}"]
        assert main(list(map(str, argv))) == 0
    tables = read_tables(tmp_path / "one")
    points = {(row["Model"], row["Content"], row["Retention"]): row["Gain"] for row in tables["retention-curves"]}
    assert len(points) == 2 * 2 * 5
    for level in LEVELS:
        means = np.array([level + 0.1 * number + 0.005 + 0.5 for number in range(3)])
        expected = draw_weights(3) @ means
        point = points["Again", "plagiarism", level]
        assert point["value"] == pytest.approx(expected.mean())
        assert [point["low"], point["high"]] == pytest.approx(np.percentile(expected, [2.5, 97.5]))
        assert points["Qwen3-8B-Base", "new", level]["value"] == pytest.approx(0.2)
    assert tables["retention-slopes"][0]["Plag. slope"]["value"] == pytest.approx(1.0)
    for name in ("retention-mixed-model", "retention-mixed-model-ours"):
        rows = tables[name]
        assert [row["Model"] for row in rows] == ["Qwen3-8B-Base", "Again"]
        assert rows[0]["Plag. (b2 + b3)"] == pytest.approx(1.0)
        assert rows[0]["Difference (b3), p"] == "<0.0001"
    figures = [(tmp_path / output / "retention.svg").read_text() for output in ("one", "two")]
    assert figures[0] == figures[1]
    assert "<svg" in figures[0]
    assert "![retention.svg](retention.svg)" in (tmp_path / "one" / "index.md").read_text()


def test_the_paper_s_fit_is_that_of_l_bfgs_with_any_warning() -> None:
    """Of the library itself, in one call; where it looks singular, its standard errors are not ours."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    gains = draw_gains(23, intercepts=0.05, noise=0.05, seed=1)
    fits = fit_mixed(gains)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = MixedLM(gains.ravel(), make_design(23), np.repeat(np.arange(23), 10)).fit(reml=False, method="lbfgs")
    value, error, p = fits["paper"].slopes[DIFFERENCE]
    assert (value, error, p) == pytest.approx((expected.params[3], expected.bse[3], expected.pvalues[3]))
    assert fits["ours"].optimiser != "lbfgs"


def test_the_means_of_tokens_are_a_file(tmp_path: Path) -> None:
    """Counted again from the gains that were written, and the labels of `TOKENS_OF_TARGET`."""
    prepared, result = write_data(tmp_path)
    argv = ["retention", "--prepared", prepared, "--output", tmp_path / "out", "--missing", "Llama-3.1-8B", result]
    assert main(list(map(str, argv))) == 0
    rows = (tmp_path / "out" / "document_token_means" / "qwen3-8b-base.csv").read_text().splitlines()
    assert rows[0] == "pair_id,seed,retention,content,tokens,mean_gain"
    means = {tuple(row.split(",")[:4]): row.split(",")[4:] for row in rows[1:]}
    assert len(means) == len(rows) - 1 == len(PAIRS) * len(SEEDS) * len(LEVELS) * 2
    with gzip.open(result / "gains.jsonl.gz", "rt") as file:
        for line in map(json.loads, file):
            pair_id, seed, level = re.fullmatch(r"(.+)-s(\d)-r(\d+)", line["source"]).groups()
            gains = line["gains"]
            for content, own in (("plagiarism", gains[3:5]), ("new", [*gains[1:3], gains[5]])):
                tokens, mean = means[pair_id, seed, str(int(level) / 100), content]
                assert (int(tokens), float(mean)) == (len(own), pytest.approx(sum(own) / len(own)))
    for name in ("retention-mixed-model", "retention-mixed-model-ours", "retention-slopes"):
        assert read_tables(tmp_path / "out")[name][-1] == {"group": "Not computed", "Model": "Llama-3.1-8B"}


def test_an_incomplete_run_is_rejected_unless_for_a_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared, result = write_data(tmp_path / "a", leave_out="s2-r1-s1-r050")
    argv = ["retention", "--prepared", str(prepared), "--output", str(tmp_path / "out"), str(result)]
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert "1 pairs are incomplete, for example s2-r1 of Qwen3-8B-Base: a context has no gains" in error
    assert main([*argv, "--allow-incomplete"]) == 0
    assert "s2-r1 is left out: a context has no gains." in (tmp_path / "out" / "index.md").read_text()
    (result / "gains.jsonl.gz").unlink()
    assert main(["retention", "--prepared", str(prepared), "--output", str(tmp_path / "x"), str(result)]) == 2
    assert "gains.jsonl.gz: the file does not exist. Run again with the options" in capsys.readouterr().err
