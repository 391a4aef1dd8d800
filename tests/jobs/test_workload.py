"""What a run computes for an input, compared with what runs compute."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.jobs.workload import count_encoding, count_scoring
from pan_scdg.lm.model import ScoringModel
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.find import find_model
from pan_scdg.models.load import load_tokenizer
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus, read_queries
from pan_scdg.profile import Profile, load_profile
from pan_scdg.scdg.sequences import Tokenizer, encode_text
from tests.conftest import ENCODER


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("offline")


@pytest.fixture(scope="module")
def tokenizer(profile: Profile) -> Tokenizer:
    return load_tokenizer(find_model("scdg-mini").folder, profile.need_model())


def test_pairs_cost_both_passes(profile: Profile, tokenizer: Tokenizer, pairs_input: Path) -> None:
    """All texts are tokenised here, since there are fewer than are sampled."""
    pairs = [line.split() for line in (pairs_input / "pairs").read_text().splitlines()]
    texts = {path.name: path.read_text(encoding="utf-8") for path in pairs_input.glob("s*/*.txt")}
    tokens = {name: len(encode_text(tokenizer, text)) for name, text in texts.items()}
    rate = sum(tokens.values()) / sum(map(len, texts.values()))
    both = sum(len(texts[name]) for pair in pairs for name in pair)
    targets = {target for target, _ in pairs}
    counted = count_scoring(profile, pairs_input, tokenizer)
    assert counted.tokens == pytest.approx(rate * (both + sum(len(texts[name]) for name in targets)), abs=1)
    assert counted.target == pytest.approx(rate * sum(len(texts[name]) for name in targets) / len(targets), abs=1)
    assert counted.targets == 1


def test_a_source_of_several_queries_is_counted_once(
    profile: Profile, tokenizer: Tokenizer, retrieval_input: Path
) -> None:
    """A context of any size: no source is counted more often than the corpus has it, however many queries there are."""
    retrieval = profile.need_retrieval().model_copy(update={"source_tokens": None, "scored": 1000})
    whole = profile.model_copy(update={"retrieval": retrieval})
    cut = profile.model_copy(update={"retrieval": retrieval.model_copy(update={"source_tokens": 1})})
    corpus = Corpus(retrieval_input, Notices())
    queries = {query.text for query in read_queries(retrieval_input, Notices())}
    counted, short = (count_scoring(one, retrieval_input, tokenizer) for one in (whole, cut))
    characters = sum(len(document.text) for document in corpus)
    rate = sum(len(encode_text(tokenizer, document.text)) for document in corpus) / characters
    sources = len(corpus) * len(queries)
    assert counted.tokens - short.tokens == pytest.approx(rate * characters - sources, rel=0.001)
    assert counted.source == pytest.approx(rate * characters / len(corpus), abs=1)
    assert (counted.targets, short.source) == (len(queries), 1)


def test_the_count_is_near_to_what_a_run_computes(
    retrieval_input: Path,
    run: Callable[..., Any],
    profile_with: Callable[..., Path],
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = profile_with({"retrieval.context": 2000})
    profile, encoded, scored = load_profile(str(path)), [0], set()
    tokenise, compute = Encoder.tokenise, ScoringModel.compute_log_probs

    def count_encoded(self: Encoder, texts: list[str], max_tokens: int | None = None, prompt: str = "") -> Any:
        limit = max_tokens or self.max_tokens
        encoded[0] += sum(min(len(encode_text(self.tokenizer, text)), limit) for text in texts)
        return tokenise(self, texts, max_tokens, prompt)

    def remember(self: ScoringModel, inputs: Any) -> Any:
        scored.add(self)
        return compute(self, inputs)

    monkeypatch.setattr(Encoder, "tokenise", count_encoded)
    monkeypatch.setattr(ScoringModel, "compute_log_probs", remember)
    assert run(retrieval_input, tmp_path / "out", profile=path).code == 0
    encoder, (model,) = load_encoder(ENCODER, "cpu"), scored
    encoding = count_encoding(profile, retrieval_input, encoder.tokenizer, encoder.max_tokens)
    assert encoding.tokens == pytest.approx(encoded[0], rel=0.1)
    assert count_scoring(profile, retrieval_input, model.tokenizer).tokens == pytest.approx(
        model._engine.tokens, rel=0.1
    )
    vectors = [tmp_path / "index" / kind / "vectors.f16" for kind in ("chunks", "abstracts")]
    where = ("--input", retrieval_input, "--index", tmp_path / "index", "--profile", path, "--device", "cpu")
    assert cli("index", *where).code == 0
    stored = sum(file.stat().st_size for file in vectors)
    assert encoding.vectors == stored // (2 * encoder.dimension)
