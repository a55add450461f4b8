"""BERT and its like (MiniLM): token ids to one vector a token. Plain torch; inputs lie end to end, without padding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import embedding, gelu, layer_norm, linear, scaled_dot_product_attention

from native_engine.loading.encoder_config import EncoderConfig

# A tensor of the model's file by its name, in float32.
Read = Callable[[str], torch.Tensor]
Affine = tuple[torch.Tensor, torch.Tensor]


def _affine(read: Read, name: str) -> Affine:
    return read(f"{name}.weight"), read(f"{name}.bias")


class BertLayer:
    """Attention and a feed-forward, each with the residual around it and a norm after."""

    def __init__(self, config: EncoderConfig, read: Read, index: int) -> None:
        prefix = f"encoder.layer.{index}."
        self.num_heads, self.eps = config.num_heads, config.layer_norm_eps
        parts = [_affine(read, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
        self.qkv = torch.cat([weight for weight, _ in parts]), torch.cat([bias for _, bias in parts])
        self.output = _affine(read, f"{prefix}attention.output.dense")
        self.attention_norm = _affine(read, f"{prefix}attention.output.LayerNorm")
        self.up = _affine(read, f"{prefix}intermediate.dense")
        self.down = _affine(read, f"{prefix}output.dense")
        self.norm = _affine(read, f"{prefix}output.LayerNorm")

    def forward(self, x: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """x [tokens, hidden] to [tokens, hidden]."""
        x = layer_norm(x + linear(self._attend(x, lengths), *self.output), x.shape[-1:], *self.attention_norm, self.eps)
        h = linear(gelu(linear(x, *self.up)), *self.down)
        return layer_norm(x + h, x.shape[-1:], *self.norm, self.eps)

    def _attend(self, x: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Each token sees the whole of its own input, and no other."""
        heads = linear(x, *self.qkv).view(len(x), 3, self.num_heads, -1).permute(1, 2, 0, 3)
        each = [scaled_dot_product_attention(*part.unsqueeze(1)) for part in torch.split(heads, lengths, dim=2)]
        return torch.cat(each, dim=2).squeeze(0).transpose(0, 1).reshape(x.shape)


class Bert:
    """Embeddings and layers. The pooler of the file is not part of a sentence's vector and is left unread."""

    def __init__(self, config: EncoderConfig, read: Read) -> None:
        self.eps = config.layer_norm_eps
        self.words = read("embeddings.word_embeddings.weight")
        # Every token is of the first type: there is no second sentence.
        positions = read("embeddings.position_embeddings.weight")
        self.positions = positions + read("embeddings.token_type_embeddings.weight")[0]
        self.norm = _affine(read, "embeddings.LayerNorm")
        self.layers = [BertLayer(config, read, index) for index in range(config.num_layers)]

    def forward(self, token_ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Token ids [tokens], of inputs of these lengths one after the other, to [tokens, hidden]."""
        positions = torch.cat([self.positions[:length] for length in lengths])
        x = layer_norm(embedding(token_ids, self.words) + positions, self.words.shape[-1:], *self.norm, self.eps)
        for layer in self.layers:
            x = layer.forward(x, lengths)
        return x
