"""The link that `up` prints, as a person uses it: once, with a browser, on this machine."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.system.driving import Up, sekisho

LINK = re.compile(r"http://\S+/auth/local\?token=[\w-]+")


def follow(link: str) -> tuple[int, str]:
    """The status, and the cookie that came with it."""
    parts = urlsplit(link)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, (answer.getheader("set-cookie") or "").partition(";")[0]


def landing(url: str, cookie: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/", headers={"cookie": cookie})
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_the_printed_link_signs_in_once_and_another_can_be_had(new_data_dir: Callable[[str], Path]) -> None:
    up = Up(new_data_dir("data"), "--no-engine")
    try:
        up.wait_until("curl ")
        (link,) = LINK.findall(up.text())
        status, cookie = follow(link)
        assert status == 303
        assert "Local admin" in landing(up.url, cookie)
        assert follow(link) == (400, "")
        printed = sekisho("sign-in", "--data-dir", str(up.data_dir))
        assert printed.returncode == 0
        assert printed.stdout.startswith(up.url)
        assert follow(printed.stdout.strip())[0] == 303
        logged = (up.data_dir / "logs" / "gateway.log").read_text("utf-8")
        assert link.rpartition("=")[2] not in logged
    finally:
        up.stop()


def test_up_listens_elsewhere_only_without_the_link(new_data_dir: Callable[[str], Path], tmp_path: Path) -> None:
    refused = sekisho("up", "--host", "0.0.0.0", "--port", "0", "--data-dir", str(tmp_path / "none"))
    assert refused.returncode == 2
    assert "local_sign_in: false" in refused.stderr
    up = Up(new_data_dir("data"), "--no-engine", "--host", "0.0.0.0", SEKISHO_LOCAL_SIGN_IN="false")
    try:
        up.wait_until("curl ")
        assert not LINK.search(up.text())
        assert "API keys" in landing(up.url, "")
    finally:
        up.stop()
