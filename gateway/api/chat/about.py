"""/chat/v1/settings: what there is to choose from, and what the chat keeps."""

from __future__ import annotations

from typing import Any

from backends.base import ModelCard
from gateway.api.chat.asker import person, send
from gateway.api.door import Door
from gateway.scope import RequestScope


async def settings(door: Door, request: RequestScope) -> None:
    person(request)
    cards = [card for card in door.fleet.models() if card.task != "embed"]
    models = [_model(door, card) for card in cards if await door.pipeline.may_use(request, card.id)]
    told = door.settings
    shown = {
        "storage": told.chat_storage,
        "retention_days": told.chat_retention_days,
        "unread_minutes": told.chat_unread_minutes,
        "max_message_bytes": told.chat_max_message_bytes,
        "notice": told.chat_notice,
        "models": models,
    }
    await send(request, shown)


def _model(door: Door, card: ModelCard) -> dict[str, Any]:
    """An alias is described as itself, or else as the model that it stands for."""
    model = door.fleet.resolve(card.id)
    serving = [member.settings for member in door.fleet.serving(model)]
    described = [one.descriptions[name] for name in (card.id, model) for one in serving if name in one.descriptions]
    return {
        "id": card.id,
        "description": described[0] if described else "",
        "context": card.context_length,
        "vision": any(one.images for one in serving),
    }
