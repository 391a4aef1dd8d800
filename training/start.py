"""A Qwen2 model that copies from its context before any training.

Copying needs one attention head that looks at the previous token and a later head that looks for earlier places where
that previous token was the present one. Gradient descent finds the two only after tens of millions of tokens, so they
are written down here. Qwen2 fits because its query and key projections have biases: with rotary positions, a bias
alone makes a head look a fixed distance back. Nothing but a plain ``Qwen2ForCausalLM`` comes out.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import normalize
from transformers import Qwen2Config, Qwen2ForCausalLM

HEAD_DIM = 64
HALF = HEAD_DIM // 2
ROPE_BASE = 1e12  # most rotary pairs turn by less than 1 rad in 6,000 tokens: matching does not feel distance
ANGLES = ROPE_BASE ** -(torch.arange(HALF).double() / HALF)
MEANING = 112  # directions of the residual stream for what a token means
STILL = [i for i in range(HALF) if ANGLES[i] < 1.5e-4]  # pairs that hardly turn within the context


@dataclass(frozen=True)
class Shape:
    """Size of the model; the constructed parts need a width of at least 320."""

    width: int = 320
    layers: int = 4
    heads: int = 6
    feed_forward: int = 768
    context: int = 32768


def residual_parts(width: int) -> dict[str, torch.Tensor]:
    """Orthonormal directions of the residual stream, a block of rows for each kind of information."""
    sizes = {"meaning": MEANING, "identity": 64, "previous": 64, "before_previous": 32, "recent": 44, "frequency": 1}
    basis = torch.linalg.qr(torch.randn(width, width)).Q.T
    return dict(zip(sizes, basis[: sum(sizes.values())].split(list(sizes.values())), strict=True))


def token_vectors(
    parts: dict[str, torch.Tensor], counts: torch.Tensor, meaning: torch.Tensor | None = None
) -> torch.Tensor:
    """Unit vectors in the meaning and identity parts, and the log frequency on a direction of its own; without
    ``meaning`` every token means something else, at random."""
    p = (counts.float() + 0.5) / (counts.float() + 0.5).sum()
    weight = 0.9 * (1e-3 / (1e-3 + p)).clamp(min=0.2).unsqueeze(1)  # frequent tokens mean little
    drawn = torch.randn(len(p), MEANING)
    meaning = normalize(drawn if meaning is None else meaning, dim=1) * weight
    identity = normalize(torch.randn(len(p), len(parts["identity"])), dim=1) * (1 - weight**2).sqrt()
    centred = (p.log() - (p * p.log()).sum()).clamp(-6, 6).unsqueeze(1) / 16
    return meaning @ parts["meaning"] + identity @ parts["identity"] + centred * parts["frequency"]


class Head:
    """The slices of one head in a Qwen2 attention layer (as many key-value heads as heads)."""

    def __init__(self, attention: torch.nn.Module, index: int) -> None:
        self.attention, self.rows = attention, slice(index * HEAD_DIM, (index + 1) * HEAD_DIM)

    def look_back(self, distance: float, envelope: torch.Tensor) -> None:
        """Attend by position: the score is ``sum(envelope**2 * cos(angle * (d - distance)))`` at distance ``d``."""
        a, turn = self.attention, distance * ANGLES.float()
        a.q_proj.weight[self.rows] *= 0.05
        a.k_proj.weight[self.rows] *= 0.05
        a.k_proj.bias[self.rows] = torch.cat([envelope, torch.zeros(HALF)])
        a.q_proj.bias[self.rows] = torch.cat([envelope * turn.cos(), -envelope * turn.sin()])

    def compare(self, query: torch.Tensor, key: torch.Tensor) -> None:
        """Attend where ``key @ past`` equals ``query @ present``, whatever the distance."""
        dims = torch.tensor(STILL + [i + HALF for i in STILL])[: len(query)]
        for projection, reader in ((self.attention.q_proj, query), (self.attention.k_proj, key)):
            block = torch.zeros(HEAD_DIM, reader.shape[1])
            block[dims] = reader[: len(dims)]
            projection.weight[self.rows] = block
            projection.bias[self.rows] = 0

    def move(self, read: torch.Tensor, write: torch.Tensor, scale: float) -> None:
        """Add ``scale`` times the part ``read`` of the attended token to the part ``write`` of the present one."""
        a, n = self.attention, min(len(read), len(write), HEAD_DIM)
        a.v_proj.weight[self.rows] = 0
        a.o_proj.weight[:, self.rows] = 0
        first = slice(self.rows.start, self.rows.start + n)
        a.v_proj.weight[first] = read[:n] * math.sqrt(scale)
        a.o_proj.weight[:, first] = write[:n].T * math.sqrt(scale)


@torch.no_grad()
def copying_model(
    counts: torch.Tensor, sample: torch.Tensor, shape: Shape, meaning: torch.Tensor | None = None
) -> Qwen2ForCausalLM:
    """A model that already copies.

    Args:
        counts: ``[vocabulary]`` occurrences of each token in ordinary text.
        sample: ``[batch, length]`` ordinary token ids on which attention strengths are measured.
        meaning: ``[vocabulary, MEANING]`` vectors that are alike for tokens of like meaning; without them the model
            copies by identity alone.
    """
    config = Qwen2Config(
        vocab_size=len(counts),
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=HEAD_DIM,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        rope_theta=ROPE_BASE,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = Qwen2ForCausalLM(config)
    parts = residual_parts(shape.width)
    model.model.embed_tokens.weight.copy_(token_vectors(parts, counts, meaning))
    _write_memory_heads(model, parts)
    _write_matching_heads(model, parts)
    _write_unigram_bias(model, parts, shape.heads - 1)
    _set_strengths(model, sample, {0: 14.0, 1: 14.0, 2: 9.0, 3: 9.0})
    return model


def _write_memory_heads(model: Qwen2ForCausalLM, parts: dict[str, torch.Tensor]) -> None:
    """Layer 0: the previous token, the one before it, and the mean of about the last seven."""
    attention = model.model.layers[0].self_attn
    meaning, identity = parts["meaning"], parts["identity"]
    sharp = (ANGLES > 0.05).float() * 14.0
    broad = ((ANGLES > 0.01) & (ANGLES < 0.5)).float()
    previous, before, recent = Head(attention, 0), Head(attention, 1), Head(attention, 2)
    previous.look_back(1, sharp)
    previous.move(torch.cat([meaning[:34], identity[:30]]), parts["previous"], 0.06)
    before.look_back(2, sharp)
    before.move(torch.cat([meaning[:16], identity[:16]]), parts["before_previous"], 0.06)
    recent.look_back(3, broad * math.sqrt(96 / broad.sum()))
    recent.move(meaning[:44], parts["recent"], 0.12)


def _write_matching_heads(model: Qwen2ForCausalLM, parts: dict[str, torch.Tensor]) -> None:
    """Layer 1: where the last two tokens (heads 0, 1) or the recent words (2, 3) were alike, raise what followed."""
    attention = model.model.layers[1].self_attn
    meaning, identity = parts["meaning"], parts["identity"]
    previous, before, recent = parts["previous"], parts["before_previous"], parts["recent"]
    # rows of ``previous`` hold meaning 0-33 then identity 0-29; rows of ``before`` hold meaning 0-15 then identity 0-15
    for index, m, i, j in ((0, 26, 8, 4), (1, 10, 20, 8)):
        now = torch.cat([meaning[:m], identity[:i], 0.7 * previous[:4], 0.7 * previous[34 : 34 + j]])
        then = torch.cat([previous[:m], previous[34 : 34 + i], 0.7 * before[:4], 0.7 * before[16 : 16 + j]])
        Head(attention, index).compare(now, then)
    for index in (2, 3):
        Head(attention, index).compare(recent[:42], recent[:42])
    for index, (copied, scale) in enumerate(
        ((meaning[:64], 0.25), (identity, 0.25), (meaning[:64], 0.12), (meaning[64:], 0.12))
    ):
        Head(attention, index).move(copied, copied, scale)


def _write_unigram_bias(model: Qwen2ForCausalLM, parts: dict[str, torch.Tensor], head: int) -> None:
    """A value bias passes attention unchanged: a constant on the frequency direction is the unigram distribution."""
    attention = model.model.layers[1].self_attn
    attention.v_proj.bias[head * HEAD_DIM] = 2.0
    attention.o_proj.weight[:, head * HEAD_DIM] = parts["frequency"][0]


def _set_strengths(model: Qwen2ForCausalLM, sample: torch.Tensor, wanted: dict[int, float]) -> None:
    """Scale each matching head so that a perfect match scores ``wanted[head]`` before the softmax."""
    layer, seen = model.model.layers[1], []
    hook = layer.input_layernorm.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    model.model(input_ids=sample)
    hook.remove()
    x, attention = seen[0].flatten(0, 1), layer.self_attn
    for index, strength in wanted.items():
        rows = Head(attention, index).rows
        q, k = attention.q_proj(x)[:, rows].norm(dim=1).mean(), attention.k_proj(x)[:, rows].norm(dim=1).mean()
        factor = math.sqrt(strength * math.sqrt(HEAD_DIM) / (q * k).item())
        attention.q_proj.weight[rows] *= factor
        attention.k_proj.weight[rows] *= factor
