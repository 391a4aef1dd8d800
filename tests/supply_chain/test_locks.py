"""Locks agree with their lists, have a digest for every package, and are what is installed."""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.supply_chain.locks import ALL, LISTS, ROOT, SECTIONS, TORCH, Pin, find_lock, read_pins

from pan_scdg.digests import hash_file

LOCK = find_lock(ALL)
INSTALLED = {canonicalize_name(found.metadata["Name"]): found for found in distributions()}


def applies(pin: Pin) -> bool:
    """Return whether a pin is for this Python and platform."""
    return not pin.marker or Marker(pin.marker).evaluate()


@pytest.mark.parametrize("requirements", LISTS, ids=lambda path: path.stem)
def test_a_lock_has_what_its_list_names(requirements: Path) -> None:
    locked = {pin[:2] for pin in read_pins(find_lock(requirements))}
    assert {pin[:2] for pin in read_pins(requirements)} <= locked


@pytest.mark.parametrize("requirements", LISTS, ids=lambda path: path.stem)
def test_every_line_of_a_lock_has_digests_and_no_address(requirements: Path) -> None:
    lock = find_lock(requirements)
    assert all(pin.hashes for pin in read_pins(lock))
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for pin in read_pins(lock) for digest in pin.hashes)
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"^\s+--hash=.*$", "", text, flags=re.M), re.M), "an option"


def test_every_list_has_a_lock_and_a_version_in_every_line() -> None:
    found = {ALL, *(ROOT / "requirements").glob("*.txt")}
    assert found == set(LISTS)
    assert {find_lock(path) for path in found} == {LOCK, *(ROOT / "requirements").glob("*.lock")}


def test_sections_are_those_where_installers_cut() -> None:
    headings = re.findall(r"(?m)^# \[(\w+)\]", LOCK.read_text(encoding="utf-8"))
    assert headings == list(SECTIONS)
    for name in ("tools/setup.sh", "Dockerfile"):
        cuts = re.findall(r"# \\\[(\w+)\\\]", (ROOT / name).read_text(encoding="utf-8"))
        assert {"run", "torch", "tests"} == set(cuts), name


@pytest.mark.parametrize(
    ("sections", "missing"),
    [(("install", "run"), TORCH), (("install", "run", "torch"), None), (tuple(SECTIONS), None)],
    ids=["without torch", "run time", "all"],
)
def test_sections_are_closed_under_dependencies(sections: tuple[str, ...], missing: "re.Pattern[str] | None") -> None:
    """Nothing resolves dependencies when a lock is installed, so that each has to be in it."""
    pins = {pin.name: pin for pin in read_pins(LOCK) if pin.section in sections and applies(pin)}
    for name in pins.keys() & INSTALLED.keys():
        for text in INSTALLED[name].requires or []:
            wanted = Requirement(text)
            needed = canonicalize_name(wanted.name)
            if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
                continue
            if missing and missing.match(needed):
                continue
            assert needed in pins, f"{name} needs {needed}"
            if INSTALLED[name].version == pins[name].version:
                assert wanted.specifier.contains(pins[needed].version, prereleases=True), f"{name} needs {text}"


def test_what_is_installed_is_what_is_locked() -> None:
    stamp = Path(sys.prefix) / "requirements.sha256"
    if not stamp.is_file() or stamp.read_text().strip() != hash_file(LOCK):
        pytest.skip("`make` has not set up the present requirements")
    versions = {name: found.version for name, found in INSTALLED.items()}
    assert {pin.name: versions.get(pin.name) for pin in read_pins(LOCK) if applies(pin) and pin.name != "torch"} == {
        pin.name: pin.version for pin in read_pins(LOCK) if applies(pin) and pin.name != "torch"
    }


def test_a_line_without_a_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("click>=8\n")
    with pytest.raises(ValueError, match="click>=8 pins no version"):
        read_pins(tmp_path / "x.txt")
