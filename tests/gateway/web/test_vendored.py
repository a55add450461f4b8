"""What the pages use of others lies there as it was fetched, with its licence."""

from __future__ import annotations

import tomllib

from deploy.vendor import VENDOR, sums


def test_every_file_is_the_one_that_was_fetched() -> None:
    assert sums(VENDOR) == (VENDOR / "SHA256SUMS").read_text(encoding="utf-8")


def test_everything_is_named_with_its_version_and_has_its_licence() -> None:
    named = tomllib.loads((VENDOR / "vendored.toml").read_text(encoding="utf-8"))
    assert {path.name for path in VENDOR.iterdir() if path.is_dir()} == set(named)
    for name, entry in named.items():
        assert {"package", "version", "licence", "integrity", "files"} == set(entry)
        assert (VENDOR / name / "LICENSE").stat().st_size > 1000
