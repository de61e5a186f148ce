"""Starting the studio, starting it again, and killing it."""

import json
import signal
import subprocess
import sys
import urllib.request

import numpy as np

from tests.studio_server.making import make_workspace, until, write_drawings
from tpn.labelling.session import Session


def test_the_page_is_served_without_torch_and_scikit_learn():
    """Importing them takes seconds; whoever opens a folder wants to see it."""
    modules = "tpn.cli.studio, tpn.workflows.studio, tpn.labelling.features, tpn.studio_server.server"
    heavy = "{'torch', 'sklearn', 'scipy', 'pandas'}"
    code = f"import sys, {modules}; assert not {heavy} & sys.modules.keys(), {heavy} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_second_start_opens_the_graph_of_the_first(drawings, tmp_path):
    folder, truth = drawings
    first = make_workspace(folder, truth, tmp_path / "cache")
    first.session.label(list(truth)[:1], "one")
    first.session.label(list(truth)[1:2], "another")
    first.worker.wake()
    until(lambda: first.worker.map is not None)
    until(lambda: first.worker.published.revision == 2)
    best = first.worker.published.best
    first.close()
    again = make_workspace(folder, truth, tmp_path / "cache")
    until(lambda: again.worker.published.version > 0)
    assert again.feed.graph is not None
    assert again.feed.features is None, "they were not needed"
    np.testing.assert_array_equal(again.worker.published.best[:, 0], best[:, 0])
    np.testing.assert_array_equal(again.worker.map, first.worker.map)
    again.close()
    other = make_workspace(folder, dict.fromkeys(truth, "all the same"), tmp_path / "cache")
    until(lambda: other.worker.published.version > 0)
    assert other.feed.graph is None, "other features"
    other.close()


def test_no_acknowledged_action_is_lost_when_the_server_is_killed(tmp_path):
    folder = tmp_path / "drawings"
    write_drawings(folder, 2, 5)
    np.save(tmp_path / "features.npy", np.random.default_rng(0).normal(0, 1, (10, 40)))
    rng = np.random.default_rng(1)
    confirmed = 0
    for turn in range(2):
        command = [
            sys.executable,
            "-m",
            "tpn",
            "studio",
            str(folder),
            "--no-browser",
            "--features",
            str(tmp_path / "features.npy"),
            "--cache",
            str(tmp_path / "cache"),
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(url).read()
        base = url.partition("/?")[0]
        for number in range(int(rng.integers(3, 12))):
            change = {"to": "label", "label": f"{turn}-{number}", "images": [number % 10]}
            content = json.dumps({"do": "label", "changes": [change]}).encode()
            headers = {"Content-Type": "application/json", "Origin": base}
            request = urllib.request.Request(f"{base}/api/act", content, headers)
            opener.open(request).read()
            confirmed += 1
        server.send_signal(signal.SIGKILL)
        server.wait()
        server.stdout.close()
        with Session(folder / ".tpn") as session:
            assert session.revision == confirmed
