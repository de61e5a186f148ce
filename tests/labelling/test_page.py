"""The page: complete, and without markup from names."""

import html
import os
import re
from dataclasses import replace

import numpy as np

from tests.labelling.making import outcome, write_images
from tpn.labelling.labelled_folder import find_images
from tpn.labelling.page import make_page


def test_the_page_shows_every_class_and_is_whole(photos):
    names = find_images(photos).names
    given, kept = [True, True, False, False, False], [True] * 4 + [False]
    page = make_page(outcome(names, [0, 1, 0, 1, 0], photos, given=given, kept=kept))
    assert "<h1>my photos: 5 images, 2 classes</h1>" in page
    assert "a network" in page
    assert page.count("<img ") == 5
    assert page.count('src="data:image/jpeg;base64,') == 5
    assert page.count('<figure class="given" ') == 2
    assert page.count('<figure class="doubtful" ') == 1
    assert "1 given, 1 labelled, 1 too doubtful" in page
    for tag in ("h1", "h2", "p", "div", "figure", "nav", "figcaption", "body", "html"):
        assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>"), tag
    assert "Label these next" not in page
    assert "http://" not in page
    assert "https://" not in page


def test_the_page_shows_what_to_label_next(photos):
    made = outcome(find_images(photos).names, [0, 1, 0, 1, 0], photos, suggested=[3, 1])
    page = make_page(made)
    row = page.split("Label these next")[1].split("<h2")[0]
    assert re.findall('title="([^"]*)"', row) == made.suggestions == [made.paths[3], made.paths[1]]
    assert row.count("guess: <bdi>dog</bdi>") == 2
    assert row.index(made.suggestions[0]) < row.index("guess"), "the name comes first: it is never cut off"


def test_the_page_takes_no_orders_from_names(tmp_path):
    evil = '<script>alert("1")</script>&amp;.png'.replace("/", "∕")
    photos = write_images(tmp_path / "photos", [evil, 'it\'s "b".png'])
    classes = ['<b onload="x">', "</nav><script>"]
    made = outcome(find_images(photos).names, [0, 1], photos, classes, suggested=[0, 1])
    page = make_page(replace(made, title="<i>title</i>", backbone="<u>run</u>"))
    for markup in ("<script", "<b on", "<i>", "<u>", "</nav><s"):
        assert markup not in page
    text = html.unescape(page)
    for words in (evil, 'it\'s "b".png', '<b onload="x">', "</nav><script>", "<i>title</i>", "<u>run</u>"):
        assert words in text


def test_the_page_does_without_images_that_are_gone(photos):
    made = outcome(find_images(photos).names, [0, 1, 0, 1, 0], photos)
    os.remove(photos / "a.png")
    os.mkfifo(photos / "a.png")
    os.remove(photos / "z.png")
    assert make_page(made).count("cannot be shown") == 2


def test_a_page_of_many_images_shows_some_from_sure_to_doubtful():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1, 1000)
    made = outcome([f"{index}.png" for index in range(1000)], [0] * 500 + [1] * 500, confidence=confidence)
    page = make_page(made)
    shown = [int(name) for name in re.findall(r'title="(\d+).png"', page)]
    for class_ in (0, 1):
        members = [index for index in shown if index // 500 == class_]
        assert 10 <= len(members) <= 100
        doubtful = np.argsort(confidence[class_ * 500 : class_ * 500 + 500])[:30] + class_ * 500
        assert set(doubtful) <= set(members), "mistakes are in the tail, so all of it is shown"
        assert (np.diff(confidence[members]) <= 0).all()
        part = confidence[class_ * 500 : class_ * 500 + 500]
        assert confidence[members[0]] == part.max()
        assert confidence[members[-1]] == part.min()
    assert "of 500 shown" in page
