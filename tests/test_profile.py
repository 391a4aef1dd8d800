"""How a profile is read, and what is said about its faults."""

import json
import re

import pytest
from pydantic import ValidationError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.profile import Profile, find_profile, list_profiles, load_profile, parse_profile

SMALL = """
name = "small"
description = "for tests"

[model]
name = "some-model"

[decide]
method = "gains"

[gains]
limit = 512
"""


def write(folder, text, name="p.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_small_profile_and_defaults(tmp_path):
    profile = load_profile(write(tmp_path, SMALL))
    assert profile.name == "small"
    assert profile.gains is profile.method_settings
    assert list(profile.gains.vary()) == [1, 2, 5, 10, 20, 30, 50]
    assert profile.need_decide().threshold is None
    with pytest.raises(UserError, match=r"no \[retrieval\] table"):
        profile.need_retrieval()


def test_nothing_changes_after_reading(tmp_path):
    profile = load_profile(write(tmp_path, SMALL))
    with pytest.raises(ValidationError, match="frozen"):
        profile.name = "other"


def test_arrays_become_tuples(tmp_path):
    profile = load_profile(write(tmp_path, SMALL + "grid = [1.0, 50.0]\n"))
    assert profile.gains.grid == (1.0, 50.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SMALL + "windwos = 3\n", "gains.windwos: "),
        (SMALL.replace("limit = 512", 'limit = "512"'), "gains.limit: "),
        (SMALL.replace("limit = 512", "limit = 512.0"), "gains.limit: "),
        (SMALL.replace("limit = 512", "limit = 7"), "gains.limit: "),
        (SMALL.replace("limit = 512", ""), "gains.limit: "),
        (SMALL + "q = 0.0\n", "gains.q: "),
        (SMALL + "q = 100.5\n", "gains.q: "),
        (SMALL + 'over_long = "cut"\n', "gains.over_long: "),
        (SMALL + 'aggregation = "windows"\n', "gains.aggregation: "),
        (SMALL + 'aggregation = "window"\nw = 0\n', "gains.w: "),
        (SMALL + 'aggregation = "window"\nw = 64.0\n', "gains.w: "),
        (SMALL + "grid = [0.0]\n", "gains.grid.0: "),
        (SMALL + "grid = []\n", "gains.grid: "),
        (SMALL + "w = 64\n", "w is not a parameter of the aggregation top, which uses q"),
        (
            SMALL + 'aggregation = "window-median"\nq = 2.0\n',
            "q is not a parameter of the aggregation window-median",
        ),
        (
            SMALL.replace('"gains"', '"gains"\nthreshold = 0.1') + 'aggregation = "window"\n',
            "a threshold needs the w",
        ),
        (SMALL.replace('"gains"', '"gains"\nthreshold = 0.1'), "a threshold needs the q"),
        (SMALL.replace('"gains"', '"alignment"'), "the table [alignment] is missing, but decide.method names it"),
        (SMALL.replace('"gains"', '"gians"'), "decide.method 'gians' is not a method: use one of gains, alignment"),
        (SMALL + "[gians]\n", "gians: Extra inputs are not permitted"),
        (SMALL + "[containment]\n", "[containment] does not belong to the method gains"),
        (SMALL.replace("[model]\nname", "[passages]\nencoder"), "needs a table [model]"),
        (SMALL.replace('"small"', '"../small"'), "name: "),
        (SMALL.replace('"some-model"', '"/etc/model"'), "model.name: "),
        (SMALL.split("[decide]")[0], "a profile needs a [decide] or a [retrieval] table"),
    ],
)
def test_faults_name_the_field_and_the_file(tmp_path, text, told):
    path = write(tmp_path, text)
    with pytest.raises(UserError) as e:
        load_profile(path)
    assert str(e.value).startswith(f"{path}: ")
    assert told in str(e.value)


