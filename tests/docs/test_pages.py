"""The documentation is complete and current: links, generated tables, licences, claims, length, version."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, TERRIER, find_licence

from pan_scdg import __version__
from tests.docs.pages import LINK, README, ROOT, find_anchors, list_pages

LONGEST_README = 150
OTHERS = ("CONTRIBUTING.md", "CHANGELOG.md", "NOTICE.md", "examples/README.md")


def test_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LONGEST_README


def test_readme_lists_every_page() -> None:
    assert set(list_pages()[1:]) == set((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", [*list_pages(), *(ROOT / name for name in OTHERS)], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in find_anchors(target), link


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for name in re.findall(r"`((?:benchmarks|tests|tools|examples|pan_scdg|training|docs)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name


def test_table_of_profiles_is_current() -> None:
    command = [sys.executable, str(ROOT / "tools" / "profile_table.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_table_of_licences_is_that_of_the_catalogue() -> None:
    rows = re.findall(
        r"^\| (`.+`) \| (.+?) \| (yes|no).* \|$",
        (ROOT / "NOTICE.md").read_text(encoding="utf-8").partition("## Licences of models\n")[2],
        re.M,
    )
    found = {name: licence for names, licence, _ in rows for name in re.findall(r"`([^`]+)`", names)}
    assert found == {name: find_licence(name) for name in (*BUNDLED, *CATALOGUE, TERRIER)}


def test_changelog_and_citation_name_the_version() -> None:
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def _read_claims() -> list[list[str]]:
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    table = text.partition("## Status of each claim\n")[2].partition("\n##")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.strip().splitlines()[2:]]


@pytest.mark.parametrize("row", _read_claims(), ids=lambda row: row[0])
def test_claim_names_its_figure_source_and_status(row: list[str]) -> None:
    assert len(row) == 4
    _, _, source, status = row
    assert status.startswith(("measured here", "reported by the paper, not yet run", "not yet run"))
    for name in re.findall(r"`([\w./-]+/[\w./-]+)`", source):
        assert (ROOT / name).exists(), name
    if status.startswith("measured here"):
        assert "`" in source, "a measurement needs a record"
