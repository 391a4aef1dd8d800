"""The pairs that ``offline`` is calibrated on: a valid corpus, and the one whose digest stands in the profile."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.development.build import build, write_pairs
from benchmarks.development.calibration import (
    MOST,
    OTHERWISE,
    LabelledTexts,
    development_pairs,
    example_pairs,
    write_corpus,
)
from benchmarks.development.texts import read_material
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.pan.truth import read_truth
from pan_scdg.profile import load_profile

DATA = Path(__file__).parents[3] / "shared" / "data"


def test_a_corpus_is_read_as_it_was_written(tmp_path: Path) -> None:
    texts = [LabelledTexts(i % 2 == 0, f"source {i}\nwith Umlaut: ä", f"target {i}") for i in range(5)]
    write_corpus(texts, tmp_path / "corpus")
    corpus = read_pairs(tmp_path / "corpus", Notices())
    truth = read_truth(tmp_path / "corpus" / "truth", corpus.pairs)
    found = [
        (bool(truth[p.suspicious.doc_id, p.source.doc_id]), read_text(p.source), read_text(p.suspicious))
        for p in corpus.pairs
    ]
    assert Counter(found) == Counter(map(tuple, texts))


def test_the_examples_of_the_calibration_half_are_taken() -> None:
    pairs = list(example_pairs())
    assert (len(pairs), sum(p.label for p in pairs)) == (24, 12)


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the held-out texts of ../shared/data")
def test_offline_was_calibrated_on_what_is_built_here(tmp_path: Path) -> None:
    write_pairs(build(read_material(DATA)), tmp_path / "pairs.jsonl")
    chosen = list(development_pairs(tmp_path / "pairs.jsonl"))
    assert sum(p.label for p in chosen) * 2 == len(chosen)
    assert len(chosen) <= 2 * (sum(MOST.values()) + OTHERWISE * (9 - len(MOST)))
    write_corpus([*chosen, *example_pairs()], tmp_path / "corpus")
    known = load_profile("scdg-mini").need_pairs().calibration
    assert known is not None
    assert known.digest == hash_input(tmp_path / "corpus", "pairs")
    assert known.pairs == len(chosen) + 24
