"""docs/licences.md has every locked package, with the licence that the installed one states."""

import re

from tools.supply_chain.contents import NOT_STATED, read_licence
from tools.supply_chain.licences import COPYLEFT, PAGE, list_packages, read_installed

REMEDY = "run: make licences"


def read_tables() -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]], set[str]]:
    """Return the rows on copyleft, all rows, and the packages that were not read."""
    text = PAGE.read_text(encoding="utf-8")
    parts = [
        {name: (licence, part) for name, licence, part in re.findall(r"(?m)^\| (\S+) \| (.+) \| (.+) \|$", table)}
        for table in (text.partition("## Other terms")[0], text.partition("## All packages")[2])
    ]
    for rows in parts:
        rows.pop("package", None)
        rows.pop("---", None)
    (unread,) = re.findall(r"Not read, .*: (.*)\.\n", text)
    return parts[0], parts[1], set(unread.split(", "))


def test_the_page_has_every_locked_package() -> None:
    _, rows, unread = read_tables()
    assert {name: part for name, (_, part) in rows.items()} == {
        name: part for name, part in list_packages().items() if name not in unread
    }, REMEDY
    assert unread <= list_packages().keys(), REMEDY


def test_licences_are_those_of_the_installed_packages() -> None:
    _, rows, _ = read_tables()
    installed = read_installed([])
    stated = {name: read_licence(installed[name]) for name in rows.keys() & installed.keys()}
    assert {name: rows[name][0] for name in stated} == stated, REMEDY


def test_copyleft_and_missing_licences_are_shown_first() -> None:
    copyleft, rows, _ = read_tables()
    assert {name for name, (licence, _) in rows.items() if COPYLEFT.search(licence)} <= copyleft.keys()
    text = PAGE.read_text(encoding="utf-8")
    (unknown,) = re.findall(r"No licence in the metadata: (.*)\.\n", text)
    assert {name for name, (licence, _) in rows.items() if licence == NOT_STATED} == set(unknown.split(", "))
