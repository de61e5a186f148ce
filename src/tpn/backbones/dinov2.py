"""DINOv2's vision transformers: features of images of any kind, learned without labels."""

from collections.abc import Mapping
from functools import partial
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tpn.backbones._backbone import Backbone
from tpn.backbones._fetching import load_tensors
from tpn.backbones._normalisation import Normalisation
from tpn.backbones._pretrained import find_weights
from tpn.errors import TPNError

PATCH = 14
TRAINED_GRID = 37
"""Patches per side of the images of 518x518 pixels that the positions were trained for."""
OFFSET = 0.1
"""Added to the new grid's side before dividing, as in training: positions are sampled at slightly shifted points."""
NORM_EPSILON = 1e-6
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
UNUSED = {"mask_token"}
"""Weights that only training needs."""

Interpolation: TypeAlias = Literal["bicubic", "bilinear"]


class VisionTransformer(Backbone):
    """Oquab et al., "DINOv2: Learning Robust Visual Features without Supervision", TMLR 2024
    (https://arxiv.org/abs/2304.07193), after Dosovitskiy et al., ICLR 2021 (https://arxiv.org/abs/2010.11929).

    Patches of 14x14 pixels and a class token pass through pre-norm transformer blocks with layer scale; the normalised
    class token is the feature. Positions are interpolated to the grid of the image. It starts with random weights;
    `load_pretrained` loads published ones.
    """

    smallest_image = PATCH
    gives_vectors = True
    normalises_itself = True

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        channels: int = 3,
        grid: int = TRAINED_GRID,
        interpolation: Interpolation = "bicubic",
    ) -> None:
        if channels not in (1, 3):
            raise TPNError(f"DINOv2 takes images of 1 or 3 channels, not {channels}.")
        blocks = [TransformerBlock(width, heads) for _ in range(depth)]
        super().__init__(Tokens(width, grid, interpolation), *blocks, ClassToken(width))
        self.normalise = Normalisation(IMAGENET_MEAN, IMAGENET_STD)
        self.map_shape, self.widths = (width, 1, 1), (width,) * len(self.blocks)

    def prepare(self, images: Float[Tensor, "image channel height width"]) -> Float[Tensor, "image 3 height width"]:
        """Normalise images; repeat the channel of greyscale images three times."""
        return super().prepare(images.expand(-1, 3, -1, -1))

    def load_pretrained(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights by their published names; refuse those of another network."""
        own: dict[str, Tensor] = {}
        for name, tensor in weights.items():
            if name not in UNUSED:
                own[self._own_name(name)] = tensor
        try:
            self.load_state_dict(own)
        except RuntimeError as failure:
            reason = " ".join(str(failure).split())[:300]
            raise TPNError(f"The weights are not those of this vision transformer: {reason}") from failure

    def _own_name(self, name: str) -> str:
        first, _, rest = name.partition(".")
        if first == "blocks" and rest.partition(".")[0].isdecimal():
            number, _, rest = rest.partition(".")
            return f"blocks.{int(number) + 1}.{rest}"
        return f"blocks.{len(self.blocks) - 1}.{name}" if first == "norm" else f"blocks.0.{name}"


class Tokens(nn.Module):
    """From an image to tokens: one for each patch, and a class token in front; positions are added."""

    def __init__(self, width: int, grid: int, interpolation: Interpolation) -> None:
        super().__init__()
        self.grid, self.interpolation = grid, interpolation
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, PATCH, PATCH)})
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + grid * grid, width) * 0.02)

    def forward(self, images: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image token width2"]:
        height, width = images.shape[2] // PATCH, images.shape[3] // PATCH
        patches = self.patch_embed["proj"](images[:, :, : height * PATCH, : width * PATCH]).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(images), -1, -1), patches], 1)
        return tokens + self.positions(height, width)

    def positions(self, height: int, width: int) -> Float[Tensor, "1 token width2"]:
        """Return the positions for a grid of this size."""
        if (height, width) == (self.grid, self.grid):
            return self.pos_embed
        of_class, of_patches = self.pos_embed[:, :1], self.pos_embed[:, 1:]
        maps = of_patches.reshape(1, self.grid, self.grid, -1).permute(0, 3, 1, 2)
        factors = [(side + OFFSET) / self.grid for side in (height, width)]
        scaled = F.interpolate(maps, scale_factor=factors, mode=self.interpolation, recompute_scale_factor=False)
        return torch.cat([of_class, scaled.flatten(2).transpose(1, 2)], 1)


class TransformerBlock(nn.Module):
    """Self-attention and a two-layer perceptron, each normalised before, scaled after, and added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(width, NORM_EPSILON), Attention(width, heads), LayerScale(width)
        self.norm2, self.mlp, self.ls2 = nn.LayerNorm(width, NORM_EPSILON), Perceptron(width), LayerScale(width)

    def forward(self, tokens: Float[Tensor, "image token width"]) -> Float[Tensor, "image token width"]:
        tokens = tokens + self.ls1(self.attn(self.norm1(tokens)))
        added: Tensor = tokens + self.ls2(self.mlp(self.norm2(tokens)))
        return added


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Float[Tensor, "image token width"]) -> Float[Tensor, "image token width"]:
        image, token, width = tokens.shape
        parts = self.qkv(tokens).reshape(image, token, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values)
        projected: Tensor = self.proj(mixed.transpose(1, 2).reshape(image, token, width))
        return projected


class Perceptron(nn.Module):
    """Two layers, the inner one four times as wide."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Float[Tensor, "image token width"]) -> Float[Tensor, "image token width"]:
        projected: Tensor = self.fc2(F.gelu(self.fc1(tokens)))
        return projected


class LayerScale(nn.Module):
    """A learned factor for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Float[Tensor, "image token width"]) -> Float[Tensor, "image token width"]:
        return tokens * self.gamma


class ClassToken(nn.Module):
    """The normalised class token, as a map of height and width 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, NORM_EPSILON)

    def forward(self, tokens: Float[Tensor, "image token width"]) -> Float[Tensor, "image width 1 1"]:
        normalised: Tensor = self.norm(tokens[:, 0])
        return normalised[:, :, None, None]


ViTS14 = partial(VisionTransformer, width=384, depth=12, heads=6)
ViTB14 = partial(VisionTransformer, width=768, depth=12, heads=12)


class DINOv2Small(VisionTransformer):
    """ViT-S/14 with DINOv2's weights, as a backbone to train with."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__(**ViTS14.keywords, channels=channels)
        self.load_pretrained(load_tensors(find_weights("dinov2-s")))


class DINOv2Base(VisionTransformer):
    """ViT-B/14 with DINOv2's weights, as a backbone to train with."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__(**ViTB14.keywords, channels=channels)
        self.load_pretrained(load_tensors(find_weights("dinov2-b")))
