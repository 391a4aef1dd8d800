"""Choose the threshold of a profile, and its q, w, n or weights, by the scores of pairs with truth (paper, PAN25)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomlkit

from pan_scdg.errors import UserError
from pan_scdg.jobs.agreement import LAST_DIGIT, estimate_noise
from pan_scdg.methods import MethodSettings, Values
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.labels import match_labels
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.pan.untrusted import is_file
from pan_scdg.profile import Profile, find_profile, parse_profile, read_recorded, read_toml
from pan_scdg.results.files import DECISIONS, SCORES
from pan_scdg.results.folder import ScoreFile, list_changed_files, require_job, write_atomically
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import ScoreLine, read_decisions
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.calibration_range import TargetFacts, find_range, thin_scores
from pan_scdg.settings import Calibration, CalibrationRange, Decide

CHOSEN_FIELDS = ("q", "w", "weights", "grid")
"""Fields that may differ from those that the scores were made with, as may the parameters of the method."""
MIN_SEPARATION = 0.1
"""Smallest difference of recall and false positive rate on the calibration pairs that passes without a warning."""
NO_NOISE = (
    "note: no noise of these scores is known, so that no decision will be marked near_threshold. Score 20 pairs with "
    "another engine (`run --scores-only --engine reference --limit 20`), and give the result with --again"
)
STRICT_SHARE = 0.02
"""Largest share of the negative pairs that reach the strict threshold."""
UNSCORED_PAIR = "pair without a score, left out of the calibration"


class Calibrated(NamedTuple):
    """The chosen values of a profile, with their quality on the pairs that they were chosen on."""

    settings: MethodSettings
    decide: Decide

    @property
    def choice(self) -> dict[str, Any]:
        """Return the chosen parameters and the thresholds, by name."""
        return {
            **self.settings.model_dump(include={*self.settings.parameters}),
            **self.decide.model_dump(include={"threshold", "strict"}),
        }

    def summarise(self) -> str:
        """Return the choice and its quality in one line."""
        calibration = self.decide.calibration
        if calibration is None or self.decide.threshold is None:
            raise ValueError("nothing was chosen")
        parameters = "".join(f" with {name} {getattr(self.settings, name):g}" for name in self.settings.parameters)
        return (
            f"{self.decide.method}{parameters}, threshold {self.decide.threshold:.6f}, "
            f"strict {self.decide.strict:.6f}: F1 {calibration.f1:.4f}, accuracy {calibration.accuracy:.4f} "
            f"on the {calibration.pairs} pairs ({calibration.positives} positive) that chose the threshold"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the choice and its quality as JSON values."""
        quality = (
            {}
            if self.decide.calibration is None
            else self.decide.calibration.model_dump(include={"f1", "accuracy", "pairs", "positives"})
        )
        return {**self.choice, **quality}


def calibrate(
    source: str,
    directory: Path | None,
    scores: Path,
    output: Path,
    truth: Path | None,
    noise: float | None = None,
    again: Path | None = None,
    overwrite: bool = False,
) -> tuple[Calibrated, list[str]]:
    """Choose the threshold and the parameters of a profile, and write a copy of its file with them.

    Args:
        source: the profile by name, or its file; comments are copied.
        directory: the input of ``run``; None: the scores are those of a check.
        scores: result folder of ``run --scores-only`` on this input and profile, or of ``check``.
        output: profile file to write; its stem becomes the name of the new profile.
        truth: folder of the truth, or the table of a check (`pan.labels`); None: searched in the input.
        noise: of the scores; None: measured, or the profile's.
        again: another result of the same pairs, or of some of them, by another engine, dtype, device or machine.
        overwrite: replace a profile that is there and differs.

    Returns:
        The choice, and warnings about the input.

    Raises:
        UserError: the truth is missing, all pairs have the same label, the scores are of another input or profile,
            or ``output`` is another profile.
    """
    (document, profile), notices = copy_profile(source, output), Notices()
    job = require_job(scores)
    if job.task == "retrieval":
        raise UserError("contains no scores of pairs", "give the output of `run --scores-only` or `check`", scores)
    labels, values = _read_labelled_scores(directory, truth, scores, job, profile.method_settings, notices)
    check_scores_profile(profile, job, scores)
    _check_grid(profile, job, scores)
    chosen = choose_settings(profile, values, labels, job)
    if noise is not None or again is not None:
        noise = _measure_noise(profile, chosen.settings, job, scores, again) if again is not None else noise
        chosen = chosen._replace(decide=chosen.decide.model_copy(update={"noise": noise}))
    _write_choice(document, chosen)
    parse_profile(document.unwrap(), output)
    text = tomlkit.dumps(document)
    if not overwrite and is_file(output) and output.read_text(encoding="utf-8") not in ("", text):
        raise UserError("is another profile", "choose another --write, or --overwrite to replace it", output)
    write_atomically(output, text)
    warnings = [
        *list_changed_files(scores, job),
        *notices.list_warnings(),
        *warn_about_separation(chosen, values, labels),
        *([NO_NOISE] if chosen.decide.noise is None else []),
    ]
    return chosen, warnings


