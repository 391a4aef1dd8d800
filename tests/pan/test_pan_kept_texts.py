"""A kept text is what its file has, whatever that is, and the file is not needed any more."""

from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.pan.inputs import hash_regular
from pan_scdg.pan.kept_texts import KeptTexts
from pan_scdg.pan.untrusted import DOCUMENT_BYTES

CONTENTS = {
    "empty": b"",
    "line ends": "\ufeffsé 1\r\nx\ry".encode(),
    "not UTF-8": b"one\r\ntwo\xe9",
    "UTF-16": "one two".encode("utf-16"),
    "a PDF": b"%PDF-1.4\n",
    "an archive": b"PK\x03\x04" + b"x" * (1 << 16) + b"word/document.xml",
    "the largest": b"x" * DOCUMENT_BYTES,
    "too large": b"x" * (DOCUMENT_BYTES + (3 << 20)),
    "too large, and not UTF-8": b"x" * (DOCUMENT_BYTES - 1) + b"\xe9" * 9,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_kept_text_is_that_of_its_file(name: str, tmp_path: Path) -> None:
    def read() -> str:
        try:
            return texts.read(path)
        except UserError as e:
            return str(e)

    texts, path = KeptTexts(), tmp_path / "a.txt"
    path.write_bytes(CONTENTS[name])
    (tmp_path / "b.txt").write_text("another")
    expected = read()
    assert texts.keep(path) == hash_regular(path)
    texts.keep(tmp_path / "b.txt")
    path.unlink()
    assert read() == expected


def test_a_file_that_cannot_be_opened_is_told_when_it_is_kept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a regular file"):
        KeptTexts().keep(tmp_path)
