"""How much of the package one pair enters, and what closes circles: ``python -m benchmarks.layout``.

Each command runs on the first pair of the example under cProfile; counted are the files of the package with a function
that was called, these functions, and the lines of these files. Constants that decide are the numbers that have names in
`align/`, `text/` and the method of alignment.
"""

import ast
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click

from benchmarks.pairs import ROOT, format_rows

PACKAGE = ROOT / "pan_scdg"
PAIRS = ROOT / "examples" / "pan25-pairs" / "test"


def list_commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands of one pair by name."""
    run = ["run", "--input", str(PAIRS), "--limit", "1", "--device", "cpu", "--output"]
    texts = [str(next((PAIRS / side).glob("*.txt"))) for side in ("susp", "src")]
    return {
        "run offline": [*run, str(folder / "offline")],
        "run scdg-mini": [*run, str(folder / "mini"), "--profile", "scdg-mini"],
        "check": ["check", *texts, "--output", str(folder / "check")],
    }


def count_entered(arguments: list[str]) -> tuple[int, int, int]:
    """Return the numbers of files, functions and lines that a command enters, in this process."""
    from pan_scdg.cli import run_command

    profiler = cProfile.Profile()
    code = profiler.runcall(run_command, arguments)
    if code:
        raise SystemExit(code)
    called: set[tuple[str, int, str]] = set(pstats.Stats(profiler).stats)  # type: ignore[attr-defined]
    # a module that is only imported has its body as the one function
    entered = [(path, name) for path, _, name in called if path.startswith(f"{PACKAGE}/") and name != "<module>"]
    files = {path for path, _ in entered}
    return len(files), len(entered), sum(len(Path(path).read_text("utf-8").splitlines()) for path in files)


def count_circles() -> int:
    """Return the number of imports that have to go until none closes a circle, those in functions and for types too."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    graph = {name: {one for one in list_imports(path, modules) if one != name} for name, path in modules.items()}
    circles = 0
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as e:
            first, second = e.args[1][:2]
            graph[second].discard(first)
            circles += 1
        else:
            return circles


def list_constants() -> Iterator[tuple[Path, str, ast.expr]]:
    """Yield the numbers in the constants of modules and classes: file, name of the constant, and the number."""
    paths = [*PACKAGE.glob("align/*.py"), *PACKAGE.glob("text/*.py"), PACKAGE / "methods" / "alignment.py"]
    for path in sorted(paths):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = [one.body for one in (tree, *tree.body) if isinstance(one, ast.Module | ast.ClassDef)]
        for one in (one for body in bodies for one in body):
            if isinstance(one, ast.Assign | ast.AnnAssign) and one.value:
                target = one.targets[0] if isinstance(one, ast.Assign) else one.target
                yield from ((path, name, number) for name, number in _list_numbers(ast.unparse(target), one.value))


def _list_numbers(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the numbers in the value of a constant, tuples and dictionaries included."""
    if isinstance(value, ast.Tuple):
        for own, part in zip(name.strip("()").split(", "), value.elts):
            yield from _list_numbers(own, part)
    elif isinstance(value, ast.Dict):
        for part in value.values:
            yield from _list_numbers(name, part)
    else:
        parts = ast.Constant | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop
        numbers = [one for one in ast.walk(value) if isinstance(one, ast.Constant) and type(one.value) in (int, float)]
        if numbers and all(isinstance(one, parts) for one in ast.walk(value)):
            yield name, value


def list_imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a file imports."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & modules.keys()) or ({str(node.module)} & modules.keys())
    return found


@click.command(help=__doc__)
@click.argument("name", required=False)
def main(name: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        commands = list_commands(Path(folder))
        if name is not None:  # the process of one command, which imports what it needs
            click.echo(json.dumps(count_entered(commands[name])))
            return
        rows = []
        for command in commands:
            words = [sys.executable, "-m", "benchmarks.layout", command]
            done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
            rows.append([command, *json.loads(done.stdout.splitlines()[-1])])
    click.echo(format_rows(["command", "files", "functions", "lines of these files"], rows))
    click.echo(f"\nimports that close a circle: {count_circles()}")
    click.echo(f"constants that decide: {len(list(list_constants()))}")


if __name__ == "__main__":
    main()
