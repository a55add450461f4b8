"""The parts of the chat, put together."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.chat.answers import Answers
from gateway.chat.book import Book, Limits
from gateway.chat.forgetting import Forgetting
from gateway.chat.journal import Journal
from gateway.chat.running import Means, Serve
from gateway.chat.templates import Templates
from gateway.settings import Settings
from gateway.store.redis import Store
from gateway.store.sealing import Sealer


@dataclass(frozen=True, slots=True)
class Chat:
    book: Book
    answers: Answers
    forgetting: Forgetting
    templates: Templates


def chat(settings: Settings, store: Store, server_key: bytes, serve: Serve) -> Chat:
    sealer = Sealer(server_key, "conversations")
    kept_seconds = settings.chat_retention_days * 86_400
    limits = Limits(
        settings.chat_max_conversations,
        settings.chat_max_messages,
        settings.chat_max_conversation_bytes,
        settings.chat_max_person_bytes,
        kept_seconds,
    )
    book, journal = Book(store, sealer, limits), Journal(store, sealer, settings.lease_seconds)
    means = Means(store, book, journal, serve, settings.chat_unread_minutes * 60, kept_seconds)
    return Chat(book, Answers(means), Forgetting(store), Templates(store, sealer))
