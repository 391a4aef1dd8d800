"""The notebook of the examples: its cells run, and print what is stored in it."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "scorer.ipynb"


def test_the_cells_print_what_the_notebook_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn: list[int] = []
    monkeypatch.setattr(pyplot, "show", lambda: drawn.append(len(pyplot.gcf().axes)))
    names: dict[str, Any] = {}
    shown, stored, plots, summaries = [], [], 0, 0
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec("".join(cell["source"]), names)
        shown.append(out.getvalue())
        stored.append("".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream"))
        for html in ("".join(o["data"]["text/html"]) for o in cell["outputs"] if "text/html" in o.get("data", {})):
            # digits may differ with the processor
            assert re.sub(r"[\d.,]+", "", html) == re.sub(r"[\d.,]+", "", names["result"]._repr_html_())
            summaries += 1
        plots += sum("image/png" in o.get("data", {}) for o in cell["outputs"])
    pyplot.close("all")
    assert shown == stored
    assert drawn == [1] * plots
    assert (plots, summaries) == (1, 1)
