"""Compute BERT on a CPU without padding, by oneDNN's operators with fused steps.

The tokens of many texts are the rows of one matrix, so that products compute nothing of padding; only attention looks
at texts, those of equal length together. Biases, GELU and sums are steps of the products' own operators. Compared with
the library's way this takes half the time of a processor for sentences: ``benchmarks/results/encoding.md``.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.models.linear import MAX_CPU_TOKENS, ROW_MULTIPLE, has_onednn, reorder

if TYPE_CHECKING:
    from torch import Tensor


class _Layer(NamedTuple):
    """The weights of a layer, in the layout of oneDNN, each with its bias."""

    attention: tuple["Tensor", "Tensor"]
    """Of queries, keys and values, one after the other."""
    mixture: tuple["Tensor", "Tensor"]
    mixture_norm: Any
    inner: tuple["Tensor", "Tensor"]
    output: tuple["Tensor", "Tensor"]
    output_norm: Any


class PackedBert:
    """The layers of a BERT with the mean of its last hidden states; see `pack_bert`."""

    def __init__(self, model: Any) -> None:
        """Take over the weights of a ``BertModel``, which has no layers afterwards."""
        self._embeddings = model.embeddings
        self._heads = int(model.config.num_attention_heads)
        self._layers = [_pack_layer(layer) for layer in model.encoder.layer]
        model.encoder.layer = None

    def __call__(self, token_ids: Sequence[Sequence[int]]) -> "Tensor":
        """Return the mean hidden state of each text, ``[n, d]``; texts of equal length must be neighbours."""
        import torch

        texts = list(_group(token_ids))
        hidden = self._embed(token_ids)
        for layer in self._layers:
            mixed = self._attend(_multiply(hidden, layer.attention), texts)
            hidden = layer.mixture_norm(_multiply_add(mixed, layer.mixture, hidden))
            inner = _multiply(hidden, layer.inner, "gelu")
            hidden = layer.output_norm(_multiply_add(inner, layer.output, hidden))
        means = [hidden[rows].view(count, -1, hidden.shape[1]).float().mean(1) for rows, count in texts]
        return torch.cat(means)

    def _embed(self, token_ids: Sequence[Sequence[int]]) -> "Tensor":
        """Return the embeddings of all tokens, ``[t, d]``, filled up to a multiple of `ROW_MULTIPLE`."""
        import torch

        ids = [token for text in token_ids for token in text]
        positions = [position for text in token_ids for position in range(len(text))]
        filling = [0] * (-len(ids) % ROW_MULTIPLE)
        rows, places = torch.tensor([[*ids, *filling]]), torch.tensor([[*positions, *filling]])
        embedded: Tensor = self._embeddings(rows, torch.zeros_like(rows), places)[0]
        return embedded

    def _attend(self, projected: "Tensor", texts: Sequence[tuple[slice, int]]) -> "Tensor":
        """Return the attention of all tokens to those of their text, ``[t, d]``, of projections ``[t, 3 d]``."""
        import torch

        width = projected.shape[1] // 3
        mixed = projected.new_empty(len(projected), width)
        for rows, count in texts:
            # [3, texts, heads, tokens, d / heads]
            parts = projected[rows].view(count, -1, 3, self._heads, width // self._heads).permute(2, 0, 3, 1, 4)
            attention = torch.nn.functional.scaled_dot_product_attention(*parts)
            mixed[rows] = attention.transpose(1, 2).reshape(-1, width)
        mixed[texts[-1][0].stop :] = 0
        return mixed


def pack_bert(model: Any) -> PackedBert | None:
    """Return the layers of a sentence-transformers model of BERT and mean pooling; None for any other.

    Needs oneDNN and the instructions of `has_onednn`, in bfloat16 those that oneDNN has for it.
    """
    import torch
    from transformers import BertModel

    bert, pooling = model[0].auto_model, model[1] if len(model) == 2 else None
    is_known = (
        type(bert) is BertModel
        and bert.config.hidden_act == "gelu"
        and bert.config.position_embedding_type == "absolute"
        and not (bert.config.is_decoder or bert.config.add_cross_attention)
        and getattr(pooling, "pooling_mode", None) == "mean"
        and getattr(pooling, "include_prompt", False)
        and (
            bert.dtype == torch.float32
            or (bert.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
        )
    )
    return PackedBert(bert) if is_known and has_onednn() else None


def plan_calls(lengths: Sequence[int], max_tokens: int = MAX_CPU_TOKENS) -> Iterator[list[int]]:
    """Yield the indices of texts that are computed together, longest first, with at most ``max_tokens`` in a call."""
    call, tokens = list[int](), 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if call and tokens + lengths[index] > max_tokens:
            yield call
            call, tokens = [], 0
        call.append(index)
        tokens += lengths[index]
    if call:
        yield call


def _group(token_ids: Sequence[Sequence[int]]) -> Iterator[tuple[slice, int]]:
    """Yield the rows of neighbours of equal length, and their number."""
    start = 0
    for length, texts in groupby(map(len, token_ids)):
        count = len(list(texts))
        yield slice(start, start + count * length), count
        start += count * length


def _pack_layer(layer: Any) -> _Layer:
    import torch

    own = layer.attention.self
    projections = (own.query, own.key, own.value)
    joined = (
        torch.cat([one.weight.detach() for one in projections]),
        torch.cat([one.bias.detach() for one in projections]),
    )
    mixture, inner, output = layer.attention.output, layer.intermediate, layer.output
    others = [(one.dense.weight.detach(), one.dense.bias.detach()) for one in (mixture, inner, output)]
    packed = [(reorder(weight), bias) for weight, bias in (joined, *others)]
    return _Layer(packed[0], packed[1], mixture.LayerNorm, packed[2], packed[3], output.LayerNorm)


def _multiply(rows: "Tensor", weights: tuple["Tensor", "Tensor"], step: str = "none") -> "Tensor":
    """Return the product of rows and weights, with a step that is applied to it."""
    import torch

    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, *weights, step, [], "none")
    return product


def _multiply_add(rows: "Tensor", weights: tuple["Tensor", "Tensor"], added: "Tensor") -> "Tensor":
    """Return the product of rows and weights plus what is added to it."""
    import torch

    total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, added, *weights, "add")
    return total