def test_the_profile_of_a_result_is_that_of_the_run(tmp_path):
    profile = load_profile("offline")
    job = {"profile": profile.model_dump(mode="json", exclude_none=True)}
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job))
    assert load_profile(str(path)) == profile


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"profile": "offline"}', "\x80"])
def test_a_json_file_without_profile_is_one_error(tmp_path, text):
    (tmp_path / "job.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=r"job.json: records no profile. Give the job.json of a result"):
        load_profile(str(tmp_path / "job.json"))


def test_every_fault_is_told(tmp_path):
    with pytest.raises(UserErrors) as e:
        load_profile(write(tmp_path, SMALL.replace("limit = 512", "limit = 1\nunknown = 2")))
    assert len(e.value.errors) == 2
    assert len(str(e.value).splitlines()) == 2


def test_retrieval_ranges():
    data = {
        "name": "r",
        "description": "d",
        "model": {"name": "m"},
        "retrieval": {"dense": {"model": "e"}, "weight": 1.5, "tag": "two words"},
    }
    with pytest.raises(UserErrors) as e:
        parse_profile(data, "r.toml")
    assert [line.split(": ")[1] for line in str(e.value).splitlines()] == ["retrieval.weight", "retrieval.tag"]
    data["retrieval"] = {"dense": {"model": "e"}}
    profile = parse_profile(data, "r.toml")
    assert (profile.need_retrieval().q, profile.need_retrieval().weight) == (2.0, 0.75)
    with pytest.raises(UserError, match=r"no \[decide\] table"):
        profile.need_decide()


def test_an_aggregation_has_its_parameter_and_its_column(tmp_path):
    gains = load_profile(write(tmp_path, SMALL)).gains
    assert gains.compute_score({"top_100": 0.25, "top_2": 1.0}) == 0.25, "the average until q is chosen"
    window = 'aggregation = "window"\nw = 96\ngrid = [64.0, 96.0]\n'
    gains = load_profile(write(tmp_path, SMALL + window)).gains
    assert gains.compute_score({"window_64": 1.0, "window_96": 2.0}) == 2.0
    assert [settings.w for settings in gains.vary().values()] == [64, 96]
    with pytest.raises(KeyError):
        gains.compute_score({"window_64": 1.0})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"aggregation": "window"}, "w needs the aggregation"),
        ({"w": 64}, "w needs the aggregation"),
        ({"source_tokens": 0}, "retrieval.source_tokens"),
    ],
)
def test_retrieval_windows_need_their_width(fields, told):
    data = {"name": "r", "description": "d", "model": {"name": "m"}, "retrieval": {"dense": {"model": "e"}}}
    default = parse_profile(data, "r.toml").need_retrieval()
    assert (default.aggregation, default.w, default.source_tokens) == ("top", None, None)
    data["retrieval"] |= fields
    with pytest.raises(UserErrors, match=told):
        parse_profile(data, "r.toml")


def test_not_toml_names_the_line(tmp_path):
    path = write(tmp_path, 'name = "x"\n\n[model\n')
    with pytest.raises(UserError) as e:
        load_profile(path)
    assert str(e.value).startswith(f"{path}:3: not valid TOML")


@pytest.mark.parametrize("content", [b"name = '\xff'\n", b"a = 1\na = 2\n"])
def test_not_utf8_and_doubled_keys(tmp_path, content):
    path = tmp_path / "p.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match="not valid TOML"):
        load_profile(str(path))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("nowhere.toml", "there is no profile file 'nowhere.toml'. Correct its name"),
        ("../profiles/offline", "there is no profile file '../profiles/offline'"),
        ("ofline", "unknown profile 'ofline'. Did you mean 'offline'?"),
        ("", "unknown profile ''. Give a profile file or one of"),
        (".", "there is no profile file '.'"),
    ],
)
def test_missing_profile(name, what):
    with pytest.raises(UserError, match="^" + re.escape(what)):
        find_profile(name)


def test_shipped_profiles_load_under_their_own_name():
    names = list_profiles()
    if not names:
        pytest.skip("no profile is shipped yet")
    for name in names:
        profile = load_profile(name)
        assert isinstance(profile, Profile)
        assert profile.name == name
        assert profile.description
