"""The administrative commands, in process, on a real Valkey: the same acts and refusals as the admin API."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import get_args

import pytest

from gateway.identity.administration.office import Office
from gateway.identity.records import Group, User, user_id
from gateway.identity.sessions import Arrival
from gateway.scope import Endpoint
from gateway.settings import KEY_PATTERN
from tests.gateway_cli.conftest import Terminal

SOMEONE = User(id=user_id("https://id.example", "s"), issuer="https://id.example", subject="s", name="Someone")


@pytest.fixture
def someone(terminal: Terminal) -> User:
    terminal.does(lambda office: office.directory.create(None, SOMEONE))
    return SOMEONE


def test_a_new_key_is_all_that_is_printed(terminal: Terminal) -> None:
    printed = terminal.tells("keys", "create", "a script")
    assert re.match(KEY_PATTERN, printed.strip())
    assert printed.count("\n") == 1
    (key,) = terminal.json("keys", "list")["data"]
    assert key["owner"] == "service_account:a-script"
    assert set(key["endpoints"]) == set(get_args(Endpoint)) - {"metrics", "admin"}
    assert (key["expires"], key["allowed_ips"], key["models"]) == (None, [], None)
    assert printed.strip() not in terminal.tells("keys", "list") + terminal.tells("audit", "list", "--json")


def test_two_keys_of_one_name_belong_to_one_program(terminal: Terminal) -> None:
    for _ in range(2):
        terminal.tells("keys", "create", "検索 bot")
    (account,) = terminal.json("service-accounts", "list")["data"]
    assert account["name"] == "検索 bot"
    assert len(terminal.json("keys", "list", "--owner", f"service_account:{account['id']}")["data"]) == 2


def test_a_keys_limits_are_taken(terminal: Terminal) -> None:
    limits = ("--models", "llama*,qwen", "--models", "phi", "--endpoints", "chat", "--expires", "90d")
    more = ("--allow-ip", "10.0.0.0/8,::1", "--on-behalf-of", "--forwards-users", "--class", "batch")
    made = terminal.json("keys", "create", "rag", *limits, *more)
    assert re.match(KEY_PATTERN, made["key"])
    shown = terminal.json("keys", "show", made["id"])
    assert shown["models"] == ["llama*", "qwen", "phi"]
    assert shown["endpoints"] == ["chat"]
    assert shown["allowed_ips"] == ["10.0.0.0/8", "::1"]
    assert shown["expires"] == pytest.approx(time.time() + 90 * 86_400, abs=60)
    assert shown["on_behalf_of"] is shown["forwards_users"] is True
    assert shown["queue_class"] == "batch"


def test_an_admins_key_is_one_of_an_admin_without_limits(terminal: Terminal) -> None:
    made = terminal.json("keys", "create", "ops", "--admin")
    assert made["endpoints"] is None
    assert terminal.json("service-accounts", "list")["data"][0]["role"] == "admin"
    terminal.tells("keys", "create", "plain")
    assert "--owner service_account:plain" in terminal.refuses("keys", "create", "plain", "--admin")
    assert terminal.json("keys", "create", "more", "--admin", "--owner", "service_account:plain")["endpoints"] is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--expires", "soon"), "--expires"),
        (("--expires", "2001-01-01"), "still to come"),
        (("--expires", "999999w"), "expires"),
        (("--allow-ip", "10.0.0.1/8"), "allowed_ips"),
        (("--endpoints", "everything"), "endpoints"),
        (("--owner", "nobody"), "owner"),
        (("--class", "first"), "queue_class"),
        (("--owner", "user:nobody"), "user:nobody"),
        (("--admin", "--endpoints", "chat"), "contradict"),
    ],
)
def test_a_key_that_cannot_be_is_refused(terminal: Terminal, arguments: tuple[str, ...], told: str) -> None:
    assert told in terminal.refuses("keys", "create", "x", *arguments)
    assert terminal.json("keys", "list")["data"] == []


def test_a_hostile_name_is_refused_before_anything_is_made(terminal: Terminal) -> None:
    assert "name" in terminal.refuses("keys", "create", "a\x1b[31m")
    assert terminal.json("service-accounts", "list")["data"] == []


def test_a_key_is_rotated_and_revoked(terminal: Terminal) -> None:
    made = terminal.json("keys", "create", "x")
    printed = terminal.tells("keys", "rotate", made["id"], "--overlap-seconds", "60").strip()
    assert printed.startswith(f"sk-skh-{made['id']}-")
    assert printed != made["key"]
    assert terminal.json("keys", "show", made["id"])["previous_until"] == pytest.approx(time.time() + 60, abs=30)
    assert "overlap_seconds" in terminal.refuses("keys", "rotate", made["id"], "--overlap-seconds", "-1")
    assert made["id"] in terminal.tells("keys", "revoke", made["id"])
    assert "no key" in terminal.refuses("keys", "revoke", made["id"])


def test_a_person_is_shown_with_the_role_and_why(terminal: Terminal, someone: User) -> None:
    terminal.tells("users", "set", someone.id, "--role", "auditor", "--groups", "a,b")
    shown = terminal.tells("users", "show", someone.id)
    assert "an admin has set the role auditor" in shown
    assert "decided" in shown
    assert "auditor" in terminal.tells("users", "list", "--search", "some")
    assert terminal.json("users", "list", "--search", "else")["data"] == []


def test_a_person_is_made_before_the_first_sign_in(terminal: Terminal) -> None:
    more = ("--name", "Hanako", "--role", "auditor", "--groups", "a,b")
    made = terminal.json("users", "create", "https://idp.example", "hanako", *more)
    assert (made["name"], made["role"], made["groups"]) == ("Hanako", "auditor", ["a", "b"])
    assert terminal.json("users", "show", made["id"]) == made
    assert "already" in terminal.refuses("users", "create", "https://idp.example", "hanako")
    terminal.tells("users", "disable", made["id"])
    assert [one["id"] for one in terminal.json("users", "list", "--state", "disabled")["data"]] == [made["id"]]


def test_what_was_set_is_left_to_sign_in_again(terminal: Terminal, someone: User) -> None:
    terminal.tells("users", "set", someone.id, "--role", "admin", "--tenant", "lab", "--groups", "")
    shown = terminal.json("users", "show", someone.id)
    assert (shown["role"], shown["tenant"], shown["set_groups"]) == ("admin", "lab", [])
    shown = terminal.json("users", "set", someone.id, "--reset", "role", "--reset", "groups", "--name", "New")
    assert (shown["role"], shown["set_groups"], shown["tenant"], shown["name"]) == ("user", None, "lab", "New")
    assert "nothing to set" in terminal.refuses("users", "set", someone.id)
    assert "contradict" in terminal.refuses("users", "set", someone.id, "--role", "user", "--reset", "role")
    assert "tenant" in terminal.refuses("users", "set", someone.id, "--tenant", "a b")


def test_a_person_is_disabled_enabled_and_deleted(terminal: Terminal, someone: User) -> None:
    assert terminal.json("users", "disable", someone.id)["disabled"] is True
    assert terminal.json("users", "enable", someone.id)["disabled"] is False
    terminal.tells("users", "delete", someone.id)
    assert "no user" in terminal.refuses("users", "show", someone.id)


def test_sessions_are_listed_and_ended(terminal: Terminal, someone: User) -> None:
    async def begin(office: Office) -> list[str]:
        arrival = Arrival(someone.id, someone.issuer, "10.0.0.1", "Firefox")
        return [(await office.sessions.begin(arrival))[1].id for _ in range(3)]

    first, *_ = terminal.does(begin)
    assert first in terminal.tells("sessions", "list")
    assert len(terminal.json("users", "sessions", someone.id)["data"]) == 3
    terminal.tells("sessions", "end", first)
    assert "no session" in terminal.refuses("sessions", "end", first)
    assert terminal.json("users", "sign-out", someone.id)["ended"] == 2
    assert terminal.json("sessions", "list")["data"] == []


def test_groups_say_what_they_give(terminal: Terminal) -> None:
    terminal.tells("groups", "set", "/eng/ai", "--role", "auditor", "--tenant", "lab")
    (group,) = terminal.json("groups", "list")["data"]
    assert (group["id"], group["role"], group["tenant"]) == ("/eng/ai", "auditor", "lab")
    terminal.tells("groups", "delete", "/eng/ai")
    assert "no group" in terminal.refuses("groups", "delete", "/eng/ai")


def test_programs_are_made_disabled_and_deleted(terminal: Terminal) -> None:
    made = terminal.json("service-accounts", "create", "The RAG", "--groups", "a,b", "--tenant", "lab")
    assert (made["id"], made["groups"], made["created_by"]) == ("the-rag", ["a", "b"], "cli")
    assert "already" in terminal.refuses("service-accounts", "create", "Else", "--id", "the-rag")
    assert terminal.json("service-accounts", "disable", "the-rag")["disabled"] is True
    assert terminal.json("service-accounts", "enable", "the-rag")["disabled"] is False
    terminal.tells("keys", "create", "k", "--owner", "service_account:the-rag")
    terminal.tells("service-accounts", "delete", "the-rag")
    assert terminal.json("keys", "list")["data"] == []


def test_the_trail_tells_who_ran_the_command(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "hanako")
    monkeypatch.setattr("socket.gethostname", lambda: "gateway-1")
    terminal.tells("groups", "set", "g", "--role", "user")
    (line,) = terminal.json("audit", "list", "--target", "group:g")["data"]
    assert line["actor"] == {"subject": "cli", "name": "hanako", "via": "cli", "address": "gateway-1"}
    assert (line["action"], line["before"], line["after"]["role"]) == ("group.create", None, "user")
    assert "hanako" in terminal.tells("audit", "list", "--action", "group.create", "--actor", "cli")


def test_a_long_list_says_that_there_is_more(terminal: Terminal) -> None:
    async def fill(office: Office) -> None:
        for number in range(1005):
            await office.directory.create(None, Group(id=f"g{number:04}"))

    terminal.does(fill)
    assert len(terminal.json("groups", "list", "--limit", "2000")["data"]) == 1005
    result = terminal.run("groups", "list", "--limit", "3")
    assert "There are more" in result.stderr
    assert "g0003" not in result.stdout


def test_what_a_provider_calls_people_neither_colours_nor_moves_anything(terminal: Terminal) -> None:
    hostile = User(id="usr_x", issuer="i", subject="s", name="[red]x[/red]\x1b[2J\u202e", email="[/]")
    terminal.does(lambda office: office.directory.create(None, hostile))
    shown = terminal.tells("users", "list") + terminal.tells("users", "show", "usr_x")
    assert "[red]x[/red]?[2J?" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_an_id_stays_whole_in_a_narrow_table(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, someone: User
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = terminal.json("keys", "create", "a name that is much too long for a narrow table " * 3)
    assert made["id"] in terminal.tells("keys", "list")
    assert someone.id in terminal.tells("users", "list")


@pytest.mark.parametrize("command", ["users", "groups", "service-accounts", "sessions", "keys"])
def test_unknown_ids_are_told_as_one_line(terminal: Terminal, command: str) -> None:
    act = {"sessions": "end", "keys": "revoke"}.get(command, "delete")
    assert "There is no" in terminal.refuses(command, act, "nobody")


def test_no_key_is_made_with_another_server_key_than_the_gateways(terminal: Terminal, tmp_path: Path) -> None:
    terminal.tells("keys", "create", "first")
    stranger = Terminal(terminal.url, tmp_path / "another")
    assert "server.key is not the key" in stranger.refuses("keys", "create", "second")
    assert len(terminal.json("keys", "list")["data"]) == 1
