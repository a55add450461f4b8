"""What claims make of a person: groups by path, hostile ones, overage, and the role with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import Forbidden, Unauthenticated
from gateway.identity.claims import GroupsOverage, decide, groups_of, text
from gateway.identity.records import Group
from gateway.settings import Issuer


def _issuer(**changes: Any) -> Issuer:
    return Issuer(**{"issuer": "https://login.example.com", "client_id": "sekisho"} | changes)


@pytest.mark.parametrize(
    ("claims", "path", "groups"),
    [
        ({"groups": ["b", "a", "b"]}, "groups", ("a", "b")),
        ({"groups": []}, "groups", ()),
        ({"groups": "only"}, "groups", ("only",)),
        ({"realm_access": {"roles": ["admin"]}}, "realm_access.roles", ("admin",)),
        ({"resource_access": {"sekisho": {"roles": ["x"]}}}, "resource_access.sekisho.roles", ("x",)),
        ({"https://example.com/groups": ["営業部"]}, "https://example.com/groups", ("営業部",)),
        ({}, "groups", None),
        ({"groups": None}, "groups", None),
        ({"realm_access": {}}, "realm_access.roles", None),
        ({"realm_access": None}, "realm_access.roles", None),
        ({"groups": ["kept apart"], "roles": ["x"]}, "roles", ("x",)),
    ],
)
def test_groups_are_found_by_their_path(claims: Any, path: str, groups: tuple[str, ...] | None) -> None:
    assert groups_of(claims, path) == groups


@pytest.mark.parametrize(
    "value",
    [
        {"admin": True},
        7,
        True,
        "",
        "admin\n",
        "admin\0",
        "\u202eadmin",
        "x" * 257,
        [""],
        ["sales", 7],
        ["sales", None],
        [["admin"]],
        [{"name": "admin"}],
        ["sales\r\nadmin"],
    ],
)
def test_hostile_groups_are_refused_and_never_half_taken(value: Any) -> None:
    with pytest.raises(Unauthenticated, match="no list of names"):
        groups_of({"groups": value}, "groups")


@pytest.mark.parametrize("value", [["roles"], "roles", 7])
def test_path_through_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(Unauthenticated):
        groups_of({"realm_access": value}, "realm_access.roles")


def test_ten_thousand_groups_are_too_many() -> None:
    names = [f"group-{number}" for number in range(10_000)]
    with pytest.raises(Forbidden, match="10000 groups") as caught:
        groups_of({"groups": names}, "groups")
    assert caught.value.code == "too_many_groups"
    assert len(groups_of({"groups": names[:1000]}, "groups") or ()) == 1000


@pytest.mark.parametrize(
    "claims",
    [
        {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph.example.com"}}},
        {"hasgroups": True},
        {"hasgroups": "true"},
    ],
)
def test_overage_is_never_taken_for_no_groups(claims: Any) -> None:
    with pytest.raises(GroupsOverage, match="groups_claim: roles") as caught:
        groups_of(claims, "groups")
    assert caught.value.code == "groups_overage"


def test_overage_of_groups_says_nothing_of_roles_and_nothing_where_groups_are_there() -> None:
    pointers = {"_claim_names": {"groups": "src1"}, "hasgroups": True}
    assert groups_of(pointers | {"roles": ["a"]}, "roles") == ("a",)
    assert groups_of(pointers, "roles") is None
    assert groups_of({"_claim_names": "groups", "groups": ["a"]}, "groups") == ("a",)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["roles", "groups", "a"]), inner),
    max_leaves=8,
)
claim_names = st.sampled_from(["groups", "realm_access", "hasgroups", "_claim_names", "name"])


# The first text of a fresh machine takes Hypothesis seconds.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(claim_names, json_values))
def test_whatever_the_claims_are_the_end_is_names_or_a_refusal(claims: dict[str, Any]) -> None:
    for path in ("groups", "realm_access.roles"):
        try:
            found = groups_of(claims, path)
        except (Unauthenticated, Forbidden):
            continue
        assert found is None or all(isinstance(name, str) and name.isprintable() for name in found)
    assert text(claims, "name", "groups").isprintable()


def test_highest_role_of_all_groups_counts_and_says_why() -> None:
    issuer = _issuer(group_roles={"audit": "auditor", "ops": "admin"})
    known = {"bots": Group(id="bots", role="service"), "audit": Group(id="audit", role="user")}
    assert decide(("bots",), issuer, known).role == "service"
    assert decide(("audit", "bots"), issuer, known).role == "auditor"
    decision = decide(("audit", "bots", "ops"), issuer, known)
    assert decision.role == "admin"
    assert decision.why[0] == "the group 'ops' gives the role admin (group_roles in the settings)"
    by_admin = decide(("ops",), _issuer(), {"ops": Group(id="ops", role="admin")})
    assert by_admin.why[0] == "the group 'ops' gives the role admin (as an administrator has set it)"


def test_without_a_group_that_gives_one_the_role_is_user_and_the_tenant_the_provider_s() -> None:
    decision = decide(("sales",), _issuer(tenant="tokyo", group_roles={"Sales": "admin"}), {"sales": Group(id="sales")})
    assert (decision.role, decision.tenant, decision.groups) == ("user", "tokyo", ("sales",))
    assert decision.why == (
        "no group gives a role, so it is user",
        "no group names a tenant, so it is the provider's: tokyo",
    )


def test_first_group_with_a_tenant_gives_it() -> None:
    known = {"b": Group(id="b", tenant="bonds"), "c": Group(id="c", tenant="cash")}
    decision = decide(("a", "b", "c"), _issuer(), known)
    assert (decision.tenant, decision.why[1]) == ("bonds", "the group 'b' belongs to the tenant bonds")


def test_names_are_shown_without_what_could_not_be_printed() -> None:
    assert text({"name": "花\u202e子\n"}, "name") == "花子"
    assert text({"name": ["x"], "preferred_username": "hanako"}, "name", "preferred_username") == "hanako"
    assert text({"name": " "}, "name") == ""
    assert len(text({"name": "x" * 10_000}, "name")) == 256
