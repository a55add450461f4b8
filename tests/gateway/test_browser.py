"""What is believed of a browser's request: cookies, origins, return addresses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from gateway.errors import Forbidden
from gateway.identity.browser import SESSION, Site, is_navigation, safe_return
from gateway.scope import RequestScope

PUBLIC = "https://ai.example.com"
LOCAL = {"host": "127.0.0.1:8080"}


def request(method: str = "GET", **headers: str) -> RequestScope:
    encoded = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    unused: Any = None
    return RequestScope("", method, "/", encoded, len(encoded), 0, unused, unused, 0.0)


def test_behind_tls_a_cookie_is_bound_to_this_host_and_hidden_from_scripts() -> None:
    name, value = Site(PUBLIC).set_cookie(SESSION, "secret", 60)
    assert name == b"set-cookie"
    parts = value.decode().split("; ")
    assert parts[0] == "__Host-sekisho=secret"
    assert set(parts[1:]) == {"Path=/", "Max-Age=60", "HttpOnly", "SameSite=Lax", "Secure"}


@pytest.mark.parametrize("url", [None, "http://localhost:8080"])
def test_on_this_machine_the_cookie_is_plain(url: str | None) -> None:
    value = Site(url).set_cookie(SESSION, "secret", 60)[1].decode()
    assert value.startswith("sekisho=secret; ")
    assert "Secure" not in value
    assert "HttpOnly; SameSite=Lax" in value


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("__Host-sekisho=a", "a"),
        ("x=1; __Host-sekisho=a; y=2", "a"),
        ("sekisho=a", None),
        ("__Host-sekisho=a; __Host-sekisho=b", None),
        ("__host-sekisho=a", None),
        ("", None),
        ("__Host-sekisho", ""),
        ("__Host-sekisho=" + "é" * 1000, "é" * 256),
    ],
)
def test_only_the_one_cookie_of_the_right_name_is_read(header: str, found: str | None) -> None:
    assert Site(PUBLIC).cookie(request(cookie=header), SESSION) == found


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": "http://ai.example.com"},
        {"origin": "https://ai.example.com:8443"},
        {"origin": "https://ai.example.com.evil.example"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "none"},
        {"origin": "https://evil.example", "sec_fetch_site": "same-origin"},
    ],
)
def test_another_sites_page_cannot_act(headers: dict[str, str]) -> None:
    for method in ("POST", "DELETE", "PUT", "PATCH", "MADE-UP"):
        with pytest.raises(Forbidden):
            Site(PUBLIC).check_origin(request(method, **headers))
    Site(PUBLIC).check_origin(request("GET", **headers))


@pytest.mark.parametrize("headers", [{"origin": PUBLIC}, {"sec_fetch_site": "same-origin"}])
def test_our_own_page_can_act(headers: dict[str, str]) -> None:
    Site(PUBLIC).check_origin(request("POST", **headers))


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://AI.Example.com", PUBLIC),
        ("https://ai.example.com:443", PUBLIC),
        ("https://ai.example.com:8443", "https://ai.example.com:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_our_origin_is_spelt_as_browsers_spell_it(url: str, origin: str) -> None:
    Site(url).check_origin(request("POST", origin=origin))
    with pytest.raises(Forbidden):
        Site(url).check_origin(request("POST", origin=origin + "0"))


def test_on_this_machine_our_origin_is_where_the_browser_went() -> None:
    for host in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080"):
        Site(None).check_origin(request("POST", host=host, origin=f"http://{host}"))
    # A name that was pointed at this machine by somebody else (DNS rebinding) is no origin of ours.
    for host in ("evil.example:8080", "127.0.0.1.evil.example", "[", ""):
        with pytest.raises(Forbidden):
            Site(None).check_origin(request("POST", host=host, origin=f"http://{host}"))


@pytest.mark.parametrize(
    ("headers", "navigates"),
    [
        ({"sec_fetch_mode": "navigate", "accept": "*/*"}, True),
        ({"sec_fetch_mode": "cors", "accept": "text/html"}, False),
        ({"accept": "text/html,application/xhtml+xml"}, True),
        ({"accept": "application/json"}, False),
        ({}, False),
    ],
)
def test_only_a_navigation_is_one(headers: dict[str, str], navigates: bool) -> None:
    assert is_navigation(request(**headers)) is navigates
    assert not is_navigation(request("POST", **headers))


@pytest.mark.parametrize("address", ["/", "/chat", "/chat?model=a&b=%2F%2Fx#here", "/@evil.example", "/a//b"])
def test_a_path_of_ours_may_be_returned_to(address: str) -> None:
    assert safe_return(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "chat",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/\n/evil.example",
        "/x\r\nset-cookie: a=b",
        "/auth/sign-in?issuer=x",
        "/日本",
        "/a b",
        "/" + "a" * 3000,
    ],
)
def test_no_other_address_may_be_returned_to(address: str) -> None:
    assert safe_return(address) == "/"


@given(st.text(alphabet=st.sampled_from("/\\:@.?#%\t\r\n\0 a//")))
def test_whatever_is_asked_the_browser_stays_here(address: str) -> None:
    joined = URL("http://here.example/auth/callback").join(URL(safe_return(address), encoded=True))
    assert joined.host == "here.example"
