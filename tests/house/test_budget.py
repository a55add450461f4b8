"""Sizes and docstrings: the budget of CONTRIBUTING.md."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

import pytest

from tests.house.tree import name_of, package_modules

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
LARGEST_MEDIAN = 10

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, Function)]


def _length(function: Function) -> int:
    """Lines of the body: a signature with many typed options is a table, not a thing to be followed."""
    return (function.end_lineno or 0) - function.body[0].lineno + 1


def _is_kernel(function: Function) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


@pytest.mark.parametrize("path", package_modules(), ids=name_of)
def test_module_keeps_to_the_budget(path: Path) -> None:
    lines = path.read_text("utf-8").count("\n")
    assert lines < LONGEST_FILE, f"{lines} lines: asks to become a folder with a story"
    for function in _functions(path):
        if not _is_kernel(function):
            assert _length(function) <= LONGEST_FUNCTION, f"{function.name}: asks to be two"


@pytest.mark.parametrize("path", package_modules(), ids=name_of)
def test_module_says_what_it_is(path: Path) -> None:
    source = path.read_text("utf-8")
    # kernels/__init__.py stays wholly empty: Hugging Face's package has the same name (test_package.py).
    assert ast.get_docstring(ast.parse(source)) or source == ""


def test_functions_are_short_by_habit() -> None:
    lengths = [_length(function) for path in package_modules() for function in _functions(path)]
    assert median(lengths) < LARGEST_MEDIAN
