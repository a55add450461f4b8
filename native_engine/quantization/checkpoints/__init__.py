"""Folders with `quantization_config`: a quantised layer's tensors become one weight in rows, under its plain name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

from native_engine.loading.errors import ModelError
from native_engine.loading.raw import RawTensor
from native_engine.loading.safetensors import SafeTensor
from native_engine.quantization.checkpoints import awq, compressed_tensors, fp8, gptq
from native_engine.quantization.checkpoints.module import Module, Settings, refuse

# `quant_method` -> what reads it: check(settings), is_quantised(module), read(module).
METHODS: dict[str, ModuleType] = {"awq": awq, "compressed-tensors": compressed_tensors, "fp8": fp8, "gptq": gptq}
BLOCKS = "mxfp4"  # whose tensors are read as they are, where experts are taken apart


def readers(folder: Path, settings: Settings, tensors: Mapping[str, SafeTensor]) -> dict[str, Callable[[], RawTensor]]:
    """A reader for the weight of every quantised layer. Layers that the recipe left alone are not among them.

    Raises ModelError for a method, a width or a form that is not known, naming those that are.
    """
    name = str(settings.get("quant_method", "")).lower()
    if name == BLOCKS:
        return {}
    if name not in METHODS:
        known = ", ".join([*METHODS, BLOCKS])
        raise ModelError(f"{folder}: weights quantised by {name!r} are not supported; known: {known}.")
    method = METHODS[name]
    if fault := method.check(settings):
        raise ModelError(f"{folder}: {name} weights of this kind are not supported: {fault}.")
    modules = [Module(each, parts, settings) for each, parts in _by_module(tensors).items()]
    return {f"{each.name}.weight": partial(_read, method, each) for each in modules if method.is_quantised(each)}


def _by_module(tensors: Mapping[str, SafeTensor]) -> dict[str, dict[str, SafeTensor]]:
    modules: dict[str, dict[str, SafeTensor]] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        modules.setdefault(module, {})[part] = tensor
    return modules


def _read(method: ModuleType, module: Module) -> RawTensor:
    try:
        weight: RawTensor = method.read(module)
    except (ValueError, IndexError, ZeroDivisionError) as fault:
        if isinstance(fault, ModelError):
            raise
        raise refuse(module.name, f"its tensors are of unexpected shapes ({fault})") from fault
    return weight
