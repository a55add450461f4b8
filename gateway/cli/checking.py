"""What settings name on this machine, looked at before anything is started: files, keys, folders. Asks no server."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gateway.cli.console import CliError
from gateway.cli.findings import Finding, fail, warn

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.settings.redis_url import RedisAt

_KEY_BYTES = 32


def examined(
    config: Path | None, environ: Mapping[str, str], **overrides: Any
) -> tuple[Settings | None, list[Finding]]:
    """The settings, None where these are none, and what is not well with them."""
    from gateway.settings import SettingsError, load

    try:
        settings = load(config, environ, **overrides)
    except SettingsError as error:
        return None, [Finding(fault.setting, "fail", fault.text, place=fault.place) for fault in error.faults]
    return settings, list(_examine(settings, config, environ))


def usable(config: Path | None, environ: Mapping[str, str], **overrides: Any) -> tuple[Settings, list[Finding]]:
    """The settings, and warnings. Raises CliError where a gateway could not start with them."""
    settings, findings = examined(config, environ, **overrides)
    faults = [str(finding) for finding in findings if finding.verdict == "fail"]
    if settings is None or faults:
        raise CliError("these settings cannot be used:\n  " + "\n  ".join(faults), exit_code=2)
    return settings, findings


def _examine(settings: Settings, config: Path | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _variables(environ),
        lambda: _readable_by_others(config, settings),
        lambda: _data_dir(settings.data_dir),
        lambda: _files_dir(settings),
        lambda: _engine_keys(settings),
        lambda: _redis(settings.redis),
        lambda: _certificates(environ),
        lambda: _tracing(settings.otlp_endpoint),
        lambda: _sign_in(settings),
    )
    for check in checks:
        yield from check()


def _variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Others' variables begin with SEKISHO_ too: only what is spelt nearly as one of ours is told."""
    from gateway.settings import Settings
    from gateway.settings.faults import near
    from gateway.settings.reading import ENV_PREFIX

    for variable in environ:
        name = variable.removeprefix(ENV_PREFIX).removesuffix("_FILE").lower()
        ours = variable.startswith(ENV_PREFIX) and name not in Settings.model_fields
        if ours and (meant := near(name, Settings.model_fields)):
            yield Finding(variable, "warn", "is not a setting", f"did you mean {ENV_PREFIX}{meant.upper()}?")


def _readable_by_others(config: Path | None, settings: Settings) -> Iterator[Finding]:
    if config is not None and _is_open(config) and _holds_secrets(settings):
        yield Finding(str(config), "warn", "holds secrets and can be read by others", f"chmod 600 {config}")


def _holds_secrets(settings: Settings) -> bool:
    """In the file: those of variables and flags are not meant."""
    from pydantic import SecretStr

    secrets = {name for name, value in settings if isinstance(value, SecretStr)}
    said = any(one.client_secret and not one.client_secret_file for one in settings.issuers)
    secrets |= {"issuers"} if said else set()
    secrets |= {"backends"} if any(backend.api_key for backend in settings.backends) else set()
    return any(settings.source(name) == "file" for name in secrets)


def _data_dir(folder: Path) -> Iterator[Finding]:
    key = folder / "server.key"
    try:
        length = len(key.read_bytes())
    except FileNotFoundError:
        if not _can_be_written(folder):
            yield fail("data_dir", f"{folder} has no server.key yet, and cannot be written", "mend its owner and mode")
        return
    except OSError as error:
        yield fail("data_dir", f"{key} cannot be read ({error.strerror})", "mend its owner and mode")
        return
    if length != _KEY_BYTES:
        yield fail("data_dir", f"{key} holds {length} bytes; expected {_KEY_BYTES}", "restore it")
    elif _is_open(key):
        yield warn("data_dir", f"{key} can be read by others", f"chmod 600 {key}")


def _files_dir(settings: Settings) -> Iterator[Finding]:
    folder = settings.files_dir or settings.data_dir / "files"
    if not _can_be_written(folder):
        yield warn("files_dir", f"{folder} cannot be written: nobody can store a file", "mend its mode")


def _engine_keys(settings: Settings) -> Iterator[Finding]:
    from gateway.routing.member import NoKey, key_of

    for engine in settings.engines:
        file = engine.api_key_file
        try:
            key_of(engine)
        except NoKey as fault:
            name, _, text = str(fault).partition(": ")
            yield Finding(name, "fail", text)
        else:
            if file is not None and _is_open(file):
                name = f"backends.{engine.name}.api_key_file"
                yield warn(name, f"{file} can be read by others", f"chmod 600 {file}")


def _redis(at: RedisAt) -> Iterator[Finding]:
    if at.login.authorities is not None:
        yield from _authority("redis_url", at.login.authorities, "fail")


def _certificates(environ: Mapping[str, str]) -> Iterator[Finding]:
    if file := environ.get("SSL_CERT_FILE"):
        yield from _authority("SSL_CERT_FILE", file, "warn")


def _authority(subject: str, file: str, verdict: Literal["warn", "fail"]) -> Iterator[Finding]:
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:  # ssl.SSLError is one
        yield Finding(subject, verdict, f"{file} cannot be used: {error.strerror or error}", "expected PEM")


def _tracing(endpoint: str | None) -> Iterator[Finding]:
    from backends.telemetry.otlp import NotInstalled, require

    try:
        require(endpoint)
    except NotInstalled as fault:
        yield Finding("otlp_endpoint", "fail", str(fault))


def _sign_in(settings: Settings) -> Iterator[Finding]:
    if settings.issuers and settings.public_url is None:
        remedy = "public_url: https://ai.example.com, as browsers reach the gateway"
        yield warn("public_url", "is missing: nobody can sign in with a browser", remedy)


def _is_open(file: Path) -> bool:
    return bool(file.stat().st_mode & 0o077)


def nearest_existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _can_be_written(folder: Path) -> bool:
    """It, or where it would be made."""
    nearest = nearest_existing(folder)
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
