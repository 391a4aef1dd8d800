"""Imports point down the layout of docs/architecture.md, and heavy packages are imported when they are needed."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEVELS = (
    {"__main__"},
    {"cli"},
    {"scorer", "pyterrier"},
    {"jobs"},
    {"report"},
    {"profile"},
    {"methods"},
    {"align", "retrieval"},
    {"lm"},
    {"results"},
    {"models"},
    {"scdg", "evaluation", "text", "documents"},
    {"pan"},
    {"settings"},
    {
        "records",
        "normal_form",
        "progress",
        "logs",
        "bundled",
        "errors",
        "notices",
        "digests",
        "resources",
        "commit",
        "version",
    },
)
UPWARD = {
    ("settings", "pan_scdg.scdg.aggregation"): "a registry that imports nothing of the package",
}
ASKED_FOR = {"pan_scdg.profile": {"GainSettings"}}
"""The type of the table [gains], which explains the decisions of every method."""
COMPARES_METHOD = re.compile(r"""method\w*(?:"\)|\])? (?:[!=]=|in) [("{\[]""")
HEAVY = frozenset(
    [
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
        "pyarrow",
        "openai",
    ]
)
FILES = sorted((ROOT / "pan_scdg").rglob("*.py"))


def name_module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_module(path): path for path in FILES}


def list_imports(node: ast.AST, *, lazy: bool = True, types: bool = True) -> Iterator[str]:
    """Yield all imported modules, with or without those in functions and under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
        if (is_typing and not types) or (isinstance(child, ast.FunctionDef) and not lazy):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            names = [f"{child.module}.{alias.name}" for alias in child.names]
            yield from (name if name in MODULES else str(child.module) for name in names)
        else:
            yield from list_imports(child, lazy=lazy, types=types)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def find_level(module: str) -> int:
    return next(level for level, parts in enumerate(LEVELS) if module.split(".")[1] in parts)


@pytest.mark.parametrize("path", [path for path in FILES if name_module(path) != "pan_scdg"], ids=name_module)
def test_imports_point_down(path: Path) -> None:
    here = name_module(path)
    for name in list_imports(parse(path)):
        if name.startswith("pan_scdg.") and (here.split(".")[1], name) not in UPWARD:
            assert find_level(name) >= find_level(here), f"{here} imports {name}"


def test_there_are_no_import_cycles() -> None:
    """Imports inside functions and for types count, too."""
    graph = {
        name: {other for other in list_imports(parse(path)) if other in MODULES and other != name}
        for name, path in MODULES.items()
    }
    assert set(TopologicalSorter(graph).static_order()) == set(MODULES)


def test_only_methods_ask_which_method_decides() -> None:
    """What differs between methods is said by `Method` and `MethodSettings`."""
    methods = ROOT / "pan_scdg" / "methods"
    trees = [parse(path) for path in methods.glob("*.py") if path.name != "__init__.py"]
    classes = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    classes = {name for name in classes if name.endswith(("Method", "Settings"))}
    assert len(classes) > 10
    for path in set(FILES) - set(methods.glob("*.py")):
        names = {node.id for node in ast.walk(parse(path)) if isinstance(node, ast.Name)}
        assert not names & classes - ASKED_FOR.get(name_module(path), set()), path
        assert not COMPARES_METHOD.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("path", FILES, ids=name_module)
def test_nothing_heavy_is_imported_with_a_module(path: Path) -> None:
    permitted = {"pyterrier"} if name_module(path) == "pan_scdg.pyterrier" else set()  # its classes are of PyTerrier's
    assert {name.split(".")[0] for name in list_imports(parse(path), lazy=False, types=False)} & HEAVY == permitted


def test_the_method_needs_numpy_alone_and_the_formats_no_numbers_but_pixels() -> None:
    for folder, forbidden in (
        ("scdg", HEAVY),
        *((formats, HEAVY | {"numpy", "scipy"}) for formats in ("documents", "pan")),
    ):
        for path in (ROOT / "pan_scdg" / folder).rglob("*.py"):
            allowed = {"pdf_page.py": {"numpy"}, "prepare.py": {"pyarrow"}}.get(path.name, set())
            assert not {name.split(".")[0] for name in list_imports(parse(path))} & (forbidden - allowed), path


def test_entrypoint_only_calls_the_command_line() -> None:
    assert set(list_imports(parse(ROOT / "entrypoint.py"))) == {"_signal", "os", "pan_scdg.cli"}


def test_no_file_names_a_registry_or_a_folder_of_one_machine() -> None:
    git = shutil.which("git")
    listed = git and subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if not listed or listed.returncode:
        pytest.skip("this is no checkout that git reads")
    # in parts, so that this file does not match itself
    hosts = ["py" + "pi.org", "python" + "hosted.org", "download.py" + "torch.org", "ana" + "conda.org"]
    folders = ["/wo" + "rk/", "/tmp/" + "scratch", "/ho" + "me/", "/Us" + "ers/"]
    pattern = re.compile("|".join([*map(re.escape, hosts), rf"(?<![\w.~$}})-])(?:{'|'.join(folders)})"]))
    assert pattern.search("cd /wo" + "rk/main")
    assert not pattern.search("$HOME/work/x")
    texts = 0
    for path in (ROOT / name for name in listed.stdout.split("\0") if name):
        try:
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
        except UnicodeDecodeError:
            continue  # weights and compressed texts
        assert not pattern.search(text), path
        texts += 1
    assert texts > 100


def test_the_functions_that_a_pair_passes_are_where_the_architecture_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| \d+ \| (.*?) \|", page)
    assert rows
    for names, path in (part for row in rows for part in re.findall(r"((?:`[\w.]+`(?:, )?)+) in `([\w/]+\.py)`", row)):
        tree = ast.parse((ROOT / "pan_scdg" / path).read_text(encoding="utf-8"))
        classes = {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}
        for name in re.findall(r"[\w.]+", names):
            owner, _, function = name.rpartition(".")
            body = classes[owner] if owner else tree.body
            assert function in {node.name for node in body if isinstance(node, ast.FunctionDef)}, name
