"""Trainings with `--compile`, in processes of their own: the tests' checks of shapes and types cannot be compiled."""

import tpn
from tests.processes import command
from tpn.backbones._blocks import ConvBlock
from tpn.backbones.conv4 import BlockNetwork


class TwoBlocks(BlockNetwork):
    """The two kinds of maps that are pooled in Conv-4, of even and of odd size, once each: 26 and 13 of 28 pixels."""

    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__(image_size, ConvBlock(channels, 16, padded=False), ConvBlock(16, 16))


def train_two_blocks(trainings: list[list[str]]) -> int:
    """Train such a network with each of these arguments."""
    tpn.register_backbone("two-blocks", TwoBlocks)
    return max(command(["train", "protonet", "--backbone", "two-blocks", *each]) for each in trainings)


def train_without_compiler(arguments: list[str]) -> int:
    """Train where the C++ compiler is missing, as with `CXX=no-such-compiler`."""
    import torch._inductor.config

    torch._inductor.config.cpp.cxx = (None, "no-such-compiler")
    return command(["train", "protonet", *arguments])
