"""The places in which models are searched for."""

from pathlib import Path

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE, find_hub_cache, find_model_cache
from pan_scdg.errors import UserError
from pan_scdg.models.find import FoundModel, find_encoder, find_model
from tests.hub_cache import write_encoder

ROOT = Path(__file__).parents[2]


def _model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_the_cache_lies_beside_the_package_unless_the_variable_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MODEL_CACHE_VARIABLE, raising=False)
    assert find_model_cache() == ROOT / "model_cache"
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, "")
    assert find_model_cache() == ROOT / "model_cache", "an empty variable is none"
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path))
    assert find_model_cache() == tmp_path


def test_a_name_means_a_folder_of_the_cache_and_a_given_folder_goes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
    cached, given = _model(tmp_path / "cache" / "m"), _model(tmp_path / "elsewhere")
    assert find_model("m") == FoundModel("m", cached, "model_cache")
    assert find_model("m", given) == FoundModel("elsewhere", given, "--model")


@pytest.mark.parametrize(("made", "what"), [(True, "has no config.json"), (False, "does not exist")])
@pytest.mark.parametrize("given", [True, False])
def test_a_folder_without_a_model_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool, what: str, given: bool
) -> None:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path))
    folder = tmp_path / "m"
    if made:
        folder.mkdir()
    _model(tmp_path / "other")  # a model under another name is no substitute
    with pytest.raises(UserError) as error:
        find_model("m", folder if given else None)
    message = str(error.value)
    assert message.startswith(f"{folder}: model m: the folder {what}")
    assert f"; put the checkpoint into {folder}" in message
    assert MODEL_CACHE_VARIABLE in message
    assert "mount ORG/m in the Hugging Face cache (on TIRA: --mount-hf-model ORG/m)" in message
    assert message.endswith(", or give its folder as the model")


def test_an_encoder_is_a_folder_of_the_cache_or_one_that_the_profile_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "cache" / "e", tmp_path / "e", tmp_path / "own"):
        write_encoder(folder)
    assert find_encoder("e") == FoundModel("e", tmp_path / "cache" / "e", "model_cache")
    assert find_encoder("own") == FoundModel("own", Path("own"), "folder")
    assert find_encoder(str(tmp_path / "own")).where == "folder"
    with pytest.raises(
        UserError, match=r"model none: the folder does not exist, and .* holds no ORG/none either"
    ) as error:
        find_encoder("none")
    assert "as the model" not in str(error.value)


def test_the_hugging_face_cache_lies_where_its_own_library_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert find_hub_cache() == tmp_path / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert find_hub_cache() == tmp_path / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert find_hub_cache() == tmp_path / "hub"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Some Model (copy)", "Some-Model-copy-"),
        (".hidden", "hidden"),
        ("hub/models--Qwen--Qwen3-0.6B-Base/snapshots/0123abcd", "Qwen3-0.6B-Base"),
    ],
)
def test_a_given_folder_has_a_name_that_a_profile_can_hold(folder: str, name: str, tmp_path: Path) -> None:
    assert find_model("m", _model(tmp_path / folder)) == FoundModel(name, tmp_path / folder, "--model")
