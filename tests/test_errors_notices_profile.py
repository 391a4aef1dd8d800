"""What a user is told, what is counted, and how a profile is read."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pan_scdg.errors import Interrupted, UserError, UserErrors, escape_controls
from pan_scdg.notices import Notices
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


class TestErrors:
    def test_place_what_remedy(self):
        assert str(UserError("bad id", "correct it")) == "bad id. Correct it."
        assert str(UserError("bad id", "correct it", "a.txt")) == "a.txt: bad id. Correct it."
        assert str(UserError("bad id", "correct it", "a.txt", 3)) == "a.txt:3: bad id. Correct it."

    def test_hostile_names_cannot_forge_lines_or_colours(self):
        error = UserError("no\nsuch\tfile", "look", "\x1b[31mred\r\u2028.txt")
        assert str(error) == "\\x1b[31mred\\r\\u2028.txt: no\\nsuch\\tfile. Look."

    @settings(max_examples=50, deadline=None)
    @given(st.text())
    def test_one_line_is_printable_and_keeps_the_printable(self, text):
        assert escape_controls(text).isprintable()
        assert escape_controls(escape_controls(text)) == escape_controls(text)
        if text.isprintable():
            assert escape_controls(text) == text

    def test_several_faults_are_one_error_with_a_line_each(self):
        faults = [UserError("a", "b", "x", 1), UserError("c", "d", "y\n", 2)]
        together = UserErrors(faults)
        assert isinstance(together, UserError)
        assert together.errors == faults
        assert str(together) == "x:1: a. B.\ny\\n:2: c. D."
        with pytest.raises(ValueError, match="at least one"):
            UserErrors([])

    def test_an_interruption_is_no_user_error(self):
        assert not issubclass(Interrupted, UserError)


class TestNotices:
    def test_counted_and_told_once_with_the_first_place(self):
        notices = Notices()
        notices.add("empty document", "c.jsonl:3")
        notices.add("repeated pair", "pairs:9")
        notices.add("empty document", "c.jsonl:7")
        assert notices.list_warnings() == [
            "warning: empty document: 2 times, first at c.jsonl:3",
            "warning: repeated pair: 1 time, first at pairs:9",
        ]

    def test_nothing_odd_nothing_said(self):
        assert Notices().list_warnings() == []

    def test_hostile_places_stay_on_one_line(self):
        notices = Notices()
        notices.add("odd", "a\nerror: forged")
        assert notices.list_warnings() == ["warning: odd: 1 time, first at a\\nerror: forged"]

    def test_strict_makes_the_first_one_an_error(self):
        with pytest.raises(UserError, match=r"^pairs:9: repeated pair. .*--strict"):
            Notices(strict=True).add("repeated pair", "pairs:9")


class TestProfile:
    def test_small_profile_and_defaults(self, tmp_path):
        profile = load_profile(write(tmp_path, SMALL))
        assert profile.name == "small"
        assert profile.gains is profile.method_settings
        assert list(profile.gains.vary()) == [1, 2, 5, 10, 20, 30, 50]
        assert profile.need_decide().threshold is None
        with pytest.raises(UserError, match=r"no \[retrieval\] table"):
            profile.need_retrieval()

    def test_nothing_changes_after_reading(self, tmp_path):
        profile = load_profile(write(tmp_path, SMALL))
        with pytest.raises(ValidationError, match="frozen"):
            profile.name = "other"

    def test_arrays_become_tuples(self, tmp_path):
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
            (SMALL.replace('"gains"', '"gians"'), "decide.method 'gians' is no method: use one of gains, alignment"),
            (SMALL + "[gians]\n", "gians: Extra inputs are not permitted"),
            (SMALL + "[containment]\n", "[containment] does not belong to the method gains"),
            (SMALL.replace("[model]\nname", "[passages]\nencoder"), "needs a table [model]"),
            (SMALL.replace('"small"', '"../small"'), "name: "),
            (SMALL.replace('"some-model"', '"/etc/model"'), "model.name: "),
            (SMALL.split("[decide]")[0], "a profile needs a [decide] or a [retrieval] table"),
        ],
    )
    def test_faults_name_the_field_and_the_file(self, tmp_path, text, told):
        path = write(tmp_path, text)
        with pytest.raises(UserError) as e:
            load_profile(path)
        assert str(e.value).startswith(f"{path}: ")
        assert told in str(e.value)

    def test_the_profile_of_a_result_is_that_of_the_run(self, tmp_path):
        profile = load_profile("offline")
        job = {"profile": profile.model_dump(mode="json", exclude={"needs_gpu"}, exclude_none=True)}
        path = tmp_path / "job.json"
        path.write_text(json.dumps(job))
        assert load_profile(str(path)) == profile

    @pytest.mark.parametrize("text", ["{", "[]", "{}", '{"profile": "offline"}', "\x80"])
    def test_a_json_file_without_profile_is_one_error(self, tmp_path, text):
        (tmp_path / "job.json").write_text(text, encoding="latin-1")
        with pytest.raises(UserError, match=r"job.json: records no profile. Give the job.json of a result"):
            load_profile(str(tmp_path / "job.json"))

    def test_every_fault_is_told(self, tmp_path):
        with pytest.raises(UserErrors) as e:
            load_profile(write(tmp_path, SMALL.replace("limit = 512", "limit = 1\nunknown = 2")))
        assert len(e.value.errors) == 2
        assert len(str(e.value).splitlines()) == 2

    def test_retrieval_ranges(self):
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

    def test_an_aggregation_has_its_parameter_and_its_column(self, tmp_path):
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
    def test_retrieval_windows_need_their_width(self, fields, told):
        data = {"name": "r", "description": "d", "model": {"name": "m"}, "retrieval": {"dense": {"model": "e"}}}
        default = parse_profile(data, "r.toml").need_retrieval()
        assert (default.aggregation, default.w, default.source_tokens) == ("top", None, None)
        data["retrieval"] |= fields
        with pytest.raises(UserErrors, match=told):
            parse_profile(data, "r.toml")

    def test_not_toml_names_the_line(self, tmp_path):
        path = write(tmp_path, 'name = "x"\n\n[model\n')
        with pytest.raises(UserError) as e:
            load_profile(path)
        assert str(e.value).startswith(f"{path}:3: not valid TOML")

    @pytest.mark.parametrize("content", [b"name = '\xff'\n", b"a = 1\na = 2\n"])
    def test_not_utf8_and_doubled_keys(self, tmp_path, content):
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
    def test_missing_profile(self, name, what):
        with pytest.raises(UserError, match="^" + re.escape(what)):
            find_profile(name)

    def test_shipped_profiles_load_under_their_own_name(self):
        names = list_profiles()
        if not names:
            pytest.skip("no profile is shipped yet")
        for name in names:
            profile = load_profile(name)
            assert isinstance(profile, Profile)
            assert profile.name == name
            assert profile.description
