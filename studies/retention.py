"""``retention``: gains as more of the source evidence is in the context (paper, Controlled Source-Evidence Retention).

A result of ``run --keep-gains`` has the gain of every token of each target after each of its contexts. Their means over
reused and over new tokens give the curves of the paper's figure, slopes resampled by pair, and a mixed model, all in
nats per token, slopes per unit of retention. Where the paper leaves it open: one set of 1,000 draws of pairs from
``default_rng(42)`` serves every level, content and slope, and the linear slope model is least squares with an intercept
for each content. Every pair has the same levels, so that its fit to a resample is the mean over the drawn pairs of the
slopes of each.

The mixed model ``G = b0 + b1 Y + b2 r + b3 Y r + u_pair + e`` is fitted by maximum likelihood with statsmodels, first
by L-BFGS as in the paper, then by the next of `OPTIMISERS`. The paper accepts finite numbers of L-BFGS with warnings of
a singular covariance, else least squares without intercepts of pairs, and so does the first of the two fits. In the
second these warnings count as a failure, because there the library's limit is that of an infinite variance of the
intercepts (its issue 10239); if all optimisers fail, the likeliest finite fit is taken. Optimiser and warnings are part
of the result; of a boundary the library warns whenever the variance of the intercepts is below 0.01.
"""

import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import RESAMPLES, SEED, draw_resamples, find_interval
from pan_scdg.records import Span
from pan_scdg.results.files import GAINS, MAX_GAIN_VALUES, read_lines
from pan_scdg.results.records import GainsLine
from studies import beside
from studies.beside import Counts, OwnRow, compare, count_contexts, warn_about_counts
from studies.contexts import LEVELS
from studies.results import MANIFEST, Floats, Names, Result, describe_scorers, strip_name
from studies.tables import Row, Section, Table, check_output, name_missing, slugify, write_report

REUSED, NEW, NEITHER = 1, 0, -1
"""Y of a token: in an annotated span, in none, or on a boundary (or no piece of the text at all)."""
CONTENT = {REUSED: "plagiarism", NEW: "new"}
"""Names of the labels in results, in the order of the arrays."""
OPTIMISERS = ("lbfgs", "bfgs", "cg", "powell")
LEAST_SQUARES = "least squares"
FITS = ("paper", "ours")
"""The fit of L-BFGS with any warning, and one whose covariance is not singular."""
SLOPES = {
    "New (b2)": ((0, 0, 1, 0), False),
    "Difference (b3)": ((0, 0, 0, 1), False),
    "Plag. (b2 + b3)": ((0, 0, 1, 1), True),
}
"""The weights of the coefficients in each slope, and whether its test is one-sided; b3 is the primary hypothesis."""
NORMAL_95 = 1.959963984540054
"""Standard errors on each side of an estimate that give its 95 % interval."""
MIXED, BOOTSTRAP = "tab:supp-retention-mixed-results", "tab:supp-retention-bootstrap-results"
"""Labels in the paper."""
MIN_P = 1e-4
"""Smaller p-values are shown as below it."""
STYLE = {"plagiarism": ("plagiarism-labelled content", "#b2182b", "o-"), "new": ("new content", "#2166ac", "s--")}
"""Name, colour and marker with line of each content; they can be distinguished without colours."""
FIGURE, PANEL_INCHES = "retention.svg", (3.4, 2.8)
TOKEN_MEANS = "document_token_means"
"""Folder of the paper's files of this name, one for each model."""
Labels = npt.NDArray[np.int8]
Offsets = npt.NDArray[np.int64]


def label_tokens(offsets: Offsets, selected: Span, reused: Iterable[Span]) -> Labels:
    """Return the label of each token (paper, Eq. supp-retention-token-label), ``[n]``.

    The first that covers at least half of a token's characters decides: the selected span, the other annotated spans,
    the text outside of all. A token without characters, such as BOS, is neither. ``offsets`` are half-open intervals in
    characters of the target, ``[n, 2]``; spans may overlap each other.
    """
    characters = int(offsets.max(initial=0))
    starts, ends = offsets.T
    in_selected = _mask([selected], characters)
    in_others = _mask(reused, characters) & ~in_selected
    size = ends - starts
    covered, others = (_count_before(mask)[ends] - _count_before(mask)[starts] for mask in (in_selected, in_others))
    new = size - covered - others
    rules = [size == 0, 2 * covered >= size, 2 * others >= size, 2 * new >= size]
    return np.select(rules, [NEITHER, REUSED, REUSED, NEW], NEITHER).astype(np.int8)


