"""A first look at a GPU: ``make gpu``, or ``python -m benchmarks.gpu [--part NAME ...]``.

Of most parts everything is random and made on the device: models of the shapes of Qwen3-0.6B and Qwen3-8B, token ids,
vectors. ``texts`` and ``runs`` have the examples and models that are here. Nothing needs a network. A part adds a table
to the page as soon as it is done. A row that fails, or whose error is beyond its limit (see ``benchmarks.gpu_rows``),
says FAILED; the others go on, and the exit code is 1. Where a goal is missed, the outcome says so.

On a CPU nothing is added to the page unless --page names one: --device cpu --shape tiny tries the benchmark itself.
"""

import datetime
import importlib.metadata
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click

from benchmarks import gpu_attention, gpu_engines, gpu_head, gpu_overlap, gpu_runs, gpu_search, gpu_texts
from benchmarks.gpu_rows import FAILED, GIB, OUTCOME, Part, Row, describe_failure, release
from benchmarks.scoring_models import SHAPES
from pan_scdg.errors import UserError
from pan_scdg.models.devices import check_device_exists, describe_device

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "gpu.md"
PARTS = {
    "attention": gpu_attention.PART,
    "head": gpu_head.PART,
    "packed": gpu_engines.PACKED,
    "overlap": gpu_overlap.PART,
    "long": gpu_engines.LONG,
    "texts": gpu_texts.PART,
    "dense": gpu_search.PART,
    "runs": gpu_runs.PART,
}
LARGE = ["qwen3-0.6b", "qwen3-8b"]


def measure(part: Part, shapes: list[str], device: str) -> list[Row]:
    """Return the rows of a part for all shapes, or for the last one if that is enough.

    Where a shape fails as a whole, a row says so.
    """
    rows: list[Row] = []
    for shape in shapes if part.every_shape else shapes[-1:]:
        try:
            rows += part.rows(shape, device)
        except Exception as e:  # of a kernel, a driver or a library; the next shape may do
            rows.append({part.columns[0]: shape, OUTCOME: describe_failure(e)})
        release(device)
    return rows


def write_table(columns: tuple[str, ...], rows: list[Row]) -> str:
    """Return rows as a Markdown table; what a row lacks stays empty."""
    lines = [[*columns, OUTCOME], ["---"] * (len(columns) + 1)]
    lines += [[row.get(column, "") for column in (*columns, OUTCOME)] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def describe_run(device: str, command: str, commit: str) -> str:
    """Return the head of a section: date, device, commit, versions, command."""
    import torch

    name = "CPU" if device == "cpu" else describe_device(device)
    facts = [f"torch {torch.__version__}", f"transformers {_version('transformers')}"]
    facts += [f"flash-attn {_version('flash-attn')}", f"NumPy {_version('numpy')}"]
    if device == "cpu":
        facts.append(f"{torch.get_num_threads()} threads")
    else:
        memory = torch.cuda.get_device_properties(device).total_memory / GIB
        facts += [f"CUDA {torch.version.cuda}", f"driver {read_driver()}", f"{memory:.0f} GiB of memory"]
    title = f"## {datetime.date.today()}: {name}, commit {commit}"
    return f"\n{title}\n\n{', '.join(facts)}.\n\n    {command}\n"


def read_driver() -> str:
    """Return the version of the NVIDIA driver."""
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        query = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.split():
            return done.stdout.split()[0]
    return "unknown"


def read_commit() -> str:
    """Return the commit of this checkout and whether files differ from it, those of results aside."""
    commands = (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", ".", ":!benchmarks/results"])
    try:
        done = [subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True) for words in commands]
    except FileNotFoundError:
        return "unknown"
    if any(one.returncode for one in done):
        return "unknown"
    return done[0].stdout.strip() + (" with changes" if done[1].stdout else "")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _report(page: Path | None, text: str) -> None:
    click.echo(text, nl=False)
    if page is None:
        return
    with page.open("a", encoding="utf-8") as file:
        file.write(text)


@click.command(help=__doc__)
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="default: all")
@click.option("--device", default="cuda", show_default=True)
@click.option("--shape", "shapes", multiple=True, type=click.Choice(list(SHAPES)), help="default: both of Qwen3")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="default: benchmarks/results/gpu.md")
@click.option("--commit", help="for a copy without its repository; default: what git says")
def main(parts: tuple[str, ...], device: str, shapes: tuple[str, ...], page: Path | None, commit: str | None) -> None:
    import torch

    try:
        check_device_exists(device)
    except UserError as e:
        raise click.UsageError(str(e)) from e
    if page is None and device != "cpu":
        page = PAGE
    torch.set_float32_matmul_precision("highest")
    chosen, measured = list(parts or PARTS), list(shapes or LARGE)
    words = [f"--part {name}" for name in parts] + [f"--shape {name}" for name in shapes]
    command = " ".join(["python -m benchmarks.gpu", f"--device {device}", *words])
    _report(page, describe_run(device, command, commit or read_commit()))
    failed = 0
    for name in chosen:
        began = time.perf_counter()
        rows = measure(PARTS[name], measured, device)
        failed += sum(row[OUTCOME].startswith(FAILED) for row in rows)
        table = write_table(PARTS[name].columns, rows)
        _report(page, f"\n### {name} ({time.perf_counter() - began:.0f} s)\n\n{table}")
    if failed:
        click.echo(f"{failed} rows failed", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
