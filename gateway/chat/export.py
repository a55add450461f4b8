"""A conversation as a file: all of it as JSON, the branch that is shown as Markdown. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from gateway.chat.records import Conversation, Message
from gateway.chat.tree import branch


def as_json(conversation: Conversation) -> bytes:
    return msgspec.json.format(msgspec.json.encode(conversation), indent=2)


def as_markdown(conversation: Conversation) -> bytes:
    """What was written stands there as it was written; only the headings are ours."""
    head = [f"# {conversation.title or 'Conversation'}", _moment(conversation.created)]
    head += [f"## System\n\n{conversation.system}"] if conversation.system else []
    said = [_said(message) for message in branch(conversation.messages, conversation.head)]
    return ("\n\n".join([*head, *said]) + "\n").encode()


def _said(message: Message) -> str:
    who = "User" if message.role == "user" else f"Assistant ({message.model})"
    cut = "" if message.state in ("done", "running") else f"\n\n*({message.state})*"
    return f"## {who}\n\n{message.content}{cut}"


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
