"""Read the texts of a folder, of a zip file, which is a folder, or of one file; a name is the path in the folder."""

import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pan_scdg.documents.pdf import PASSWORD
from pan_scdg.documents.reader import CONVERTED_BYTES, FORMATS, ReadDocument, read_any_document
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.untrusted import BOMB_FROM_BYTES, BOMB_RATIO, list_directory, open_regular
from pan_scdg.progress import Progress

MAX_TEXTS, MAX_LEVELS = 100_000, 32
"""Texts of a folder, and folders in folders."""
MAX_NAME_BYTES, MAX_PATH_BYTES = 200, 1_000
"""Bytes of a name in a zip file, and of its path: names of files that are made from it are longer."""
ZIP = ".zip"
UNPACKED_BYTES = 4 << 30
"""Most bytes that the texts of a zip file have together."""
SAVE_AS = "Save .doc, .pages and .rtf files as .docx or PDF."
REMEDIES = {**dict.fromkeys((".doc", ".pages", ".rtf"), SAVE_AS), ZIP: "Unpack zip files first."}
LINK = "this link is not followed: it leads outside, or to a folder"


def read_documents(path: Path, notices: Notices) -> dict[str, ReadDocument]:
    """Return the texts of a folder or a zip file in the order of their names, or the one of a file, by name.

    Hidden files and the lock files of word processors are skipped; files of other formats are skipped and named. A
    file that cannot be read, or has no words, is left out with a line about it, unless notices are strict.

    Raises:
        UserError: the path does not exist, contains no text, or is no zip file that can be unpacked within the limits.
        UserErrors: naming every file that cannot be read, leads outside of the folder, or has no valid name; if none
            can be read, or notices are strict.
    """
    errors: dict[str, UserError] = {}
    texts: dict[str, ReadDocument] = {}
    with tempfile.TemporaryDirectory() as scratch:
        files = _list_files(path, Path(scratch), notices, errors)
        with Progress("reading texts", len(files)) as progress:
            for name, file in sorted(files.items(), key=lambda item: os.fsencode(item[0])):
                shown = path / name if file != path else path
                try:
                    if not _is_utf8(name):
                        raise UserError("its name is not UTF-8", "rename it", shown)
                    document = read_any_document(file)._replace(path=shown)
                    if not any(map(str.isalnum, document.text)):
                        raise UserError("This file contains no words", "ask for a new copy", shown)
                    texts[name] = document
                except UserError as e:
                    errors[name] = UserError(e.what, e.remedy, shown, e.line) if e.where else e
                progress.update()
    if errors and (notices.strict or not texts):
        raise UserErrors(list(errors.values()))
    notices.left_out |= {name: e.sentences for name, e in errors.items()}
    return texts


def _list_files(path: Path, scratch: Path, notices: Notices, errors: dict[str, UserError]) -> dict[str, Path]:
    """Return the files of a path by name; what cannot be unpacked from a zip file joins the errors."""
    if not path.exists():
        raise UserError("the path does not exist", "correct the path", path)
    ending = path.suffix.lower()
    if path.is_dir():
        files = _list_folder(path, notices)
    elif ending == ZIP:
        files = _unpack(path, scratch, notices, errors)
    elif ending in FORMATS:
        files = {path.name: path}
    else:
        raise UserError("unsupported format", f"convert it to {describe_formats()}", path)
    if not files and not errors:
        raise UserError(f"contains no texts ({describe_formats()})", "add one, or correct the path", path)
    return files


def describe_formats() -> str:
    """Return the endings of all formats that are read."""
    return f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_text(name: str, notices: Notices) -> bool:
    """Return True for a text; a file of another format is named."""
    ending = PurePosixPath(name).suffix.lower()
    if ending not in FORMATS:
        notices.skip(name, REMEDIES.get(ending, ""))
    return ending in FORMATS


def _is_hidden(name: str) -> bool:
    """Return True for hidden files and the lock files of Word; those of other programs are hidden."""
    return name.startswith((".", "~$"))


def _list_folder(folder: Path, notices: Notices) -> dict[str, Path]:
    root = folder.resolve()
    files: dict[str, Path] = {}
    errors: list[UserError] = []
    waiting = [(folder, 0)]
    while waiting:
        inner, level = waiting.pop()
        if level > MAX_LEVELS:
            raise UserError(f"is more than {MAX_LEVELS} folders deep", "move it up", inner)
        for path in list_directory(inner):
            name = path.relative_to(folder).as_posix()
            if _is_hidden(path.name):
                continue
            if path.is_symlink() and not _is_followed(path, root):
                errors.append(UserError(LINK, "copy its target", path))
            elif path.is_dir():
                waiting.append((path, level + 1))
            elif _is_text(name, notices):
                files[name] = path
            if len(files) > MAX_TEXTS:
                raise UserError(f"contains more than {MAX_TEXTS} texts", "split the folder", folder)
    if errors:
        raise UserErrors(errors)
    return files


