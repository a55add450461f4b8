"""What this machine's Python can compute with: torch, its build, its GPUs, the native library. Printed as JSON.

A process of its own: a torch that does not fit its driver may end the process that imports it.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from typing import Any


def describe() -> dict[str, Any]:
    """torch: its version, or what its import failed with. cuda, rocm: what it was built for. usable: whether it finds a
    GPU. architectures: sm_90, gfx942 and so on that it holds code for. native: the CPU library, or what it failed with.
    """
    told: dict[str, Any] = {"triton": importlib.util.find_spec("triton") is not None, "native": _native()}
    try:
        import torch
    except (ImportError, OSError) as error:
        return told | {"torch": None, "fault": str(error)[:500]}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    return told | {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "usable": usable,
        "fault": str(warned[0].message)[:500] if warned else "",
        "architectures": torch.cuda.get_arch_list(),
    }


def _native() -> dict[str, Any]:
    from kernels.native import library

    try:
        return {"loaded": library.available(), "fault": ""}
    except (ImportError, OSError) as error:
        return {"loaded": False, "fault": str(error)[:500]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()))
