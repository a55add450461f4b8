"""Settings: order of sources, all faults at once, secrets hidden, every one explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import Settings, SettingsError, load


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    file = tmp_path / "sekisho.yaml"
    file.write_text("port: 9000\nmax_queue: 7\n")
    settings = load(file, {"SEKISHO_PORT": "9001", "SEKISHO_UNKNOWN": "x", "PORT": "1"})
    assert (settings.port, settings.max_queue, settings.max_concurrency) == (9001, 7, 64)


def test_the_command_line_wins_over_all(tmp_path: Path) -> None:
    assert load(None, {"SEKISHO_PORT": "9001"}, port=9002, host=None).port == 9002


def test_all_faults_are_told_at_once_with_name_value_and_what_was_expected() -> None:
    environ = {
        "SEKISHO_PORT": "70000",
        "SEKISHO_MAX_QUEUE": "many",
        "SEKISHO_REDIS_URL": "localhost",
        "SEKISHO_ENGINE_KIND": "magic",
        "SEKISHO_ALLOWED_FIELDS": "top_a,priority",
    }
    with pytest.raises(SettingsError) as caught:
        load(None, environ)
    faults = str(caught.value)
    assert len(caught.value.faults) == 5
    for part in (
        "port: '70000'",
        "65535",
        "max_queue: 'many'",
        "redis_url: 'localhost'",
        "redis://",
        "magic",
        "priority",
    ):
        assert part in faults


def test_a_bad_secret_is_not_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {"SEKISHO_BOOTSTRAP_KEY": "hunter2hunter2"})
    assert "hunter2" not in str(caught.value)
    assert "sk-skh-<id>-<secret>" in str(caught.value)


def test_a_good_secret_is_not_shown_either() -> None:
    settings = load(None, {"SEKISHO_BOOTSTRAP_KEY": "sk-skh-a-0123456789abcdef"})
    assert "0123456789abcdef" not in repr(settings)


@pytest.mark.parametrize("text", ["- a\n- b\n", "port: [", "1: 2\n", "port: 1\nprot: 2\n"])
def test_a_bad_file_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "sekisho.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        load(file)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "none.yaml")


def test_an_empty_file_means_defaults(tmp_path: Path) -> None:
    file = tmp_path / "sekisho.yaml"
    file.write_text("# nothing\n")
    assert load(file) == Settings()


def test_lists_are_read_from_the_environment() -> None:
    assert load(None, {"SEKISHO_ALLOWED_FIELDS": "top_a, mirostat"}).allowed_fields == {"top_a", "mirostat"}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_explained(name: str) -> None:
    assert Settings.model_fields[name].description


ISSUER = {"issuer": "https://idp.example", "client_id": "sekisho"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "ai.example.com", ""])
def test_without_a_provider_only_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(host=host)
    assert len(caught.value.faults) == 1
    for part in (f"host: {host!r}", "issuers", "local_sign_in: false", "127.0.0.1"):
        assert part in str(caught.value)
    assert load(host=host, local_sign_in=False).host == host
    assert load(host=host, issuers=[ISSUER]).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_needs_no_provider(host: str) -> None:
    assert load(host=host).signs_in_locally


@pytest.mark.parametrize("url", ["http://ai.example.com", "https://ai.example.com/x", "ftp://localhost", "localhost"])
def test_browsers_are_met_over_tls_or_on_this_machine(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(public_url=url)
    assert "public_url" in str(caught.value)


def test_a_providers_secret_comes_out_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "oidc_client_secret"
    file.write_text("between us\n")
    (issuer,) = load(issuers=[ISSUER | {"client_secret_file": str(file)}]).issuers
    assert issuer.client_secret is not None
    assert issuer.client_secret.get_secret_value() == "between us"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"client_secret_file": "/nowhere/secret"}, "'/nowhere/secret' cannot be read"),
        ({"client_secret_file": "/dev/null"}, "'/dev/null' is empty"),
        (
            {"client_secret_file": "/dev/null", "client_secret": "hunter2"},
            "one of client_secret and client_secret_file",
        ),
    ],
)
def test_a_bad_file_of_a_providers_secret_is_told_without_the_secret(given: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(issuers=[ISSUER | given])
    (fault,) = caught.value.faults
    assert fault.setting == "issuers.0"
    assert told in fault.text
    assert "hunter2" not in str(caught.value)


def test_a_password_in_a_bad_address_is_not_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        load(redis_url="redis:/sekisho:hunter2@valkey:6379")
    assert "hunter2" not in str(caught.value)
    assert "@valkey:6379" in str(caught.value)
