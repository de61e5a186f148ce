"""Training in two processes, as torchrun starts them."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch

from tests.processes import run
from tests.tiny import tiny
from tests.training.several_processes import CASES, gradients, launch_all, learn_once
from tests.training.test_resuming import assert_the_same
from tpn.cli import main
from tpn.errors import TPNError
from tpn.methods._config import Config
from tpn.methods._method import Dimensions
from tpn.methods._registry import build_method, find_method
from tpn.runs.folder import Run
from tpn.runs.tensors import read_tensors
from tpn.training.device import CPU, Execution, own_device
from tpn.training.distributed import ALONE, Processes, find_processes
from tpn.training.learner import Learner
from tpn.training.stopping import Stopped, StopRequest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked, and limited")

TWO = Processes(2, 1)
SETTINGS = tiny(validate_every=4, episodes=12, episodes_per_step=2, backbone="conv4-32")
TRAINING = ["train", "protonet", *SETTINGS, "--augment", "crop", "--out"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tpn"]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """What each of two processes learned."""
    folder = tmp_path_factory.mktemp("gradients")
    ended = run(gradients, folder)
    assert ended.code == 0, ended.error
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_learn_what_one_learns_from_the_episodes_of_both(name, learned):
    """In double precision: another order of summing changes no more than the last of 15 digits; α = 0.99 makes a few
    of them of it."""
    alone = learn_once(name, ALONE)
    shares = [of_process[name]["images"] for of_process in learned]
    assert not torch.equal(*shares)
    assert torch.equal(torch.cat(shares), alone["images"])
    for of_process in learned:
        mine = of_process[name]
        assert mine["names"] == alone["names"]
        assert mine["figures"] == pytest.approx(alone["figures"], rel=1e-6)  # an accuracy is counted in float32
        for parameter, expected in alone["gradients"].items():
            torch.testing.assert_close(
                mine["gradients"][parameter], expected, rtol=1e-7, atol=1e-12, msg=lambda text, at=parameter: at + text
            )
        for buffer, expected in alone["buffers"].items():
            if not expected.is_floating_point():
                assert torch.equal(mine["buffers"][buffer], expected), buffer
            assert torch.equal(mine["buffers"][buffer], learned[0][name]["buffers"][buffer])


def test_running_statistics_are_those_of_the_episodes_of_all_processes(learned):
    """One process takes in the first episode and then the second; two take in one each, and average."""
    name = "backbone.blocks.0.norm.running_mean"
    one, two = learn_once("protonet", ALONE)["buffers"][name], learned[0]["protonet"]["buffers"][name]
    torch.testing.assert_close(without_start(two, name, 1), without_start(one, name, 2), rtol=0.1, atol=0.02)


def test_a_gradient_that_one_process_lacks_counts_as_zero_and_one_that_all_lack_stays_away(learned):
    first, second = (of_process["uneven"] for of_process in learned)
    torch.testing.assert_close(first["after"], first["before"] / 2)
    assert torch.equal(second["after"], first["after"])
    assert first["nowhere"] is second["nowhere"] is None


def test_gradients_that_overflow_in_one_process_lower_the_scale_of_all(learned):
    assert [of_process["overflow"] for of_process in learned] == [{"scale": 32.0, "skipped": True}] * 2


MISHAPS = {
    "first-killed": ({"hit": [0, 4, signal.SIGKILL]}, [-signal.SIGKILL, 2], "process of this training has ended", 4),
    "second-killed": ({"hit": [1, 4, signal.SIGKILL]}, [2, -signal.SIGKILL], "process of this training has ended", 4),
    "second-stopped": ({"hit": [1, 5, signal.SIGTERM]}, [143, 143], "Stopped and saved at episode 10", 10),
    "disk-full": ({"room": 100_000}, [2, 2], "File too large", 0),
    "refused": ({}, [2, 2], "--episodes-per-step must be a multiple of 2, not 1", 0),
}
"""What befalls one of two processes, or both; how they end, with which words, and from which episode they can go on."""


def test_what_befalls_one_process_ends_both_and_resumed_they_end_exactly_as_unbroken(tmp_path):
    launches = {"unbroken": {"arguments": [*TRAINING, str(tmp_path / "unbroken")]}}
    for name, (mishap, *_) in MISHAPS.items():
        call = [*TRAINING, str(tmp_path / name)]
        odd = ["--episodes-per-step", "1"] if name == "refused" else []
        launches[name] = {"arguments": [*call, *odd], **mishap}
        launches[f"{name}, resumed"] = {"arguments": [*call, "--resume"]}
    done = run(launch_all, list(launches.values()))
    assert done.code == 0, done.error
    seen = dict(zip(launches, json.loads(done.out), strict=True))
    assert seen["unbroken"][0] == [0, 0], seen["unbroken"][1]
    for name, (_, codes, words, go_on_from) in MISHAPS.items():
        ended, said = seen[name]
        assert ended == codes, said
        assert words in said
        assert "Traceback" not in said
        resumed, said = seen[f"{name}, resumed"]
        assert resumed == [0, 0], said
        assert (f"from episode {go_on_from} on" in said) == (go_on_from > 0)
        assert_the_same(Run(tmp_path / name), Run(tmp_path / "unbroken"))


def without_start(statistics, name, updates):
    """The mean over the episodes that running statistics have taken in, each with a momentum of 0.1."""
    start = 1.0 if name.endswith("var") else 0.0
    return (statistics - start * 0.9**updates) / (1 - 0.9**updates)


def test_two_processes_train_as_one_does(tmp_path):
    """In single precision, by gradient descent (Adam would make much of tiny differences): weights agree to some
    digits. Running statistics take in the episodes of a step side by side, not one after the other: they hold more of
    where they started, and the same of the episodes but for their weights."""
    call = ["train", "protonet", *SETTINGS, "--optimiser", "sgd", "--lr", "1e-3", "--out"]
    [(codes, said)] = json.loads(run(launch_all, [{"arguments": [*call, str(tmp_path / "two")]}]).out)
    assert codes == [0, 0], said
    assert said.count("Training protonet on") == 1
    assert "Warning" not in said
    assert main([*call, str(tmp_path / "one")]) == 0
    one, two = Run(tmp_path / "one"), Run(tmp_path / "two")
    assert one.read_config() == two.read_config()
    assert len(list((two.folder / "tensorboard").iterdir())) == 1
    for mine, other in zip(two.read_metrics(), one.read_metrics(), strict=True):
        assert (mine["episode"], mine["lr"]) == (other["episode"], other["lr"])
        assert (mine["train_loss"] or 0) == pytest.approx(other["train_loss"] or 0, rel=1e-4)
        assert (mine["train_accuracy"] or 0) == pytest.approx(other["train_accuracy"] or 0, abs=0.03)
    weights, expected = (read_tensors(run.checkpoint_file)[0] for run in (two, one))
    assert weights.keys() == expected.keys()
    for name, tensor in weights.items():
        if "running" in name:
            pair = (without_start(tensor, name, updates=6), without_start(expected[name], name, updates=12))
            torch.testing.assert_close(*pair, rtol=0.2, atol=0.1, msg=lambda text, at=name: at + text)
        elif not name.startswith("random/"):
            torch.testing.assert_close(
                tensor, expected[name], rtol=1e-4, atol=1e-6, msg=lambda text, at=name: at + text
            )
    assert main([*call, str(two.folder), "--resume", "--episodes", "14"]) == 0  # one process can go on


def test_torchrun_starts_both_passes_on_a_signal_and_they_end_with_a_checkpoint(tmp_path):
    """Not compiled, as a long training is by default: torchrun does not wait for the compiler, but kills after 30 s."""
    training = Run(tmp_path / "run")
    call = [*TORCHRUN, *TRAINING, str(training.folder), "--episodes", "100000", "--no-compile"]
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
    while not training.checkpoint_file.is_file() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert said.count("Training protonet on") == 1
    assert "Stopped and saved at episode" in said
    state = read_tensors(training.checkpoint_file)[1]["state"]
    assert f"Stopped and saved at episode {state['episode']}." in said


@pytest.mark.parametrize(
    ("settings", "done", "words"),
    [
        ({"episodes_per_step": 3}, 0, "episodes_per_step must be a multiple of 2, not 3"),
        ({"episodes_per_step": 1}, 0, "episodes_per_step must be a multiple of 2, not 1"),
        ({"episodes_per_step": 4, "episodes": 10}, 0, "episodes must be a multiple of episodes_per_step"),
        ({"episodes_per_step": 2, "episodes": 10}, 7, "the remaining 3 of 10 episodes"),
    ],
)
def test_what_cannot_be_shared_evenly_is_refused(settings, done, words):
    with pytest.raises(TPNError, match=words):
        TWO.check(Config(**settings), done)
    ALONE.check(Config(**settings), done)


def test_what_can_be_shared_evenly_is_not():
    TWO.check(Config(episodes_per_step=4, episodes=12))
    TWO.check(Config(episodes_per_step=2, episodes=11), done=7)


def test_only_what_torchrun_started_is_one_of_several(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert find_processes() == ALONE
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "id")
    assert find_processes() == Processes(4, 3)
    assert not Processes(4, 3).first
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert find_processes() == ALONE


def test_each_process_has_its_own_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert own_device(torch.device("cuda"), TWO) == torch.device("cuda", 1)
    assert own_device(torch.device("cuda"), ALONE) == torch.device("cuda")
    assert own_device(CPU, TWO) == CPU
    for device in ("cuda:0", "mps"):
        with pytest.raises(TPNError, match="2 processes cannot share device"):
            own_device(torch.device(device), TWO)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(TPNError, match="can be 2 at most"):
        own_device(torch.device("cuda"), TWO)


def test_chance_in_a_step_depends_on_the_run_the_episode_and_the_process():
    def drawn(processes, seed, episode):
        processes.seed(seed, episode)
        return torch.rand(1).item()

    each = [drawn(*case) for case in ((TWO, 0, 0), (TWO, 0, 2), (TWO, 1, 0), (Processes(2, 0), 0, 0))]
    assert len(set(each)) == 4
    assert drawn(TWO, 0, 0) == each[0]
    state = torch.get_rng_state()
    ALONE.seed(0, 0)
    assert torch.equal(torch.get_rng_state(), state)


def test_alone_a_signal_stops_at_once_and_among_others_when_all_know():
    request = StopRequest()
    request.signal = signal.SIGTERM
    method = build_method("protonet", find_method("protonet").Config(backbone="conv4-32"), Dimensions(1, 28, 3, 2, 50))
    with pytest.raises(Stopped):
        Learner(method, request=request).raise_if_asked()
    learner = Learner(method, request=request)
    learner.processes = TWO
    learner.raise_if_asked()
    learner._agreed = signal.SIGTERM
    with pytest.raises(Stopped):
        learner.raise_if_asked()


def test_another_precision_keeps_the_processes():
    assert Execution(processes=TWO).with_precision("auto", compile=False).processes == TWO
