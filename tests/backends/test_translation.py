"""Bodies on their way to an engine."""

from __future__ import annotations

import msgspec

from backends import translation


def test_numbers_and_text_stay_as_the_bytes_they_were() -> None:
    body = b'{"temperature":0.10,"seed":12345678901234567890,"stop":null,"messages":[{"content":"\\u00e4"}]}'
    told = msgspec.json.encode(translation.split(body))
    assert told == body.replace(b'"stop":null,', b"")


def test_going_on_with_a_message_begins_no_new_one() -> None:
    asked = translation.split(b'{"continue_final_message":true,"add_generation_prompt":null}')
    assert asked["add_generation_prompt"] is False
    assert "add_generation_prompt" not in translation.split(b'{"continue_final_message":false}')


def test_people_go_before_programs_and_those_before_batches() -> None:
    ranks = [translation.rank({"x-sekisho-class": name}) for name in ("interactive", "api", "batch")]
    assert ranks == sorted(set(ranks))
    assert translation.rank({}) == translation.rank({"x-sekisho-class": "root"}) == ranks[1]


def test_a_salt_tells_tenants_apart_and_names_none() -> None:
    salts = [translation.salt({"x-sekisho-cache-salt": name})["cache_salt"] for name in ("acme", "acme", "a" * 5000)]
    assert salts[0] == salts[1] != salts[2]
    assert all(len(salt) == 64 for salt in salts)
    assert translation.salt({}) == {}


def test_no_attempt_has_the_id_of_another() -> None:
    ids = {translation.attempt_id({"x-request-id": "r"}) for _ in range(100)}
    assert len(ids) == 100
    assert len({len(one) for one in ids}) == 1
