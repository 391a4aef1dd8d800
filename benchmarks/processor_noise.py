"""Scores under other instructions of the processor: ``python -m benchmarks.processor_noise [--dtype NAME]``.

The pairs of the shipped examples are scored once under each setting, in a process of its own; what this processor
lacks is named and left out, for a library then takes the next best without a word. The last rows are the reference
engine and, in float64, what all of them come close to. Differences are those of scores, in nats; ``flips`` are
decisions other than those of the first row. With ``--out`` the scores of every row are written as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from pan_scdg.evaluation.report import format_table
from pan_scdg.jobs.demo import EXAMPLES
from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.profile import Profile, load_profile
from pan_scdg.scdg.aggregation import choose_aggregate
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.pair_plan import check_pairs
from pan_scdg.store import Store


class Setting(NamedTuple):
    """One row: variables for the libraries, what of the processor they need, and how it is computed."""

    variables: dict[str, str]
    needs: str = ""
    engine: str = "packed"
    exact: bool = False


SETTINGS = {
    "as it is": Setting({}),
    "ATEN default": Setting({"ATEN_CPU_CAPABILITY": "default"}),
    "ATEN avx2": Setting({"ATEN_CPU_CAPABILITY": "avx2"}, "avx2"),
    "ATEN avx512": Setting({"ATEN_CPU_CAPABILITY": "avx512"}, "avx512f"),
    "oneDNN SSE41": Setting({"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    "oneDNN AVX2": Setting({"ONEDNN_MAX_CPU_ISA": "AVX2"}, "avx2"),
    "oneDNN AVX512_CORE": Setting({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, "avx512f"),
    "oneDNN AVX512_CORE_BF16": Setting({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, "avx512_bf16"),
    "oneDNN AVX512_CORE_AMX": Setting({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}, "amx_bf16"),
    "MKL COMPATIBLE": Setting({"MKL_CBWR": "COMPATIBLE"}),
    "MKL AVX2": Setting({"MKL_CBWR": "AVX2"}, "avx2"),
    "MKL AVX512": Setting({"MKL_CBWR": "AVX512"}, "avx512f"),
    "one thread": Setting({"OMP_NUM_THREADS": "1"}),
    "two threads": Setting({"OMP_NUM_THREADS": "2"}),
    "reference engine": Setting({}, engine="reference"),
    "float64": Setting({}, engine="reference", exact=True),
}


def profile_in(name: str, dtype: str | None) -> Profile:
    """Return the profile, in another dtype if one is given."""
    profile = load_profile(name)
    model = profile.need_model().model_copy(update={} if dtype is None else {"dtype": dtype})
    return profile.model_copy(update={"model": model})


def scores_of(profile: Profile, halves: list[str], setting: Setting, scratch: Path) -> list[float]:
    """Return the score of each pair of these halves of the examples, computed in this process."""
    settings, found = profile.need_pairs(), []
    aggregate = choose_aggregate(settings)
    if aggregate is None:
        raise click.UsageError(f"{profile.name} has no aggregation to score with")
    for half in halves:
        folder = EXAMPLES / "pan25-pairs" / half
        options = Computing("cpu", engine=setting.engine)  # type: ignore[arg-type]
        model, corpus = options.open_model(profile.need_model()), read_pairs(folder, Notices())
        if setting.exact:
            model.loaded.model.double()
        planned, _ = check_pairs(corpus.pairs, model, settings, Notices())
        with Store(scratch / half) as store, closing(model):
            found += [
                s.features.scores[aggregate] for s in score_pairs(planned, model, settings, store, keep_gains=False)
            ]
    return found


def row_of(name: str, scores: list[float], first: list[float], threshold: float | None) -> dict[str, Any]:
    """Return the differences of a setting's scores from those of the first."""
    mine, others = np.array(scores), np.array(first)
    cut = np.inf if threshold is None else threshold
    return {
        "setting": name,
        "largest difference": f"{np.abs(mine - others).max():.2g}",
        "mean difference": f"{np.abs(mine - others).mean():.2g}",
        "flips": int(((mine >= cut) != (others >= cut)).sum()),
        "nearest to the threshold": "" if threshold is None else f"{np.abs(mine - threshold).min():.2g}",
    }


def missing_flags() -> set[str]:
    """Return the instruction sets that the settings need and this processor lacks."""
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return {s.needs for s in SETTINGS.values() if s.needs and s.needs not in flags}


@click.command(help=__doc__)
@click.option("--profile", default="scdg-mini", show_default=True)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), help="default: the profile's")
@click.option("--half", "halves", multiple=True, type=click.Choice(["calibration", "test"]), help="default: both")
@click.option("--setting", "names", multiple=True, type=click.Choice(list(SETTINGS)), help="default: all")
@click.option("--out", type=click.Path(path_type=Path), help="Write the scores here.")
@click.option("--here", is_flag=True, hidden=True, help="Score under one setting and print the scores.")
def main(
    profile: str, dtype: str | None, halves: tuple[str, ...], names: tuple[str, ...], out: Path | None, here: bool
) -> None:
    halves, names = halves or ("calibration", "test"), names or tuple(SETTINGS)
    chosen = profile_in(profile, dtype)
    if here:
        with tempfile.TemporaryDirectory() as scratch:
            click.echo(json.dumps(scores_of(chosen, list(halves), SETTINGS[names[0]], Path(scratch))))
        return
    lacking, found, rows = missing_flags(), {}, []
    more = ["--profile", profile, *([] if dtype is None else ["--dtype", dtype]), *(f"--half={h}" for h in halves)]
    for name in names:
        if SETTINGS[name].needs in lacking:
            click.echo(f"{name}: this processor has no {SETTINGS[name].needs}", err=True)
            continue
        command = [sys.executable, "-m", "benchmarks.processor_noise", *more, "--here", "--setting", name]
        variables = {**os.environ, **SETTINGS[name].variables}
        found[name] = json.loads(subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True).stdout)
        rows.append(row_of(name, found[name], next(iter(found.values())), chosen.need_pairs().threshold))
        click.echo(json.dumps(rows[-1]), err=True)
        if out is not None:
            out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    click.echo(format_table(rows, list(rows[0])))


if __name__ == "__main__":
    main()