def copy_profile(source: str, output: Path) -> tuple[tomlkit.TOMLDocument, Profile]:
    """Return a profile under the name of the file to write, with its comments and as it is read.

    Raises:
        UserError: the profile is not valid, or the file's name is no name of a profile.
    """
    path = find_profile(source)
    document = tomlkit.parse(tomlkit.dumps(read_recorded(path))) if path.suffix == ".json" else read_toml(path)
    document["name"] = output.stem  # results distinguish the two profiles
    return document, parse_profile(document.unwrap(), output)


def choose_settings(profile: Profile, values: Sequence[Values], labels: Sequence[bool], job: JobFile) -> Calibrated:
    """Return the settings and the threshold with the largest F1 (paper, Hyperparameter Selection).

    A method may choose otherwise: that of a cosine is chosen as in the official baseline, which the paper uses. A
    logistic model is first fitted on the same pairs. For gains, the range of the targets is part of the choice.

    Args:
        profile: has a table ``[decide]``.
        values: the numbers of each pair.
        labels: True where the source was reused.
        job: of the scores.

    Raises:
        UserError: all pairs have the same label, every threshold calls too many negatives positive, or the scores are
            of another grid.
    """
    decide, truth = profile.need_decide(), np.array(labels, dtype=bool)
    fitted = {parameter: one.fit(values, labels) for parameter, one in profile.method_settings.vary().items()}
    try:
        scores_by: dict[float, Floats] = {
            parameter: np.array([one.compute_score(pair) for pair in values], np.float64)
            for parameter, one in fitted.items()
        }
    except KeyError as e:
        remedy = "run `run --scores-only` with this profile"
        raise UserError(f"the scores lack {e.args[0]}", remedy) from e
    choice = profile.method_settings.choose(scores_by, truth, decide.max_false_positives)
    negatives = scores_by[choice.parameter][~truth]
    calibration = Calibration(
        digest=job.input,
        pairs=len(truth),
        positives=int(truth.sum()),
        f1=round(choice.f1, 6),
        accuracy=round(choice.accuracy, 6),
        negatives=thin_scores(negatives),
        negative_pairs=len(negatives),
        range=_find_range(values),
    )
    model, dtype = job.fingerprint or None, profile.method_settings.find_dtype(job.models)
    same = (decide.calibrated_with, decide.dtype) == (model, dtype)
    noise = decide.noise if same else None
    return Calibrated(
        fitted[choice.parameter],
        Decide(
            method=decide.method,
            threshold=float(choice.threshold),
            strict=_find_strict(negatives, float(choice.threshold)),
            max_false_positives=decide.max_false_positives,
            noise=LAST_DIGIT if noise is None and not job.models else noise,
            calibrated_with=model,
            dtype=dtype,
            calibration=calibration,
        ),
    )


