"""Renew what follows from a number of the program: ``python -m tools.renew [--long]``.

After a change of a constant this writes again what a command computes: the pinned results, the output that README
quotes, the notebook, and the pictures of docs/. Then it runs the tests that compare pages with results, and prints what
is left for a person: the records of benchmarks/results/, and sentences with figures.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
NOTEBOOK = ROOT / "examples" / "scorer.ipynb"
COMMAND = (sys.executable, str(ROOT / "entrypoint.py"))
PAGES = ("tests/docs", "tests/examples")
RUN_BLOCK = re.compile(r"(<!-- run -->\n```sh\n((?:(?!```).*\n)*)```\n)(\n(?:    .*\n)+)?")
"""A block of commands, and the output that is quoted below it."""
LABEL = re.compile(r"\s{2,}")
"""What ends the first column of a line of output."""


def run(*words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command in the root of the clone, and stop if it fails."""
    print("+", shlex.join(words), flush=True)
    return subprocess.run(words, cwd=ROOT, check=True, text=True, **options)


def list_cases() -> tuple[list[str], list[str]]:
    """Return the names of the pinned results that `make test` compares, and of those of `make test-long`."""
    from tests.pinned.test_pinned import CASES, FIRST

    long = [name for name, case in CASES.items() if case["long"] and name not in FIRST]
    return ["scorer", *(name for name in CASES if name not in long)], long


def replace_quotations(page: str, read_output: Callable[[str], str]) -> str:
    """Return a page with the lines of output that it quotes as its commands print them now.

    Args:
        page: in Markdown.
        read_output: returns what the commands of a block print.
    """

    def replace(block: "re.Match[str]") -> str:
        output = {LABEL.split(line)[0]: line for line in map(str.strip, read_output(block[2]).splitlines())}
        if block[3] is None:
            return block[0]
        quoted = [line.strip() for line in block[3].splitlines() if line]
        return f"{block[1]}\n" + "".join(f"    {output.get(LABEL.split(line)[0], line)}\n" for line in quoted)

    return RUN_BLOCK.sub(replace, page)


def renew_quotations(folder: Path) -> None:
    """Run the commands of the README with their results in a folder, and replace the output that it quotes."""

    def read_output(commands: str) -> str:
        output = ""
        for line in commands.splitlines():
            words = [str(folder / word) if word.startswith("out/") else word for word in shlex.split(line)]
            if words[0] == "pan-scdg":
                output += run(*COMMAND, *words[1:], capture_output=True).stdout
        return output

    README.write_text(replace_quotations(README.read_text(encoding="utf-8"), read_output), encoding="utf-8")


def renew_notebook() -> None:
    """Execute the cells of the notebook, and replace the text that they printed."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec("".join(cell["source"]), names)
            for output in cell["outputs"]:
                if output["output_type"] == "stream":
                    output["text"] = printed.getvalue().splitlines(keepends=True)
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def renew_pictures(folder: Path) -> None:
    """Make the pictures of docs/ again, if Chromium is here."""
    if shutil.which("chromium") is None:
        print("pictures: Chromium is not here; run this again where it is")
        return
    essays, retrieval = folder / "essays", folder / "retrieval"
    run(*COMMAND, "check", "examples/essays/suspicious", "examples/essays/sources", "--output", str(essays))
    run(*COMMAND, "run", "--input", "examples/pan26-retrieval", "--output", str(retrieval), "--report")
    run(sys.executable, "-m", "tools.pictures", str(essays), str(retrieval))


def find_records(page: str, changed: Iterable[str]) -> list[str]:
    """Return the records that changed files belong to, by the table in CONTRIBUTING.md; without any match all of them.

    Args:
        page: CONTRIBUTING.md.
        changed: paths in the clone; those of the table are in ``pan_scdg/`` or at the root.
    """
    rows = re.findall(r"^\| (.*`.*) \| (`[\w-]+\.md`.*) \|$", page, re.M)
    table = [(re.findall(r"`([^`]+)`", paths), re.findall(r"`([^`]+)`", records)) for paths, records in rows]
    files = [path.removeprefix("pan_scdg/") for path in changed]
    matches = [records for paths, records in table if any(path.startswith(tuple(paths)) for path in files)]
    return list(dict.fromkeys(record for records in matches or [records for _, records in table] for record in records))


def list_commands(records: Iterable[str]) -> Iterator[str]:
    """Yield the rows of benchmarks/README.md about records: each with the command that measures it."""
    names = {*records}
    for row in (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").splitlines():
        if row.startswith("| `") and names & {*re.findall(r"`([^`]+)`", row.split(" | ")[0])}:
            record, command, *_ = row.strip("| ").split(" | ")
            yield f"  {record}: {command}"


def main() -> None:
    """Renew everything, then say what a person has to do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help="also the pinned cases of make test-long, which take half an hour"
    )
    (cases, left), with_long = list_cases(), parser.parse_args().long
    run(sys.executable, "-m", "tests.pinned.renew", *cases, *(left if with_long else ()))
    with TemporaryDirectory() as folder:
        renew_quotations(Path(folder))
        renew_pictures(Path(folder))
    renew_notebook()
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", "--no-header", "-rf", *PAGES], cwd=ROOT, check=False)
    run("git", "diff", "--stat")
    changed = run("git", "diff", "--name-only", "HEAD", "--", "pan_scdg", "model_cache", capture_output=True).stdout
    records = find_records((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), changed.split())
    print("\nFor a person:")
    print("- say in the docstring of tests/pinned/test_pinned.py why the results changed")
    if not with_long:
        print(f"- make renew LONG=1, for what make test-long compares: {', '.join(left)}")
    if tests.returncode:
        print("- the tests above: figures in pages that no longer agree with a result or a record")
    print("- records that the changed files belong to (table in CONTRIBUTING.md), then the README's table from them:")
    print("\n".join(list_commands(records)))


if __name__ == "__main__":
    main()
