"""What a local server must refuse: other hosts, other origins, requests without the token of its address."""

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 64 * 2**20
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
ENTER = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">
<link rel="icon" href="data:,"><title>tpn studio</title></head><body></body></html>"""
"""Leads to the page from inside: a redirect of another site's link would come without the strict cookie."""
NO_TOKEN = "Open the address that `tpn studio` has printed: it contains a token, which this page needs.\n"


class Guard:
    """Lets through only requests to this server's own address, from its own page, with its token.

    The token comes once in the address (`/?token=…`) and is exchanged for a cookie that scripts cannot read and that is
    not sent from other sites. The cookie's name holds the port, since browsers share cookies between ports.
    """

    def __init__(self, app: App, token: str, host: str, port: int) -> None:
        self.app, self.token, self.host, self.port = app, token, host, port
        self.cookie = f"tpn-studio-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self.refusal(scope)

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        if refusal is not None:
            await refusal(scope, receive, sending)
        else:
            await self.app(scope, receive, sending)

    def refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that must not be let through."""
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) != 1 or not self.is_own_host(headers["host"]):
            return PlainTextResponse("This is not an address of this server.\n", 421)
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and token:
            if not hmac.compare_digest(token.encode(), self.token.encode()):
                return PlainTextResponse(NO_TOKEN, 403)
            answer = HTMLResponse(ENTER)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if not hmac.compare_digest(self.token_of(headers).encode(), self.token.encode()):
            return PlainTextResponse(NO_TOKEN, 403)
        if scope["method"] not in ("GET", "HEAD"):
            return self.refusal_of_write(headers)
        return None

    def refusal_of_write(self, headers: Headers) -> Response | None:
        """Return the answer to a write that is not JSON from this server's own page."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        own = origin == f"http://{headers['host']}" if origin is not None else site == "same-origin"
        if not own or (site is not None and site != "same-origin"):
            return PlainTextResponse("Only this server's own page may write.\n", 403)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return PlainTextResponse("The request must be JSON.\n", 415)
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return PlainTextResponse("Too large.\n", 413)
        return None

    def is_own_host(self, host: str) -> bool:
        """Return whether a Host header names this server: another name may be a page that was rebound to it by DNS."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not name:
            name, port = host, "80"
        if port != str(self.port):
            return False
        if name.lower() in (*LOOPBACK, self.host.lower()):
            return True
        if self.host in LOOPBACK or self.host == "::1":
            return False
        try:
            ipaddress.ip_address(name.strip("[]"))  # no DNS is involved in a number
        except ValueError:
            return False
        return True

    def token_of(self, headers: Headers) -> str:
        """Return the token in the cookie of a request."""
        for line in headers.getlist("cookie"):
            try:
                cookies: SimpleCookie = SimpleCookie(line)
            except CookieError:
                continue
            if self.cookie in cookies:
                return cookies[self.cookie].value
        return ""
