"""What constants and rules of texts and alignments move: ``python -m benchmarks.constants --data DATA [NAME...]``.

Each constant limits nothing, is halved and doubled, and each rule is left out; names choose some. Shown are the texts
with other words, sentences or parts (of pan13-dev, real-dev with its classes, answers-dev and rewrites-dev), the pairs
with other passages by words, their macro plagdet on PAN 2013, and the first test that fails, if folders of tests are
given. Everything is loaded anew for each change, in a process of its own.
"""

import ast
import io
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, cast

import click
import pytest

from benchmarks.choose_score import read_real
from benchmarks.layout import PACKAGE, list_constants
from benchmarks.pairs import ROOT, format_rows, read_answers
from benchmarks.passage_rules import list_lengths, read_truths
from benchmarks.passages import measure
from pan_scdg.text.units import PreparedText

NEVER = 10**9
RULES = {
    "text/code.py": ["find_code = lambda *_: []"],
    "text/formal_parts.py": [
        "find_contents = lambda *_: []",
        "find_comments = lambda *_: []",
        "find_declarations = lambda *_: []",
        "find_title_page = lambda *_: 0",
    ],
    "text/given.py": ["_CLAUSE = re.compile('(?!)')", "is_given = lambda *_: False"],
    "text/headings.py": [
        "find_numbered = lambda *_: []",
        "_is_wrapped_heading = lambda lines: len(lines) == 1 and (lines[0].is_marked or lines[0].is_label)",
        "_precedes = lambda *_: False",
        "_CAPTION = '(?!){}'",
        "_INNER_END = re.compile('(?!)')",
        "_INNER_MARKS = ''",
    ],
    "text/quotations.py": [
        "_list_marked = lambda *_: []",
        "_BRACKET = re.compile('(?!)')",
        "_BLOCK_QUOTATION = re.compile('(?!)')",
        "_INDENTED = re.compile('(?!)')",
        "_ANNOUNCED = '(?!){}'",
        "_SECTION = re.compile('(?!)')",
        "_are_verses = lambda *_: False",
    ],
    "text/references.py": [
        "find_reference_lists = lambda *_: []",
        "_is_single_entry = lambda *_: False",
        "_NOTE = re.compile('(?!)')",
        "_BY_LABEL = re.compile('(?!)')",
        "_CLEAR_ENTRY = re.compile('')",
    ],
    "text/sentences.py": ["is_bare_heading = lambda line, _: bool(find_section_name(line))"],
    "text/tables.py": ["find_tables = lambda *_: []", "_is_header = lambda *_: False"],
    "align/passages.py": ["trim_cluster = lambda cluster: cluster", "drop_overlapping_clusters = list"],
}
"""By file, what is put behind it to leave out a rule."""


class Variant(NamedTuple):
    """A file with one change."""

    file: str
    change: str
    code: str