def _find_strict(negatives: Floats, threshold: float) -> float:
    """Return the least threshold, from the other one on, that at most `STRICT_SHARE` of the negative pairs reach."""
    first_below = np.sort(negatives)[::-1][int(STRICT_SHARE * len(negatives))]
    return max(threshold, float(np.nextafter(first_below, np.inf)))


def _measure_noise(profile: Profile, settings: MethodSettings, job: JobFile, scores: Path, again: Path) -> float:
    """Return the noise by the differences of two results, by the chosen settings.

    Raises:
        UserError: the other result is of another input or profile, has no pair in common, or is no other computation.
    """
    other = require_job(again)
    check_scores_profile(profile, other, again, may_differ=("dtype",))
    _check_grid(profile, other, again)
    if other.input != job.input:
        raise UserError("is a result of another input", "give one of the input of --scores", again)
    if all(getattr(other, name) == getattr(job, name) for name in ("engine", "device", "models", "machine")):
        what = "was computed in the same way as --scores"
        raise UserError(what, "give a result of another --engine or --device, or of another machine", again)
    values, other_values = (ScoreFile(folder / SCORES, ScoreLine.from_json) for folder in (scores, again))
    keys = [key for key in other_values if key in values]
    if not keys:
        raise UserError("has no pair in common with --scores", "score some of the same pairs", again)
    both = ((file[key].values for file in (values, other_values)) for key in keys)
    return estimate_noise(max(abs(settings.compute_score(a) - settings.compute_score(b)) for a, b in both))


def warn_about_separation(chosen: Calibrated, values: Sequence[Values], labels: Sequence[bool]) -> list[str]:
    """Return a warning if the chosen threshold hardly tells the pairs with reuse from the others.

    Of a decision that is the same for all pairs, recall and false positive rate are equal, whatever its F1 is.
    """
    from pan_scdg.evaluation.pairs import compute_pair_metrics

    scores = np.array([chosen.settings.compute_score(pair) for pair in values], np.float64)
    figures = compute_pair_metrics(labels, scores, scores >= (chosen.decide.threshold or 0.0))
    if figures["recall"] - figures["fpr"] >= MIN_SEPARATION:
        return []
    return [
        f"warning: this threshold hardly separates the pairs: {figures['recall']:.0%} of those with reuse and "
        f"{figures['fpr']:.0%} of the others are positive (AUROC {figures['auroc']:.2f}). Try another profile"
    ]


def _read_labelled_scores(
    directory: Path | None,
    truth: Path | None,
    scores: Path,
    job: JobFile,
    settings: MethodSettings,
    notices: Notices,
) -> tuple[list[bool], list[Values]]:
    """Return label and numbers of each scored pair with a label, in order."""
    file = ScoreFile(scores / SCORES, ScoreLine.from_json)
    if job.task == "check":
        labelled = _match_check(truth, scores, job, file, settings)
    else:
        labelled = _match_input(directory, truth, scores, job, file, notices)
    labels = [label for label, _ in labelled]
    if len(set(labels)) < 2:
        raise UserError("all pairs have the same label", "calibrate on pairs of both classes", truth or directory)
    return labels, [values for _, values in labelled]


def _match_input(
    directory: Path | None,
    truth: Path | None,
    scores: Path,
    job: JobFile,
    file: ScoreFile[ScoreLine],
    notices: Notices,
) -> list[tuple[bool, Values]]:
    """Return label and numbers of the pairs of a PAN folder."""
    if directory is None:
        raise UserError("the truth belongs to the input of `run`", "give its folder with --input", scores)
    corpus = read_pairs(directory, notices, may_lack_files=True)
    if job.input != hash_input(directory, "pairs", pairs=corpus):
        raise UserError("these scores belong to another input", "give the input of `run --scores-only`", scores)
    folder = truth or find_truth(directory)
    if folder is None:
        raise UserError("no truth was found in the input folder", "give its folder with --truth", directory)
    passages = read_truth(folder, corpus.pairs)
    labelled = []
    for pair in corpus.pairs:
        if pair.key in file:
            labelled.append((bool(passages[pair.key]), file[pair.key].values))
        elif job.limit is None:
            notices.add(UNSCORED_PAIR, str(pair.suspicious.path))
    return labelled


