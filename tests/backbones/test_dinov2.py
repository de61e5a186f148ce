"""The vision transformer: against one written out in NumPy, and against onnxruntime where DINOv2's weights are."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import erf

from tpn.backbones._fetching import load_tensors
from tpn.backbones.dinov2 import VisionTransformer
from tpn.errors import TPNError

WIDTH, DEPTH, HEADS, GRID = 12, 2, 3, 5


@pytest.fixture(scope="module")
def weights():
    """Random weights by DINOv2's published names."""
    rng = np.random.default_rng(0)
    shapes = {
        "cls_token": (1, 1, WIDTH),
        "pos_embed": (1, 1 + GRID**2, WIDTH),
        "mask_token": (1, WIDTH),
        "patch_embed.proj.weight": (WIDTH, 3, 14, 14),
        "patch_embed.proj.bias": (WIDTH,),
        "norm.weight": (WIDTH,),
        "norm.bias": (WIDTH,),
    }
    for block in range(DEPTH):
        for name, shape in {
            "norm1.weight": (WIDTH,),
            "norm1.bias": (WIDTH,),
            "attn.qkv.weight": (3 * WIDTH, WIDTH),
            "attn.qkv.bias": (3 * WIDTH,),
            "attn.proj.weight": (WIDTH, WIDTH),
            "attn.proj.bias": (WIDTH,),
            "ls1.gamma": (WIDTH,),
            "norm2.weight": (WIDTH,),
            "norm2.bias": (WIDTH,),
            "mlp.fc1.weight": (4 * WIDTH, WIDTH),
            "mlp.fc1.bias": (4 * WIDTH,),
            "mlp.fc2.weight": (WIDTH, 4 * WIDTH),
            "mlp.fc2.bias": (WIDTH,),
            "ls2.gamma": (WIDTH,),
        }.items():
            shapes[f"blocks.{block}.{name}"] = shape
    return {name: torch.tensor(rng.normal(0, 0.5, shape), dtype=torch.float32) for name, shape in shapes.items()}


@pytest.fixture
def network(weights):
    made = VisionTransformer(WIDTH, DEPTH, HEADS, grid=GRID).eval().requires_grad_(False)
    made.load_pretrained(weights)
    return made


