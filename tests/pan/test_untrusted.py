import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.pan import untrusted
from pan_scdg.pan.untrusted import check_id, list_directory, parse_json_object, parse_xml, read_utf8, stream_lines

BILLION_LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>
<document reference="&b;"/>
"""


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(
        alphabet=st.one_of(st.sampled_from("\r\n\ufeff\x0b\u2028é😀"), st.characters(exclude_categories=["Cs"]))
    )
)
def test_read_utf8_is_pythons_text_mode(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(text.encode())
    with open(path, encoding="utf-8") as file:
        assert read_utf8(path) == file.read()


def test_newlines_become_one_character_and_the_byte_order_mark_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert read_utf8(path) == "\ufeffa\nb\nc\n"


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"one\r\ntwo\rth\xffree")
    with pytest.raises(UserError) as error:
        read_utf8(path)
    assert str(error.value).startswith(f"{path}:3: not UTF-8: byte 11 is 0xff")


def test_missing_file_directory_and_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in (
        (tmp_path / "none", "the file does not exist"),
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / ("x" * 300), "cannot be read"),
        (tmp_path / "null\0", "cannot be read"),
    ):
        with pytest.raises(UserError, match=what):
            read_utf8(path)


def test_text_above_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"12345")
    assert read_utf8(path, limit=5) == "12345"
    with pytest.raises(UserError, match="larger than 4 bytes"):
        read_utf8(path, limit=4)


@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
def test_lines_are_numbered_and_cut_only_at_newlines(tmp_path: Path, name: str) -> None:
    data = "a\r\n\nb\u2028c\x0bd\nlast".encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert list(stream_lines(path)) == [(1, "a"), (2, ""), (3, "b\u2028c\x0bd"), (4, "last")]


def test_gzip_members_are_concatenated(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert list(stream_lines(path)) == [(1, "a"), (2, "bc")]


def test_cut_off_foreign_and_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % (i * i) for i in range(5000)))
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for content, what in (
        (whole[:-9], "cut off"),
        (whole[: len(whole) // 2], "cut off"),
        (bytes(damaged), "cannot be read"),
        (whole + b"garbage", "cannot be read: Not a gzipped file"),
    ):
        path = tmp_path / "t.gz"
        path.write_bytes(content)
        with pytest.raises(UserError, match=what):
            list(stream_lines(path))


def test_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "BOMB_FROM_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress((b"\0" * 65535 + b"\n") * 256, 9))
    with pytest.raises(UserError, match="compression bomb"):
        list(stream_lines(path))


def test_compressible_but_honest_text_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "BOMB_FROM_BYTES", 1 << 16)
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"".join(b"line %d of a dull file\n" % i for i in range(50_000))))
    assert sum(1 for _ in stream_lines(path)) == 50_000


def test_long_lines_and_long_streams_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"12345\n123456\n"))
    assert len(list(stream_lines(path, total=13, longest=7))) == 2
    with pytest.raises(UserError, match=r"t\.gz:2: line longer than 6 bytes"):
        list(stream_lines(path, longest=6))
    with pytest.raises(UserError, match=r"t\.gz:2: has more than 12 bytes"):
        list(stream_lines(path, total=12))


def test_xml_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    for content in (
        '<?xml version="1.0" encoding="utf-8"?>\r\n<document reference="é"><!-- ü --></document>',
        '\ufeff<document reference="é"/>',
        '<?xml version="1.0" encoding="utf-16"?><document reference="é"/>',
    ):
        path.write_bytes(content.encode())
        assert parse_xml(path).get("reference") == "é"


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (BILLION_LAUGHS.encode(), 2, "DOCTYPE"),
        (b'<!DOCTYPE d SYSTEM "http://example.org/d.dtd"><d/>', 1, "DOCTYPE"),
        (b"<d>\n<f>\n</d>", 3, "not well-formed XML"),
        (b"<d>\n&undefined;</d>", 2, "not well-formed XML"),
        (b"", 1, "not well-formed XML"),
        (b"<d>\n\xff</d>", 2, "not UTF-8"),
        (BILLION_LAUGHS.encode("utf-16"), 1, "not UTF-8"),
        (b"<d>" * 5000, 1, "not well-formed XML"),
    ],
)
def test_bad_xml_names_the_line(tmp_path: Path, content: bytes, line: int, what: str) -> None:
    path = tmp_path / "t.xml"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        parse_xml(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert what in str(error.value)


@pytest.mark.parametrize("good", ["1", "hep-ph/0407230", "1803.04393", "Zürich", "a" * 512, "שלום"])
def test_usable_ids(good: str) -> None:
    assert check_id(good, "f", 1) == good


@pytest.mark.parametrize(
    "bad", ["", "a b", "a\tb", "a\u00a0b", "a\u2028", "\x00", "a\x1b[31m", "\ud800", "\uffff", "a" * 513]
)
def test_unusable_ids_are_told_in_one_printable_line(bad: str) -> None:
    with pytest.raises(UserError) as error:
        check_id(bad, "corpus.jsonl", 7)
    assert str(error.value).startswith("corpus.jsonl:7: ")
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        '{"a": NaN}',
        '{"a": -Infinity}',
        "[1]",
        "null",
        '"text"',
        "{'a': 1}",
        "[" * 200_000,
        '{"a": ' + "9" * 5000 + "}",
        '{"text": "' + r"\"[," * 200_000,
        '{"text": "' + "[" * 100 + "\\",
    ],
)
def test_bad_json_names_the_line(line: str) -> None:
    with pytest.raises(UserError, match=r"^f\.jsonl:9: "):
        parse_json_object(line, Path("f.jsonl"), 9)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), st.one_of(st.integers(), st.text(), st.none(), st.lists(st.booleans()))))
def test_json_objects_are_read(value: dict[str, object]) -> None:
    assert parse_json_object(json.dumps(value), Path("f"), 1) == value


def test_hidden_entries_are_not_listed(tmp_path: Path) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).touch()
    assert [p.name for p in list_directory(tmp_path)] == ["a", "b"]
    for path, what in ((tmp_path / "none", "the directory does not exist"), (tmp_path / "a", "cannot be listed")):
        with pytest.raises(UserError, match=what):
            list_directory(path)
