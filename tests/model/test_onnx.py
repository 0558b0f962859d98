"""Models written as ONNX give what they give."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

from newfound import UserError
from newfound.data.decode import _square
from newfound.model import Encoder, Model
from newfound.model import onnx as writer
from newfound.model.onnx import write_onnx
from newfound.model.scaling import centre_square
from newfound.model.strangeness import learn_exemplars
from newfound.nets.heads import build_head

PROJECTED = {"name": "projected", "known": 2, "hidden": 8, "bottleneck": 4}


def make_model(network="tiny", channels=3, size=16, resized=0, dimension=0, head=None, strange=True, held_out=30):
    torch.manual_seed(0)
    level = torch.full((3 if resized else channels,), 0.4)
    whitened = {"dimension": dimension, "whitened": dimension > 0}
    encoder = Encoder(network, channels, size, level, level / 2, resized=resized, **whitened)
    head = build_head(encoder.width, 4, **(head or {"name": "linear"}))
    model = Model(encoder, head, ("cat", "dog"), ("novel-01", "novel-02"), method="kmeans", unit_features=True)
    if strange:
        model.strangeness = learn_exemplars(torch.randn(40, encoder.width), np.arange(40) % 4, 0)
    if strange and held_out:
        model.strangeness.calibrate(torch.rand(held_out) + 0.5)
    return model.eval()


def pixels(n, channels, height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, channels, height, width), dtype=np.uint8)


def run(path, images):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"images": images}), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"head": {"name": "cosine"}},
        {"head": PROJECTED},
        {"channels": 1, "dimension": 8},
        {"network": "vgg6"},
        pytest.param({"network": "resnet18", "size": 32}, marks=pytest.mark.slow),
        {"network": "efficientnet-lite0", "size": 16, "resized": 32, "dimension": 8, "channels": 1},
        pytest.param({"network": "vit-tiny-16", "size": 32}, marks=pytest.mark.slow),
    ],
)
def test_a_file_says_what_the_model_says(options, tmp_path):
    model = make_model(**options)
    encoder = model.encoder
    images = pixels(5, encoder.channels, encoder.size, encoder.size)
    write_onnx(model, tmp_path / "model.onnx", images=torch.from_numpy(images), about={})
    found = run(tmp_path / "model.onnx", images)
    with torch.no_grad():
        judged = model.judge(torch.from_numpy(images))
    np.testing.assert_allclose(found["probabilities"], judged[:, :-1].softmax(1), atol=1e-5)
    np.testing.assert_allclose(found["strangeness"], judged[:, -1], rtol=1e-3)
    np.testing.assert_allclose(found["p_value"], model.strangeness.p_value(judged[:, -1]), atol=1.1 / 31)


def test_p_values_are_those_of_the_model(tmp_path):
    model = make_model()
    write_onnx(model, tmp_path / "model.onnx", about={})
    found = run(tmp_path / "model.onnx", pixels(50, 3, 16, 16))
    wanted = model.strangeness.p_value(torch.from_numpy(found["strangeness"]))
    assert found["p_value"].tolist() == wanted.tolist()


def test_a_model_of_features_takes_features(tmp_path):
    model = make_model("features", channels=12, size=1, dimension=6)
    features = np.random.default_rng(0).normal(size=(7, 12)).astype(np.float32)
    write_onnx(model, tmp_path / "model.onnx", images=torch.from_numpy(features), about={})
    with torch.no_grad():
        wanted = model(torch.from_numpy(features)[:, :, None, None]).softmax(1)
    np.testing.assert_allclose(run(tmp_path / "model.onnx", features)["probabilities"], wanted, atol=1e-5)


@pytest.mark.parametrize("held_out", [None, 0, 3])
def test_a_file_has_the_outputs_that_the_model_has(held_out, tmp_path):
    model = make_model(strange=held_out is not None, held_out=held_out)
    written = write_onnx(model, tmp_path / "model.onnx", about={})
    expected = {None: ["probabilities"], 0: ["probabilities", "strangeness"]}
    assert list(written.outputs) == expected.get(held_out, ["probabilities", "strangeness", "p_value"])
    assert list(run(tmp_path / "model.onnx", pixels(2, 3, 16, 16))) == list(written.outputs)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (70, 131), (40, 41), (16, 16), (7, 9), (90, 60), (200, 3)])
def test_images_are_scaled_as_pillow_scales_them(height, width):
    image = pixels(1, 3, height, width)
    wanted = _square(Image.fromarray(image[0].transpose(1, 2, 0)), 16)
    found = centre_square(torch.from_numpy(image), 16)[0].numpy()
    # Of tall images newer versions of Pillow scale the columns first.
    assert np.abs(found - wanted).max() <= (height > width)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (70, 131), (7, 9)])
def test_a_file_takes_images_of_any_size(height, width, tmp_path):
    model = make_model()
    write_onnx(model, tmp_path / "model.onnx", about={})
    images = pixels(3, 3, height, width)
    small = np.stack([_square(Image.fromarray(image.transpose(1, 2, 0)), 16) for image in images])
    found = run(tmp_path / "model.onnx", images)["probabilities"]
    np.testing.assert_allclose(found, model(torch.from_numpy(small)).softmax(1).detach(), atol=1e-4)


def test_the_metadata_says_what_the_file_is(tmp_path):
    about = {"weights": "none", "near": {"novel-01": ["cat"]}}
    images = torch.from_numpy(pixels(6, 3, 16, 16))
    write_onnx(make_model(), tmp_path / "model.onnx", images=images, about=about)
    props = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(props["categories"]) == ["cat", "dog", "novel-01", "novel-02"]
    assert json.loads(props["known"]) == ["cat", "dog"]
    assert json.loads(props["near"]) == {"novel-01": ["cat"]}
    assert json.loads(props["image"]) == {"channels": 3, "size": 16}
    assert (props["network"], props["weights"], props["method"]) == ("tiny", "none", "kmeans")
    compared = json.loads(props["compared"])
    assert (compared["images"], compared["real"]) == (6, True)
    assert 0 <= compared["probability"] < 1e-4


def test_the_model_that_is_written_stays_as_it_was(tmp_path):
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    write_onnx(model.train(), tmp_path / "model.onnx", about={})
    assert model.training
    assert all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_file_that_says_something_else_is_not_written(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_text("what was there")
    exported = writer._exported

    def wrong(graph, example):
        graph.model.head.bias.data[0] += 0.1
        content = exported(graph, example)
        graph.model.head.bias.data[0] -= 0.1
        return content

    monkeypatch.setattr(writer, "_exported", wrong)
    with pytest.raises(UserError, match=r"up to 0\.0\d+ from the model's, more than 0\.001"):
        write_onnx(make_model(), tmp_path / "model.onnx", about={})
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("model.onnx", "what was there")]


def test_what_is_no_plain_file_is_not_replaced(tmp_path):
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "link.onnx").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe.onnx")
    for name, reason in [
        ("folder.onnx", "is a folder"), ("link.onnx", "is a link"), ("pipe.onnx", "no plain file"),
        ("none/model.onnx", "does not exist"), ("model.pt", r"ends in \.onnx"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=reason):
            write_onnx(make_model(), tmp_path / name, about={})
    assert not (tmp_path / "elsewhere").exists()


def test_a_model_beyond_two_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "LARGEST", 1000)
    with pytest.raises(UserError, match="an ONNX file can have 2 GB"):
        write_onnx(make_model(), tmp_path / "model.onnx", about={})


def test_a_full_memory_is_not_taken_for_a_network_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: torch.empty(2**50, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        write_onnx(make_model(), tmp_path / "model.onnx", about={})
    assert list(tmp_path.iterdir()) == []


def test_without_the_packages_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r'pip install "newfound\[onnx\]"'):
        write_onnx(make_model(), tmp_path / "model.onnx", about={})


def test_newfound_does_not_import_onnx_until_a_file_is_written():
    imports = "import sys, newfound.estimator.discoverer, newfound.runs.found"
    code = f"{imports}; print({{'onnx', 'onnxruntime'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "set()", done.stderr


def test_no_transposed_matrix_of_float64_is_multiplied(tmp_path):
    """onnxruntime up to 1.23 joins the two operations into one that it has for float32 alone."""
    write_onnx(make_model(), tmp_path / "model.onnx", about={})
    graph = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "model.onnx")).graph
    made_by = {name: node for node in graph.node for name in node.output}
    double = {value.name for value in graph.value_info if value.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE}
    factors = [name for node in graph.node if node.op_type == "MatMul" for name in node.input if name in double]
    assert factors
    assert not [name for name in factors if made_by[name].op_type == "Transpose"]
