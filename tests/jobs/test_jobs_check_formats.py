"""The command check on files of word processors and PDF: passages are places of the text that is kept."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.pan import documents
from tests.pan.office_files import BODY, COLUMNS, ODT_BODY, make_docx, make_odt, make_pdf

for package in documents.CONVERTERS.values():
    pytest.importorskip(package, reason="the extra documents is not installed")

SOURCE = Path(__file__).parents[2] / "examples" / "essays" / "sources" / "roman-roads.txt"
BASELINE = 'name = "own"\ndescription = "a test"\n[baseline]\nkind = "containment"\nn = 4\nthreshold = 0.2\n'


@pytest.fixture
def check(cli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """``check(files)`` compares these files with an essay, by words in common."""

    def call(files: dict[str, bytes]) -> Any:
        (tmp_path / "susp").mkdir(exist_ok=True)
        for name, data in files.items():
            (tmp_path / "susp" / name).write_bytes(data)
        (tmp_path / "own.toml").write_text(BASELINE)
        options = ("--output", tmp_path / "out", "--profile", tmp_path / "own.toml", "--device", "cpu", "--no-gains")
        return cli("check", tmp_path / "susp", SOURCE, *options)

    return call


def test_passages_are_places_of_the_text_that_is_kept(check: Callable[..., Any], tmp_path: Path) -> None:
    text = SOURCE.read_text(encoding="utf-8")
    parts, words = text.split("\n\n"), text.split()
    lines = [" ".join(words[i : i + 10]) for i in range(0, 400, 10)]
    files = {
        "word.docx": make_docx(BODY + "".join(f"<w:p><w:r><w:t>{part}</w:t></w:r></w:p>" for part in parts)),
        "open.odt": make_odt(ODT_BODY + "".join(f"<text:p>{part}</text:p>" for part in parts)),
        "print.pdf": make_pdf([[(60, 800 - 14 * i, line) for i, line in enumerate(lines)]]),
    }
    done = check(files)
    assert done.code == 0, done.err
    with open(tmp_path / "out" / "report.csv", encoding="utf-8", newline="") as file:
        assert [row["judgement"] for row in csv.DictReader(file)] == ["likely"] * 3
    for line in (tmp_path / "out" / "passages.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        kept = (tmp_path / f"out/texts/suspicious/{found['suspicious']}.txt").read_text(encoding="utf-8")
        shared = kept[found["begin"] : found["end"]].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()
        assert shared == text[found["begin2"] : found["end2"]].split()
        assert len(shared) > 300


def test_a_scan_is_refused_by_name_and_a_scanned_page_told(check: Callable[..., Any], tmp_path: Path) -> None:
    done = check({"a.pdf": make_pdf([COLUMNS, []])})
    assert "1 of 2 pages have no text" in done.err
    assert "1 of 2 pages have no text, page 2 first" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    refused = check({"b.pdf": make_pdf([[]])})
    assert refused.code == 2
    assert refused.err.splitlines()[-1].startswith(f"error: {tmp_path / 'susp' / 'b.pdf'}: contains no text: ")
