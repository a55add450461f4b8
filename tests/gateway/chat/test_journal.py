"""What readers of an answer are told, in Redis: each event once, whatever is sent again."""

from __future__ import annotations

from gateway.chat.events import Event, event
from gateway.chat.journal import Journal, Written, written
from gateway.chat.records import new_message_id
from gateway.store.redis import Store
from gateway.store.sealing import Sealer

LIFE = 60.0


def some(*numbers: int) -> list[Event]:
    return [event("delta", text=str(number)) for number in numbers]


async def test_what_is_sent_again_is_told_once_and_nothing_is_left_out(store: Store) -> None:
    journal, answer_id = Journal(store, Sealer(b"k" * 32, "test"), 30.0), new_message_id()
    for _ in range(2):
        assert await journal.open(answer_id, "one", "usr_a", "", LIFE)
    assert not await journal.open(answer_id, "other", "usr_a", "", LIFE)

    async def write(writer: str, first: int, *numbers: int) -> Written:
        call = journal.writing(answer_id, writer, first, some(*numbers), read_here=False, life_seconds=LIFE, last=False)
        return written(await store.run(call))

    assert (await write("one", 1, 1, 2)).there == 2
    assert (await write("one", 1, 1, 2)).there == 2
    assert (await write("one", 2, 2, 3)).there == 3
    assert (await write("one", 5, 5)).there == 3
    assert (await write("other", 4, 4)).there == -1
    part = await journal.read("usr_a", answer_id, 1)
    assert (part.alive, part.ended, part.events) == (True, False, some(1, 2, 3))
    assert (await journal.read("usr_a", answer_id, 3)).events == some(3)
    assert (await journal.read("usr_a", answer_id, 9)).events == []
