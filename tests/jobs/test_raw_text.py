"""Raw text: the paper's profiles score the ids that the tokenizer alone gives; ours normalise and split them."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import transformers

from pan_scdg.jobs.rerank import prepare_targets
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.lm.model import ScoringModel
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.gains import GainMethod
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus, read_queries
from pan_scdg.profile import Profile, list_profiles, load_profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scdg.sequences import Passes
from tests.stand_ins import FEW_TOKENS, write_checkpoint, write_profile

TEXTS = [
    "5 \u212b of 3 \u2126, cafe\u0301 and a\u0323\u0301 b",
    "It ends <|endoftext|> and begins </s> <s> <|begin_of_text|> <|eos|> here",
]
"""A sign that NFC replaces, combining marks, and special tokens of the tokenizers."""
MODELS = {"Qwen3-8B-Base": "pan25-qwen3-8b", "Llama-3.1-8B": "pan25-llama-3.1-8b"}
MINI = Path(__file__).parents[2] / "model_cache" / "scdg-mini"


def build_passes(profile: Profile, target: str, source: str, folder: Path | None = None) -> Passes:
    """The inputs of a pair as `run` and `check` read it."""
    worker = PairWorker(profile, MethodOptions(model=folder))
    files = (TextFile(name, f"{name}.txt", Path(name), text) for name, text in (("t", target), ("s", source)))
    assert isinstance(worker.method, GainMethod)
    passes = worker.method._build_whole(worker.read_texts(DocumentPair(*files)))
    assert passes is not None
    return passes


@pytest.mark.parametrize("name", MODELS)
def test_the_ids_of_the_paper_s_profiles_are_those_of_the_tokenizer_alone(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(name, tmp_path / name, **FEW_TOKENS)
    alone: Any = transformers.AutoTokenizer.from_pretrained(folder)
    pairs = load_profile(str(write_profile(MODELS[name], tmp_path / "pairs.toml")))
    for target, source in zip(TEXTS, TEXTS[::-1]):
        passes = build_passes(pairs, target, source, folder)
        assert passes.unconditional.target_ids.tolist() == alone(target)["input_ids"][1:]
        together = [*passes.conditional.context_ids.tolist(), *passes.conditional.target_ids.tolist()]
        assert together == alone(f"{source}\n\n{target}")["input_ids"]
    retrieval = load_profile("pan26-qwen3-8b")
    model = ScoringModel(pairs.need_model(), "cpu", folder=folder, raw_text=retrieval.raw_text)
    for file, field in (("queries.jsonl", "query"), ("corpus.jsonl", "text")):
        lines = (json.dumps({"qid": f"q{i}", "doc_id": f"d{i}", field: text}) for i, text in enumerate(TEXTS))
        (tmp_path / file).write_text("\n".join(lines))
    queries = read_queries(tmp_path, Notices(), retrieval.raw_text)
    settings = retrieval.need_retrieval().model_copy(update={"context": 1024})
    targets = prepare_targets(queries, model, settings, tmp_path, Notices())
    for i, text in enumerate(TEXTS):
        assert targets[f"q{i}"].token_ids.tolist() == alone(text, add_special_tokens=False)["input_ids"]
    assert [document.text for document in Corpus(tmp_path, Notices(), retrieval.raw_text)] == TEXTS


def test_ours_score_the_form_nfc_and_split_special_tokens() -> None:
    assert {name for name in list_profiles() if not load_profile(name).raw_text} == {"offline", "scdg-mini"}
    mini = load_profile("scdg-mini")
    raw = mini.model_copy(update={"raw_text": True})
    tokenizer: Any = transformers.PreTrainedTokenizerFast.from_pretrained(MINI)
    for text in TEXTS:
        expected = tokenizer(unicodedata.normalize("NFC", text), split_special_tokens=True)["input_ids"]
        assert build_passes(mini, text, "a source").unconditional.target_ids.tolist() == expected[1:]
        assert build_passes(raw, text, "a source").unconditional.target_ids.tolist() == tokenizer(text)["input_ids"][1:]
        assert expected != tokenizer(text)["input_ids"]
