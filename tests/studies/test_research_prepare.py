"""``studies prepare``: every part made or taken from files, an index that says which, and the same bytes again."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from pan_scdg.cli import run_command
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import ModelSettings, find_profile
from pan_scdg.records import TextFile
from studies.data import token_counter
from studies.data.folders import DataFolders, find_data, find_examples
from studies.data.news import read_news_pairs, read_news_split
from studies.data.pair_manifest import count_classes, read_manifest
from studies.data.prepare import PARTS, Sources, prepare
from studies.data.queries import read_folds
from studies.data.splits import read_splits
from studies.retention.instances import read_instances
from tests.studies.small_corpora import feature, write_corpus

SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"


def count_words(documents: Iterable[TextFile]) -> tuple[dict[Path, int], dict[str, Any]]:
    """Counts words where a test needs no tokenizer."""
    return {document.path: len(read_text(document).split()) for document in documents}, {"model": "words"}


def sources(folders: DataFolders, given: dict[str, Path] | None = None) -> Sources:
    return Sources(folders, given or {}, count_words)


def contents(folder: Path) -> dict[str, bytes]:
    visible = (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith("."))
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in visible}


def read_index(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "index.json").read_text())["parts"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, prepared; to read only."""
    output = tmp_path_factory.mktemp("prepared") / "out"
    prepare(sources(find_examples()), (), output)
    return output


def test_the_examples_give_all_four_parts(made: Path) -> None:
    records = read_manifest(made / "pan25" / "manifest.jsonl")
    assert count_classes(records) == {"positive": 24, "negative": 24, "total": 48}
    splits = read_splits(made / "pan25" / "splits", records)
    assert [(len(s.train), len(s.test)) for s in splits] == [(38, 10)] * 20
    folds = read_folds(made / "pan26" / "folds.jsonl", {f"q{i:02}" for i in range(1, 16)})
    assert sum(fold.role == "holdout" for fold in folds) == 3
    pairs = read_news_pairs(made / "multinews" / "manifest.jsonl")
    parts = read_news_split(made / "multinews" / "multinews_split.csv", pairs)
    assert (list(parts.values()).count("train"), list(parts.values()).count("test")) == (27, 7)
    assert len(read_instances(made / "retention" / "instances.jsonl")) > 20


def test_the_index_names_every_file_with_its_digest_and_origin(made: Path) -> None:
    index = read_index(made)
    assert sorted(index) == sorted(PARTS)
    artefacts = [artefact for part in index.values() for artefact in part.values()]
    named = {name: digest for artefact in artefacts for name, digest in artefact["files"].items()}
    assert named == {name: hash_file(made / name) for name in contents(made) if name != "index.json"}
    assert {(a["origin"], a["note"]) for a in artefacts} == {("made", "not the paper's")}
    assert str(made) not in (made / "index.json").read_text()


def test_no_text_of_a_document_is_in_any_file(made: Path) -> None:
    texts = [p.read_text() for side in ("susp", "src") for p in (find_examples().pan25 / "test" / side).iterdir()]
    written = b"".join(contents(made).values()).decode()
    assert not [text for text in texts if text[100:140] in written]


def test_a_second_run_gives_the_same_bytes_here_and_elsewhere(made: Path, tmp_path: Path) -> None:
    for _ in range(2):
        prepare(sources(find_examples()), (), tmp_path / "out")
        assert contents(tmp_path / "out") == contents(made)


