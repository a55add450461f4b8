"""Orders about engines are followed as they were given."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.routing.placing import Placed, Placing
from gateway.store.record import Record
from gateway.store.sealing import Sealer


async def test_what_was_read_first_does_not_stand_over_what_was_read_later() -> None:
    older, newer = Placed(id="a", weight=2.0), Placed(id="a", weight=3.0)
    to_read, looked_at = [[older], [newer]], asyncio.Event()

    class Directory:
        async def page(self, kind: type[Record], limit: int) -> list[Placed]:
            return to_read.pop(0) if kind is Placed else []

    class Fleet:
        async def apply(self, *wanted: Any) -> None:
            if len(to_read) == 1:  # an engine that is slow to be looked at
                await looked_at.wait()

    placing = Placing(cast(Any, Directory()), cast(Any, Fleet()), Sealer(b"key", "tests"), (), {})
    looks = [asyncio.create_task(placing.look()) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    looked_at.set()
    await asyncio.gather(*looks)
    assert placing.orders == {"a": newer}
