"""The levels of the architecture: who may import whom, what is loaded when, and how large a file grows."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pan_scdg"
LONGEST_FILE = 320
LEVELS = (
    {"__main__"},
    {"cli", "research"},
    {"jobs"},
    {"scorer"},
    {"pair_result"},  # above the report, which it can be turned into
    {"report"},
    {"scoring"},
    {"passages"},
    {"retrieval", "lm", "models", "evaluation", "baselines"},
    {"scdg", "pan", "cluster"},
    {
        "profile",
        "records",
        "store",
        "locks",
        "progress",
        "logs",
        "bundled",
        "errors",
        "notices",
        "digests",
        "resources",
        "bounded_json",
        "own_files",
    },
)
NEIGHBOURS = {
    # packages of one level, from which another may import these modules and no other
    "research": {"pan_scdg.cli.options", "pan_scdg.cli.paths"},
    "lm": {"pan_scdg.models"},
    "retrieval": {"pan_scdg.models"},
    "baselines": {"pan_scdg.models.encoder"},
}
REGISTRIES = {"pan_scdg.scdg.aggregation"}
"""Modules that import nothing of the package, so that profiles, which stand below, can take their names."""
HEAVY = {
    "torch",
    "transformers",
    "sentence_transformers",
    "sklearn",
    "ir_measures",
    "pyterrier",
    "tira",
    "ray",
    "numba",
    "pandas",
    "jnius",
    "statsmodels",
    "matplotlib",
    "openai",
}
FILES = sorted(PACKAGE.rglob("*.py"))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {_module(path): path for path in FILES}


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _imports(node: ast.AST, lazy: bool, types: bool) -> Iterator[str]:
    """Dotted names of all imports below ``node``; with or without those in functions and under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not lazy:
            continue
        if _is_type_checking(child) and not types:
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"a relative import: {ast.unparse(child)}"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in MODULES else str(child.module)
        else:
            yield from _imports(child, lazy, types)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(path: Path, lazy: bool = True, types: bool = True) -> set[str]:
    return set(_imports(_tree(path), lazy, types))


def _find_part(module: str) -> str:
    return module.split(".")[1]


def _find_level(part: str) -> int:
    return next(i for i, parts in enumerate(LEVELS) if part in parts)


def _own(path: Path) -> set[str]:
    return {name for name in _imported(path) if name.startswith("pan_scdg.")}


def test_every_part_has_a_level() -> None:
    assert {_find_part(name) for name in MODULES if "." in name} <= set().union(*LEVELS)


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_imports_go_down_or_stay_in_the_part(path: Path) -> None:
    if _module(path) == "pan_scdg":
        assert not {name for name in _imported(path, types=False) if name.startswith("pan_scdg.")}
        return
    here = _find_part(_module(path))
    for name in sorted(_own(path)):
        there = _find_part(name)
        if here == there or _find_level(there) > _find_level(here):
            continue
        if here == "profile" and name in REGISTRIES:
            assert not _own(MODULES[name])
            continue
        allowed = NEIGHBOURS.get(here, set())
        if _find_level(here) == len(LEVELS) - 1 and there != "profile":
            continue  # the small files of the lowest level use each other; cycles are found below
        assert _find_level(here) == _find_level(there), f"{_module(path)} imports {name} from a level above"
        assert any(name == a or name.startswith(f"{a}.") for a in allowed), f"{_module(path)} imports {name}"


def test_there_are_no_import_cycles() -> None:
    # the root names the public classes for type checkers alone, and any module may read its version
    imported = {name: _imported(path, types=name != "pan_scdg") for name, path in MODULES.items()}
    graph = {name: {x for x in names if x in MODULES and x != name} for name, names in imported.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as e:
        pytest.fail(f"an import cycle: {' -> '.join(e.args[1])}")
    assert set(order) == set(MODULES)


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_nothing_heavy_is_imported_with_a_module(path: Path) -> None:
    assert not {name.split(".")[0] for name in _imported(path, lazy=False, types=False)} & HEAVY


def test_the_method_knows_no_torch_at_all() -> None:
    names = {name.split(".")[0] for path in (PACKAGE / "scdg").rglob("*.py") for name in _imported(path)}
    assert "numpy" in names
    assert not names & HEAVY


def test_the_formats_know_no_model() -> None:
    names = {name.split(".")[0] for path in (PACKAGE / "pan").rglob("*.py") for name in _imported(path)}
    assert not names & (HEAVY | {"numpy", "scipy"})


def test_this_very_check_sees_imports_of_every_kind() -> None:
    tree = ast.parse(
        "import torch.nn as n\nfrom pan_scdg import errors\nif TYPE_CHECKING:\n    import tira\n"
        "try:\n    import sklearn\nexcept ImportError:\n    pass\nclass A:\n    import ray\n"
        "    def f(self):\n        import pyterrier\n"
    )
    top = {"torch.nn", "pan_scdg.errors", "sklearn", "ray"}
    assert set(_imports(tree, lazy=False, types=False)) == top
    assert set(_imports(tree, lazy=True, types=True)) == top | {"tira", "pyterrier"}


def test_entrypoint_only_calls_the_command_line() -> None:
    assert _imported(ROOT / "entrypoint.py") == {"pan_scdg.cli"}


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_no_file_grows_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


def _tracked() -> list[Path]:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    done = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no checkout that git reads")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _forbidden() -> re.Pattern[str]:
    """Put together from parts, so that this file does not match itself."""
    hosts = ["py" + "pi.org", "python" + "hosted.org", "download.py" + "torch.org", "ana" + "conda.org"]
    places = ["/wo" + "rk/", "/tmp/" + "scratch", "/ho" + "me/", "/Us" + "ers/"]
    # a place is absolute: not the end of a longer path, of a variable or of a home directory
    return re.compile("|".join([*map(re.escape, hosts), rf"(?<![\w.~$}})-])(?:{'|'.join(places)})"]))


def test_no_file_names_a_registry_or_a_place_of_one_machine() -> None:
    pattern, found, seen = _forbidden(), [], 0
    for path in _tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # weights and compressed texts
        seen += 1
        found += [f"{path.relative_to(ROOT)}: {m[0]}" for m in pattern.finditer(text)]
    assert found == []
    assert seen > 100


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("see https://files.python" + "hosted.org/x", True),
        ("cd /wo" + "rk/main", True),
        ("'/ho" + "me/me/x'", True),
        ("training/work/steps", False),
        ("$HOME/work/x", False),
    ],
)
def test_the_pattern_finds_what_it_should(text: str, bad: bool) -> None:
    assert bool(_forbidden().search(text)) == bad
