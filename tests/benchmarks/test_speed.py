"""The benchmarks of UNO's step and of ImageNet run through, and UNO's rival does the work that our step does."""

import argparse
import json
import sys
from pathlib import Path

import pytest
import torch

from newfound.losses import swapped_prediction
from newfound.losses.sinkhorn import sinkhorn
from newfound.methods.parts.swapped import HeadsSettings

SPEED = Path(__file__).parents[2] / "benchmarks" / "speed"
MODULES = ("uno", "unoloop", "rivals", "imagenet", "steps", "page", "record")

STAND_IN = {
    "torchvision/__init__.py": "__version__ = 'stand-in'",
    "torchvision/transforms.py": """
import random, numpy, torch
class Compose:
    def __init__(self, parts): self.parts = parts
    def __call__(self, image):
        for part in self.parts: image = part(image)
        return image
class RandomResizedCrop:
    def __init__(self, size, scale, ratio): self.size = size
    def __call__(self, image): return image.resize((self.size, self.size))
class RandomChoice:
    def __init__(self, parts, p): self.parts, self.p = parts, p
    def __call__(self, image): return random.choices(self.parts, self.p)[0](image)
class ToTensor:
    def __call__(self, image): return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float() / 255
class Same:
    def __init__(self, *_, **__): pass
    def __call__(self, image): return image
RandomApply = ColorJitter = RandomEqualize = Normalize = RandomHorizontalFlip = RandomCrop = Same
""",
    "torchvision/models.py": """
from torch import nn
class resnet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.maxpool, self.fc = nn.Conv2d(3, 8, 7, 2), nn.MaxPool2d(2), nn.Linear(8, 10)
    def forward(self, x): return self.fc(self.maxpool(self.conv1(x)).relu().mean((2, 3)))
""",
}
"""What the loop needs of torchvision, in the place of it."""


@pytest.fixture
def speed(monkeypatch):
    """The module of that name in benchmarks/speed."""
    for folder in (SPEED.parent, SPEED):
        monkeypatch.syspath_prepend(str(folder))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield __import__
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def torchvision(monkeypatch, tmp_path):
    for path, text in STAND_IN.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_benchmark_runs_through_and_its_page_has_the_figures(speed, torchvision, monkeypatch):
    uno, page = speed("uno"), speed("page")
    monkeypatch.setattr(uno.UnoBench.time, "__defaults__", (1,))
    record = uno.measure(argparse.Namespace(tiny=True, rival=True), torch.device("cpu"))
    assert "reason" not in record["rival"], record["rival"]
    assert record["rival"]["versions"]["torchvision"] == "stand-in"
    assert set(record["ms"]) == {"bare", "full", "bare again", "full, kernel by kernel"}
    rates = [record["images_per_s"]["full"], record["images_per_s"]["bare"], record["rival"]["images_per_s"]]
    assert all(rate > 0 for rate in rates)
    made = {"versions": {"torch": "2"}, "hardware": "a machine", "date": "2026-01-02T03", "commit": "abc"}
    h200, cpu = (json.loads((SPEED / name).read_text()) for name in ("h200.json", "cpu.json"))
    text = page.page(h200, cpu, record | made | {"settings": {"heads": {"count": 2}}})
    assert "## UNO's discovery" in text
    assert f"| our step, everything on | {rates[0]:,.0f} |" in text
    assert f"| an ordinary loop, written by us | {rates[2]:,.0f} | newfound is {rates[0] / rates[2]:.1f} times" in text
    assert "## UNO's discovery" not in page.page(h200, cpu)


def test_without_torchvision_the_rival_says_so_and_so_does_the_page(speed, tmp_path, monkeypatch):
    (tmp_path / "torchvision.py").write_text("raise ModuleNotFoundError('No module named torchvision')")
    monkeypatch.syspath_prepend(str(tmp_path))
    images = torch.zeros(8, 32, 32, 3, dtype=torch.uint8).numpy()
    found = speed("unoloop").uno_images_per_s(images, 2, 2, 4, batch=4, workers=0, device="cpu")
    reason = "torchvision cannot be imported here: No module named torchvision"
    assert found == {"images_per_s": None, "reason": reason}


def test_the_rival_has_our_labels_and_our_loss(speed):
    loop, chosen = speed("unoloop"), HeadsSettings()
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(4, 30, 6, generator=generator) * 2 - 1
    novel = torch.rand(4, 30, 5, generator=generator) * 2 - 1
    labels = torch.cat([torch.arange(12) % 6, torch.full((18,), -1)])
    soft = sinkhorn(novel[:2, 12:], epsilon=chosen.epsilon, rounds=chosen.rounds)
    torch.testing.assert_close(loop.balanced(novel[0, 12:], chosen.epsilon, chosen.rounds), soft[0])
    targets = torch.zeros(1, 2, 30, 11)
    targets[:, :, torch.arange(12), labels[:12]] = 1
    targets[:, :, 12:, 6:] = soft
    logits = torch.cat([known, novel], -1)[None] / chosen.temperature
    ours = swapped_prediction(logits, targets).sum()
    theirs = loop.head_loss(list(known), list(novel), labels, chosen)
    torch.testing.assert_close(theirs, ours)


def test_the_benchmark_of_imagenet_runs_through_and_its_page_has_the_hours(speed, monkeypatch):
    imagenet, page = speed("imagenet"), speed("page")
    monkeypatch.setattr(imagenet.ImageNetBench.time, "__defaults__", (1,))
    monkeypatch.setattr(sys.modules["steps"], "WARM_UP", -1)
    record = imagenet.measure(torch.device("cpu"), tiny=True)
    assert (record["batch"], record["steps_per_epoch"], record["epochs"]) == (8, 10, 100)
    assert record["images_per_s"] == pytest.approx(1e3 * 8 / record["ms"], abs=1)
    assert record["hours"] == pytest.approx(record["ms"] * 10 * 100 / 3.6e6, abs=0.005)
    made = {"versions": {"torch": "2"}, "hardware": "a machine", "date": "2026-01-02T03", "commit": "abc"}
    h200, cpu = (json.loads((SPEED / name).read_text()) for name in ("h200.json", "cpu.json"))
    text = " ".join(page.page(h200, cpu, None, record | made | {"hours": 12.34}).split())
    assert f"{record['images_per_s']:,} images/s in batches of 8" in text
    assert "that makes 12.3 hours" in text
    assert "Missing: not measured yet." in page.page(h200, cpu)


def test_noise_stands_for_as_many_images_as_the_task_has(speed):
    imagenet = speed("imagenet")
    collection = imagenet.noise(60, 20, 6, 3, 16)
    assert (len(collection.train), collection.n_labelled, collection.n_unlabelled) == (80, 60, 20)
    batch = collection.train.to(torch.device("cpu")).batch(torch.tensor([3, 19, 79]))
    assert torch.equal(batch, collection.train.images[[3, 3, 15]])
    assert len(collection.train.take(collection.unlabelled)) == 20
    assert imagenet.LABELLED == 1_129_989
