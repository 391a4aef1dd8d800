"""Scores under other instructions of the processor: ``python -m benchmarks.processor_noise [--profile NAME]``.

The test pairs of the examples are scored by ``run`` under each setting; what this processor lacks is named and left
out, for a library then takes the next best without a word. Differences are those of scores; ``flips`` are decisions
other than those of the first row.
"""

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt

from benchmarks.pairs import ROOT, format_rows, run_command
from pan_scdg.results.files import DECISIONS
from pan_scdg.results.records import read_decisions


class Setting(NamedTuple):
    """Variables for the libraries, what of the processor they need, and the engine of the language model."""

    variables: dict[str, str]
    needs: str = ""
    engine: str = "packed"


SETTINGS = {
    "as it is": Setting({}),
    "ATEN default": Setting({"ATEN_CPU_CAPABILITY": "default"}),
    "ATEN avx2": Setting({"ATEN_CPU_CAPABILITY": "avx2"}, "avx2"),
    "ATEN avx512": Setting({"ATEN_CPU_CAPABILITY": "avx512"}, "avx512f"),
    "oneDNN SSE41": Setting({"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    "oneDNN AVX2": Setting({"ONEDNN_MAX_CPU_ISA": "AVX2"}, "avx2"),
    "oneDNN AVX512_CORE": Setting({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, "avx512f"),
    "oneDNN AVX512_CORE_AMX": Setting({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}, "amx_bf16"),
    "MKL COMPATIBLE": Setting({"MKL_CBWR": "COMPATIBLE"}),
    "MKL AVX2": Setting({"MKL_CBWR": "AVX2"}, "avx2"),
    "one thread": Setting({"OMP_NUM_THREADS": "1"}),
    "two threads": Setting({"OMP_NUM_THREADS": "2"}),
    "reference engine": Setting({}, engine="reference"),
}


@click.command(help=__doc__)
@click.option("--profile", default="scdg-mini", show_default=True)
@click.option("--input", "folder", default=ROOT / "examples/pan25-pairs/test", type=click.Path(path_type=Path))
@click.option("--setting", "names", multiple=True, type=click.Choice(list(SETTINGS)), help="default: all")
def main(profile: str, folder: Path, names: tuple[str, ...]) -> None:
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    rows: list[list[object]] = []
    first: npt.NDArray[np.float64] = np.empty(0)
    with tempfile.TemporaryDirectory() as scratch:
        for name in names or SETTINGS:
            setting = SETTINGS[name]
            if setting.needs and setting.needs not in flags:
                click.echo(f"{name}: this processor has no {setting.needs}", err=True)
                continue
            output = Path(scratch) / name.replace(" ", "-")
            where = ("--input", folder, "--output", output, "--profile", profile, "--device", "cpu")
            run_command("run", *where, "--engine", setting.engine, environment={**os.environ, **setting.variables})
            lines = read_decisions(output / DECISIONS)
            threshold = float(lines[0].threshold or 0.0)
            scores = np.array([line.score for line in lines], np.float64)
            first = first if len(first) else scores
            apart, flips = np.abs(scores - first), int(((scores >= threshold) != (first >= threshold)).sum())
            nearest = np.abs(scores - threshold).min()
            rows.append([name, f"{apart.max():.2g}", f"{apart.mean():.2g}", flips, f"{nearest:.2g}"])
    columns = ["setting", "largest difference", "mean difference", "flips", "nearest to the threshold"]
    click.echo(format_rows(columns, rows))


if __name__ == "__main__":
    main()
