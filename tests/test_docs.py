"""The documentation site: built strictly, every link and anchor followed, and nothing loaded from elsewhere."""

import functools
import html
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from filelock import FileLock

import tpn

ROOT = Path(__file__).parents[1]
LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src", "video": "src"}
"""What a browser loads by itself."""
REL_THAT_LOAD = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "prefetch", "manifest", "modulepreload"}
PAGES = ("", "explanation/method/", "reference/commands/", "reference/python-experiments/", "measurements/")


class Page(HTMLParser):
    """The links of a page, the anchors in it, and what a browser loads for it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        loads = tag != "link" or REL_THAT_LOAD & set((values.get("rel") or "").split())
        if tag in LOADED and loads and values.get(LOADED[tag]):
            self.loads.append(values[LOADED[tag]])


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site, built once for all processes of the tests."""
    shared = (
        tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else tmp_path_factory.mktemp("s")
    )
    target = shared / "site"
    with FileLock(shared / "site.lock"):
        if not target.is_dir():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
            offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
            environment = os.environ | offline | {"NO_MKDOCS_2_WARNING": "1"}
            built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            said = built.stdout + built.stderr
            assert built.returncode == 0, said
            assert "WARNING" not in said, said
    return target


@pytest.fixture(scope="session")
def pages(site) -> dict[str, Page]:
    """Every page of the site by its address, from the root of the site."""
    return {file.relative_to(site).as_posix(): Page(file) for file in site.rglob("*.html")}


def test_every_link_and_anchor_of_the_site_leads_somewhere(site, pages):
    broken = []
    for address, page in pages.items():
        for link in {*page.links, *page.loads}:
            parts = urlsplit(urljoin(f"http://site/{address}", link))
            if parts.netloc != "site" or parts.scheme not in ("http", ""):
                continue
            target = unquote(parts.path.lstrip("/"))
            if not target or target.endswith("/"):
                target += "index.html"
            if not (site / target).is_file():
                broken.append(f"{address}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{address}: {link} (no such anchor)")
    assert not broken, "\n".join(sorted(broken))


def test_the_site_loads_nothing_from_elsewhere(site, pages):
    outside = [(address, load) for address, page in pages.items() for load in page.loads if urlsplit(load).netloc]
    assert not outside
    for file in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", file.read_text(encoding="utf-8")), file


def test_equations_are_mathml_and_need_no_script(site):
    text = (site / "explanation/method/index.html").read_text(encoding="utf-8")
    assert text.count('display="block"') == 6
    assert "arithmatex" not in text
    assert not re.search(r"\\\[|\\\(", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))


def test_every_public_name_is_in_the_reference(pages):
    documented = set().union(*(page.anchors for address, page in pages.items() if address.startswith("reference/")))
    missing = [name for name in tpn.__all__ if name != "__version__" and f"tpn.{name}" not in documented]
    assert not missing


def test_every_command_and_every_method_is_in_the_reference(pages):
    from tpn.cli import COMMANDS

    assert {f"tpn-{name}" for name in COMMANDS} <= pages["reference/commands/index.html"].anchors
    assert set(tpn.list_methods()) <= pages["reference/settings/index.html"].anchors


def test_the_keywords_of_a_call_are_in_the_reference(site):
    text = (site / "reference/python-experiments/index.html").read_text(encoding="utf-8")
    assert "{options}" not in text
    assert "query_dirichlet" in text
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())
    split = r"split \(Literal\['?train'?, '?val'?, '?test'?\], default: 'test' ?\)"
    assert re.search(split, words), "a default that is not the first of the choices"


@pytest.fixture
def address(site) -> Iterator[str]:
    """The address of a local server of the site."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.flaky(reruns=2)
def test_no_request_of_a_browser_leaves_the_site(address):
    """In light and dark, with a search; needs playwright and a browser of the system."""
    playwright = pytest.importorskip("playwright.sync_api")
    browser_file = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_file is None:
        pytest.skip("there is no chromium: requests of a browser are not checked")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        asked, problems = [], []
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("requestfailed", lambda request: problems.append(f"{request.failure} {request.url}"))
            for path in PAGES:
                page.goto(address + path, timeout=60_000)
            page.keyboard.press("/")
            page.keyboard.type("propagation")
            page.wait_for_selector(".md-search-result__item", timeout=60_000)
            page.close()
        browser.close()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert [problem for problem in problems if "ERR_ABORTED" not in problem] == []  # left for the next page
