"""The kernel makes the views that the batched arithmetic makes: in Triton's interpreter on a CPU, and on a GPU.

The interpreter has to be asked for before Triton is imported, and then holds for the whole process. So this file, run
as a program, is the process that uses it, once for all cases.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from newfound.views import multiview
from newfound.views.multiview import MultiViews
from newfound.views.natural import natural_views
from newfound.views.symbolic import symbolic_views

EVERYTHING = {"fill": 200, "rotation": 40.0, "affine": True, "grey": 0.5, "solarise": (0.5, 0.5, 0.5), "extra": 2}

EQUALISED = {
    "extra": 1,
    "extra_size": 32,
    "geometric": False,
    "jitter_probability": (0.0, 0.0, 0.0),
    "grey": 0.0,
    "solarise": (0.5, 0.5, 0.5),
    "equalise": (0.5, 0.5, 0.5),
}
"""Levels stay bytes, which nobody can round otherwise."""
MORE = {"padded": 0.5, "random_threshold": True, "equalise": (0.5, 0.5, 0.5)}


@dataclass(frozen=True)
class Case:
    views: MultiViews
    channels: int = 3
    height: int = 32
    width: int = 32
    n: int = 3
    rounded: bool = False
    """Whether views are equalised whose levels may be rounded either way, so that all levels above change a little."""


CASES = {
    "natural": Case(natural_views(32, extra=2)),
    "natural, one channel": Case(natural_views(32, extra=2), channels=1),
    "natural, one image": Case(natural_views(32, extra=2), n=1),
    "symbolic": Case(symbolic_views(28, extra=2), channels=1, height=28, width=28),
    "symbolic, three channels": Case(symbolic_views(28, extra=2), height=28, width=28),
    "everything": Case(MultiViews(28, extra_size=16, **EVERYTHING), n=5),
    "everything, one channel": Case(MultiViews(28, extra_size=16, **EVERYTHING), channels=1),
    "everything, blurred": Case(MultiViews(16, extra_size=13, blur=(0.5,) * 3, **EVERYTHING)),
    "higher than wide": Case(MultiViews(16, extra_size=9, **EVERYTHING), height=37, width=21),
    "wider than high": Case(MultiViews(16, extra_size=9, **EVERYTHING), height=18, width=40, channels=1),
    "the largest": Case(MultiViews(64, extra_size=1, **EVERYTHING | {"extra": 1}), n=2),
    "without hue": Case(natural_views(32, extra=2, jitter=(0.4, 0.4, 0.2, 0.0))),
    "without grey": Case(natural_views(32, extra=2, grey=0.0)),
    "without solarisation": Case(natural_views(32, extra=2, solarise=(0.0, 0.0, 0.0))),
    "without colours": Case(MultiViews(28, appearance=False, blur=(0.5,) * 3, **EVERYTHING)),
    "without extra views": Case(natural_views(32, extra=0)),
    "padded": Case(natural_views(32, extra=1, padded=0.5, fill=90), n=6),
    "padded and turned": Case(MultiViews(28, extra_size=16, padded=0.5, **EVERYTHING), channels=1, n=6),
    "solarised anywhere": Case(MultiViews(28, random_threshold=True, **EVERYTHING)),
    "equalised": Case(MultiViews(32, **EQUALISED)),
    "equalised, small": Case(MultiViews(18, **EQUALISED | {"extra_size": 18}), height=18, width=18),
    "equalised, too few pixels": Case(MultiViews(12, **EQUALISED | {"extra_size": 12}), height=12, width=12),
    "equalised, one channel": Case(MultiViews(28, **EQUALISED | {"extra_size": 28}), 1, 28, 28),
    "equalised, blurred": Case(MultiViews(20, blur=(0.5,) * 3, **EVERYTHING | MORE), n=2, rounded=True),
    "all of these": Case(natural_views(32, extra_size=18, **EVERYTHING | MORE), n=2, rounded=True),
}


def inputs(case):
    """Images of noise, whose channels are never all equal: grey pixels have no hue that could be compared."""
    generator = torch.Generator().manual_seed(5)
    shape = (case.n, case.channels, case.height, case.width)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    return images, case.views.draw(generator, case.n, torch.zeros((), dtype=torch.int64))


def parts(case, device="cpu"):
    images, drawn = inputs(case)
    crops = case.views.apply(images.to(device), {name: value.to(device) for name, value in drawn.items()})
    return {"whole": crops.whole, "extra": crops.extra}


def tolerance(case, exact):
    return 4 / 255 if case.rounded else exact


def lies_in_channels_last(part):
    flat = part.flatten(0, 1)
    return flat.data_ptr() == part.data_ptr() and flat.is_contiguous(memory_format=torch.channels_last)


def interpret(folder):
    """Write what the kernel, interpreted, makes of every case."""
    multiview.kernel_available = lambda images, size: True
    for name, case in CASES.items():
        made = parts(case)
        if not any(case.views.blur):
            assert all(lies_in_channels_last(part) for part in made.values() if len(part)), name
        np.savez(f"{folder}/{name}.npz", **{part: value.numpy() for part, value in made.items()})


def child(*arguments, **variables):
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | path | variables, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    folder = tmp_path_factory.mktemp("interpreted")
    child(__file__, folder, TRITON_INTERPRET="1")
    return folder


@pytest.mark.parametrize("name", CASES)
def test_the_interpreted_kernel_makes_the_views_of_the_batched_arithmetic(interpreted, name):
    expected = parts(CASES[name])
    with np.load(interpreted / f"{name}.npz") as made:
        for part, views in expected.items():
            assert made[part].dtype == np.float32
            assert made[part].shape == views.shape
            np.testing.assert_allclose(made[part], views, rtol=0, atol=tolerance(CASES[name], 1e-5), err_msg=part)


def test_views_on_a_cpu_need_no_triton():
    child(
        "-c",
        "import sys; sys.modules['triton'] = None\n"
        "import torch; from newfound.views.natural import natural_views\n"
        "views, images = natural_views(32, extra=2), torch.zeros(2, 3, 32, 32, dtype=torch.uint8)\n"
        "views.apply(images, views.draw(torch.Generator(), 2, torch.zeros(())))",
    )


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu_the_kernel_makes_the_views_of_the_batched_arithmetic(name, monkeypatch):
    case = CASES[name]
    assert multiview.kernel_available(inputs(case)[0].cuda(), case.views.size)
    made = parts(case, "cuda")
    monkeypatch.setattr(multiview, "kernel_available", lambda images, size: False)
    expected = parts(case, "cuda")
    for part, views in expected.items():
        # Both round coordinates in fused multiplications, but not the same ones: a few 1e-6 of a pixel, times the steps
        # of 1 between the pixels of noise and the factors of the colours.
        torch.testing.assert_close(made[part], views, rtol=0, atol=tolerance(case, 5e-5))
        if len(views) and not any(case.views.blur):
            assert lies_in_channels_last(made[part])


@pytest.mark.gpu
def test_a_cuda_graph_replays_the_kernel_on_new_images_and_parameters():
    case = CASES["natural"]
    images, drawn = inputs(case)
    images, drawn = images.cuda(), {name: value.cuda() for name, value in drawn.items()}
    case.views.apply(images, drawn)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        crops = case.views.apply(images, drawn)
    images.copy_(255 - images)
    for value in drawn.values():
        value.copy_(value.flip(1))
    graph.replay()
    expected = case.views.apply(images, drawn)
    assert torch.equal(crops.whole, expected.whole)
    assert torch.equal(crops.extra, expected.extra)


if __name__ == "__main__":
    interpret(sys.argv[1])