def test_a_part_alone_is_a_result_of_its_own(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "out")
    with pytest.raises(UserError, match=r"holds the result of another input.*--overwrite to replace it"):
        prepare(sources(find_examples()), ["pan26"], tmp_path / "out")
    assert contents(tmp_path / "out") == contents(made)
    (line,) = prepare(sources(find_examples()), ["pan26"], tmp_path / "out", overwrite=True)
    assert line.startswith("pan26 folds: queries 15, holdout 3, development 12; made")
    assert sorted(contents(tmp_path / "out")) == ["index.json", "pan26/folds.jsonl"]
    assert sorted(read_index(tmp_path / "out")) == ["pan26"]


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A data folder, with the prepared files in ``given/``."""
    folder = tmp_path / "data"
    examples = find_examples()
    for name in ("pan25", "pan26", "multinews"):
        shutil.copytree(getattr(examples, name), folder / name)
    shutil.copytree(made, folder / "given")
    return folder


def theirs(data: Path) -> dict[str, Path]:
    names = {
        "pan25-manifest": "pan25/manifest.jsonl",
        "pan25-splits": "pan25/splits",
        "pan26-folds": "pan26/folds.jsonl",
        "multinews-manifest": "multinews/manifest.jsonl",
        "multinews-split": "multinews/multinews_split.csv",
        "retention-instances": "retention/instances.jsonl",
    }
    return {kind: data / "given" / name for kind, name in names.items()}


def test_given_files_are_taken_and_said(data: Path, made: Path, tmp_path: Path) -> None:
    def no_tokenizer(_documents: object) -> Any:
        raise AssertionError("nothing is counted when the manifest is there")

    given = replace(sources(find_data(data), theirs(data)), count_tokens=no_tokenizer)
    lines = prepare(given, (), tmp_path / "out")
    index = read_index(tmp_path / "out")
    assert {a["origin"] for part in index.values() for a in part.values()} == {"from file"}
    assert index["multinews"]["split"]["from"] == "multinews_split.csv"
    assert index["pan25"]["manifest"]["from_sha256"] == hash_file(theirs(data)["pan25-manifest"])
    assert "pan25 splits: splits 20" in lines[1]
    assert lines[1].endswith("from splits")
    written, before = contents(tmp_path / "out"), contents(made)
    assert written.items() >= {k: v for k, v in before.items() if k != "index.json" and "log" not in k}.items()


def test_files_that_cannot_be_taken_are_refused(data: Path, tmp_path: Path) -> None:
    for given, what in (
        ({"pan26-folds": tmp_path / "gone.jsonl"}, r"gone\.jsonl: the file does not exist; correct pan26-folds"),
        ({"folds": data}, "unknown kind 'folds'"),
        ({"pan25-splits": data / "given" / "index.json"}, "the folder does not exist; correct pan25-splits"),
    ):
        with pytest.raises(UserError, match=what):
            prepare(sources(find_data(data), given), ["pan25", "pan26"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def break_splits(data: Path) -> None:
    path = theirs(data)["pan25-manifest"]
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def break_documents(data: Path) -> None:
    path = theirs(data)["pan25-manifest"]
    path.write_text(path.read_text().replace('"susp_file": "suspicious-document00101', '"susp_file": "other'))


def other_news(data: Path) -> None:
    path = data / "multinews" / "train.src.cleaned"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def other_text(data: Path) -> None:
    for path in (data / "pan25").glob("*/susp/*.txt"):
        path.write_text(path.read_text() + "more")


@pytest.mark.parametrize(
    ("part", "damage", "where", "what"),
    [
        ("pan25", break_splits, "pan25/splits/split_seed20260714.csv", "is not in the manifest; give the split"),
        ("pan25", break_documents, "pan25/manifest.jsonl", "1 documents of the manifest are not in the data, other"),
        ("multinews", other_news, "multinews/manifest.jsonl", "are not in the data as recorded in the manifest"),
        ("retention", other_text, "", "not those that this instance was selected from"),
    ],
)
def test_files_of_other_data_are_one_clear_line_and_nothing_is_written(
    data: Path, tmp_path: Path, part: str, damage: Callable[[Path], None], where: str, what: str
) -> None:
    damage(data)
    given = {kind: path for kind, path in theirs(data).items() if kind.startswith(part)}
    with pytest.raises(UserError, match=what) as caught:
        prepare(sources(find_data(data), given), [part], tmp_path / "out")
    assert not where or caught.value.where == data / "given" / where
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"it holds 'thesis\.tex'; choose an empty --output"):
        prepare(sources(find_examples()), ["pan26"], tmp_path / "a")
    with pytest.raises(UserError, match="no data for any study"):
        prepare(sources(find_data(tmp_path)), (), tmp_path / "out")
    with pytest.raises(UserError, match="the directory does not exist"):
        find_data(tmp_path / "nothing")


def test_pairs_that_are_all_too_long_and_instances_that_there_are_not(tmp_path: Path) -> None:
    write_corpus(tmp_path / "data" / "pan25", [("s", "r")], truth={"s-r": feature("r")})
    shutil.copytree(find_examples().multinews, tmp_path / "data" / "multinews")
    with pytest.raises(UserError, match="no pair meets the conditions of an instance"):
        prepare(sources(find_data(tmp_path / "data")), ["retention"], tmp_path / "out")
    long = Sources(find_data(tmp_path / "data"), {}, lambda documents: ({of.path: 100_000 for of in documents}, {}))
    with pytest.raises(UserError, match="every pair has more than 128000 tokens"):
        prepare(long, ["pan25"], tmp_path / "out")


@pytest.fixture
def without_paper_tokenizer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profile = tmp_path / "papers.toml"
    text = find_profile(token_counter.PAPER_PROFILE).read_text(encoding="utf-8")
    profile.write_text(text.replace("Qwen3-8B-Base", "Not-Here").replace("pan25-qwen3-8b", "papers"), encoding="utf-8")
    monkeypatch.setattr(token_counter, "PAPER_PROFILE", str(profile))


@pytest.mark.usefixtures("without_paper_tokenizer")
def test_the_command_counts_with_the_tokenizer_of_the_profile_where_the_papers_is_absent(
    tmp_path: Path, made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAN_SCDG_STATE", raising=False)
    arguments = ["studies", "prepare", "--examples", "--part", "pan25", "--output", str(tmp_path / "out")]
    state = ["--state", str(tmp_path / "state")]
    assert run_command([*arguments, *state]) == 0
    shown = capsys.readouterr().out
    assert "pan25 manifest: positive 24, negative 24" in shown
    assert "The manifest of pan25 was counted with the tokenizer of scdg-mini: that of Not-Here, with which" in shown
    facts = read_index(tmp_path / "out")["pan25"]["manifest"]
    assert facts["tokenizer"]["model"] == "scdg-mini"
    first = read_manifest(tmp_path / "out" / "pan25" / "manifest.jsonl")[0]
    words = read_manifest(made / "pan25" / "manifest.jsonl")[0]
    assert first.total_tokens == first.susp_tokens + first.src_tokens > words.total_tokens

    before = contents(tmp_path / "out")

    def broken(*_: object) -> Any:
        return object()  # a tokenizer that cannot encode anything: all counts are in the state

    monkeypatch.setattr(token_counter, "load_tokenizer", broken)
    assert run_command([*arguments, *state]) == 0
    assert contents(tmp_path / "out") == before


def test_the_papers_tokenizer_counts_for_every_model_and_needs_no_weights(
    tmp_path: Path,
    tiny_folder: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, profile = tmp_path / "cache", tmp_path / "papers.toml"
    ignored = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(tiny_folder("qwen3-no-bos"), cache / "Qwen3-8B-Base", ignore=ignored)
    profile.write_text(SMALL.read_text(encoding="utf-8").replace('"tiny"', '"Qwen3-8B-Base"', 1), encoding="utf-8")
    monkeypatch.setattr(token_counter, "PAPER_PROFILE", str(profile))
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(cache))
    truth = {f"s{i}-r{i}": feature(f"r{i}.txt") if i % 2 else "" for i in range(10)}
    write_corpus(tmp_path / "data" / "pan25", [(f"s{i}", f"r{i}") for i in range(10)], truth=truth)
    arguments = ["--data", str(tmp_path / "data"), "--part", "pan25", "--output", str(tmp_path / "out")]
    more = ["--profile", "scdg-mini", "--model", str(tiny_folder("llama"))]
    assert run_command(["studies", "prepare", *arguments, *more]) == 0
    assert "was counted with" not in capsys.readouterr().out
    facts = read_index(tmp_path / "out")["pan25"]["manifest"]
    assert facts["tokenizer"]["model"] == "Qwen3-8B-Base"
    tokenizer = AutoTokenizer.from_pretrained(cache / "Qwen3-8B-Base")
    first = read_manifest(tmp_path / "out" / "pan25" / "manifest.jsonl")[0]
    assert first.susp_tokens == len(tokenizer.encode("text of s0", add_special_tokens=False))
    (cache / "Qwen3-8B-Base" / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="tokenizer"):  # a damaged one is not passed over
        token_counter.count_tokens([], ModelSettings(name="tiny"), tiny_folder("llama"))


def test_the_command_selects_instances_that_can_be_divided_and_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run_command(["studies", "prepare", "--examples", "--part", "retention", "--output", str(tmp_path / "o")]) == 0
    )
    assert "retention instances: instances 23; made" in capsys.readouterr().out
    assert len(read_instances(tmp_path / "o" / "retention" / "instances.jsonl")) == 23


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "give either --data or --examples"),
        (["--examples", "--data", "."], "give either --data or --examples"),
        (["--examples", "--given", "pan26-folds"], "is not KIND=PATH"),
        (["--examples", "--given", "x=y"], "unknown kind 'x'"),
        (["--examples", "--part", "pan26", "--given", "pan25-splits=y"], "'pan25-splits' is for pan25, which is not"),
        (["--examples", "--part", "pan12"], "pan12"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    assert run_command(["studies", "prepare", "--output", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
