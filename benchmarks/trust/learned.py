"""How well a run that trains a network of its own tells that known categories hide in its pile: writes learned.json.

    python benchmarks/trust/learned.py --data ROOT --fashion FOLDER [--seeds 3]

A seed draws 5 known and 5 novel categories of digits or photographs, or 10 and 10 characters; 40 images of each novel
one (20 of a character) are the pile, and as many of each known one are labelled. Then three tenths of the labelled
images go over to the pile, and the method runs once more. Runs have 12 seconds of training, as somebody gives who tries
a method on a CPU. The bar was chosen on other draws (seeds 710 and 711).
"""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pools import Pool, cifar100, digits, omniglot, options, write

from newfound import Discoverer
from newfound.data.store import ImageStore
from newfound.trust.warnings import WITHIN_LEARNED

RECORD = Path(__file__).parent / "learned.json"
METHODS = ("kmeans", "uno", "apl")
KINDS = {"digits": (digits, 5, 40), "omniglot": (omniglot, 10, 20), "cifar100": (cifar100, 5, 40)}
"""The pool, how many of its categories are known and as many novel, and images of each."""
HIDDEN, TIME, MOST = 0.3, 12.0, 32
"""The share of known images in the mixed pile, seconds of training, and the side of images in pixels."""
BARS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)


def arrays(pool: Pool, n: int, each: int, hidden: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, H, W, 3] and their labels, -1 in the pile; ``hidden`` images of each known category are there."""
    rng = np.random.default_rng([seed, 0x1EA2])
    names = rng.permutation(np.unique(pool.categories))[: 2 * n]
    rows = [rng.permutation(pool.of(name))[:each] for name in names]
    labels = np.repeat(np.where(np.arange(2 * n) < n, np.arange(2 * n), -1), each)
    labels[: n * each][np.tile(np.arange(each) < hidden, n)] = -1
    images = pool.images.images[torch.from_numpy(np.concatenate(rows))]
    if images.shape[-1] > MOST:
        images = F.interpolate(images.float(), size=(MOST, MOST), mode="area").round().to(torch.uint8)
    return ImageStore(images).images.permute(0, 2, 3, 1).numpy(), labels


def table(record: dict[str, Any]) -> str:
    """How often each bar is reached, with known images in the pile and without."""
    head = "| images | known images in the pile | runs | mean gauge |" + "".join(
        f" told at {bar:.0%} |" for bar in BARS
    )
    lines = [head, "|---" * (4 + len(BARS)) + "|"]
    for kind, share in product(KINDS, sorted({run["old"] for run in record["runs"]})):
        gauges = np.array([run["within"] for run in record["runs"] if (run["kind"], run["old"]) == (kind, share)])
        told = "".join(f" {(gauges >= bar).mean():.0%} |" for bar in BARS)
        lines.append(f"| {kind} | {share:.0%} | {len(gauges)} | {gauges.mean():.1%} |{told}")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = options(__doc__, seeds=3)
    warnings.simplefilter("ignore")
    runs = []
    for kind, (pool_of, n, each) in KINDS.items():
        pool = pool_of(chosen.roots[kind])
        for seed, method, share in product(range(chosen.first, chosen.first + chosen.seeds), METHODS, (0.0, HIDDEN)):
            hidden = round(share * each)
            images, labels = arrays(pool, n, each, hidden, seed)
            model = Discoverer(n_novel=n, method=method, time=TIME, device="cpu", random_state=seed).fit(images, labels)
            old = hidden / (hidden + each)
            runs.append({"kind": kind, "seed": seed, "method": method, "old": old, "within": model.trust_["within"]})
            print(runs[-1], flush=True)
    record = {"seconds": TIME, "bar": WITHIN_LEARNED, "runs": runs}
    print(table(record))
    write(RECORD, record, chosen)


if __name__ == "__main__":
    main()
