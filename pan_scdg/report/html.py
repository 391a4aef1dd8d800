"""Make a report one HTML file that opens offline: texts, style and script are in it, and nothing else may run."""

import base64
import hashlib
import os
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pan_scdg.report.ranking import has_points
from pan_scdg.report.records import Report
from pan_scdg.report.texts import LEVEL_EDGES, describe_levels
from pan_scdg.report.view import MAX_PAGE_BYTES, arrange_page, dump_data
from pan_scdg.report.wording import (
    CAUTION,
    FINDING_MEANINGS,
    FINDING_SYMBOLS,
    LOOK_NEXT,
    POINTS,
    REASON_BELOW,
    describe_numbers,
    describe_reasons,
    explain_unclear,
    format_score,
    format_share,
    list_facts,
    summarise,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = files("pan_scdg.report") / "templates"
STYLES = ("report.css", "print.css")
BEGINNING = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="pan_scdg">
"""
"""The first lines of every page."""
SHARED_SCRIPTS = ("base.js", "pane.js", "gains.js", "reader.js", "route.js")
"""The scripts of this page and of that of source retrieval; classes come before those that extend them."""
PAIR_SCRIPTS = (*SHARED_SCRIPTS, "state.js", "names.js", "overview.js", "pair.js", "sheets.js", "save.js", "start.js")


def save_page(page: str, path: Path) -> None:
    """Write a page under another name, and rename it.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    # without translation: the page has line feeds on every system, which its offsets count on
    part.write_text(page, encoding="utf-8", newline="")
    os.replace(part, path)


def render_report(report: Report, max_bytes: int = MAX_PAGE_BYTES) -> str:
    """Return the page, of at most ``max_bytes`` in UTF-8.

    Details of pairs that do not fit are left out, the worst pairs' first, and the page says so.
    """
    return render_page(
        "report.html.j2",
        PAIR_SCRIPTS,
        page=arrange_page(report, max_bytes),
        report=report,
        summary=summarise(report),
        facts=list_facts(report),
        symbols=FINDING_SYMBOLS,
        meanings=FINDING_MEANINGS,
        reason_below=REASON_BELOW,
        caution=CAUTION,
        look_next=LOOK_NEXT,
        points=POINTS if has_points(report.threshold) else "",
    )


def render_page(template: str, scripts: tuple[str, ...], **content: Any) -> str:
    """Return a page with the day, style, scripts and the policy that allows both; ``content`` is for the template."""
    style = join_files(STYLES)
    script = f'"use strict";\n{{{join_files(scripts)}}}\n'  # a block keeps names from the window
    page = open_templates().get_template(template)
    levels = {unit: {"edges": LEVEL_EDGES[unit], "legend": describe_levels(unit)} for unit in LEVEL_EDGES}
    policy = _make_policy(style, script)
    today = date.today()
    content["day"] = f"{today.day} {today:%B %Y}"
    return page.render(style=trust(style), script=trust(script), policy=policy, levels=levels, **content)


def render_summary(report: Report) -> str:
    """Return a fragment for a notebook: the first pair with its passages, without style or script."""
    detail = arrange_page(report).details.get(1)
    template = open_templates().get_template("summary.html.j2")
    return template.render(detail=detail, report=report, symbols=FINDING_SYMBOLS, meanings=FINDING_MEANINGS)


def _make_policy(style: str, script: str) -> str:
    """Return the content security policy: this script and this style, and nothing from elsewhere."""
    allowed = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def join_files(names: tuple[str, ...]) -> str:
    """Return the text of files of the package, with line feeds, between two of them, too, as the page has it."""
    return "\n" + "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names)


@cache
def open_templates() -> "Environment":
    """Return the templates, which escape all that they are given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pan_scdg.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(text=_escape_text, json=lambda data: trust(dump_data(data)), share=format_share)
    environment.globals.update(
        format_score=format_score,
        describe_reasons=describe_reasons,
        describe_numbers=describe_numbers,
        explain_unclear=explain_unclear,
    )
    return environment


def trust(text: str) -> "Markup":
    """Return text of this package as markup."""
    from markupsafe import Markup

    return Markup(text)


def _escape_text(text: str) -> "Markup":
    """Return escaped text that also keeps its carriage returns, which an HTML parser replaces."""
    from markupsafe import Markup, escape

    return Markup(str(escape(text)).replace("\r", "&#13;"))
