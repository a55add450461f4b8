"""Which part of each tensor a rank has, by its Hugging Face name, and its part of the configuration. Reads no tensor.

What is split by rows (its outputs): q, k, v by heads, gate, up, and the head by words. By columns (its inputs): o_proj
and down_proj, whose products the ranks add up; their biases rank 0 alone has. Experts are split like the feed-forward
that each of them is. The rest every rank has whole: embedding, norms, routers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from native_engine.loading.model_config import ModelConfig
from native_engine.sizing import ConfigurationError

HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"

Range = tuple[int, int]
_LAYER = re.compile(r"model\.layers\.\d+\.(?:self_attn\.|mlp\.(?:experts\.\d+\.)?)(\w+)\.(weight|bias)")
_SUMMED = ("o_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Cut:
    """The ranges of a tensor's rows that a rank has, one behind the other; or the range of its columns."""

    rows: tuple[Range, ...] = ()
    columns: Range | None = None


def cut_of(config: ModelConfig, name: str, rank: int, size: int) -> Cut | None:
    """What of a tensor `rank` of `size` has; None where that is all of it. `config` is the whole model's."""
    if name == HEAD:  # the last rank's part may reach past the end
        part = -(-config.vocab_size // size)
        return Cut(rows=((rank * part, (rank + 1) * part),))
    match = _LAYER.fullmatch(name)
    if match is None:
        return None
    part_name, kind = match.groups()
    width = config.experts.width if ".experts." in name and config.experts else config.intermediate_size
    queries, inside = _range(config.num_heads * config.head_dim, rank, size), _range(width, rank, size)
    if part_name in _SUMMED:
        return None if kind == "bias" else Cut(columns=queries if part_name == "o_proj" else inside)
    keys = _key_range(config, rank, size)
    after_q, after_k = config.num_heads * config.head_dim, (config.num_heads + config.num_kv_heads) * config.head_dim
    rows: dict[str, tuple[Range, ...]] = {
        "q_proj": (queries,),
        "k_proj": (keys,),
        "v_proj": (keys,),
        "qkv_proj": (queries, _moved(keys, after_q), _moved(keys, after_k)),
        "gate_proj": (inside,),
        "up_proj": (inside,),
        "gate_up_proj": (inside, _moved(inside, width)),
        "sinks": (_range(config.num_heads, rank, size),),
    }
    return Cut(rows=rows[part_name]) if part_name in rows else None


def has(name: str, rank: int) -> bool:
    """Whether `rank` has anything of a tensor: what is added behind a sum is rank 0's alone."""
    match = _LAYER.fullmatch(name)
    return rank == 0 or match is None or match.groups() not in [(part, "bias") for part in _SUMMED]


def rank_config(config: ModelConfig, size: int) -> ModelConfig:
    """The model as one rank of `size` computes it. Its head is a tensor of its own, being only a part.

    Raises ConfigurationError, with the sizes that would do, where heads or widths cannot be shared out.
    """
    if faults := list(_faults(config, size)):
        others = [str(each) for each in range(1, config.num_heads + 1) if not list(_faults(config, each))]
        raise ConfigurationError(
            f"--tensor-parallel-size is {size}, but {config.name} has {' and '.join(faults)}; "
            f"expected one of {', '.join(others)}"
        )
    return replace(
        config,
        num_heads=config.num_heads // size,
        num_kv_heads=max(1, config.num_kv_heads // size),
        intermediate_size=config.intermediate_size // size,
        experts=config.experts and replace(config.experts, width=config.experts.width // size),
        tie_embeddings=config.tie_embeddings and size == 1,
    )


def _faults(config: ModelConfig, size: int) -> Iterator[str]:
    heads, kv_heads = config.num_heads, config.num_kv_heads
    if heads % size:
        yield f"{heads} attention heads"
    if kv_heads % size and size % kv_heads:
        yield f"{kv_heads} KV heads"
    if config.intermediate_size % size:
        yield f"a feed-forward {config.intermediate_size} wide"
    if config.experts and config.experts.width % size:
        yield f"experts {config.experts.width} wide"


def _range(width: int, rank: int, size: int) -> Range:
    return rank * width // size, (rank + 1) * width // size


def _key_range(config: ModelConfig, rank: int, size: int) -> Range:
    """Of more ranks than KV heads several have the same one: that of their query heads."""
    first = rank * config.num_kv_heads // size
    count = max(1, config.num_kv_heads // size)
    return first * config.head_dim, (first + count) * config.head_dim


def _moved(part: Range, by: int) -> Range:
    return part[0] + by, part[1] + by
