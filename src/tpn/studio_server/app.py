"""The routes of the studio's server."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tpn.errors import TPNError
from tpn.studio_server.security import Guard
from tpn.studio_server.workspace import Workspace
from tpn.text import as_text

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
PAGE = files("tpn.studio_server") / "page"
BINARY = "application/octet-stream"


def make_app(workspace: Workspace, token: str, host: str, port: int) -> Guard:
    """Return the server of a workspace, guarded."""
    api = Api(workspace)
    routes = [
        Route("/", page("index.html")),
        Route("/page/{name}", static),
        Route("/api/state", api.state),
        Route("/api/names", api.names),
        Route("/api/arrays", api.arrays),
        Route("/api/next", api.next),
        Route("/api/groups", api.groups),
        Route("/api/map", api.map),
        Route("/api/images/{number:int}", api.image),
        Route("/api/events", api.events),
        Route("/api/act", api.act, methods=["POST"]),
        Route("/api/export", api.export, methods=["POST"]),
        Route("/api/import", api.take, methods=["POST"]),
        Route("/thumbnails/{number:int}", api.thumbnail),
        Route("/previews/{number:int}", api.preview),
    ]
    return Guard(Starlette(routes=routes), token, host, port)


def page(name: str) -> Callable[[Request], Response]:
    """Return an endpoint that serves a file of the page."""
    return lambda request: _file(name)


def static(request: Request) -> Response:
    """Serve a file of the page by its name."""
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    known = {one.name: one for one in PAGE.iterdir() if one.is_file()}
    kind = KINDS.get(name[name.rfind(".") :])
    if name not in known or kind is None:
        return Response("There is no such file.\n", 404)
    return Response(known[name].read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"})


class Api:
    """Answers of the server, as JSON or arrays of numbers."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def state(self, request: Request) -> Response:
        return JSONResponse(self.workspace.state())

    def names(self, request: Request) -> Response:
        return JSONResponse([as_text(name) for name in self.workspace.images.names])

    def arrays(self, request: Request) -> Response:
        have = request.query_params.get("have", "")
        return Response(self.workspace.arrays(int(have) if have.isdecimal() else -1), media_type=BINARY)

    def next(self, request: Request) -> Response:
        return JSONResponse([int(place) for place in self.workspace.worker.suggested])

    def groups(self, request: Request) -> Response:
        return Response(self.workspace.worker.groups.astype("<i4").tobytes(), media_type=BINARY)

    def map(self, request: Request) -> Response:
        places = self.workspace.worker.map
        empty = np.zeros(0, "<f4")
        return Response((empty if places is None else places.astype("<f4")).tobytes(), media_type=BINARY)

    def image(self, request: Request) -> Response:
        number = self._number(request)
        return _missing() if number is None else JSONResponse(self.workspace.detail(number))

    def thumbnail(self, request: Request) -> Response:
        return self._image_response(request, self.workspace.thumbnails.small)

    def preview(self, request: Request) -> Response:
        return self._image_response(request, self.workspace.thumbnails.large)

    def _image_response(self, request: Request, make: Callable[..., bytes | None]) -> Response:
        number = self._number(request)
        images = self.workspace.images
        made = make(images.path / images.names[number]) if number is not None else None
        self.workspace.screen.served()
        if made is None:
            return _missing()
        return Response(made, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})

    def _number(self, request: Request) -> int | None:
        number = int(request.path_params["number"])
        return number if number < len(self.workspace.images.names) else None

    async def events(self, request: Request) -> Response:
        first = {"kind": "hello", **self.workspace.progress()}
        return StreamingResponse(self.workspace.events.stream(first), media_type="text/event-stream")

    async def act(self, request: Request) -> Response:
        return await self._write(request, lambda body: {"revision": self.workspace.act(body)})

    async def export(self, request: Request) -> Response:
        def write(body: Any) -> dict[str, Any]:
            least = _field(body, "min_confidence", float, 0.0)
            if not 0 <= least <= 1:
                raise TPNError("min_confidence must be from 0 to 1.")
            text = f"{_field(body, 'format', str)}:{_field(body, 'path', str)}"
            return self.workspace.export(text, least, _field(body, "force", bool, False))

        return await self._write(request, write)

    async def take(self, request: Request) -> Response:
        return await self._write(
            request, lambda body: self.workspace.take_list(_field(body, "name", str), _field(body, "text", str))
        )

    async def _write(self, request: Request, write: Callable[[Any], dict[str, Any]]) -> Response:
        try:
            body = await request.json()
        except (ValueError, RecursionError):
            return JSONResponse({"error": "The request is not JSON."}, 400)
        try:
            return JSONResponse(await run_in_threadpool(write, body))
        except TPNError as failure:
            return JSONResponse({"error": failure.command_line_text}, 422)


def _field(body: Any, name: str, kind: type, default: Any = None) -> Any:
    value = body.get(name, default) if isinstance(body, dict) else None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind):
        raise TPNError(f"The request needs {name}.")
    return value


def _missing() -> Response:
    return Response("There is no such picture (any more).\n", 404, media_type="text/plain")
