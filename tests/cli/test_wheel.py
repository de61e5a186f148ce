"""The wheel, installed where nothing of the checkout is, works: commands, data and types are all in it."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.tiny import tiny

ROOT = Path(__file__).parents[2]


def run(*call, **options):
    return subprocess.run(list(map(str, call)), check=True, capture_output=True, text=True, **options).stdout


def test_the_installed_wheel_works_outside_the_checkout(tmp_path):
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    [wheel] = tmp_path.glob("tpn-*.whl")
    assert wheel.stat().st_size < 14_500_000
    place = tmp_path / "empty"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # the dependencies are those of the tests; the checkout itself is not on this path
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    options = {"cwd": tmp_path, "env": {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}}
    home = run(python, "-c", "import tpn; print(tpn.__file__)", **options)
    assert home.startswith(str(place))
    tpn = place / "bin" / "tpn"
    assert "usage: tpn" in run(tpn, "--help", **options)
    assert json.loads(run(tpn, "data", "info", "quickdraw", "--json", **options))["splits"]["test"]["classes"] == 80
    run(tpn, "train", "tpn", *tiny(), "--out", "run", **options)
    assert 0 <= json.loads(run(tpn, "evaluate", "run", "--episodes", 3, "--json", **options))["accuracy"] <= 1
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    assert all(name in names for name in ("py.typed", "quickdraw/LICENSE.txt", "licenses/LICENSE"))
    assert all(name in names for name in ("mini_imagenet/ravi.csv", "tiered_imagenet/LICENSE.txt", "_imagenet/val.csv"))
    assert "tests/" not in names
