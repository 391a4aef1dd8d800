"""``paper``: the page has the same commands, a stop costs one of them, and the tables are those of single commands."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pan_scdg import bundled
from pan_scdg.cli import run_command
from pan_scdg.profile import load_profile
from pan_scdg.retrieval.index import describe_index
from studies import corpora, paper
from studies.__main__ import main
from studies.beside import list_paper_rows
from studies.paper import EXAMPLES, PAPER, adapt_table, list_steps, read_hours
from tests.docs.trimmed import write_trimmed_examples
from tests.studies.made_results import read_tables, write_corpus

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "studies.md"
SMALL = str(ROOT / "tests" / "profiles" / "small.toml")
BLOCK = re.compile(r"<!-- (run|needs: [^\n]+) -->\n```sh\n(.*?)```", re.S)


def list_page(marker: str) -> list[str]:
    """The commands of the page in the blocks with this marker, without those of the whole sequence."""
    lines = [
        line
        for kind, body in BLOCK.findall(PAGE.read_text("utf-8"))
        if kind.startswith(marker)
        for line in body.splitlines()
    ]
    return [line for line in lines if not line.startswith("python -m studies paper ")]


@pytest.mark.parametrize(
    ("marker", "rows", "data", "output"),
    [("needs", PAPER, "DATA", "out/paper"), ("run", EXAMPLES, "examples", "out/paper-examples")],
)
def test_the_page_lists_the_sequence(marker: str, rows: paper.Rows, data: str, output: str) -> None:
    assert list_page(marker) == [shlex.join(step.words) for step in list_steps(rows, data, output)]


def execute(words: Sequence[str]) -> int:
    return run_command(list(words[1:])) if words[0] == "pan-scdg" else main(list(words[3:]))


@pytest.fixture
def clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Callable[[str], Path], small_encoder: None
) -> Iterator[Path]:
    """A working directory with trimmed examples, where random models of two layers stand in for the bundled ones."""
    write_trimmed_examples(ROOT / "examples", tmp_path / "examples", pairs=2, queries=6, documents=18)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tiny").symlink_to(tiny_folder("qwen2"))
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path / "cache"))
    real = bundled.find_bundled
    for module in (bundled, corpora):
        monkeypatch.setattr(module, "find_bundled", lambda name: Path(name) if name == "examples" else real(name))

    def replace(profiles: Mapping[str, str]) -> dict[str, str]:
        return {name: SMALL if profile in ("scdg-mini", "offline") else profile for name, profile in profiles.items()}

    names = ("pairs", "topic", "first_stages", "retention")
    monkeypatch.setattr(
        paper, "EXAMPLES", EXAMPLES._replace(**{name: replace(getattr(EXAMPLES, name)) for name in names})
    )
    monkeypatch.setattr(paper, "execute", execute)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_reports(folder: Path) -> dict[str, object]:
    return {path.parent.name: json.loads(path.read_text())["tables"] for path in folder.glob("tables/*/tables.json")}


def read_verdicts(out: str) -> dict[tuple[str, str], str]:
    """The last table of the output, by table and row."""
    lines = out.partition("reproduced, or what it needs")[2].splitlines()[2:]
    rows = [re.split(" {2,}", line) for line in lines]
    return {(table, row): verdict for table, row, verdict in rows}


def test_a_stopped_sequence_goes_on_and_has_the_tables_of_single_commands(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = list_steps(paper.EXAMPLES, "examples", "out/single")
    for step in steps:
        assert execute(step.words) == 0, step.words
    ran: list[Sequence[str]] = []

    def stop(words: Sequence[str]) -> int:
        ran.append(words)
        if len(ran) == 4:
            raise KeyboardInterrupt
        return execute(words)

    monkeypatch.setattr(paper, "execute", stop)
    arguments = ["paper", "--examples", "--output", "out/all"]
    assert main(arguments) == 3
    assert capsys.readouterr().err.endswith("stopped: run the same command again to continue.\n")
    assert main(arguments) == 0
    assert len(ran) == len(steps) + 1, "nothing is computed twice but the command that was stopped"
    out = capsys.readouterr().out
    assert "left here: 0 of" in out
    verdicts = read_verdicts(out)
    assert verdicts["Multi-News proxy rates", "Average SCDG"] == "not comparable: other counts"
    assert verdicts["PAN26 full-corpus retrieval", "DAAC + SCDG"] == "not comparable: other counts"
    assert verdicts["Retention: bootstrap slopes", "tiny"] == "not comparable: no such row in the paper"
    assert all(verdict.startswith("not comparable") for verdict in verdicts.values())
    reports = read_reports(clone / "out" / "all")
    assert sorted(reports) == sorted(paper.TABLES)
    assert reports == read_reports(clone / "out" / "single")
    ran.clear()
    shutil.rmtree(clone / "out" / "all" / "news" / "bm25")
    shutil.rmtree(clone / "cache")
    assert main([*arguments, "--only", "same-topic"]) == 0
    assert [words[1] for words in ran] == ["run", "-m"], "what needs no model is computed, and the table made again"


def test_what_a_row_lacks_is_named_before_and_in_the_table(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    (clone / "data" / "pan25").mkdir(parents=True)
    assert main(["paper", "--data", "data", "--output", "out", "--plan"]) == 0
    plan = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "Llama-3.1-8B at d04e592bb4f6 (16 GB, gated), a GPU" in plan["pairs/llama"]
    assert "pan-scdg models fetch Llama-3.1-8B (accept its licence, set HF_TOKEN)" in plan["pairs/llama"]
    assert "transformers 5, a GPU" in plan["pairs/ministral"]
    assert "a chat endpoint with Meta-Llama-3-8B-Instruct" in plan["pairs/few-cot"]
    assert "OPENAI_BASE_URL" in plan["pairs/few-cot"]
    assert plan["retrieval/bm25-full"].endswith("data/pan26")
    assert plan["pairs/char-ngrams"] == "pairs/char-ngrams"
    halves = [clone / "examples" / "pan25-pairs" / half for half in ("calibration", "test")]
    for half in halves:
        shutil.copytree(half, clone / "data" / "pan25", dirs_exist_ok=True)
    (clone / "data" / "pan25" / "pairs").write_text("".join((half / "pairs").read_text() for half in halves))
    shutil.copytree(clone / "examples" / "same-topic-news", clone / "data" / "multinews")
    assert main(["paper", "--data", "data", "--output", "out", "--only", "same-topic"]) == 0
    tables = read_tables(clone / "out" / "tables" / "same-topic")
    for name in ("proxy-fpr", "trade-off"):
        assert [row["Method"] for row in tables[name]][:3] == [
            "BM25 pair score",
            "Max 4-token-gram containment",
            "4-token-gram logistic",
        ]
        assert tables[name][3:] == [{"group": "Not computed", "Method": "SCDG & Qwen3-8B-Base"}]
    out = capsys.readouterr().out
    assert "not run: pan-scdg run --input out/data/multinews --profile pan25-qwen3-8b" in out
    verdicts = read_verdicts(out)
    assert [row for _, row in verdicts] == [row for _, row in list_paper_rows("same-topic")]
    assert verdicts["Multi-News proxy rates", "BM25 pair score"] == "not comparable: other counts"
    assert verdicts["Multi-News proxy rates", "Average SCDG"].startswith(
        "needs pan-scdg models fetch Qwen3-8B-Base, a GPU"
    )


def test_a_table_is_made_from_the_results_that_exist(tmp_path: Path) -> None:
    out = tmp_path / "out"
    steps = list_steps(PAPER, "data", str(out))
    tables = {step.words[3]: step for step in steps if step.makes_table}
    assert adapt_table(tables["retrieval"], steps) is None
    for name in ("bm25-full", "daac"):
        (out / "retrieval" / name).mkdir(parents=True)
    adapted = adapt_table(tables["retrieval"], steps)
    assert adapted is not None
    missing = ("BM25-sentence", "Dense-full", "Dense-sentence", "CombSUM", "Linq", "RRF")
    assert adapted.words[4:] == (
        *("--data", "data/pan26", "--folds", f"{out}/data/pan26/folds.jsonl"),
        *("--output", f"{out}/tables/retrieval", "--overwrite"),
        *(word for name in missing for word in ("--missing", name)),
        *(f"BM25-full={out}/retrieval/bm25-full", f"DAAC={out}/retrieval/daac"),
    )
    for step in steps:
        step.output.mkdir(parents=True, exist_ok=True)
    assert all(adapt_table(step, steps) == step for step in tables.values())
    shutil.rmtree(out / "news" / "bm25")
    adapted = adapt_table(tables["same-topic"], steps)
    assert adapted is not None
    assert f"{out}/pairs/bm25" not in adapted.words, "a row needs both results"


def test_first_stages_share_an_index_that_has_all_of_theirs() -> None:
    corpus: Any = SimpleNamespace(digest="c", raw_text=True)

    def describe(profile: str) -> dict[str, object]:
        settings = load_profile(profile).need_retrieval()
        return describe_index(settings, corpus, {"weights": settings.need_dense().model}).to_json()

    for index, rows in PAPER.indexes.values():
        for row in rows:
            assert describe(PAPER.first_stages[row]).items() <= describe(index).items(), row


def test_hours_are_those_of_preflight_in_proportion_to_the_documents(tmp_path: Path) -> None:
    steps = list_steps(PAPER, str(tmp_path / "data"), str(tmp_path / "out"))
    for part, characters in (("pan25", 100), ("retention", 50)):
        folder = tmp_path / "out" / "data" / part
        write_corpus(folder, {"s-r": ""}, {"s": "a" * characters, "r": "b" * characters})
    for profile, line in (
        ("pan25-qwen3-8b", "failed  hours: score about 1,000 tokens: 30 h; TIRA's limit is 24 h"),
        ("pan26-qwen3-8b", "ok      hours: score about 9 tokens: 8 h, encode about 9 tokens: 4.5 h (limit)"),
    ):
        (tmp_path / "out" / "preflight" / profile).mkdir(parents=True)
        (tmp_path / "out" / "preflight" / profile / "preflight.txt").write_text(f"{line}\nnot ready: ...\n")
    hours = {str(path.relative_to(tmp_path / "out")): value for path, value in read_hours(steps).items()}
    expected = {"pairs/qwen": 30, "retention/qwen": 15, "retrieval/daac": 8, "index": 4.5}
    assert hours == expected