def list_variants() -> Iterator[Variant]:
    """Yield the changes of constants, then those of rules."""
    for path, name, value in list_constants():
        file, number = path.relative_to(PACKAGE).as_posix(), eval(ast.unparse(value))
        lines = path.read_bytes().splitlines(keepends=True)
        line = lines[value.lineno - 1]
        half = number / 2 if isinstance(number, float) else max(1, number // 2)
        for other in ({"MIN": 0, "MAX": NEVER}.get(name[:3]), half, 2 * number):
            if other is not None and not file.startswith("methods"):
                new = b"%b%r%b" % (line[: value.col_offset], other, line[value.end_col_offset :])
                code = b"".join([*lines[: value.lineno - 1], new, *lines[value.lineno :]])
                yield Variant(file, f"{name} = {other}", code.decode())
    for file, rules in RULES.items():
        for rule in rules:
            yield Variant(file, rule, f"{(PACKAGE / file).read_text(encoding='utf-8')}\n{rule}\n")


def load_variant(variant: Variant) -> None:
    """Load the package anew, with the changed file."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pan_scdg", "tests")]:
        del sys.modules[name]
    path = PACKAGE / variant.file
    package, own = f"pan_scdg.{path.parent.name}", path.stem
    module = module_from_spec(cast(ModuleSpec, spec_from_file_location(f"{package}.{own}", path)))
    sys.modules[module.__name__] = module
    setattr(import_module(package), own, module)
    exec(compile(variant.code, str(path), "exec"), module.__dict__)


class FirstFailure:
    """Remembers the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take the name of a test."""
        if report.failed:
            self.name = self.name or report.nodeid.rpartition("/")[2]


def find_failure(tests: Sequence[str]) -> str:
    """Return the first test that fails, or ""."""
    failure = FirstFailure()
    with redirect_stdout(io.StringIO()):
        pytest.main([*tests, "-x", "-q", "-p", "no:cacheprovider"], plugins=[failure])
    return failure.name


class Collections:
    """Texts and pairs, and what is found in them without a change."""

    def __init__(self, data: Path, step: int) -> None:
        truth, texts = read_truths(data / "pan13-dev")
        self.truth = dict(list(truth.items())[::step])
        others = [*read_real(data), *read_answers(data / "answers-dev"), *read_answers(data / "rewrites-dev")]
        self.pairs = [*texts[::step], *((pair.target, pair.source) for pair in others[::step])]
        classes = (data / "real-dev" / "classes").glob("*/*")
        texts_alone = [path.read_text("utf-8", "replace") for path in sorted(classes)]
        self.texts = list(dict.fromkeys([*(text for pair in self.pairs for text in pair), *texts_alone]))
        self.prepared = self.prepare()
        self.passages = self.find_passages()

    def prepare(self) -> dict[str, PreparedText]:
        """Return the texts, prepared by the package that is loaded now."""
        units = import_module("pan_scdg.text.units")
        return {text: units.prepare_text(text) for text in self.texts}

    def find_passages(self) -> list[list[tuple[int, int, int, int]]]:
        """Return the passages of each pair."""
        passages = import_module("pan_scdg.align.passages")
        found = []
        for pair in self.pairs:
            alignment = passages.Alignment(*map(self.prepared.__getitem__, pair))
            parts = [part for one in alignment.list_measured() for part in alignment.split_patchwork(one)]
            found.append(list(map(list_lengths, alignment.restore(alignment.add_copies(parts)))))
        return found

    def measure(self, variant: Variant, tests: Sequence[str]) -> list[object]:
        """Return the cells of a variant."""
        load_variant(variant)
        before = self.prepared
        if variant.file.startswith("text"):
            self.prepared = self.prepare()
        texts = sum(digest(before[text]) != digest(self.prepared[text]) for text in self.texts)
        found = self.find_passages() if texts or variant.file.startswith("align") else self.passages
        passages = sum(own != other for own, other in zip(found, self.passages, strict=True))
        plagdet = measure(self.truth, dict(zip(self.truth, found)))[0]
        return [texts, passages, f"{plagdet:.4f}", find_failure(tests) if tests else ""]


def digest(text: PreparedText) -> list[bytes]:
    """Return what is compared of a prepared text."""
    return [values.tobytes() for values in (text.omitted, text.spans, text.counted, text.words)]


COLLECTIONS: list[Collections] = []
"""What the processes inherit."""


def measure_variant(variant: Variant, tests: Sequence[str]) -> list[object]:
    """Return the cells of a variant, or the error that it ends with."""
    try:
        return COLLECTIONS[0].measure(variant, tests)
    except Exception as e:
        return [repr(e), "", "", ""]


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--step", default=2, show_default=True, help="One of so many pairs is compared.")
@click.option("--test", "tests", multiple=True, help="A folder of tests.")
def main(names: Sequence[str], data: Path, step: int, tests: Sequence[str]) -> None:
    collections = Collections(data, step)
    COLLECTIONS.append(collections)
    plagdet = measure(collections.truth, dict(zip(collections.truth, collections.passages)))[0]
    click.echo(f"{len(collections.texts)} texts, {len(collections.pairs)} pairs, plagdet {plagdet:.4f}\n")
    click.echo(format_rows(["file", "change", "other texts", "other passages", "plagdet", "test"], []))
    paths = [str(ROOT / test) for test in tests]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for variant in list_variants():
            if not names or any(name in f"{variant.file} {variant.change}" for name in names):
                cells = pool.apply(measure_variant, (variant, paths))
                click.echo(f"| {' | '.join(map(str, [variant.file, f'`{variant.change}`', *cells]))} |")


if __name__ == "__main__":
    main()
