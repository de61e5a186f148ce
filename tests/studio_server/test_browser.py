"""Journeys through the studio in a real browser: Debian's chromium, driven by Playwright."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.studio_server.making import make_workspace, until, write_drawings
from tpn.labelling.session import Session
from tpn.studio_server.server import Studio

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to test the page in"),
    pytest.mark.flaky(reruns=2),  # a browser that waits for a busy machine
]


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Page:
    """A page of the studio, which must not say anything in the console, nor ask any other server."""

    def __init__(self, browser, url, **options):
        self.context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.context.set_default_timeout(60_000)
        self.messages, self.requests = [], []
        self.url = url
        self.page = self.tab(url)

    def tab(self, url):
        page = self.context.new_page()
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        page.wait_for_selector(".tile")  # after the page that exchanges the token
        return page

    def ask(self, script, page=None):
        return (page or self.page).evaluate(script)

    def until(self, script, page=None):
        return until(lambda: self.ask(script, page))

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def label_focused(self, name):
        """Type the name of a class and take it, as a user does; wait until it is confirmed."""
        before = self.ask("studio.state.revision")
        self.page.keyboard.type(name)
        self.press("Enter")
        self.until(f"studio.state.revision > {before}")

    def close(self):
        origin = self.url.partition("/?")[0]
        assert all(url.startswith((origin, "data:", "blob:")) for url in self.requests), "every request stays here"
        assert [text for text in self.messages if "GPU stall" not in text] == []
        self.context.close()


@pytest.fixture
def studio(drawings, tmp_path):
    with Studio(make_workspace(*drawings, tmp_path / "cache"), "127.0.0.1", 0) as opened:
        opened.start()
        yield opened


@pytest.fixture
def page(browser, studio):
    opened = Page(browser, studio.url)
    yield opened
    opened.close()


FOCUSED = "studio.names[studio.focus]"
GUESSES = """Object.fromEntries(studio.names.map((name, i) => [name, (studio.state.classes.find((c) =>
    c.number === (studio.mark[i] >= 0 ? studio.mark[i] : studio.best[0][i])) || {}).name]))"""


def test_from_no_label_to_exported_class_folders_by_keyboard_alone(page, drawings, tmp_path):
    _, truth = drawings
    for _ in range(8):
        page.label_focused(truth[page.ask(FOCUSED)])
        page.until("studio.guessRevision === studio.state.revision || studio.state.classes.length < 2")
    assert set(page.ask("studio.state.classes.map((c) => c.name)")) == set(truth.values())
    page.until("studio.state.guesses.revision === studio.state.revision")
    guesses = page.ask(GUESSES)
    assert sum(guesses[name] == truth[name] for name in truth) >= 27, "of 30, from 8 labels"
    page.press("Control+e")
    page.page.locator("dialog select").press("c")  # class folders
    page.press("Tab")
    page.page.keyboard.press("Control+a")
    page.page.keyboard.type(str(tmp_path / "sorted"))
    page.press("Enter")
    page.page.locator(".message.good").wait_for()
    assert "30 labelled pictures" in page.page.locator(".message").inner_text()
    page.press("Escape")
    found = {path.name: path.parent.name for path in (tmp_path / "sorted").rglob("*.png")}
    assert found == guesses


def test_correct_undo_redo_reload(page):
    page.label_focused("wrong")
    image = page.ask("studio.mark.findIndex((mark) => mark >= 0)")
    page.label_focused("other")
    page.page.locator("[data-view=labelled]").click()
    page.until("studio.order.length === 2")
    page.page.locator(f'.tile[data-image="{image}"]').click()
    page.label_focused("right")
    assert page.ask(f"studio.state.classes.find((c) => c.number === studio.mark[{image}]).name") == "right"
    page.press("Control+z")
    page.until("studio.state.redo !== ''")
    page.until(f"(studio.state.classes.find((c) => c.number === studio.mark[{image}]) || {{}}).name === 'wrong'")
    page.press("Control+Shift+z")
    page.until(f"(studio.state.classes.find((c) => c.number === studio.mark[{image}]) || {{}}).name === 'right'")
    page.page.reload()
    page.page.wait_for_selector(".tile")
    assert page.ask(f"studio.state.classes.find((c) => c.number === studio.mark[{image}]).name") == "right"
    page.page.locator("[data-view=labelled]").click()
    page.until("studio.order.length === 2")
    page.press("Delete")
    page.until("studio.mark.filter((mark) => mark >= 0).length === 1")


def test_rename_and_merge_and_bulk_actions(page, drawings):
    _, truth = drawings
    for _ in range(8):
        page.label_focused(truth[page.ask(FOCUSED)])
    first, second = page.ask("studio.state.classes.slice(0, 2).map((c) => c.name)")
    page.page.locator(f'.class:has([data-class="{first}"]) .more').click(force=True)
    page.page.locator("dialog input").first.fill("renamed")
    page.press("Enter")
    page.until("studio.state.classes[0].name === 'renamed'")
    page.page.locator('.class:has([data-class="renamed"]) .more').click(force=True)
    page.page.locator("dialog select").select_option(second)
    page.page.locator("dialog button.primary").click()
    page.until("studio.state.classes.length === 2")
    page.press("Control+z")
    page.until("studio.state.classes.length === 3")
    page.page.locator("[data-view=all]").click()
    page.page.locator(".tile").first.click()
    page.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert page.ask("studio.selection.size") == 3
    page.press("0")
    page.until("studio.mark.filter((mark) => mark === -2).length === 3")
    page.press("Control+a")
    page.until("studio.state.guesses.revision === studio.state.revision")
    page.press("Enter")
    page.until("studio.mark.every((mark) => mark !== -1)")
    page.press("Control+z")
    page.until("studio.mark.some((mark) => mark === -1)")
    page.page.mouse.move(260, 140)
    page.press("?")
    assert "undo" in page.page.locator("dialog").inner_text()


def test_two_tabs_see_each_others_work(page):
    other = page.tab(page.url)
    page.label_focused("seen")
    page.until("studio.state.classes.length === 1 && studio.mark.some((mark) => mark >= 0)", other)
    other.keyboard.press("Control+z")
    page.until("studio.state.classes.length === 0 && studio.mark.every((mark) => mark === -1)")


def test_the_map_selects_with_a_lasso(page):
    page.until("studio.state.map && !!studio.map")
    page.page.locator("#map-toggle").click()
    box = page.page.locator("#map-canvas").bounding_box()
    corners = [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98), (0.02, 0.05)]
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.page.mouse.move(*points[0])
    page.page.mouse.down()
    for point in points[1:]:
        page.page.mouse.move(*point)
    page.page.mouse.up()
    assert page.ask("studio.selection.size") > 20
    assert page.ask("studio.view.kind") == "lasso"


def test_a_hostile_folder(browser, tmp_path):
    """Names with markup, files that are no images, and a picture that vanishes."""
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    truth = write_drawings(folder, 2, 5)
    names = list(truth)
    evil = '"><script>alert(1)<∕script>&amp;\u202egnp.png'
    os.rename(folder / names[0], folder / evil)
    truth[evil] = truth.pop(names[0])
    with Studio(make_workspace(folder, truth, tmp_path / "cache"), "127.0.0.1", 0) as opened:
        opened.start()
        page = Page(browser, opened.url)
        page.label_focused("a <b>bold</b> & <script>class")
        assert page.page.locator("b:text-is('bold')").count() == 0
        assert "<b>bold</b>" in page.page.locator("#classes").inner_text()
        page.page.locator("[data-view=all]").click()
        assert evil in page.page.locator(".tile .file").all_text_contents()
        shutil.move(folder, tmp_path / "gone")
        until(lambda: page.page.locator("#banner:visible").count())
        assert "is gone" in page.page.locator("#banner").inner_text()
        page.messages = [text for text in page.messages if "404" not in text]
        page.close()


def test_kill_the_server_and_go_on(browser, drawings, tmp_path):
    folder, truth = drawings
    options = ["--no-browser", "--backbone", "mini-conv4", "--cache", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "tpn", "studio", str(folder), *options]

    def start():
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return server, server.stdout.readline().strip()

    server, url = start()
    page = Page(browser, url)
    for _ in range(3):
        page.label_focused(truth[page.ask(FOCUSED)])
    marks = page.ask("[...studio.mark]")
    server.send_signal(signal.SIGKILL)
    server.wait()
    until(lambda: page.page.locator("#banner:visible").count())
    assert "does not answer" in page.page.locator("#banner").inner_text()
    page.context.close()
    again, url = start()
    page = Page(browser, url)
    assert page.ask("[...studio.mark]") == marks
    page.until("studio.state.progress.done === 30")  # embedded by a network of ours
    page.close()
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0
    again.stdout.close()
    server.stdout.close()
    with Session(folder / ".tpn") as session:
        assert session.revision == 3
