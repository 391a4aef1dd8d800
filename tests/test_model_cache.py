"""Where a language model is looked for."""

from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.model_cache import VARIABLE, cache_folder, find_model

ROOT = Path(__file__).parents[1]


def _model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_the_cache_lies_beside_the_package_unless_the_variable_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert cache_folder() == ROOT / "model_cache"
    monkeypatch.setenv(VARIABLE, "")
    assert cache_folder() == ROOT / "model_cache", "an empty variable is none"
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert cache_folder() == tmp_path


def test_a_name_means_a_folder_of_the_cache_and_a_given_folder_goes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    cached, given = _model(tmp_path / "cache" / "m"), _model(tmp_path / "elsewhere")
    assert find_model("m") == cached
    assert find_model("m", given) == given


@pytest.mark.parametrize(("made", "what"), [(True, "has no config.json"), (False, "does not exist")])
@pytest.mark.parametrize("given", [True, False])
def test_a_folder_without_a_model_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool, what: str, given: bool
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    folder = tmp_path / "m"
    if made:
        folder.mkdir()
    _model(tmp_path / "other")  # a model under another name is no substitute
    with pytest.raises(UserError) as error:
        find_model("m", folder if given else None)
    message = str(error.value)
    assert message.startswith(f"{folder}: model m: the folder {what}; put the checkpoint into {folder}")
    assert VARIABLE in message
    assert "--model" in message
