from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from native_engine.loading.errors import ModelError
from native_engine.loading.model_config import config_from_folder
from native_engine.loading.weights import open_weights
from tests.native_engine import tiny_model
from tests.native_engine.gguf_of import permute
from tests.native_engine.tiny_model import write_gguf


def test_gguf_tensors_have_hugging_face_names(tmp_path: Path) -> None:
    names = set(open_weights(write_gguf(tmp_path / "m.gguf")).names())
    assert {"model.embed_tokens.weight", "model.norm.weight", "model.layers.1.mlp.down_proj.weight"} <= names
    assert "model.layers.0.post_attention_layernorm.weight" in names
    assert "lm_head.weight" not in names


def test_q_and_k_rows_of_a_llama_are_put_back_in_order(tmp_path: Path) -> None:
    weights = open_weights(write_gguf(tmp_path / "m.gguf"))
    stored = tiny_model.tensors(weights.config.vocab_size)
    for part, heads in (("q", tiny_model.HEADS), ("k", tiny_model.KV_HEADS)):
        found = weights.get(f"model.layers.0.self_attn.{part}_proj.weight")
        restored = found.data.view(np.float32)
        assert np.array_equal(permute(restored, heads), stored[f"blk.0.attn_{part}.weight"])
        assert not np.array_equal(restored, stored[f"blk.0.attn_{part}.weight"])
    value = weights.get("model.layers.0.self_attn.v_proj.weight")
    assert np.array_equal(value.data.view(np.float32), stored["blk.0.attn_v.weight"])


def test_q_and_k_of_a_qwen_are_left_alone(tmp_path: Path) -> None:
    weights = open_weights(write_gguf(tmp_path / "m.gguf", architecture="qwen2"))
    stored = tiny_model.tensors(weights.config.vocab_size)
    query = weights.get("model.layers.0.self_attn.q_proj.weight")
    assert np.array_equal(query.data.view(np.float32), stored["blk.0.attn_q.weight"])


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.layers\.7\.mlp"):
        open_weights(write_gguf(tmp_path / "m.gguf")).get("model.layers.7.mlp.up_proj.weight")


def write_folder(folder: Path, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    config = {
        "model_type": "qwen3",
        "vocab_size": 10,
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 4,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
        "tie_word_embeddings": True,
        "eos_token_id": 3,
    }
    (folder / "config.json").write_text(json.dumps(config | changes))
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 4]}')
    return folder


def write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + body)


def test_a_folder_gives_its_configuration_and_raw_bfloat16(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "qwen")
    data = bytes(range(16))
    write_safetensors(folder / "model.safetensors", {"t": ("BF16", [2, 4], data)})
    weights = open_weights(folder)
    tensor = weights.get("t")
    assert (tensor.type, tensor.shape, tensor.data.tobytes()) == ("BF16", (2, 4), data)
    config = weights.config
    assert (config.architecture, config.qk_norm, config.rope_theta, config.rope_scaling) == ("qwen3", True, 1e6, None)
    assert config.eos_token_ids == {3, 4}


def test_a_folder_in_parts_is_read_through_its_index(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "qwen")
    for number in (1, 2):
        write_safetensors(folder / f"part{number}.safetensors", {f"t{number}": ("F32", [1], b"\0\0\0\0")})
    index = {"weight_map": {"t1": "part1.safetensors", "t2": "part2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert sorted(open_weights(folder).names()) == ["t1", "t2"]
    (folder / "part2.safetensors").unlink()
    with pytest.raises(ModelError, match=r"part2\.safetensors: missing"):
        open_weights(folder)


def test_a_safetensors_file_cut_short_is_told_as_such(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "qwen")
    path = folder / "model.safetensors"
    write_safetensors(path, {"t": ("F32", [4], bytes(16))})
    whole = path.read_bytes()
    for length in (0, 4, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="cut short or damaged"):
            open_weights(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt_bigcode"}, "'gpt_bigcode' is not supported; known: .*llama, mistral, .*qwen3"),
        ({"num_attention_heads": 0}, "num_heads"),
        ({"hidden_size": "wide"}, "ValueError"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    folder = write_folder(tmp_path / "m", **changes)
    write_safetensors(folder / "model.safetensors", {})
    with pytest.raises(ModelError, match=message):
        open_weights(folder)


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({"model_type": "mistral"}, 4096),  # what transformers takes where nothing is said
        ({"model_type": "mistral", "sliding_window": None}, None),
        ({"model_type": "llama", "sliding_window": 32}, None),
        ({"model_type": "phi3", "sliding_window": 32}, 32),
        ({"use_sliding_window": False, "sliding_window": 32, "max_window_layers": 0}, None),
        ({"model_type": "qwen3_moe", "use_sliding_window": False, "sliding_window": 32}, None),
        ({"model_type": "qwen3_moe", "use_sliding_window": True, "sliding_window": 32}, 32),
        ({"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0}, 32),
        ({"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1}, None),
        ({"use_sliding_window": True, "sliding_window": 32, "layer_types": ["sliding_attention"]}, 32),
        ({"use_sliding_window": True, "sliding_window": 32, "layer_types": ["full_attention"]}, None),
    ],
)
def test_a_sliding_window_is_read_as_its_family_means_it(
    tmp_path: Path, changes: dict[str, object], window: int | None
) -> None:
    assert config_from_folder(write_folder(tmp_path / "m", **changes)).windows == (window,)


def test_a_path_that_does_not_exist_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file or folder"):
        open_weights(tmp_path / "nothing")
