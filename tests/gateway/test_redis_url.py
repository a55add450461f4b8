"""What may stand in `redis_url`, and in the settings beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import SettingsError, load
from gateway.settings.redis_url import Login, Node, RedisAt, parse


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("redis://cache:7000/2", RedisAt("server", (Node("cache", 7000),), Login(db=2))),
        ("unix:///run/valkey.sock", RedisAt("server", (Node("", 0, "/run/valkey.sock"),), Login())),
        (
            "rediss://me:p%40ss@cache?ssl_ca_certs=/ca.pem",
            RedisAt("server", (Node("cache", 6379),), Login("me", "p@ss", tls=True, authorities="/ca.pem")),
        ),
        (
            "redis+sentinel://me:pass@a,b:27000,[::1]:1/main/3",
            RedisAt("sentinel", (Node("a", 26379), Node("b", 27000), Node("::1", 1)), Login("me", "pass", 3), "main"),
        ),
        (
            "rediss+sentinel://a/main?ssl_ca_certs=/ca.pem",
            RedisAt(
                "sentinel",
                (Node("a", 26379),),
                Login(tls=True, authorities="/ca.pem"),
                "main",
                Login(tls=True, authorities="/ca.pem"),
            ),
        ),
        ("redis+cluster://:pass@a:1,b", RedisAt("cluster", (Node("a", 1), Node("b", 6379)), Login(password="pass"))),
        ("redis+cluster://a/0", RedisAt("cluster", (Node("a", 6379),), Login())),
    ],
)
def test_a_url_says_where_redis_is_and_how_it_lets_one_in(url: str, found: RedisAt) -> None:
    assert parse(url) == found


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost", "redis+sentinel://host:port,host:port/name"),
        ("http://localhost", "redis://host:port/db"),
        ("redis://localhost:many", "redis://host:port/db"),
        ("redis+sentinel://a:26379", "the name of the master"),
        ("redis+sentinel://a,,b/main", "hosts, separated by commas"),
        ("redis+sentinel://a/main/zero", "redis+sentinel://"),
        ("redis+sentinel://a:x/main", "redis+sentinel://"),
        ("redis+cluster://a/1", "no database but 0"),
        ("redis+cluster://", "redis+cluster://host:port"),
        ("unix+sentinel://a/main", "redis+sentinel://"),
    ],
)
def test_a_url_that_says_neither_is_refused_by_its_name(url: str, expected: str) -> None:
    with pytest.raises(SettingsError, match="redis_url: ") as caught:
        load(redis_url=url)
    assert expected in str(caught.value)


def test_passwords_may_stand_beside_the_url() -> None:
    environ = {"SEKISHO_REDIS_PASSWORD": "of-servers", "SEKISHO_REDIS_SENTINEL_PASSWORD": "of-sentinels"}
    settings = load(None, environ, redis_url="redis+sentinel://me@a/main")
    assert settings.redis.login == Login("me", "of-servers")
    assert settings.redis.sentinels == Login(None, "of-sentinels")
    assert "of-se" not in repr(settings)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"redis_url": "redis://:hunter2@a", "redis_password": "b"}, "redis_password: redis_url has a password too"),
        ({"redis_sentinel_password": "a"}, "redis_sentinel_password: expected only where redis_url"),
    ],
)
def test_passwords_that_do_not_go_together_are_told(given: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(**given)
    assert expected in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_password_that_is_no_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "sekisho.yaml").write_text("redis_password: 123454321\n")
    with pytest.raises(SettingsError, match="redis_password") as caught:
        load(tmp_path / "sekisho.yaml")
    assert "123454321" not in str(caught.value)


def test_a_url_that_is_refused_does_not_show_its_password() -> None:
    with pytest.raises(SettingsError, match="redis_url") as caught:
        load(redis_url="redis+sentinel://me:hunter2@a")
    assert "hunter2" not in str(caught.value)
