"""Folders of texts: names, formats, links, and what is refused."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile, ZipInfo

import pytest

from pan_scdg.documents import folders
from pan_scdg.documents.folders import read_documents
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices


def test_names_are_paths_in_the_folder_and_formats_go_by_the_ending(tmp_path: Path) -> None:
    skipped = ("a/essay.rtf", "old.doc", "photo.jpg", "essay.pages", "inner.zip")
    for name in ("b.txt", "a/b.txt", "a/notes.MD", "c.html", ".hidden.txt", ".git/x.txt", "~$b.docx", *skipped):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"<p>{name}</p>")
    notices = Notices()
    found = {name: (text.text, text.extracted) for name, text in read_documents(tmp_path, notices).items()}
    assert list(found) == ["a/b.txt", "a/notes.MD", "b.txt", "c.html"]
    assert found["a/b.txt"] == ("<p>a/b.txt</p>", False)
    assert found["c.html"] == ("c.html", True)
    (warning,) = notices.list_warnings()
    assert warning == (
        "warning: Skipped 5 unsupported files: essay.pages, inner.zip, old.doc, photo.jpg, a/essay.rtf. "
        "Save .doc, .pages and .rtf files as .docx or PDF. Unpack zip files first."
    )


def test_a_line_has_twenty_names() -> None:
    notices = Notices()
    for number in range(22):
        notices.add_file("empty text", f"{number:02}.txt")
    assert notices.list_warnings() == [f"warning: empty text: {', '.join(f'{n:02}.txt' for n in range(20))} and 2 more"]


def test_a_text_without_a_word_is_not_read(tmp_path: Path) -> None:
    for name, data in {"a.txt": b"", "b.md": b" \n-- \xe2\x80\xa6", "c.txt": b"\0\1\2", "d.html": b"<p><br>"}.items():
        (tmp_path / name).write_bytes(data)
    reason = "This file contains no words. Ask for a new copy."
    assert refuse(tmp_path) == [f"{path}: {reason}" for path in sorted(tmp_path.iterdir())]
    (tmp_path / "e.txt").write_text("1")
    notices = Notices()
    assert list(read_documents(tmp_path, notices)) == ["e.txt"]
    assert notices.left_out == dict.fromkeys(("a.txt", "b.md", "c.txt", "d.html"), reason)
    with pytest.raises(UserError, match="a.txt: This file contains no words"):
        read_documents(tmp_path, Notices(strict=True))


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
    what = "this link is not followed: it leads outside, or to a folder. Copy its target."
    assert refuse(folder) == [f"{folder}/{name}: {what}" for name in ("c.txt", "d", "e.txt", "f")]
    # the folder itself is the user's choice
    (tmp_path / "link").symlink_to(folder / "in")
    (folder / "in" / "x.txt").write_text("inner")
    assert len(read_documents(tmp_path / "link", Notices())) == 1


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "w") as file:
        file.write("text")
    (line,) = refuse(tmp_path)
    assert line.endswith(": its name is not UTF-8. Rename it.")
    assert line.isascii()


def test_limits_on_the_number_and_the_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_TEXTS", 2)
    monkeypatch.setattr(folders, "MAX_LEVELS", 2)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("text")
    assert "contains more than 2 texts. Split the folder" in refuse(tmp_path)[0]
    (tmp_path / "c.txt").unlink()
    (tmp_path / "1/2/3").mkdir(parents=True)
    assert "is more than 2 folders deep. Move it up." in refuse(tmp_path)[0]


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert "not a regular file" in refuse(tmp_path)[0]


def test_a_format_whose_converter_is_missing_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4")
    monkeypatch.setattr("pan_scdg.errors.find_spec", lambda name: None)
    assert refuse(tmp_path) == [
        "the package pypdfium2 is not installed. Install the extra: pip install 'pan_scdg[documents]'"
    ]


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "unicode_escape", "zip", "no-such"])
def test_a_declared_encoding_that_no_page_has_is_ignored(charset: str, tmp_path: Path) -> None:
    page = f"<meta charset='{charset}'><p>K".encode() + b"\xe4se, B\xfccher und vieles mehr"
    (tmp_path / "a.html").write_bytes(page)
    (document,) = read_documents(tmp_path, Notices()).values()
    assert document.text == "Käse, Bücher und vieles mehr"
    assert document.warnings == ("the encoding is Windows-1252, not UTF-8",)


def make_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_zip_file_is_a_folder(tmp_path: Path) -> None:
    files = (
        "class/Anna M_1/essay.txt",
        "class\\Ben_2\\draft.txt",
        "class/inner.zip",
        "class/~$a.docx",
        "__MACOSX/._a.txt",
    )
    path = make_zip(tmp_path / "class.zip", {name: name.encode() for name in files})
    notices = Notices()
    texts = read_documents(path, notices)
    assert {name: text.text for name, text in texts.items()} == {
        "Anna M_1/essay.txt": files[0],
        "Ben_2/draft.txt": files[1],
    }
    assert texts["Ben_2/draft.txt"].path == path / "Ben_2/draft.txt"
    assert notices.list_warnings() == ["warning: Skipped 1 unsupported file: inner.zip. Unpack zip files first."]
    path = make_zip(tmp_path / "names.zip", {"M__ller.txt": b"UTF-8 that is not declared", "Zoë.txt": b"declared"})
    path.write_bytes(path.read_bytes().replace(b"M__ller", "Müller".encode()))
    assert set(read_documents(path, Notices())) == {"Müller.txt", "Zoë.txt"}


def test_members_of_a_hostile_zip_file_are_named_and_the_others_read(tmp_path: Path) -> None:
    names = ("good.txt", "../../out.txt", "/abs.txt", "..\\b.txt")
    path = make_zip(tmp_path / "a.zip", dict.fromkeys(names, b"good"))
    with ZipFile(path, "a") as archive:
        link = ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("big.txt", b"0" * (folders.CONVERTED_BYTES + 1), ZIP_DEFLATED)
        archive.writestr("slow.txt", b"x", ZIP_LZMA)
        archive.writestr("cut.txt", b"will be damaged")
        archive.writestr("deep/" * 40 + "d.txt", b"x")
        archive.writestr("n" * 300 + ".txt", b"x")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("good.txt", b"another")
    path.write_bytes(path.read_bytes().replace(b"will be damaged", b"WILL be damaged"))
    notices = Notices()
    assert {name: text.text for name, text in read_documents(path, notices).items()} == {"good.txt": "good"}
    outside = "its name leads out of the zip file. Rename it."
    assert notices.left_out == {
        "../../out.txt": outside,
        "/abs.txt": outside,
        "../b.txt": outside,
        "link.txt": f"{folders.LINK}. Copy its target.",
        "big.txt": "larger than 64 MB. Remove its pictures, or split it.",
        "slow.txt": "is packed by an unsupported method. Unpack the zip file and give the folder.",
        "cut.txt": "This file is damaged in the zip file. Ask for a new copy.",
        "deep/" * 40 + "d.txt": "is more than 32 folders deep. Move it up.",
        "n" * 300 + ".txt": "its name is too long. Shorten it.",
        "good.txt": "another file in the zip file has the same name. Rename it.",
    }
    assert sorted(tmp_path.rglob("*")) == [path]
    with pytest.raises(UserError, match=r"a\.zip/big\.txt: larger than 64 MB"):
        read_documents(path, Notices(strict=True))


@pytest.mark.parametrize(
    ("files", "change", "message"),
    [
        (
            {"a.txt": b"secret"},
            lambda data: data.replace(b"\x14\0\0\0\x08", b"\x14\0\1\0\x08"),
            "a.txt: This file is prot",
        ),
        ({"a.txt": b"a"}, lambda data: data[:40], "not a zip file, or damaged. Ask for a new copy."),
        ({"a.txt": b"a"}, lambda data: data[8:], "a.txt: This file is damaged in the zip file. Ask for a new copy."),
        ({}, lambda data: data, "contains no texts"),
        ({f"{n}.txt": b"0" * (60 << 20) for n in range(2)}, lambda data: data, "looks like a compression bomb"),
    ],
    ids=["protected", "cut off", "without its beginning", "empty", "bomb"],
)
def test_zip_files_that_are_refused(
    files: Mapping[str, bytes], change: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    path = make_zip(tmp_path / "a.zip", files)
    path.write_bytes(change(path.read_bytes()))
    assert message in refuse(path)[0]
