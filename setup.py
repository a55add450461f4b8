"""Builds the native CPU library where a C++ compiler is present; without one the engine runs on plain torch.

One source is compiled once per instruction set and the library picks the best at run time, so a wheel built on one
machine runs on another. It is loaded with ctypes: a plain C interface, no Python headers involved.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = Path("kernels/native")
X86 = platform.machine().lower() in {"x86_64", "amd64"} and not sys.platform.startswith("win")
INSTRUCTION_SETS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": [
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mavx512vnni",
        "-mfma",
        "-mf16c",
        "-mprefer-vector-width=512",
    ],
}
# -ffp-contract=off: the sources say themselves what is fused (see simd.h).
# -Wno-psabi: vectors never cross the interface.
# -Wno-maybe-uninitialized: GCC warns about its own half-float intrinsics.
FLAGS = "-std=c++17 -O3 -ffp-contract=off -fno-math-errno -pthread -Wno-psabi -Wno-maybe-uninitialized".split()  # noqa: SIM905


class BuildNative(build_ext):
    """Compiles isa.cpp once for each instruction set and links the objects with the rest."""

    def build_extension(self, ext: Extension) -> None:
        for isa in INSTRUCTION_SETS if X86 else ["baseline"]:
            ext.extra_objects += self.compiler.compile(
                [str(NATIVE / "isa.cpp")],
                output_dir=str(Path(self.build_temp) / isa),
                macros=[("ISA", isa)],
                extra_postargs=FLAGS + INSTRUCTION_SETS[isa],
            )
        super().build_extension(ext)


setup(
    ext_modules=[
        Extension(
            "kernels.native._cpu",
            sources=[str(NATIVE / "pool.cpp"), str(NATIVE / "program.cpp")],
            depends=[str(path) for path in Path("kernels").rglob("*.h")] + [str(NATIVE / "isa.cpp")],
            define_macros=[("SEKISHO_X86", "1")] if X86 else [],
            extra_compile_args=FLAGS,
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,  # no compiler: the install goes on, the engine says so and runs on torch
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
