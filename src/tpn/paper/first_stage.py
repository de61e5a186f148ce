"""The first stage: the pre-trained backbones that the systems of an experiment start with."""

import os
from dataclasses import dataclass

from tpn.errors import TPNError
from tpn.images.split import Images
from tpn.paper.budget import FIRST_STAGE
from tpn.paper.recipe import Test, training
from tpn.paper.two_stages import CONV4, SMALL_RESNET
from tpn.runs.folder import Run, find_run
from tpn.runs.loading import weights_digest
from tpn.runs.shipped import ships

SHIPPED = {CONV4: "mini-conv4-pretrained", SMALL_RESNET: "mini-resnet12-pretrained"}
"""The pre-trained backbones that ship with the package."""
WHOLE_CONV4 = ("conv4", "conv4-linear", "conv4-32")
CONV4_FAMILY = (*WHOLE_CONV4, "conv4-maps")


@dataclass(frozen=True)
class Start:
    """The run that a system starts with."""

    folder: str
    weights: str
    """A digest of its weights; empty if it is trained as part of the experiment."""


def first_stage_tests() -> tuple[Test, ...]:
    """Return the tests of a first stage by itself."""
    return tuple(Test(training("classifier-baseline", 5, shot).episode) for shot in (1, 5))


def given_start(init: str, images: Images, backbone: str) -> Start | None:
    """Return the run that `--init` names, or that ships with the package; None if a first stage must be trained."""
    if init == FIRST_STAGE:
        name = SHIPPED.get(backbone)
        if name is None or not ships(name):
            return None
        config = find_run(name).read_config()
        same = config.data.partition(":")[0] == images.spec.partition(":")[0] and config.image_size == images.image_size
        return start_with(find_run(name)) if same else None
    run = find_run(init)
    if run.read_config().settings.backbone != backbone:
        raise TPNError(
            f"--init {init} has the backbone {run.read_config().settings.backbone}, but this experiment needs "
            f"{backbone}. Leave it out, or give --init {FIRST_STAGE}."
        )
    return start_with(run)


def start_with(run: Run) -> Start:
    """Return the start from a run that exists."""
    return Start(os.fspath(run.folder.resolve()), weights_digest(run))


def conv4_of(init: str) -> str:
    """Return the Conv-4 that systems start with: that of the run they start with, or that of our first stages."""
    own = CONV4 if init == FIRST_STAGE else find_run(init).read_config().settings.backbone
    return own if own in WHOLE_CONV4 else CONV4


def backbone_for(own: str, init: str) -> str:
    """Return the backbone of a system with a warm start: the Conv-4 it starts with, if its own is one; or its own."""
    return conv4_of(init) if own in WHOLE_CONV4 else own


def pretrained_for(backbone: str, init: str) -> str:
    """Return the backbone of the first stage for a system with this backbone, which has the same weights."""
    return conv4_of(init) if backbone in CONV4_FAMILY else backbone