def _mask(spans: Iterable[Span], characters: int) -> npt.NDArray[np.bool_]:
    """Return True for each character in any of the spans, ``[characters]``."""
    mask = np.zeros(characters, dtype=bool)
    for start, end in spans:
        mask[max(0, start) : max(0, end)] = True
    return mask


def _count_before(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the number of True values before each place, ``[characters + 1]``."""
    return np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])


class TokenMeans(NamedTuple):
    """The mean gains of reused and of new tokens of a result."""

    contexts: Mapping[tuple[str, float, int], Sequence[tuple[float, int]]]
    """Mean and number of tokens of each content in the order of `CONTENT`, by pair, level and seed."""
    lost: Mapping[str, str]
    """Why pairs are left out, by their ids."""
    gains: Floats
    """Means over the seeds of each other pair (paper, Pair-Level Bootstrap), ``[pairs, contents, levels]``."""

    def format_csv(self) -> str:
        """Return the file ``document_token_means``: a row for each context and content."""
        rows = ["pair_id,seed,retention,content,tokens,mean_gain"]
        for (pair_id, level, seed), contents in sorted(self.contexts.items()):
            for content, (mean, tokens) in zip(CONTENT.values(), contents, strict=True):
                rows.append(f"{pair_id},{seed},{level},{content},{tokens},{mean!r}")
        return "".join(f"{row}\n" for row in rows)


def average_gains(folder: Path, contexts: Mapping[Names, Mapping[str, Any]]) -> TokenMeans:
    """Return the mean gains of a result, for ``contexts`` by the names of both documents.

    A pair of which a context was not scored, or whose target has no token of a content, is left out.
    """
    means: dict[tuple[str, float, int], list[tuple[float, int]]] = {}
    lost: dict[str, str] = {}
    remedy = "run again with the options that docs/studies.md names"
    for (target, source), tokens, _ in read_lines(folder / GAINS, GainsLine.from_json, remedy, MAX_GAIN_VALUES):
        context = contexts.get((strip_name(target), strip_name(source)))
        if context is None:
            continue
        gains, offsets = np.array(tokens.gains, np.float64), np.array(tokens.spans, np.int64).reshape(-1, 2)
        labels = label_tokens(offsets, context["selected"], context["reused"])
        own = [gains[labels == label] for label in CONTENT]
        if missing := [name for name, chosen in zip(CONTENT.values(), own) if not len(chosen)]:
            lost[context["pair_id"]] = f"the target has no token of {missing[0]} content"
        else:
            key = context["pair_id"], context["retention"], context["seed"]
            means[key] = [(float(chosen.mean()), len(chosen)) for chosen in own]
    seeds = sorted({context["seed"] for context in contexts.values()})
    pair_ids = list(dict.fromkeys(context["pair_id"] for context in contexts.values()))
    for pair_id in pair_ids:
        if any((pair_id, level, seed) not in means for level in LEVELS for seed in seeds):
            lost.setdefault(pair_id, "a context has no gains")
    kept = [pair_id for pair_id in pair_ids if pair_id not in lost]
    if len(kept) < 2:
        what = f"{len(lost)} of {len(pair_ids)} pairs have no gains of every context, which leaves too few"
        raise UserError(what, "give a result of `run --keep-gains` on the folder retention", folder)
    values = [
        [np.mean([[mean for mean, _ in means[i, level, seed]] for seed in seeds], axis=0) for level in LEVELS]
        for i in kept
    ]
    return TokenMeans(means, lost, np.array(values).transpose(0, 2, 1))


Curves = Mapping[str, Sequence[Estimate]]
"""The mean gain at each level, by content: means of the bootstrap means and their 2.5th and 97.5th percentiles."""


class MixedFit(NamedTuple):
    """The slopes of the mixed model, and how they were fitted."""

    slopes: Mapping[str, tuple[float, float, float]]
    """Estimate, standard error and ``p`` of the Wald test, by the names of `SLOPES`."""
    optimiser: str
    """One of `OPTIMISERS`, or `LEAST_SQUARES`."""
    warnings: Sequence[str]
    """Warnings of the library and reasons of failures, in their order, each once."""

    def list_columns(self) -> list[tuple[str, float]]:
        """Return estimate, standard error and p of each slope by the headings of the paper's table."""
        ends = ("", ", SE", ", p")
        return [(f"{slope}{end}", v) for slope, own in self.slopes.items() for end, v in zip(ends, own, strict=True)]


class RetentionResults(NamedTuple):
    """The results of one language model; for the slopes see `resample_slopes`."""

    pairs: int
    curves: Curves
    mixed: Mapping[str, MixedFit]
    """By the names of `FITS`."""
    slopes: Mapping[str, Estimate | float]


def estimate_retention(gains: Floats) -> RetentionResults:
    """Return the results of the mean gains ``[pairs, contents, levels]``."""
    return RetentionResults(len(gains), estimate_curves(gains), fit_mixed(gains), resample_slopes(gains))


def draw_weights(pairs: int) -> Floats:
    """Return the share of each pair in each resample of as many pairs, ``[RESAMPLES, pairs]``."""
    return np.concatenate(list(draw_resamples(pairs, RESAMPLES, SEED))) / pairs


def estimate_curves(gains: Floats) -> Curves:
    """Return the curves of both contents."""
    means = np.einsum("bp,pcl->clb", draw_weights(len(gains)), gains)
    return {
        content: [_summarise(values) for values in by_retention]
        for content, by_retention in zip(CONTENT.values(), means, strict=True)
    }


def resample_slopes(gains: Floats) -> dict[str, Estimate | float]:
    """Return bootstrap means and percentile intervals of the slopes, by the headings of the table."""
    centred = np.array(LEVELS) - np.mean(LEVELS)
    by_pair = gains @ centred / (centred @ centred)
    plagiarism, new = (draw_weights(len(gains)) @ by_pair).T
    slopes = {"Plag. slope": plagiarism, "New slope": new, "Difference": plagiarism - new}
    positive = float(np.mean(plagiarism > 0))
    return {**{name: _summarise(values) for name, values in slopes.items()}, "Pr(plag. slope > 0)": positive}


def _summarise(values: Floats) -> Estimate:
    return Estimate(float(values.mean()), *find_interval(values))


def fit_mixed(gains: Floats) -> dict[str, MixedFit]:
    """Fit the mixed model to the means of all pairs, of which there are at least two, once for each of `FITS`.

    The paper's fit is that of L-BFGS if it is finite, whatever the library warns of. Ours is the first that converges,
    and not to a singular covariance, else the likeliest one.
    """
    from statsmodels.api import OLS
    from statsmodels.regression.mixed_linear_model import MixedLM
    from statsmodels.tools.sm_exceptions import SingularMatrixWarning

    outcome, design = gains.ravel(), make_design(len(gains))
    groups = np.arange(len(design)) // (len(CONTENT) * len(LEVELS))
    best, likelihood, messages = (LEAST_SQUARES, OLS(outcome, design).fit()), -math.inf, list[str]()
    fits: dict[str, MixedFit] = {}
    for optimiser in OPTIMISERS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = MixedLM(outcome, design, groups).fit(reml=False, method=optimiser)
                finite = all(
                    np.isfinite(part).all() for part in (result.fe_params, result.cov_params()[:4, :4], result.llf)
                )
                failure = "" if result.converged else "no convergence"
                failure = failure if finite else "numbers that are not finite"
            except (np.linalg.LinAlgError, ValueError, ZeroDivisionError) as e:
                finite, failure = False, f"{type(e).__name__}: {e}"
        if finite and any(issubclass(warning.category, SingularMatrixWarning) for warning in caught):
            failure = "a singular covariance"
        messages += [f"{optimiser}: {warning.category.__name__}: {warning.message}" for warning in caught]
        if finite and (not failure or result.llf > likelihood):
            best, likelihood = (optimiser, result), result.llf
        fits.setdefault(FITS[0], MixedFit(_test_slopes(best[1]), best[0], list(dict.fromkeys(messages))))
        if not failure:
            break
        messages.append(f"{optimiser} failed: {failure}")
    return {**fits, FITS[1]: MixedFit(_test_slopes(best[1]), best[0], list(dict.fromkeys(messages)))}


def _test_slopes(result: Any) -> dict[str, tuple[float, float, float]]:
    """Return estimate, standard error and p of each slope of a fit."""
    from scipy.stats import norm

    coefficients, covariance = np.asarray(result.params)[:4], np.asarray(result.cov_params())[:4, :4]
    slopes = {}
    for name, (weights, one_sided) in SLOPES.items():
        value = float(np.dot(weights, coefficients))
        error = math.sqrt(float(np.dot(weights, covariance @ np.array(weights))))
        z = value / error if error > 0 else math.copysign(math.inf, value) if value else 0.0
        slopes[name] = (value, error, float(norm.sf(z) if one_sided else 2 * norm.sf(abs(z))))
    return slopes


def make_design(pairs: int) -> Floats:
    """Return the columns 1, Y, r and Y r, ``[pairs * contents * levels, 4]``."""
    y, r = np.meshgrid([1.0, 0.0], LEVELS, indexing="ij")
    rows = np.stack([np.ones(y.size), y.ravel(), r.ravel(), (y * r).ravel()], axis=1)
    return np.tile(rows, (pairs, 1))


def study_retention(
    prepared: Path,
    results: Sequence[Result],
    missing: Sequence[str],
    allow_incomplete: bool,
    output: Path,
    overwrite: bool,
) -> None:
    """Write the report of the study: tables with a row for each language model, and the figure.

    The results are those of ``run --keep-gains`` on the folder ``retention`` of ``prepared``; ``missing`` are names of
    models without a result. Raises UserError if a pair is left out, as in the paper, unless ``allow_incomplete``.
    """
    check_output(output, overwrite)
    records = read_lines(prepared / "retention" / MANIFEST, dict)
    contexts = {(strip_name(record["susp_file"]), strip_name(record["src_file"])): record for record in records}
    names = [result.name or result.profile.need_model().name for result in results]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two results have the name {doubled[0]!r}", "give names: NAME=FOLDER")
    means = {name: average_gains(result.folder, contexts) for name, result in zip(names, results, strict=True)}
    lost = {(name, pair_id): why for name, own in means.items() for pair_id, why in own.lost.items()}
    if lost and not allow_incomplete:
        (name, pair_id), why = next(iter(lost.items()))
        what = f"{len(lost)} pairs are incomplete, for example {pair_id} of {name}: {why}"
        raise UserError(what, "complete the run, or give --allow-incomplete for a look")
    models = {name: estimate_retention(own.gains) for name, own in means.items()}
    figure = draw({name: model.curves for name, model in models.items()})
    counts = [count_contexts(min(model.pairs for model in models.values()), contexts.values())]
    tables, compared = make_tables(models, missing), compare_models(models, counts)
    deviations = [
        "Spans of every truth file of a suspicious document count as reused.",
        *describe_scorers(zip(names, [result.job for result in results], strict=True)),
        *(f"{name}, {pair_id} is left out: {why}." for (name, pair_id), why in lost.items()),
    ]
    sections = [
        Section("Results", warn_about_counts(counts), [*tables, *beside.make_tables(compared)], [FIGURE]),
        Section("Deviations from the paper", [*deviations, *list_fits(models)]),
    ]
    files = {f"{TOKEN_MEANS}/{slugify(name)}.csv": own.format_csv() for name, own in means.items()}
    sources = {"results": [result.describe() for result in results]}
    write_report(output, "Controlled retention of source evidence", sections, sources, {**files, FIGURE: figure})


Models = Mapping[str, RetentionResults]
"""Results by the name of the model."""


def list_fits(models: Models) -> list[str]:
    """Return lines on how each mixed model was fitted, with all warnings of the library."""
    return [
        f"{name}, mixed model ({which}): {line}"
        for name, model in models.items()
        for which, fit in model.mixed.items()
        for line in (
            f"{model.pairs * len(CONTENT) * len(LEVELS)} observations of {model.pairs} pairs",
            f"optimiser {fit.optimiser}",
            *fit.warnings,
        )
    ]


def make_tables(models: Models, missing: Sequence[str] = ()) -> list[Table]:
    """Return the two tables of the paper, and the figure in numbers; ``missing`` are models without a result."""
    mixed: dict[str, list[Row]] = {which: [] for which in FITS}
    slopes: list[Row] = []
    points: list[Row] = []
    for name, model in models.items():
        for which, fit in model.mixed.items():
            shown = {
                column: _show_p(value) if column.endswith(", p") else value for column, value in fit.list_columns()
            }
            mixed[which].append({"Model": name, **shown})
        slopes.append({"Model": name, **model.slopes})
        points += [
            {"Model": name, "Content": content, "Retention": level, "Pairs": model.pairs, "Gain": gain}
            for content, curve in model.curves.items()
            for level, gain in zip(LEVELS, curve, strict=True)
        ]
    unit = "in nats per token per unit of retention"
    estimates = (
        f"Maximum-likelihood estimates of the mixed model, {unit} (Wald tests, that of the last slope one-sided)"
    )
    ours = "The same by the first optimiser whose covariance is not singular"
    resampled = f"Slopes over {RESAMPLES} resamples of pairs: mean and 95 % interval, {unit}"
    return [
        name_missing(Table("retention-mixed-model", estimates, mixed["paper"]), missing),
        name_missing(Table("retention-mixed-model-ours", ours, mixed["ours"]), missing),
        name_missing(Table("retention-slopes", resampled, slopes), missing),
        Table("retention-curves", "Mean gain: mean of the resamples and 95 % interval, in nats per token", points),
    ]


def _show_p(p: float) -> str:
    return f"{p:.4f}" if p >= MIN_P else f"<{MIN_P:.4f}"


def compare_models(models: Models, counts: Sequence[Counts]) -> list[Row]:
    """Return the figures of the paper's two tables beside ours, those of the mixed model from the paper's fit."""
    mixed, slopes = [], []
    for name, model in models.items():
        fit = model.mixed["paper"]
        values = dict(fit.list_columns())
        intervals = {
            slope: (v - NORMAL_95 * error, v + NORMAL_95 * error) for slope, (v, error, _) in fit.slopes.items()
        }
        mixed.append(OwnRow(name, {c: Estimate(v, *intervals[c]) if c in intervals else v for c, v in values.items()}))
        slopes.append(OwnRow(name, {c: v for c, v in model.slopes.items() if isinstance(v, Estimate)}))
    return [*compare(MIXED, mixed, counts), *compare(BOOTSTRAP, slopes, counts)]


def draw(models: Mapping[str, Curves]) -> str:
    """Draw mean gain over retained evidence with 95 % intervals, a panel for each model; return an SVG.

    The same curves give the same bytes: nothing of the user's settings, of the day or of the machine is in the file.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "pan_scdg", "font.family": ["DejaVu Sans"], "font.size": 9.0})
        figure = Figure(figsize=(PANEL_INCHES[0] * len(models), PANEL_INCHES[1]), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
        for axes, (name, curves) in zip(panels, models.items()):
            axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
            for content, (label, colour, line) in STYLE.items():
                values, low, high = zip(*curves[content])
                # the mean of the resamples lies within their percentiles but for rounding
                errors = np.maximum(0, [np.subtract(values, low), np.subtract(high, values)])
                axes.errorbar(LEVELS, values, errors, fmt=line, color=colour, label=label, markersize=4, capsize=2)
            axes.set(title=name.replace("$", r"\$"), xlabel="retained source evidence", xticks=LEVELS)
        panels[0].set_ylabel("mean gain (nats per token)")
        panels[0].legend(frameon=False, loc="upper left")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()
