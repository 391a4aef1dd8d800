"""Folders of texts: names, formats, links, and what is refused."""

import os
from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan import documents
from pan_scdg.pan.documents import read_documents


def test_names_are_paths_in_the_folder_and_formats_go_by_the_ending(tmp_path: Path) -> None:
    for name in ("b.txt", "a/b.txt", "a/notes.MD", "c.html", "photo.jpg", ".hidden.txt", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"<p>{name}</p>")
    notices = Notices()
    found = {name: (text.text, text.extracted) for name, text in read_documents(tmp_path, notices).items()}
    assert list(found) == ["a/b.txt", "a/notes.MD", "b.txt", "c.html"]
    assert found["a/b.txt"] == ("<p>a/b.txt</p>", False)
    assert found["c.html"] == ("c.html", True)
    (warning,) = notices.list_warnings()
    assert warning.startswith("warning: file of another format, skipped: 1 time, ")


def test_a_file_is_a_folder_of_one(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("words")
    assert [(name, text.text) for name, text in read_documents(tmp_path / "one.txt", Notices()).items()] == [
        ("one.txt", "words")
    ]


def test_line_ends_are_one_character_so_that_offsets_agree(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes(b"a\r\nb\rc")
    assert read_documents(tmp_path, Notices())["one.txt"].text == "a\nb\nc"


def refuse(place: Path) -> list[str]:
    with pytest.raises(UserError) as caught:
        read_documents(place, Notices())
    return str(caught.value).split("\n")


def test_links_that_lead_away_are_refused_and_others_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "in").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("not yours")
    (folder / "a.txt").write_text("mine")
    (folder / "b.txt").symlink_to(folder / "a.txt")
    assert [text.text for text in read_documents(folder, Notices()).values()] == ["mine", "mine"]
    (folder / "c.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "d").symlink_to(folder / "in")
    (folder / "e.txt").symlink_to(folder / "e.txt")
    (folder / "f").symlink_to(tmp_path)
    what = "this link is not followed: it leads outside, or to a folder; copy its target"
    assert refuse(folder) == [f"{folder}/{name}: {what}" for name in ("c.txt", "d", "e.txt", "f")]
    # the folder itself is the user's choice
    (tmp_path / "link").symlink_to(folder / "in")
    (folder / "in" / "x.txt").write_text("inner")
    assert len(read_documents(tmp_path / "link", Notices())) == 1


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "w") as file:
        file.write("text")
    (line,) = refuse(tmp_path)
    assert line.endswith(": its name is not UTF-8; rename it")
    assert line.isascii()


def test_limits_on_the_number_and_the_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_TEXTS", 2)
    monkeypatch.setattr(documents, "MAX_LEVELS", 2)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("text")
    assert "contains more than 2 texts; split the folder" in refuse(tmp_path)[0]
    (tmp_path / "c.txt").unlink()
    (tmp_path / "1/2/3").mkdir(parents=True)
    assert "lies more than 2 folders deep; move it up" in refuse(tmp_path)[0]


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert "not a regular file" in refuse(tmp_path)[0]


def test_a_format_whose_converter_is_missing_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    monkeypatch.setattr("pan_scdg.errors.find_spec", lambda name: None)
    assert refuse(tmp_path) == [
        "the package pypdf is not installed; install the extra: pip install 'pan_scdg[documents]'"
    ]


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "unicode_escape", "zip", "no-such"])
def test_a_declared_encoding_that_no_page_has_is_ignored(charset: str, tmp_path: Path) -> None:
    page = f"<meta charset='{charset}'><p>K".encode() + b"\xe4se, B\xfccher und vieles mehr"
    (tmp_path / "a.html").write_bytes(page)
    (document,) = read_documents(tmp_path, Notices()).values()
    assert document.text == "Käse, Bücher und vieles mehr"
    assert document.warnings == ("read as Windows-1252, for it is not UTF-8",)