def layer_norm(x, weight, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * weight + bias


def cubic(distance):
    """Keys' kernel with a = -0.75, as PyTorch has it."""
    d, a = abs(distance), -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def interpolation(sides, grid):
    """The matrix from positions on a line of `grid` points to `sides` of them: at (i + 0.5) / scale - 0.5."""
    scale = (sides + 0.1) / grid
    matrix = np.zeros((sides, grid))
    for row in range(sides):
        place = (row + 0.5) / scale - 0.5
        first = int(np.floor(place))
        for column in range(first - 1, first + 3):
            matrix[row, min(max(column, 0), grid - 1)] += cubic(place - column)
    return matrix


def reference(weights, images):
    """The class token, in double precision and by sums of products."""
    w = {name: tensor.double().numpy() for name, tensor in weights.items()}
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    out = []
    for image in images.double().numpy():
        pixels = (image - mean[:, None, None]) / std[:, None, None]
        high, wide = image.shape[1] // 14, image.shape[2] // 14
        patches = [
            pixels[:, 14 * i : 14 * i + 14, 14 * j : 14 * j + 14].ravel() for i in range(high) for j in range(wide)
        ]
        embedded = patches @ w["patch_embed.proj.weight"].reshape(WIDTH, -1).T + w["patch_embed.proj.bias"]
        positions = w["pos_embed"][0, 1:].reshape(GRID, GRID, WIDTH)
        if (high, wide) != (GRID, GRID):
            positions = np.einsum("ia,jb,abc->ijc", interpolation(high, GRID), interpolation(wide, GRID), positions)
        tokens = np.concatenate([w["cls_token"][0] + w["pos_embed"][0, :1], embedded + positions.reshape(-1, WIDTH)])
        for block in range(DEPTH):
            b = {name.removeprefix(f"blocks.{block}."): value for name, value in w.items()}
            q, k, v = np.split(
                layer_norm(tokens, b["norm1.weight"], b["norm1.bias"]) @ b["attn.qkv.weight"].T + b["attn.qkv.bias"],
                3,
                1,
            )
            heads = []
            for head in range(HEADS):
                part = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
                scores = q[:, part] @ k[:, part].T / np.sqrt(WIDTH // HEADS)
                attention = np.exp(scores - scores.max(1, keepdims=True))
                heads.append(attention / attention.sum(1, keepdims=True) @ v[:, part])
            mixed = np.concatenate(heads, 1) @ b["attn.proj.weight"].T + b["attn.proj.bias"]
            tokens = tokens + b["ls1.gamma"] * mixed
            inner = layer_norm(tokens, b["norm2.weight"], b["norm2.bias"]) @ b["mlp.fc1.weight"].T + b["mlp.fc1.bias"]
            inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
            tokens = tokens + b["ls2.gamma"] * (inner @ b["mlp.fc2.weight"].T + b["mlp.fc2.bias"])
        out.append(layer_norm(tokens, w["norm.weight"], w["norm.bias"])[0])
    return np.stack(out)


@pytest.mark.parametrize("shape", [(70, 70), (42, 42), (98, 98), (28, 56), (50, 45)])
def test_it_is_the_network_of_the_equations(network, weights, shape):
    torch.manual_seed(1)
    images = torch.rand(2, 3, *shape)
    expected = reference(weights, images)
    np.testing.assert_allclose(network.features(images), expected, rtol=1e-4, atol=1e-4)


def test_grey_images_and_small_ones(network):
    grey = torch.rand(1, 1, 28, 28)
    torch.testing.assert_close(network(grey), network(grey.expand(-1, 3, -1, -1)))
    with pytest.raises(TPNError, match="1 or 3 channels, not 2"):
        VisionTransformer(WIDTH, DEPTH, HEADS, channels=2)


def test_every_weight_learns(weights):
    network = VisionTransformer(WIDTH, DEPTH, HEADS, grid=GRID)
    network(torch.rand(2, 3, 42, 42)).square().mean().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in network.parameters())


def test_weights_of_another_network_are_refused(network, weights):
    with pytest.raises(TPNError, match="not those of this vision transformer"):
        network.load_pretrained({name: tensor for name, tensor in weights.items() if name != "norm.bias"})
    with pytest.raises(TPNError, match="not those of this vision transformer"):
        network.load_pretrained(weights | {"blocks.2.norm1.weight": torch.ones(WIDTH)})


def test_weights_come_out_of_an_onnx_file_by_their_names(weights, tmp_path):
    """As PyTorch exports it: matrices transposed and nameless, positions without that of the class token."""
    onnx = pytest.importorskip("onnx", exc_type=ImportError)
    helper, as_tensor = onnx.helper, onnx.numpy_helper.from_array
    equal = weights | {"pos_embed": torch.cat([weights["cls_token"], weights["pos_embed"][:, 1:]], 1)}
    nodes = [helper.make_node("Reshape", ["positions", "shape"], ["grid"]), helper.make_node("Resize", ["grid"], ["r"])]
    tensors = [as_tensor(equal["pos_embed"][:, 1:].numpy(), "positions")]
    for index, (name, tensor) in enumerate(equal.items()):
        if name.startswith("blocks") and tensor.ndim == 2:
            place = "/" + name.removesuffix(".weight").replace(".", "/").replace("blocks/", "blocks.") + "/MatMul"
            tensors.append(as_tensor(np.ascontiguousarray(tensor.numpy().T), f"onnx::MatMul_{index}"))
            nodes.append(helper.make_node("MatMul", ["x", f"onnx::MatMul_{index}"], [f"o{index}"], name=place))
        elif name not in ("pos_embed", "mask_token"):
            tensors.append(as_tensor(tensor.numpy(), f"model.{name}"))
    file = tmp_path / "vit.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [], tensors)), file)
    found = load_tensors(file)
    assert found.keys() == equal.keys() - {"mask_token"}
    assert all(torch.equal(found[name], equal[name]) for name in found)
    (tmp_path / "not.onnx").write_bytes(b"junk")
    with pytest.raises(TPNError, match="not an ONNX model, or is damaged"):
        load_tensors(tmp_path / "not.onnx")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [])), file)
    with pytest.raises(TPNError, match="does not hold a DINOv2"):
        load_tensors(file)


@pytest.mark.skipif("TPN_DINOV2_ONNX" not in os.environ, reason="TPN_DINOV2_ONNX does not name an exported ViT-S/14")
def test_dinov2_as_onnxruntime_runs_it():
    """The class token of the exported file, which interpolates positions linearly."""
    from sklearn.datasets import load_sample_images

    from tpn.backbones.onnx_model import OnnxInput, OnnxModel

    file = Path(os.environ["TPN_DINOV2_ONNX"])
    network = VisionTransformer(384, 12, 6, interpolation="bilinear").eval().requires_grad_(False)
    network.load_pretrained(load_tensors(file))
    photographs = [torch.tensor(image).permute(2, 0, 1)[None].float() / 255 for image in load_sample_images().images]
    crops = [
        one[..., y : y + 224, x : x + 224] for one in photographs for y in range(0, 200, 40) for x in range(0, 400, 80)
    ]
    images = torch.cat(crops)
    assert len(images) == 50
    exported = OnnxModel(file, OnnxInput(output="/norm/Add_1_output_0"))
    expected, own = exported(images), network.features(images)
    assert ((own - expected).norm(dim=1) / expected.norm(dim=1)).max() < 1e-4
