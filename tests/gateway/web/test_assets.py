"""What pages load: for ever the same under one version, and nothing else than the files that were packed."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from yarl import URL

from gateway.web.app_page import app_page
from gateway.web.assets import FOLDER, assets, read_assets
from gateway.web.words import language_of
from tests.gateway.conftest import RunningDoor, error_of

NO_KEY = {"authorization": ""}


async def test_a_file_is_kept_for_ever_under_its_version(door: RunningDoor) -> None:
    async with door.client.get(assets().url("lib/dom.js"), headers=NO_KEY) as response:
        assert response.status == 200
        assert await response.read() == (FOLDER / "lib/dom.js").read_bytes()
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["content-type"] == "text/javascript; charset=utf-8"
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip, deflate, br, zstd", True),
        ("deflate, GZIP ;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("br", False),
        ("identity", False),
        ("x-gzip", False),
    ],
)
async def test_text_is_packed_for_whoever_takes_it(door: RunningDoor, accepted: str, packed: bool) -> None:
    url = assets().url("base.css")
    async with door.client.get(url, headers=NO_KEY | {"accept-encoding": accepted}) as response:
        assert response.headers.get("content-encoding") == ("gzip" if packed else None)
        assert response.headers["vary"] == "accept-encoding"
        assert int(response.headers["content-length"]) < 10_000 or not packed
        assert await response.read() == (FOLDER / "base.css").read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "/web/0123456789abcdef/base.css",
        "/web/{}",
        "/web/{}/",
        "/web/{}/lib",
        "/web/{}/lib/../base.css",
        "/web/{}/%2e/x",
    ],
)
async def test_nothing_else_is_served(door: RunningDoor, path: str) -> None:
    url = URL(door.url + path.format(assets().version), encoded=True)
    async with door.client.get(url, headers=NO_KEY) as response:
        await error_of(response, 404, "unknown_url")


def test_any_byte_of_any_file_and_any_name_make_another_version(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    versions = [read_assets(tmp_path).version]
    (tmp_path / "a.js").write_text("2")
    versions.append(read_assets(tmp_path).version)
    (tmp_path / "a.js").rename(tmp_path / "b.js")
    versions.append(read_assets(tmp_path).version)
    assert len(set(versions)) == 3
    assert read_assets(tmp_path).version == versions[-1]


def test_what_gzip_makes_no_smaller_goes_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "tiny.js").write_text("1")
    (tmp_path / "long.js").write_text("1;" * 500)
    (tmp_path / "a.woff2").write_bytes(b"\0" * 1000)
    files = read_assets(tmp_path).files
    assert files["tiny.js"].packed is None
    assert files["a.woff2"].packed is None
    assert gzip.decompress(files["long.js"].packed or b"") == files["long.js"].body


def test_every_module_imports_files_that_are_there() -> None:
    for path in FOLDER.rglob("*.js"):
        if "vendor" in path.relative_to(FOLDER).parts:
            continue
        for named in re.findall(r'\b(?:from|import)(?:\s+|\()"([^"]+)"', path.read_text()):
            assert named.startswith("."), f"{path.name} imports {named}, which no browser finds"
            assert (path.parent / named).resolve().is_file(), f"{path.name} imports {named}"


def test_all_that_a_module_imports_is_known_and_nothing_that_waits_for_its_need() -> None:
    for page in ("chat", "usage", "plan", "console"):
        found = assets().imports(f"{page}/main.js")
        assert {"lib/dom.js", "lib/words.js", "lib/header.js"} <= set(found)
        assert not [path for path in found if path.startswith("vendor/") or path not in assets().files]
        for path in found:
            assert f'<link rel="modulepreload" href="{assets().url(path)}">' in app_page("en", "x", f"{page}/main.js")
    assert "chat/live.js" not in assets().imports("chat/main.js")


def test_imports_are_found_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page/a.js").write_text(
        'import { x,\n  y,\n} from "./b.js";\nimport "../c.js";\nexport { z } from "./d.js";\n'
        'const late = import("./e.js");\n// import "./f.js";\nexport const name = "./g.js";\n'
    )
    (tmp_path / "page/b.js").write_text('import * as all from "./a.js";\nimport d from "./d.js";\n')
    for other in ("c.js", "page/d.js"):
        (tmp_path / other).write_text("")
    assert read_assets(tmp_path).imports("page/a.js") == ["page/b.js", "c.js", "page/d.js"]


def test_every_word_is_there_in_both_languages() -> None:
    """Tables are plain: a key, and its words in en and ja."""
    for path in FOLDER.rglob("*.js"):
        if "vendor" in path.relative_to(FOLDER).parts:
            continue
        text = re.sub(r'"\s*\+\s*"', "", path.read_text("utf-8"))  # one that was broken over lines
        english = re.findall(r"^\s*(\w+): \{\s*en:", text, re.M)
        both = re.findall(r'^\s*(\w+): \{\s*en:\s*(?:"[^"]*"|`[^`]*`),\s*ja:\s*["`]', text, re.M)
        assert english == both, f"{path.name}: {set(english) - set(both)}"


def test_the_frame_of_a_page_names_its_language_and_version_and_escapes_its_title() -> None:
    text = app_page("ja", "<b>", "lib/header.js", "<p>body</p>", ["base.css"])
    assert f'<html lang="ja" data-version="{assets().version}">' in text
    assert "<title>&lt;b&gt; · Sekisho</title>" in text
    assert "<p>body</p></main>" in text
    assert not re.search(r"\sstyle=|<script>|\son\w+=", text), "the page's own policy would refuse it"


def test_a_page_does_not_load_what_is_not_there() -> None:
    with pytest.raises(KeyError):
        app_page("en", "x", "lib/other.js")


@pytest.mark.parametrize(
    ("cookies", "language"),
    [
        (b"sekisho-language=ja", "ja"),
        (b"sekisho=secret; sekisho-language=ja; x=1", "ja"),
        (b"sekisho-language=en", "en"),
        (b"sekisho-language=fr", "en"),
        (b"x-sekisho-language=ja", "en"),
        (b"sekisho-language", "en"),
        (b"\xff;\xfe=\x00", "en"),
    ],
)
def test_a_language_that_was_chosen_goes_before_what_the_browser_asks(cookies: bytes, language: str) -> None:
    assert language_of(b"en-GB", cookies) == language


async def test_the_first_page_heeds_the_chosen_language(door: RunningDoor) -> None:
    for chosen, heading in (("ja", "サインイン"), ("en", "Sign in")):
        async with door.client.get("/", headers=NO_KEY | {"cookie": f"sekisho-language={chosen}"}) as response:
            assert f"<h1>{heading}</h1>" in await response.text()