def _match_check(
    truth: Path | None, scores: Path, job: JobFile, file: ScoreFile[ScoreLine], settings: MethodSettings
) -> list[tuple[bool, Values]]:
    """Return label and numbers of the pairs of a check that a table names; the better one of two directions."""
    if truth is None:
        raise UserError("the truth of a check is a table", "give suspicious,source,label with --truth", scores)
    labelled = []
    checked = [record.key for record in read_decisions(scores / DECISIONS)]
    for key, label in match_labels(truth, checked, within_class=job.within_class).items():
        directions = [file[form].values for form in (key, key[::-1])[: 1 + job.within_class] if form in file]
        if directions:
            labelled.append((label, max(directions, key=settings.compute_score)))
    return labelled


def check_scores_profile(profile: Profile, job: JobFile, scores: Path, may_differ: tuple[str, ...] = ()) -> None:
    """Raise UserError if scores were made with other settings than those of a profile, apart from what is chosen."""
    made = parse_profile(job.profile, scores)
    tables = [
        one.model_dump(exclude={"name", "description", "decide", "passages", "retrieval"}) for one in (profile, made)
    ]
    for table in tables:
        for fields in table.values():
            for name in (*CHOSEN_FIELDS, *may_differ, *profile.method_settings.parameters):
                if isinstance(fields, dict):
                    fields.pop(name, None)
    remedy = "give the profile of `run --scores-only`"
    if profile.need_decide().method != made.need_decide().method:
        raise UserError("these scores were computed by another method", remedy, scores)
    if different := [name for name in {**tables[0], **tables[1]} if tables[0].get(name) != tables[1].get(name)]:
        raise UserError(f"these scores were computed with another [{different[0]}]", remedy, scores)


def _check_grid(profile: Profile, job: JobFile, scores: Path) -> None:
    """Raise UserError if scores do not cover the parameters that are chosen from."""
    if not job.scores_only and profile.method_settings.parameters:
        raise UserError("these scores cover one parameter only", "use `run --scores-only`", scores)


def _find_range(values: Sequence[Values]) -> CalibrationRange | None:
    """Return the range of the targets; None for a method that does not measure it."""
    if not all("nats_per_byte" in pair for pair in values):
        return None
    return find_range(
        [TargetFacts(int(pair["tokens"]), pair["nats_per_byte"], pair["common_words"]) for pair in values]
    )


def _write_choice(document: tomlkit.TOMLDocument, chosen: Calibrated) -> None:
    """Write a choice into the tables of its method and ``[decide]``; the rest keeps its place and comments."""
    method: Any = _make_header(document, chosen.decide.method.replace("-", "_"))
    fields = chosen.settings.model_dump(
        mode="json", include={*chosen.settings.parameters, "weights"}, exclude_none=True
    )
    weights = fields.pop("weights", None)
    method.update(fields)
    decide: Any = _make_header(document, "decide")
    values = chosen.decide.model_dump(mode="json", exclude_none=True)
    calibration = values.pop("calibration")
    for name in ("threshold", "strict", "noise", "calibrated_with", "dtype", "calibration"):
        decide.pop(name, None)
    for name, value in values.items():
        if decide.get(name) != value:
            decide[name] = value
    target_range = calibration.pop("range", None)
    decide["calibration"] = _make_table(calibration)
    if target_range is not None:
        decide["calibration"]["range"] = _make_table(target_range)
    if weights is not None:
        method["weights"] = _make_table(weights)


def _make_header(document: tomlkit.TOMLDocument, name: str) -> Any:
    """Return a table with a header line, which alone can get tables of its own; another one moves to the end."""
    table = document[name]
    if type(table) is tomlkit.items.Table and not table.is_super_table():
        return table
    values = document.unwrap()[name]
    document.remove(name)
    document.append(name, _make_table(values))
    return document[name]


def _make_table(values: Mapping[str, Any]) -> tomlkit.items.Table:
    table = tomlkit.table()
    table.update(values)
    return table
