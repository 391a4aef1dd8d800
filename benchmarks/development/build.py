"""Build the development set: ``python -m benchmarks.development.build --data DATA --out FILE``.

DATA holds ``lm-text`` and ``paraphrase`` with their held-out files. FILE gets one pair a line, ``{"id", "kind",
"label", "source", "target"}``, sorted by id; the same texts give the same bytes. The README beside this file says what
the kinds are.
"""

import json
from pathlib import Path

import click

from benchmarks.development.compose import Pair
from benchmarks.development.inside_kinds import hosts, passage_inside, several_sources, summary_inside
from benchmarks.development.long_kinds import Shelf, altered_inside, verbatim_inside
from benchmarks.development.short_kinds import obfuscated, same_question
from benchmarks.development.texts import Material, material_for_command


def build(material: Material) -> list[Pair]:
    """All pairs of all kinds, sorted by id."""
    pool, shelf = hosts(material), Shelf(material)
    pairs = [
        *same_question(material),
        *passage_inside(material, pool),
        *summary_inside(material, pool),
        *verbatim_inside(shelf),
        *altered_inside(material, shelf),
        *several_sources(material, pool),
        *obfuscated(material),
    ]
    return sorted(pairs)


def write_pairs(pairs: list[Pair], target: Path) -> None:
    """One JSON object a line."""
    lines = (json.dumps(p._asdict(), ensure_ascii=False, sort_keys=True) + "\n" for p in pairs)
    target.write_text("".join(lines), encoding="utf-8", newline="\n")


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with lm-text and paraphrase.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write.")
def main(data: Path, out: Path) -> None:
    pairs = build(material_for_command(data))
    write_pairs(pairs, out)
    click.echo(f"{len(pairs)} pairs of {len({p.kind for p in pairs})} kinds: {out}")


if __name__ == "__main__":
    main()
