"""The notebook of the examples: its cells run, and print what is stored in it."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "scorer.ipynb"


def test_the_cells_print_what_the_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn: list[int] = []
    monkeypatch.setattr(pyplot, "show", lambda: drawn.append(len(pyplot.gcf().axes)))
    names: dict[str, Any] = {}
    shown, stored, plots = [], [], 0
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec("".join(cell["source"]), names)
        shown.append(out.getvalue())
        stored.append("".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream"))
        plots += sum("image/png" in o.get("data", {}) for o in cell["outputs"])
    pyplot.close("all")
    assert shown == stored
    assert drawn == [1] * plots
    assert plots == 1
