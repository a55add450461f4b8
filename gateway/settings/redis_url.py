"""What `redis_url` says: one server, Sentinels that know it, or nodes of a Cluster. Connects to nothing."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from redis.asyncio.connection import SSLConnection, parse_url

_PLAIN = ("unix", "redis", "rediss")
_SEVERAL = re.compile(r"(redis|rediss)\+(sentinel|cluster)")
_SENTINEL_PORT = 26379
_MOST_NODES = 64
EXPECTED = (
    "expected redis://host:port/db, rediss://host:port/db, unix:///path/to/socket, "
    "redis+sentinel://host:port,host:port/name/db or redis+cluster://host:port,host:port"
)


class Node(NamedTuple):
    """`path`: of a Unix socket, instead of host and port."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


class Login(NamedTuple):
    """How a server lets one in."""

    username: str | None = None
    password: str | None = None
    db: int = 0
    tls: bool = False
    authorities: str | None = None  # a file of certificates; None: the system's


class RedisAt(NamedTuple):
    """`master`: the name that Sentinels know it by. `sentinels`: how these let one in."""

    kind: Literal["server", "sentinel", "cluster"]
    nodes: tuple[Node, ...]
    login: Login
    master: str = ""
    sentinels: Login = Login()


def parse(url: str, password: str | None = None, sentinel_password: str | None = None) -> RedisAt:
    """Raises ValueError, which says what was expected."""
    scheme, separator, rest = url.partition("://")
    if not separator or not (scheme in _PLAIN or _SEVERAL.fullmatch(scheme)):
        raise ValueError(EXPECTED)
    if scheme in _PLAIN:
        options = _options(url)
        return RedisAt("server", (_node(options, 6379),), _login(options, password))
    transport, kind = scheme.split("+")
    return (_sentinel if kind == "sentinel" else _cluster)(transport, rest, password, sentinel_password)


def _sentinel(transport: str, rest: str, password: str | None, sentinel_password: str | None) -> RedisAt:
    place, name, db, query = _parts(rest, r"/(?P<name>[\w.-]+)(?:/(?P<db>\d+))?")
    if not name:
        raise ValueError("expected the name of the master too: redis+sentinel://host:port,host:port/name")
    options = [_options(f"{transport}://{one}/{db or 0}{query}") for one in place]
    login = _login(options[0], password)
    sentinels = Login(None, sentinel_password, 0, login.tls, login.authorities)
    return RedisAt("sentinel", tuple(_node(one, _SENTINEL_PORT) for one in options), login, name, sentinels)


def _cluster(transport: str, rest: str, password: str | None, _: str | None) -> RedisAt:
    place, _name, db, query = _parts(rest, r"/?(?P<name>)(?P<db>\d*)")
    if int(db or 0):
        raise ValueError(f"a Cluster has no database but 0; leave out /{db}")
    options = [_options(f"{transport}://{one}/{query}") for one in place]
    return RedisAt("cluster", tuple(_node(one, 6379) for one in options), _login(options[0], password))


def _parts(rest: str, path: str) -> tuple[list[str], str, str, str]:
    """Each host with whoever comes before the @, then name, database and query."""
    found = re.fullmatch(rf"(?P<who>[^/?]*@)?(?P<hosts>[^@/?]+)(?:{path})?(?P<query>\?.*)?", rest)
    if found is None:
        raise ValueError(EXPECTED)
    hosts = found["hosts"].split(",")
    if not all(hosts) or len(hosts) > _MOST_NODES:
        raise ValueError(f"expected 1 to {_MOST_NODES} hosts, separated by commas")
    return [(found["who"] or "") + host for host in hosts], found["name"] or "", found["db"] or "", found["query"] or ""


def _options(url: str) -> dict[str, Any]:
    try:
        return dict(parse_url(url))
    except ValueError as fault:
        raise ValueError(f"{EXPECTED} ({fault})") from None


def _node(options: dict[str, Any], port: int) -> Node:
    if "path" in options:
        return Node("", 0, options["path"])
    return Node(options.get("host", "localhost"), options.get("port", port))


def _login(options: dict[str, Any], password: str | None) -> Login:
    if password and options.get("password"):
        raise ValueError("redis_password: redis_url has a password too; expected it in one place")
    return Login(
        options.get("username"),
        password or options.get("password"),
        int(options.get("db") or 0),
        options.get("connection_class") is SSLConnection,
        options.get("ssl_ca_certs"),
    )
