"""What the studio's server refuses, by itself: without a browser that would be kinder."""

import pytest
from starlette.testclient import TestClient

from tpn.studio_server.app import make_app
from tpn.studio_server.security import HEADERS, Guard

HOST, PORT, TOKEN = "127.0.0.1:8123", 8123, "secret-token"
OWN = {"host": HOST, "origin": f"http://{HOST}", "content-type": "application/json"}
UNDO = {"do": "undo"}


@pytest.fixture
def stranger(workspace):
    """Somebody who knows the address but not the token."""
    return TestClient(make_app(workspace, TOKEN, "127.0.0.1", PORT), base_url=f"http://{HOST}", follow_redirects=False)


@pytest.fixture
def user(stranger):
    answer = stranger.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    return stranger


def test_the_token_is_exchanged_for_a_strict_cookie(stranger):
    answer = stranger.get(f"/?token={TOKEN}")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(f"tpn-studio-{PORT}=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in answer.text, "the page itself does not carry it"
    assert stranger.get("/").status_code == 200
    assert stranger.get("/api/state").json()["images"] == 30


PATHS = ["/", "/api/state", "/api/names", "/api/arrays", "/thumbnails/0", "/previews/0", "/page/main.js", "/api/events"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_without_the_token(stranger, path):
    assert stranger.get(path).status_code == 403
    assert stranger.get(path, headers={"cookie": f"tpn-studio-{PORT}=wrong"}).status_code == 403
    assert stranger.get("/?token=wrong").status_code == 403
    assert stranger.post("/api/act", json=UNDO, headers=OWN).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example:8123", "evil.example", "127.0.0.1:9999", "localhost.evil.example:8123", "127.0.0.1", ""]
)
def test_other_hosts_are_refused(user, host):
    """A page of another name that DNS leads to this server (rebinding)."""
    assert user.get("/api/state", headers={"host": host}).status_code == 421


async def nothing(scope, receive, send):
    """An application that is never asked."""


def test_own_names_are_known():
    guard = Guard(nothing, TOKEN, "127.0.0.1", PORT)
    assert all(guard.is_own_host(f"{name}:{PORT}") for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"))
    assert not guard.is_own_host(f"192.168.0.7:{PORT}")
    anywhere = Guard(nothing, TOKEN, "0.0.0.0", PORT)
    assert anywhere.is_own_host(f"192.168.0.7:{PORT}")
    assert not anywhere.is_own_host(f"evil.example:{PORT}")
    assert Guard(nothing, TOKEN, "studio.local", PORT).is_own_host(f"studio.local:{PORT}")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": None}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({}, 422),
    ],
)
def test_writes_come_only_from_the_own_page_as_json(user, headers, status):
    sent = {name: value for name, value in {**OWN, **headers}.items() if value is not None}
    answer = user.post("/api/act", content=b'{"do": "undo"}', headers=sent)
    assert answer.status_code == status, "422: let through, and there is nothing to undo"


def test_a_body_that_is_too_large(user):
    answer = user.post("/api/act", content=b"{}", headers={**OWN, "content-length": str(2**40)})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/", "/api/state", "/thumbnails/0", "/thumbnails/999", "/page/style.css"])
def test_every_answer_has_the_headers(user, path):
    answer = user.get(path, headers={"origin": "http://evil.example"})
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.py", "index", "main.js%00", ""])
def test_only_files_of_the_page_are_served(user, name):
    assert user.get(f"/page/{name}").status_code in (404, 307)


@pytest.mark.parametrize("number", ["-1", "30", "99999999999999999999", "a", "../0", "0.5"])
def test_pictures_have_numbers_not_paths(user, number):
    assert user.get(f"/thumbnails/{number}").status_code == 404


def test_pictures_are_encoded_anew(user, workspace):
    """What is served never is the file itself: metadata and anything hidden in it stay here."""
    served = user.get("/thumbnails/0")
    assert served.headers["content-type"] == "image/jpeg"
    assert served.content[:2] == b"\xff\xd8"
    assert user.get("/previews/0").content[:2] == b"\xff\xd8"
