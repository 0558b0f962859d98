"""Small data sets in the publishers' layouts: the Python 2 pickles of CIFAR, OmniGlot's and ImageNet's folders."""

import itertools
import struct
from pathlib import Path

import numpy as np
from PIL import Image

RECONSTRUCT, NDARRAY, DTYPE = b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n", b"cnumpy\ndtype\n"
U1 = b"U\x02u1K\x00K\x01\x87R"
U1_STATE = b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def python2_pickle(value) -> bytes:
    """What cPickle of Python 2 wrote at protocol 2, with its numbers for what may be asked for again."""
    return b"\x80\x02" + _encode(value, itertools.count(1)) + b"."


def _encode(value, numbers) -> bytes:
    if isinstance(value, np.ndarray):
        made = RECONSTRUCT + _put(numbers) + NDARRAY + _put(numbers) + b"K\x00\x85U\x01b\x87R" + _put(numbers)
        shape = b"".join(_encode(n, numbers) for n in value.shape) + {1: b"\x85", 2: b"\x86", 3: b"\x87"}[value.ndim]
        kind = DTYPE + _put(numbers) + U1 + _put(numbers) + U1_STATE
        return made + b"(K\x01" + shape + kind + b"\x89" + _text(value.tobytes()) + b"tb"
    if isinstance(value, bytes):
        return _text(value) + _put(numbers)
    if isinstance(value, int):
        if 0 <= value < 256:
            return b"K" + bytes([value])
        return b"M" + struct.pack("<H", value) if 0 <= value < 65536 else b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        begin = b"]" + _put(numbers)
        thousands = (value[i : i + 1000] for i in range(0, len(value), 1000))
        return begin + b"".join(b"(" + b"".join(_encode(item, numbers) for item in some) + b"e" for some in thousands)
    begin = b"}" + _put(numbers)
    pairs = b"".join(_encode(key, numbers) + _encode(item, numbers) for key, item in value.items())
    return begin + b"(" + pairs + b"u"


def _put(numbers) -> bytes:
    number = next(numbers)
    return b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<i", number)


def _text(content: bytes) -> bytes:
    short = len(content) < 256
    return (b"U" + bytes([len(content)]) if short else b"T" + struct.pack("<i", len(content))) + content


# CIFAR

CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
CIFAR100_NAMES = [f"thing_{k:02d}" for k in range(100)]


def cifar_images(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)


def cifar_labels(classes: int, each: int, seed: int) -> list[int]:
    """``each`` of every class, mixed."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), each)).tolist()


def write_cifar10(root: Path, each: int = 10, each_test: int = 2) -> Path:
    """CIFAR-10 with ``each`` training and ``each_test`` test images a class; gives the folder of its files."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    images, labels = cifar_images(10 * each, 0), cifar_labels(10, each, 1)
    for k in range(5):
        part = slice(2 * each * k, 2 * each * (k + 1))
        label = b"training batch %d of 5" % (k + 1)
        write_batch(folder / f"data_batch_{k + 1}", label, images[part], labels=labels[part])
    test = cifar_images(10 * each_test, 2), cifar_labels(10, each_test, 3)
    write_batch(folder / "test_batch", b"testing batch 1 of 1", test[0], labels=test[1])
    names = [name.encode() for name in CIFAR10_NAMES]
    meta = {b"num_cases_per_batch": 10000, b"label_names": names, b"num_vis": 3072}
    (folder / "batches.meta").write_bytes(python2_pickle(meta))
    return folder


def write_cifar100(root: Path, each: int = 2, each_test: int = 1) -> Path:
    """CIFAR-100 with ``each`` training and ``each_test`` test images a class; gives the folder of its files."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for seed, (name, n) in enumerate({"train": each, "test": each_test}.items()):
        fine = cifar_labels(100, n, seed)
        coarse = [label // 5 for label in fine]
        write_batch(folder / name, b"batch", cifar_images(100 * n, seed), fine_labels=fine, coarse_labels=coarse)
    meta = {b"fine_label_names": [n.encode() for n in CIFAR100_NAMES], b"coarse_label_names": [b"group"] * 20}
    (folder / "meta").write_bytes(python2_pickle(meta))
    return folder


def write_batch(path: Path, label: bytes, images: np.ndarray, **labels: list[int]) -> None:
    names = [b"a_s_%06d.png" % i for i in range(len(images))]
    lists = {key.encode(): value for key, value in labels.items()}
    path.write_bytes(python2_pickle({b"batch_label": label, **lists, b"data": images, b"filenames": names}))


# OmniGlot


def write_omniglot(root: Path, part: str, alphabets: dict[str, int], drawings: int = 20) -> None:
    """Alphabets of so many characters; a drawing's black square tells its character and drawer apart."""
    for a, (alphabet, characters) in enumerate(alphabets.items()):
        for c in range(characters):
            folder = root / part / alphabet / f"character{c + 1:02d}"
            folder.mkdir(parents=True)
            for drawer in range(drawings):
                pixels = np.full((105, 105), 255, np.uint8)
                pixels[5 * c : 5 * c + 20, 2 * drawer : 2 * drawer + 20] = 0
                Image.fromarray(pixels).convert("1").save(folder / f"{100 * a + c + 1:04d}_{drawer + 1:02d}.png")


# ImageNet


def write_imagenet(root: Path, classes: list[str], parts: dict[str, int]) -> None:
    """JPEG images, so many a class in each part (train, val); the grey of an image tells its class."""
    for part, n in parts.items():
        for k, wordnet_id in enumerate(classes):
            folder = root / part / wordnet_id
            folder.mkdir(parents=True)
            for i in range(n):
                name = f"{wordnet_id}_{i}.JPEG" if part == "train" else f"ILSVRC2012_val_{100 * k + i:08d}.JPEG"
                Image.new("RGB", (20, 16), (5 * k, 5 * k, 5 * k)).save(folder / name)
