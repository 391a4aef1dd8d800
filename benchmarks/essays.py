"""The example essays by ``check`` and by simple comparisons of words: ``python -m benchmarks.essays OUT``.

OUT is the output of ``check examples/essays/suspicious examples/essays/sources``. All pairs are ranked by each score,
and as many of the first ones as there are true ones count as called.
"""

import csv
from collections import Counter
from pathlib import Path

import click
import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.simple_pair_scores import content_word_overlap, four_gram_containment, tfidf_cosine

ESSAYS = Path(__file__).parents[1] / "examples" / "essays"


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def read_text(side: str, name: str) -> str:
    """Return the text of an essay or of a source."""
    return (ESSAYS / side / name).read_text(encoding="utf-8")


@click.command()
@click.argument("out", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(out: Path) -> None:
    """Print a table of methods and kinds."""
    rows, truth = read_rows(out / "report.csv"), read_rows(ESSAYS / "truth.csv")
    kinds = {(row["suspicious"], row["source"]): (row["reused"], row["how"]) for row in truth}
    names = [(row["suspicious"], row["source"]) for row in rows]
    texts = [(read_text("suspicious", target), read_text("sources", source)) for target, source in names]
    reused = np.array([kinds.get(name, ("no", ""))[0] == "yes" for name in names])
    methods = {
        "offline": np.array([float(row["score"]) for row in rows]),
        "4-gram containment": four_gram_containment(texts),
        "shared content words": content_word_overlap(texts),
        "TF-IDF cosine": tfidf_cosine(texts),
    }
    totals = Counter(kinds.values())
    print("| method | AUROC | called and reused |", *(f" {how} ({total}) |" for (_, how), total in totals.items()))
    for method, scores in methods.items():
        first = np.argsort(-scores, kind="stable")[: reused.sum()]
        called = Counter(kinds.get(names[i], ("no", "other pair")) for i in first)
        print("|", method, "|", f"{roc_auc_score(reused, scores):.3f}", "|", reused[first].sum(), end=" |")
        print(*(f" {called[kind]} |" for kind in totals))


if __name__ == "__main__":
    main()