def _is_followed(link: Path, root: Path) -> bool:
    """Return True for a symbolic link to a file of the same folder."""
    try:
        target = link.resolve()
        return target.is_relative_to(root) and not target.is_dir()
    except (OSError, RuntimeError):  # a link to itself
        return False


# Zip files, which are hostile: no name of a member becomes the name of a file


def _unpack(path: Path, scratch: Path, notices: Notices, errors: dict[str, UserError]) -> dict[str, Path]:
    """Unpack the texts of a zip file into an empty folder, under numbers."""
    files: dict[str, Path] = {}
    with open_regular(path) as file, _open_archive(path, file) as archive:
        members = dict(_list_members(path, archive, notices, errors))
        size = sum(member.file_size for member in members.values())
        if size > BOMB_FROM_BYTES and size > BOMB_RATIO * path.stat().st_size:
            raise UserError("looks like a compression bomb", "give the original file", path)
        if size > UNPACKED_BYTES:
            raise UserError(f"has texts of more than {UNPACKED_BYTES >> 30} GB", "split the zip file", path)
        for number, (name, member) in enumerate(members.items()):
            target = scratch / f"{number}{PurePosixPath(name).suffix.lower()}"
            try:
                content = archive.read(member)
            except (BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error):
                errors[name] = UserError("This file is damaged in the zip file", "ask for a new copy", path / name)
                continue
            target.write_bytes(content)
            files[name] = target
    return files


def _open_archive(path: Path, file: BinaryIO) -> ZipFile:
    try:
        return ZipFile(file)
    except (BadZipFile, OSError, RuntimeError, ValueError) as e:
        raise UserError("not a zip file, or damaged", "ask for a new copy", path) from e


def _list_members(
    path: Path, archive: ZipFile, notices: Notices, errors: dict[str, UserError]
) -> Iterator[tuple[str, ZipInfo]]:
    """Yield the texts that can be unpacked, by name; a folder with the name of the zip file is left out of names."""
    members = [(_name_member(member), member) for member in archive.infolist() if not member.is_dir()]
    if len(members) > MAX_TEXTS:
        raise UserError(f"contains more than {MAX_TEXTS} files", "split the zip file", path)
    outer = f"{path.stem}/"
    is_wrapped = all(name.startswith((outer, "__MACOSX/")) for name, _ in members)
    names: set[str] = set()
    for full_name, member in members:
        name = full_name.removeprefix(outer) if is_wrapped else full_name
        parts = name.split("/")
        if (any(map(_is_hidden, parts[:-1])) and ".." not in parts) or _is_hidden(parts[-1]) or parts[0] == "__MACOSX":
            continue
        if not _is_text(name, notices):
            continue
        if fault := _find_fault(name, member, names):
            errors[name] = UserError(*fault, path / "/".join(part for part in parts if part not in ("", "..")))
        else:
            yield name, member
        names.add(name)


def _name_member(member: ZipInfo) -> str:
    """Return the path of a member with slashes; programs that write UTF-8 without saying so are understood."""
    name = member.filename
    if not member.flag_bits & 0x800:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return "/".join(part for part in name.replace("\\", "/").split("/") if part != ".")


def _find_fault(name: str, member: ZipInfo, names: set[str]) -> tuple[str, str] | None:
    """Return why a member is not unpacked, and what to do."""
    parts = name.split("/")
    if "" in parts or ".." in parts:
        return "its name leads out of the zip file", "rename it"
    if len(parts) > MAX_LEVELS:
        return f"is more than {MAX_LEVELS} folders deep", "move it up"
    if len(name.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        return "its name is too long", "shorten it"
    if stat.S_ISLNK(member.external_attr >> 16):
        return LINK, "copy its target"
    if member.flag_bits & 1:
        return PASSWORD, "unpack the zip file and give the folder"
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        return "is packed by an unsupported method", "unpack the zip file and give the folder"
    if member.file_size > CONVERTED_BYTES:
        return f"larger than {CONVERTED_BYTES >> 20} MB", "remove its pictures, or split it"
    if name in names:
        return "another file in the zip file has the same name", "rename it"
    return None
