"""The figure: the same bytes each time, without a display, whatever the user's settings are."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pan_scdg.evaluation.report import Estimate
from studies.retention.contexts import LEVELS
from studies.retention.report import draw
from studies.retention.statistics import Point

POINTS = tuple(
    Point(content, level, 9, Estimate(slope * level, slope * level - 0.02, slope * level + 0.03))
    for content, slope in (("plagiarism", 0.16), ("new", 0.01))
    for level in LEVELS
)
AGAIN = """
import runpy, sys
from hashlib import sha256
this = runpy.run_path(sys.argv[1])
print(*(sha256(file).hexdigest() for file in this["draw"]({"Qwen3 $8_B": this["POINTS"]}).values()))
"""


@pytest.mark.long
def test_another_process_with_other_settings_draws_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nlines.linewidth: 9\nsvg.hashsalt: other\n")
    files = draw({"Qwen3 $8_B": POINTS})
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLBACKEND")}
    more = {"MATPLOTLIBRC": str(tmp_path / "matplotlibrc"), "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "86400"}
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, __file__], env=environment | more, capture_output=True, text=True, timeout=120,
        cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    assert done.stdout.split() == [sha256(files["png"]).hexdigest(), sha256(files["svg"]).hexdigest()]


def test_both_files_are_images_without_a_date() -> None:
    png, svg = draw({"A": POINTS, "B": POINTS}).values()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"Software" not in png
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    assert not re.search(rb"\d{4}-\d{2}-\d{2}", svg)
    alone = ElementTree.fromstring(draw({"A": POINTS})["svg"])
    assert float(root.get("width", "").removesuffix("pt")) == 2 * float(alone.get("width", "").removesuffix("pt"))


def test_points_and_intervals_are_what_is_drawn() -> None:
    wider = [replace(p, gain=p.gain._replace(high=0.5)) for p in POINTS]
    assert draw({"A": wider})["svg"] != draw({"A": POINTS})["svg"]
