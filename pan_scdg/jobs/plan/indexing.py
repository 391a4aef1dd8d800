"""Estimate the hours in which the encoder of a profile reads a corpus, for GPUs of other machines."""

from collections.abc import Sequence
from itertools import chain

from pan_scdg.errors import UserError
from pan_scdg.jobs.plan.inputs import SAMPLED, choose_evenly
from pan_scdg.jobs.plan.tokens import Tokens, count_operations, estimate_hours
from pan_scdg.models.config import ModelConfig, read_config
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.models.load import load_tokenizer
from pan_scdg.pan.corpus import Corpus
from pan_scdg.profile import DenseSettings, ModelSettings, RetrievalSettings
from pan_scdg.retrieval.document_groups import cut_texts
from pan_scdg.scdg.sequences import Tokenizer

GATED = "silu"
"""The activation of decoders with gated MLPs, whose operations can be counted; encoders such as BERT have another."""


def estimate_indexing(
    corpus: Corpus, settings: RetrievalSettings, gpus: Sequence[str], processes: int
) -> tuple[dict[str, float], str]:
    """Return the hours of encoding a corpus on each GPU, and a note; no hours if they cannot be estimated.

    Args:
        corpus: tokens are counted on documents that are sampled evenly.
        settings: those of the profile.
        gpus: names in `TFLOPS`.
        processes: number of GPUs that share the work.
    """
    if all(route.startswith("bm25") for route in settings.routes):
        return {}, "the first stage has no encoder and is not estimated"
    dense = settings.need_dense()
    try:
        folder = check_encoder(find_encoder(dense.model).folder)
        config = read_config(folder, encoder=True)
        if config.text.get("hidden_act") != GATED:
            return {}, f"indexing and the first stage are not estimated: {dense.model} is no decoder with gated MLPs"
        tokenizer = load_tokenizer(folder, ModelSettings(name="encoder", tokenizer="fast"), config)
    except UserError as e:
        return {}, f"indexing and the first stage are not estimated: {e}"
    operations = count_operations(config, _count(corpus, settings, dense, tokenizer, config)) or 0.0
    hours = {gpu: estimate_hours(operations, gpu) / processes for gpu in gpus}
    return hours, f"indexing: tokens of {dense.model} counted by sampling; ready indexes are not subtracted"


def _count(
    corpus: Corpus, settings: RetrievalSettings, dense: DenseSettings, tokenizer: Tokenizer, config: ModelConfig
) -> Tokens:
    """Return the tokens of all documents, from a sample."""
    names = list(corpus.ids)
    chosen = {names[place] for place in choose_evenly(SAMPLED, len(names))}
    kinds = ["chunks"] * any(route.startswith("dense") for route in settings.routes)
    kinds += ["abstracts"] * ("abstract" in settings.routes)
    limit, tokens = dense.document_tokens or config.positions, Tokens(0, 0)
    for document in corpus.select(chosen):
        for text in chain(*(cut_texts(document, kind, dense) for kind in kinds)):
            length = len(tokenizer.encode(text, add_special_tokens=True))
            length = length if limit is None else min(length, limit)
            tokens += Tokens(length, length, length * (length + 1) / 2)
    return tokens.multiply(len(names) / len(chosen) if chosen else 0.0)
