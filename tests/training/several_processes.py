"""Several processes at once as torchrun starts them, but forked from one that has loaded torch (`tests.processes`)."""

import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.processes import command
from tests.training.making import make_steps, training_of
from tpn.episodes.episode_sampler import EpisodeSampler
from tpn.episodes.mini_batches import MiniBatches
from tpn.episodes.sampler import Sampler
from tpn.episodes.setting import Setting
from tpn.images.opening import open_images
from tpn.methods._method import Dimensions
from tpn.methods._registry import build_method, find_method
from tpn.training import loop
from tpn.training.device import CPU, Execution
from tpn.training.distributed import Processes, find_processes
from tpn.training.learner import Learner
from tpn.training.setup import draw_step

COUNT, LONGEST = 2, 60
SETTING = Setting(way=3, shot=2, query=3)
CASES = {
    "tpn": {},
    "protonet": {},
    "tadam": {},
    "masked-soft-kmeans": {"refinements": 0},
    "maml": {"inner_steps": 1},
    "classifier-baseline": {"batch_size": 16},
}


def in_several(work: Callable[[int], int]) -> list[int]:
    """Do some work in each process, with torchrun's environment. Returns the exit codes."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torchrun = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port, "WORLD_SIZE": COUNT}
    torchrun |= {"TORCHELASTIC_RUN_ID": "test", "TORCHELASTIC_USE_AGENT_STORE": True}
    children = []
    for rank in range(COUNT):
        if child := os.fork():
            children.append(child)
            continue
        code = 1
        try:
            os.environ.update({name: str(value) for name, value in (torchrun | {"RANK": rank}).items()})
            os.environ["LOCAL_RANK"] = str(rank)
            signal.alarm(LONGEST)
            code = work(rank)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def launch(
    arguments: list[str], hit: tuple[int, int, int] | None = None, room: int | None = None
) -> tuple[list[int], str]:
    """Run tpn. One process may get a signal in one of its steps, and the first may find the disk full."""
    said = tempfile.TemporaryFile()  # noqa: SIM115

    def run(rank: int) -> int:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        if room is not None and rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        if hit is not None and rank == hit[0]:
            hit_in_step(*hit[1:])
        return command(arguments)

    codes = in_several(run)
    said.seek(0)
    return codes, said.read().decode()


def hit_in_step(number: int, kind: int) -> None:
    """Let this process get a signal in a step of the training."""
    step, left = loop.step, number

    def hit(*arguments):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), kind)
        return step(*arguments)

    loop.step = hit


def draws(name: str) -> Sampler:
    split = open_images("quickdraw").split("val")
    return (
        MiniBatches(split, SETTING, 16, seed=0) if name == "classifier-baseline" else EpisodeSampler(split, SETTING, 0)
    )


def learn_once(name: str, processes: Processes) -> dict[str, object]:
    """What a method learns from two episodes: in double precision, so that rounding makes no difference."""
    torch.manual_seed(0)
    settings = find_method(name).Config(backbone="conv4-32", **CASES[name])
    method = build_method(name, settings, Dimensions(1, 28, 3, 2, 50, (0.1,), (0.3,))).train().double()
    task = draw_step(draws(name), 2, CPU, share=processes.share)
    learned = Learner(method, processes=processes).learn(replace(task, inputs=task.inputs.double()))
    return {
        "gradients": {name: parameter.grad for name, parameter in method.named_parameters()},
        "buffers": dict(method.named_buffers()),
        "figures": (learned.loss, learned.accuracy),
        "images": task.inputs,
        "names": list(method.state_dict()),
    }


def learn_unevenly(processes: Processes) -> dict[str, object]:
    """Gradients of which some are missing in the second process, and some in both."""
    kind = find_method("classifier-baseline")

    class Uneven(kind):
        def learn(self, task, backward):
            learned = super().learn(task, backward)
            self.before = self.backbone.blocks[0].norm.bias.grad.clone()
            self.head.weight.grad = None
            if not processes.first:
                self.backbone.blocks[0].norm.bias.grad = None
            return learned

    method = Uneven(kind.Config(backbone="conv4-32", batch_size=16), Dimensions(1, 28, 3, 2, 50)).train()
    task = draw_step(draws("classifier-baseline"), 2, CPU, share=processes.share)
    Learner(method, processes=processes).learn(task)
    return {
        "before": method.before,
        "after": method.backbone.blocks[0].norm.bias.grad,
        "nowhere": method.head.weight.grad,
    }


def overflow(processes: Processes) -> dict[str, object]:
    """A step in float16, in which gradients overflow in the second process only."""
    training = training_of("protonet", Execution(CPU, "float16", processes=processes), SETTING, episodes_per_step=2)
    training.scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    method = training.method
    loss = method.loss

    def overflowing(task):
        value, scores = loss(task)
        return value * (1.0 if processes.first else 1e35), scores

    before = [parameter.detach().clone() for parameter in method.parameters()]
    method.loss = overflowing
    make_steps(training)
    skipped = all(torch.equal(*pair) for pair in zip(before, method.parameters(), strict=True))
    return {"scale": training.scaler.get_scale(), "skipped": skipped}


def gradients(folder: Path) -> int:
    """Write what two processes learn, for each of `CASES`. A warning is an error."""
    warnings.simplefilter("error")

    def learn(rank: int) -> int:
        torch.set_num_threads(1)
        processes = find_processes()
        processes.connect(CPU)
        seen = {name: learn_once(name, processes) for name in CASES}
        torch.save(
            {**seen, "uneven": learn_unevenly(processes), "overflow": overflow(processes)}, folder / f"{rank}.pt"
        )
        return 0

    return max(in_several(learn))


def launch_all(launches: list[dict[str, Any]]) -> int:
    """Run command lines of tpn, each with what is to befall one of its two processes.

    Prints, for each of them, the exit codes and what was said.
    """
    for split in ("train", "val"):
        open_images("quickdraw").split(split)  # unpacks the drawings for all processes to come
    print(json.dumps([launch(**each) for each in launches]))
    return 0
