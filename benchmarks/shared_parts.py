"""Decisions on texts with the same innocent part: ``python -m benchmarks.shared_parts --data DATA --development FILE``.

To both texts of negative pairs of `benchmarks.verdicts` the same is added: a notice at the end, a quotation with its
author between two paragraphs, or a list of references. For each part: how many pairs the profile calls positive, beside
the same pairs without it. Then the other way round: how many positive pairs are called so if the suspicious text hides
behind marks, all of it or the quotation without its marks.
"""

import random
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.pairs import decide, format_rows, read_development, read_pan13

NOTICE = (
    "Declaration. I have written this paper on my own and have used no other aids than those that are "
    "named in it. Every passage whose wording or meaning I have taken from another work is marked as "
    "such, with the place where it is found. The paper has not been handed in anywhere else, neither in "
    "this form nor in a similar one, and has not been published. I know that a false declaration leads to"
    " the mark insufficient and can lead to exclusion from the course. I agree that the paper is kept for"
    " ten years and that it may be compared with other papers by a program."
)
QUOTATION = (
    'A historian of the harbour towns has put it like this: "Whoever counts only the ships that arrived '
    "will think the sea a safe place. The ledgers are silent about the others, for nobody paid duty on a "
    'cargo that lay at the bottom, and the clerk had no column for it" (Arendsen, The Silent Ledgers, p. '
    "112)."
)
REFERENCES = """References

Arendsen, M. (1998). The silent ledgers: shipping and loss on the northern coast. Kiel: Harbour Press.
Boateng, K., and Ruiz, L. (2011). Counting what is absent. Journal of Historical Method, 14(2), 87-109.
Cho, H. (2004). Tide tables and the price of grain. Economic Letters of the Coast, 7, 33-58.
Dimitrova, E. (2016). Reading against the archive. Sofia: Academic Publishers.
Ellingsen, T. (2009). Insurance before insurers. In P. Moreau (Ed.), Risk and the sea (pp. 201-226). Brest: Ponant.
Farouk, S., Hale, J., and Ito, N. (2019). Missing data in historical registers. Annals of Records, 31(4), 455-480.
Gruber, A. (1987). The clerk and his columns. Vienna: Donau Verlag.
Hughes, R. (2014). Wrecks, rumours and rates. Maritime Quarterly, 22(1), 5-29."""
PARTS = {"nothing": "", "a notice": NOTICE, "a quotation": QUOTATION, "references": REFERENCES}
PLAIN = QUOTATION.replace('"', "")
HIDDEN: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "each paragraph in quotation marks": lambda text: "\n\n".join(f'"{part}"' for part in text.split("\n\n")),
    "each line a block quotation": lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    "all of it below References": lambda text: f"References\n\n{text}",
}


def add_part(text: str, part: str) -> str:
    """Return the text with a part between two paragraphs in its middle, if it is a quotation, else at its end."""
    if not part:
        return text
    if part not in (QUOTATION, PLAIN):
        return f"{text.rstrip()}\n\n{part}\n"
    paragraphs = text.split("\n\n")
    middle = (len(paragraphs) + 1) // 2
    return "\n\n".join([*paragraphs[:middle], part, *paragraphs[middle:]])


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--profile", default="offline", show_default=True)
@click.option("--pairs", "count", default=150, show_default=True, help="Number of pairs of each label, drawn.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/shared-parts"), show_default=True)
def main(data: Path, development: Path, profile: str, count: int, work: Path) -> None:
    """Print a row for each part."""
    pairs = [*read_development(development), *read_pan13(data / "pan13-dev")]
    draw = random.Random(6).sample
    negatives, positives = (draw([pair for pair in pairs if pair.label == label], count) for label in (0, 1))
    cases = {
        name: [(add_part(p.target, part), add_part(p.source, part)) for p in negatives] for name, part in PARTS.items()
    }
    cases["a quotation, copied without its marks"] = [
        (add_part(p.target, PLAIN), add_part(p.source, QUOTATION)) for p in negatives
    ]
    for name, hide in HIDDEN.items():
        cases[f"positive pairs: {name}"] = [(hide(p.target), p.source) for p in positives]
    rows = []
    for name, texts in cases.items():
        decisions = decide(texts, work / name.replace(" ", "-").replace(":", ""), profile)
        rows.append([name, f"{sum(bool(line.decision) for line in decisions)} of {len(texts)}"])
    click.echo(format_rows(["in common", "called positive"], rows))


if __name__ == "__main__":
    main()
