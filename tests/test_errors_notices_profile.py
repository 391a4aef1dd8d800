"""What a user is told, what is counted, and how a profile is read."""

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

[pairs]
limit = 512
"""


def write(folder, text, name="p.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


class TestErrors:
    def test_place_what_remedy(self):
        assert str(UserError("bad id", "correct it")) == "bad id; correct it"
        assert str(UserError("bad id", "correct it", "a.txt")) == "a.txt: bad id; correct it"
        assert str(UserError("bad id", "correct it", "a.txt", 3)) == "a.txt:3: bad id; correct it"

    def test_hostile_names_cannot_forge_lines_or_colours(self):
        error = UserError("no\nsuch\tfile", "look", "\x1b[31mred\r\u2028.txt")
        assert str(error) == "\\x1b[31mred\\r\\u2028.txt: no\\nsuch\\tfile; look"

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
        assert str(together) == "x:1: a; b\ny\\n:2: c; d"
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
        with pytest.raises(UserError, match=r"^pairs:9: repeated pair; .*--strict"):
            Notices(strict=True).add("repeated pair", "pairs:9")


class TestProfile:
    def test_small_profile_and_defaults(self, tmp_path):
        profile = load_profile(write(tmp_path, SMALL))
        assert profile.name == "small"
        assert profile.need_pairs().limit == 512
        assert profile.need_pairs().q_grid == (1, 2, 5, 10, 20, 30, 50)
        assert profile.need_pairs().threshold is None
        with pytest.raises(UserError, match=r"no \[retrieval\] table"):
            profile.need_retrieval()

    def test_nothing_changes_after_reading(self, tmp_path):
        profile = load_profile(write(tmp_path, SMALL))
        with pytest.raises(ValidationError, match="frozen"):
            profile.name = "other"

    def test_arrays_become_tuples(self, tmp_path):
        profile = load_profile(write(tmp_path, SMALL + "q_grid = [1.0, 50.0]\n"))
        assert profile.need_pairs().q_grid == (1.0, 50.0)

    def test_q_grid_may_hold_integers(self, tmp_path):
        assert load_profile(write(tmp_path, SMALL + "q_grid = [1, 50]\n")).need_pairs().q_grid == (1, 50)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (SMALL + "windwos = 3\n", "pairs.windwos: "),
            (SMALL.replace("limit = 512", 'limit = "512"'), "pairs.limit: "),
            (SMALL.replace("limit = 512", "limit = 512.0"), "pairs.limit: "),
            (SMALL.replace("limit = 512", "limit = 7"), "pairs.limit: "),
            (SMALL.replace("limit = 512", ""), "pairs.limit: "),
            (SMALL + "q = 0.0\n", "pairs.q: "),
            (SMALL + "q = 100.5\n", "pairs.q: "),
            (SMALL + 'over_long = "cut"\n', "pairs.over_long: "),
            (SMALL + 'control = "shuffled"\n', "pairs.control: "),
            (SMALL + 'aggregation = "windows"\n', "pairs.aggregation: "),
            (SMALL + 'aggregation = "window"\nw = 0\n', "pairs.w: "),
            (SMALL + 'aggregation = "window"\nw = 64.0\n', "pairs.w: "),
            (SMALL + "w_grid = [0]\n", "pairs.w_grid.0: "),
            (SMALL + "w_grid = []\n", "pairs.w_grid: "),
            (SMALL + "w = 64\n", "w is not a parameter of the aggregation top, which uses q"),
            (
                SMALL + 'aggregation = "window-median"\nq = 2.0\n',
                "q is not a parameter of the aggregation window-median",
            ),
            (SMALL + 'aggregation = "window"\nthreshold = 0.1\n', "pairs: Value error, a threshold needs the w"),
            (SMALL + "threshold = 0.1\n", "a threshold needs the q"),
            (SMALL.replace('"small"', '"../small"'), "name: "),
            (SMALL.replace('"some-model"', '"/etc/model"'), "model.name: "),
            (SMALL.split("[pairs]")[0], r"a [pairs], a [retrieval] or a [baseline] table"),
        ],
    )
    def test_faults_name_the_field_and_the_file(self, tmp_path, text, told):
        path = write(tmp_path, text)
        with pytest.raises(UserError) as e:
            load_profile(path)
        assert str(e.value).startswith(f"{path}: ")
        assert told in str(e.value)

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
        with pytest.raises(UserError, match=r"no \[pairs\] table"):
            profile.need_pairs()

    def test_control_and_aggregation_are_off_unless_asked_for(self, tmp_path):
        pairs = load_profile(write(tmp_path, SMALL)).need_pairs()
        assert (pairs.control, pairs.aggregation, pairs.w) == ("none", "top", None)
        assert pairs.w_grid == (64, 96, 128, 192, 256)
        window = 'control = "both"\naggregation = "window"\nw = 96\nthreshold = 0.5\nw_grid = [64, 96]\n'
        pairs = load_profile(write(tmp_path, SMALL + window)).need_pairs()
        assert (pairs.control, pairs.aggregation, pairs.w, pairs.w_grid) == ("both", "window", 96, (64, 96))

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"aggregation": "window"}, "w is a parameter"),
            ({"w": 64}, "w is a parameter"),
            ({"source_tokens": 0}, "retrieval.source_tokens"),
            ({"control": "mixture"}, "retrieval.control"),
        ],
    )
    def test_retrieval_windows_need_their_width(self, fields, told):
        data = {"name": "r", "description": "d", "model": {"name": "m"}, "retrieval": {"dense": {"model": "e"}}}
        default = parse_profile(data, "r.toml").need_retrieval()
        assert (default.control, default.aggregation, default.w, default.source_tokens) == ("none", "top", None, None)
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
            ("nowhere.toml", "there is no profile file 'nowhere.toml'; correct its name"),
            ("../profiles/offline", "there is no profile file '../profiles/offline'"),
            ("ofline", "unknown profile 'ofline'; did you mean 'offline'?"),
            ("", "unknown profile ''; give a profile file or one of"),
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
