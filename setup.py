"""Builds the native CPU library where a C++ compiler is present; without one the engine runs on plain torch.

One source is compiled once per instruction set and the library picks the best at run time, so a wheel built on one
machine runs on another. It is loaded with ctypes: a plain C interface, no Python headers involved.
"""

from __future__ import annotations

import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = Path("kernels/native")
X86 = platform.machine().lower() in {"x86_64", "amd64"} and not sys.platform.startswith("win")
INSTRUCTION_SETS = {
    "baseline": "-O2" if X86 else "-O3",  # on x86 the last resort: -O3 takes a minute more to compile
    "avx2": "-O3 -mavx2 -mfma -mf16c",
    "avx512": "-O3 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c -mprefer-vector-width=512",
}
# -ffp-contract=off: the sources say themselves what is fused (see simd.h).
# -Wno-psabi: vectors never cross the interface.
# -Wno-maybe-uninitialized: GCC warns about its own half-float intrinsics.
FLAGS = "-std=c++17 -g0 -ffp-contract=off -fno-math-errno -pthread -Wno-psabi -Wno-maybe-uninitialized"


class BuildNative(build_ext):
    """Compiles isa.cpp once for each instruction set and links the objects with the rest."""

    def build_extension(self, ext: Extension) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = pool.map(self._compile, INSTRUCTION_SETS if X86 else ["baseline"])
            ext.extra_objects += [path for objects in compiled for path in objects]
        super().build_extension(ext)

    def _compile(self, isa: str) -> list[str]:
        return self.compiler.compile(
            [str(NATIVE / "isa.cpp")],
            output_dir=str(Path(self.build_temp) / isa),
            macros=[("ISA", isa)],
            extra_postargs=f"{FLAGS} {INSTRUCTION_SETS[isa]}".split(),
        )


setup(
    ext_modules=[
        Extension(
            "kernels.native._cpu",
            sources=[str(NATIVE / "pool.cpp"), str(NATIVE / "program.cpp")],
            depends=[str(path) for path in Path("kernels").rglob("*.h")] + [str(NATIVE / "isa.cpp")],
            define_macros=[("SEKISHO_X86", "1")] if X86 else [],
            extra_compile_args=["-O3", *FLAGS.split()],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,  # no compiler: the install goes on, the engine says so and runs on torch
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
