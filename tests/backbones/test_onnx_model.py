"""ONNX models as networks: size, layout and normalisation as the model or the user says."""

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", exc_type=ImportError)
pytest.importorskip("onnxruntime", exc_type=ImportError)

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tpn.backbones._pretrained import find_weights  # noqa: E402
from tpn.backbones.efficientnet_lite import EfficientNetLite0  # noqa: E402
from tpn.backbones.onnx_efficientnet import as_onnx  # noqa: E402
from tpn.backbones.onnx_model import OnnxInput, OnnxModel  # noqa: E402
from tpn.errors import TPNError  # noqa: E402

WEIGHT = np.random.default_rng(0).normal(size=(5, 3, 2, 2)).astype(np.float32)


def model(tmp_path, size=8, batch="n", layout="nchw", output="map", facts=None, kind=TensorProto.FLOAT):
    """A convolution of 2x2 pixels, as a map, a vector or tokens."""
    shape = [batch, 3, size, size] if layout == "nchw" else [batch, size, size, 3]
    nodes, last = [], "images"
    if kind != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", [last], ["cast"], to=TensorProto.FLOAT))
        last = "cast"
    if layout == "nhwc":
        nodes.append(helper.make_node("Transpose", [last], ["first"], perm=[0, 3, 1, 2]))
        last = "first"
    nodes.append(helper.make_node("Conv", [last, "weight"], ["maps"], strides=[2, 2]))
    if output == "vector":
        nodes += [helper.make_node("GlobalAveragePool", ["maps"], ["p"]), helper.make_node("Flatten", ["p"], ["out"])]
    elif output == "tokens":
        nodes.append(helper.make_node("Reshape", ["maps", "shape"], ["flat"]))
        nodes.append(helper.make_node("Transpose", ["flat"], ["out"], perm=[0, 2, 1]))
    else:
        perm = [0, 2, 3, 1] if layout == "nhwc" else [0, 1, 2, 3]
        nodes.append(helper.make_node("Transpose", ["maps"], ["out"], perm=perm))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", kind, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(WEIGHT, "weight"), numpy_helper.from_array(np.array([0, 5, -1]), "shape")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    for key, value in (facts or {}).items():
        made.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))
    file = tmp_path / "model.onnx"
    onnx.save(made, file)
    return file


def expected(images, mean, std, tokens=False):
    x = (images.numpy() - np.reshape(mean, (-1, 1, 1))) / np.reshape(std, (-1, 1, 1))
    n, _, h, w = x.shape
    patches = x.reshape(n, 3, h // 2, 2, w // 2, 2)
    maps = np.einsum("nchawb,fcab->nfhw", patches, WEIGHT.astype(np.float64))
    return maps[:, :, 0, 0] if tokens else maps.mean((2, 3))


IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("output", ["map", "vector", "tokens"])
@pytest.mark.parametrize("batch", ["n", 1, 3])
def test_any_layout_output_and_batch(tmp_path, layout, output, batch):
    made = OnnxModel(model(tmp_path, layout=layout, output=output, batch=batch))
    assert (made.layout, made.image_size, made.width) == (layout, 8, 5)
    np.testing.assert_allclose(made(IMAGES), expected(IMAGES, *IMAGENET, output == "tokens"), atol=1e-4)


@pytest.mark.parametrize(
    ("facts", "given", "normalisation"),
    [
        ({"Image.NominalPixelRange": "NominalRange_0_255"}, {}, (0, 1 / 255)),
        ({"Image.NominalPixelRange": "Normalized_0_1"}, {}, (0, 1)),
        ({"Image.NominalPixelRange": "Normalized_1_1"}, {}, (0.5, 0.5)),
        ({"mean": "[0.1, 0.2, 0.3]", "std": "[1, 2, 4]"}, {}, ((0.1, 0.2, 0.3), (1, 2, 4))),
        ({"mean": "what", "std": "[1, 2, 4]"}, {}, IMAGENET),
        ({"mean": "[1]", "std": "[1]"}, {}, IMAGENET),
        ({"Image.NominalPixelRange": "Normalized_0_1"}, {"mean": (0.3,) * 3, "std": (2.0,) * 3}, (0.3, 2)),
    ],
)
def test_normalisation_is_read_or_given(tmp_path, facts, given, normalisation):
    made = OnnxModel(model(tmp_path, facts=facts), OnnxInput(**given))
    mean, std = (np.broadcast_to(value, 3) for value in normalisation)
    np.testing.assert_allclose(made(IMAGES), expected(IMAGES, mean, std), rtol=1e-4, atol=1e-4)


def test_bytes_are_taken_as_bytes(tmp_path):
    made = OnnxModel(model(tmp_path, kind=TensorProto.UINT8))
    eight = torch.round(IMAGES * 255) / 255
    np.testing.assert_allclose(made(eight), expected(eight, (0,) * 3, (1 / 255,) * 3), rtol=1e-4)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.UINT8])
def test_pixels_are_embedded_as_images_are(tmp_path, layout, kind):
    made = OnnxModel(model(tmp_path, layout=layout, kind=kind, batch=2))
    pixels = np.random.default_rng(1).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    np.testing.assert_allclose(made.embed_pixels(pixels), made(images), rtol=1e-4, atol=1e-5)


def test_an_inner_value_as_output_and_a_free_size(tmp_path):
    file = model(tmp_path, size="side", output="tokens")
    made = OnnxModel(file, OnnxInput(image_size=8, output="maps"))
    np.testing.assert_allclose(made(IMAGES), expected(IMAGES, *IMAGENET), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "given", "complaint"),
    [
        ({"size": "side"}, {}, "choose one with input_size"),
        ({}, {"image_size": 10}, r"takes images of 8x8 pixels: leave out input_size 10"),
        ({}, {"output": "nothing"}, "no value called 'nothing'"),
        ({"kind": TensorProto.DOUBLE}, {}, "one input, a batch of images"),
        ({}, {"layout": "nhwc"}, "images of 8 channels"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, options, given, complaint):
    with pytest.raises(TPNError, match=complaint):
        OnnxModel(model(tmp_path, **options), OnnxInput(**given))


def test_files_that_are_no_models(tmp_path):
    (tmp_path / "junk.onnx").write_bytes(b"junk" * 100)
    with pytest.raises(TPNError, match=r"junk\.onnx cannot be run by onnxruntime"):
        OnnxModel(tmp_path / "junk.onnx")
    with pytest.raises(TPNError, match=r"no\.onnx does not exist"):
        OnnxModel(tmp_path / "no.onnx")


def test_efficientnet_is_the_same_by_onnxruntime():
    network = EfficientNetLite0(weights=find_weights("efficientnet-lite0")).eval().requires_grad_(False)
    made = OnnxModel(as_onnx(network))
    pixels = torch.nn.functional.interpolate(IMAGES[:2], (224, 224), mode="bicubic").clip(0, 1).mul(255).round()
    own = network.features(pixels / 255)
    torch.testing.assert_close(made(pixels / 255), own, rtol=1e-4, atol=1e-4)
    as_bytes = pixels.permute(0, 2, 3, 1).contiguous().to(torch.uint8).numpy()
    np.testing.assert_allclose(made.embed_pixels(as_bytes), own.numpy(), rtol=1e-4, atol=1e-4)
