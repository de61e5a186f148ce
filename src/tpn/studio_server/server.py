"""Running the studio: the server in a thread, the address, the browser."""

import secrets
import socket
import threading
import time
import webbrowser
from typing import Any

import uvicorn

from tpn.errors import TPNError
from tpn.studio_server.app import make_app
from tpn.studio_server.workspace import Workspace

ANY = ("0.0.0.0", "::", "")


class Studio:
    """A folder that is open in the studio. `url` is the address of its page; `close` ends it.

    It can be used in a `with` block. Labels are in the folder's session, also if the process is killed.
    """

    def __init__(self, workspace: Workspace, host: str, port: int) -> None:
        self._workspace = workspace
        self.host = host
        try:
            self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as failure:
            raise TPNError(f"Cannot listen on {host}, port {port}: {failure.strerror or failure}.") from failure
        self.port = int(self._socket.getsockname()[1])
        self._token = secrets.token_urlsafe(24)
        app: Any = make_app(workspace, self._token, host, self.port)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, server_header=False, timeout_graceful_shutdown=1, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="studio", daemon=True
        )
        self._closed = False

    @property
    def url(self) -> str:
        """The address of the page, with the token that it needs."""
        host = "127.0.0.1" if self.host in ANY else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/?token={self._token}"

    def start(self) -> None:
        """Begin to serve; returns when the page can be opened."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def open_browser(self) -> bool:
        """Open the page in the browser; returns whether there is one."""
        return webbrowser.open(self.url)

    def wait(self) -> None:
        """Wait until the studio is closed."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End the server; everything that was acknowledged is on disk already."""
        if self._closed:
            return
        self._closed = True
        self._workspace.events.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(10)
        self._workspace.close()
        self._socket.close()

    def __enter__(self) -> "Studio":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Studio({self.url!r})"
