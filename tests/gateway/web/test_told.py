"""The door's own sentences in Japanese, of which each has to be one that the door says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway import what_if
from gateway.alerts import _KINDS as ALERTS
from gateway.identity.claims import decide
from gateway.identity.records import Group
from gateway.quotas.what_if import _MINUTE, _REASONS
from gateway.settings import Issuer
from gateway.web.told import SENTENCES, placeholders, told

GATEWAY = Path(what_if.__file__).parent
# As they stand in the code: without what is put in, and where a literal is cut by a line's end.
SAID = re.sub(r'"\s*\n\s*f?"', "", "\n".join(p.read_text("utf-8") for p in GATEWAY.rglob("*.py") if p.stem != "told"))


def parts(template: str) -> list[str]:
    return [part for part in re.split(r"{\w+}", template) if len(part) > 3]


@pytest.mark.parametrize("english", SENTENCES)
def test_each_is_said_somewhere_and_has_the_same_values_in_both_languages(english: str) -> None:
    assert placeholders(english) == placeholders(SENTENCES[english])
    for part in parts(english):
        assert part in SAID, part


def test_whatever_alerts_and_what_if_say_is_there() -> None:
    alerts = [sentence for kind in ALERTS.values() for sentence in (kind.message, kind.todo)]
    for sentence in (*alerts, *what_if._NOTES, *_REASONS.values(), _MINUTE):
        assert sentence in SENTENCES, sentence


def test_why_somebody_has_a_role_is_told_in_japanese() -> None:
    issuer = Issuer(issuer="https://idp.example", client_id="c", group_roles={"ops": "admin"}, tenant="lab")
    known = {"it": Group(id="it", role="auditor", tenant="hq")}
    reasons = [
        *decide((), issuer, known).why,
        *decide(("it",), issuer, known).why,
        *decide(("ops",), issuer, known).why,
    ]
    for reason in reasons:
        assert told(reason, "en") == reason
        assert re.search(r"[ぁ-んァ-ヶ一-龠]", told(reason, "ja")), reason
    assert told(reasons[2], "ja") == "グループ 'it' が役割「監査者」を与えています（管理者の設定）"


def test_what_stands_in_a_sentence_is_not_a_pattern_and_names_stay_as_they_are() -> None:
    said = told("There is no backend '{evil} (.+) user'.", "ja")
    assert said == "バックエンド '{evil} (.+) user' は存在しません。"


@pytest.mark.parametrize("sentence", ["", "Something else.", "everyone", "x" * 100_000, "<img src=x>"])
def test_what_nobody_has_put_into_japanese_stays_english(sentence: str) -> None:
    assert told(sentence, "ja") == sentence
