"""Events for open pages: what has changed, not how; a page asks for the rest itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

HEARTBEAT = 15.0


class Events:
    """Passes events from any thread to all pages that listen."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def send(self, **event: Any) -> None:
        """Tell all pages; can be called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, event)

    def close(self) -> None:
        """End all streams."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, None)

    def _deliver(self, event: dict[str, Any] | None) -> None:
        for queue in self._listeners:
            queue.put_nowait(event)

    async def stream(self, first: dict[str, Any]) -> AsyncIterator[bytes]:
        """Yield events as server-sent events, until the page is closed."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            yield _as_text(first)
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except asyncio.TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is None:
                    return
                yield _as_text(event)
        finally:
            self._listeners.discard(queue)


def _as_text(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()
