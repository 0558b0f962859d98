import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from newfound.errors import UserError
from newfound.model import Encoder, Model, load_model
from newfound.model.strangeness import Strangeness
from newfound.nets.heads import classifier


@pytest.fixture
def model():
    torch.manual_seed(0)
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.4]), torch.tensor([0.2]))
    return Model(
        encoder, classifier("linear", encoder.width, 3), ("a", "b"), ("novel-01",), method="kmeans", unit_features=True
    ).eval()


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def change(path, **more):
    content = json.loads((path / "model.json").read_text())
    (path / "model.json").write_text(json.dumps(content | more))


def test_a_model_comes_back_as_it_was(model, saved):
    loaded = load_model(saved)
    images = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(loaded(images), model(images))
    assert (loaded.known, loaded.novel, loaded.method, loaded.unit_features) == (
        ("a", "b"),
        ("novel-01",),
        "kmeans",
        True,
    )
    assert not loaded.training


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_a_head_is_found_again_by_its_name(kind, tmp_path):
    torch.manual_seed(0)
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.4]), torch.tensor([0.2]))
    head = classifier(kind, encoder.width, 3)
    if kind == "cosine":
        head.temperature = 0.3
    Model(encoder, head, ("a", "b"), ("novel-01",), method="apl").eval().save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").head
    features = torch.randn(4, encoder.width)
    assert type(loaded) is type(head)
    assert torch.equal(loaded(features), head(features))


@pytest.mark.parametrize(
    "head",
    [
        {"name": "arc"},
        {"name": "linear", "temperature": 1},
        {"name": "linear", "device": "cpu"},
        {"name": "cosine", "temperature": 0},
        {"name": "cosine", "temperature": "x"},
        {},
        "linear",
    ],
)
def test_a_head_that_makes_no_sense_is_a_sentence(saved, head):
    change(saved, head=head)
    with pytest.raises(UserError, match="does not describe a model"):
        load_model(saved)


@pytest.mark.parametrize("plain", [True, False])
def test_a_model_tells_strangers_after_it_was_saved_as_before(plain, tmp_path):
    torch.manual_seed(0)
    encoder = Encoder("tiny", 1, 8, torch.tensor([0.4]), torch.tensor([0.2]), dimension=5, whitened=True)
    model = Model(
        encoder, classifier("cosine", 5, 3), ("a", "b"), ("novel-01",), method="apl-features", unit_features=True
    ).eval()
    model.strangeness = Strangeness(7, encoder.net.width if plain else 5)
    model.strangeness.exemplars.normal_()
    model.strangeness_of_backbone = plain
    model.save(tmp_path / "model")
    images = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(load_model(tmp_path / "model").judge(images), model.judge(images))
    assert model.judge(images)[:, -1].min() > 0


def test_unit_features_have_length_one(model):
    features = model.features(torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8))
    torch.testing.assert_close(features.norm(dim=1), torch.ones(5))


def test_saving_again_replaces_a_model_and_nothing_else(model, saved, tmp_path):
    model.save(saved)
    load_model(saved)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    with pytest.raises(UserError, match="holds no model"):
        model.save(tmp_path / "letters")
    assert (tmp_path / "letters" / "mine.txt").read_text() == "dear"


@pytest.mark.parametrize("beside", ["mine.txt", None])
def test_saving_never_removes_what_is_not_a_model_s(model, saved, beside):
    if beside:
        (saved / beside).write_text("dear")
    else:
        (saved / "model.json").write_text("{}")  # another program's
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(UserError, match="or more than a model"):
        model.save(saved)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_every_damage_to_the_weights_is_a_sentence(saved):
    path = saved / "model.safetensors"
    content = path.read_bytes()
    tensors = load_file(path)
    damages = {
        "truncated": lambda: path.write_bytes(content[: len(content) // 2]),
        "empty": lambda: path.write_bytes(b""),
        "missing": path.unlink,
        "oversized header": lambda: path.write_bytes((2**62).to_bytes(8, "little") + content[8:]),
        "garbage": lambda: path.write_bytes(b"\x80\x04garbage" * 50),
        "unknown key": lambda: save_file(tensors | {"extra": torch.zeros(1)}, path),
        "missing key": lambda: save_file({k: v for k, v in tensors.items() if "head" not in k}, path),
        "wrong shape": lambda: save_file(tensors | {"head.bias": torch.zeros(7)}, path),
        "no number": lambda: save_file(tensors | {"head.bias": torch.tensor([0.0, float("nan"), 0.0])}, path),
        "infinite": lambda: save_file(tensors | {"head.bias": torch.tensor([0.0, float("inf"), 0.0])}, path),
        "infinite in 32 bits": lambda: save_file(
            tensors | {"head.bias": torch.tensor([0, 1e300, 0], dtype=torch.float64)}, path
        ),
        "a byte changed": lambda: path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]),
        "a folder": lambda: (path.unlink(), path.mkdir()),
    }
    for name, damage in damages.items():
        damage()
        with pytest.raises(UserError, match="does not hold the weights"):
            load_model(saved)
        if path.is_dir():
            path.rmdir()
        path.write_bytes(content)
        assert load_model(saved), name


def test_a_full_memory_is_not_taken_for_damage_to_the_weights(saved, monkeypatch):
    def full(path):
        raise RuntimeError(f"unable to mmap 80 bytes from file <{path}>: Cannot allocate memory (12)")

    monkeypatch.setattr("newfound.model.model.read_tensors", full)
    with pytest.raises(RuntimeError, match="Cannot allocate memory"):
        load_model(saved)


def test_a_model_from_before_there_were_checksums_is_read(model, saved):
    save_file(load_file(saved / "model.safetensors"), saved / "model.safetensors")
    images = torch.randint(0, 256, (5, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(load_model(saved)(images), model(images))


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"format": 99}, "newer newfound"),
        ({"format": 3}, "older newfound"),
        ({"network": "nonsense"}, "no network named"),
        ({"image": {"channels": 10**9, "size": 8}}, "does not describe a model"),
        ({"image": {}}, "does not describe a model"),
        ({"known": 3}, "does not describe a model"),
        ({"format": "x"}, "cannot be read"),
    ],
)
def test_a_description_that_makes_no_sense_is_a_sentence(saved, more, complaint):
    change(saved, **more)
    with pytest.raises(UserError, match=complaint):
        load_model(saved)


def test_a_folder_without_a_model_says_so(tmp_path):
    with pytest.raises(UserError, match="there is no model"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text("[1, 2]")
    with pytest.raises(UserError, match="cannot be read"):
        load_model(tmp_path)
