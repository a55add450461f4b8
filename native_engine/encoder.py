"""A loaded sentence encoder: token ids to one vector an input, pooled and normalised as its own folder says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import normalize

from native_engine.config import EngineConfig
from native_engine.device import settled
from native_engine.last_token import LastTokenEncoder
from native_engine.loading import safetensors
from native_engine.loading.encoder_config import EncoderConfig, Pooling, decoder_normalizes, encoder_config, is_bert
from native_engine.loading.errors import ModelError
from native_engine.loading.weights import RawTensor, open_weights
from native_engine.models.bert import Bert
from native_engine.quantization.dequantize import dequantize
from native_engine.sizing import ConfigurationError, num_threads

logger = logging.getLogger(__name__)

_POOLED: Mapping[Pooling, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": lambda states: states.mean(dim=0),
    "cls": lambda states: states[0],
    "last": lambda states: states[-1],
}


class Encoder:
    """Keeps nothing of an input. One thread at a time; `max_model_len` is checked by the caller."""

    def __init__(self, config: EncoderConfig, model: Bert, max_model_len: int) -> None:
        self.config, self.model = config, model
        self.max_model_len = max_model_len
        self.dimensions = config.hidden_size
        self.normalizes = config.normalize

    def encode(self, inputs: list[list[int]]) -> npt.NDArray[np.float32]:
        """[inputs, dimensions], in one pass. Each vector is what its input has alone."""
        lengths = [len(each) for each in inputs]
        with torch.inference_mode():
            tokens = self.model.forward(torch.tensor([token for each in inputs for token in each]), lengths)
            return self._pool(tokens, lengths).numpy()

    def _pool(self, tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        each = torch.split(tokens, lengths)
        pooled = torch.stack([_POOLED[self.config.pooling](one) for one in each])
        return normalize(pooled) if self.normalizes else pooled


def load_encoder(config: EngineConfig, path: Path) -> Encoder | LastTokenEncoder:
    """Raises ModelError for a model that cannot be read, ConfigurationError for settings that do not fit it."""
    if settled(config).device == "gpu":
        logger.warning("models that make embeddings are computed on the CPU, also where there is a GPU")
    if is_bert(path):
        return _load_bert(config, path)
    return LastTokenEncoder(config, open_weights(path), normalize=decoder_normalizes(path))


def _load_bert(config: EngineConfig, folder: Path) -> Encoder:
    if config.dtype not in ("auto", "float32"):
        raise ConfigurationError(f"--dtype is {config.dtype}; an embedding model is computed in float32")
    if config.quantization not in ("auto", "none"):
        raise ConfigurationError(f"--quantization is {config.quantization}; an embedding model is computed in float32")
    model = encoder_config(folder)
    longest = config.max_model_len or model.max_seq_length
    if longest > model.max_position:
        raise ConfigurationError(
            f"--max-model-len is {longest}; {model.name} holds at most {model.max_position} tokens"
        )
    tensors = safetensors.open_folder(folder, ignored={"embeddings.position_ids"})  # just 0, 1, 2 ...

    def read(name: str) -> torch.Tensor:
        if name not in tensors:
            raise ModelError(f"{folder}: tensor {name} is missing; the model is not whole or not of its stated kind.")
        tensor = tensors[name]
        return torch.from_numpy(dequantize(RawTensor(tensor.type_name, tensor.shape, tensor.data)))

    torch.set_num_threads(num_threads(config))
    return Encoder(model, Bert(model, read), longest)
