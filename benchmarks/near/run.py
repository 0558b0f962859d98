"""How often a known category named near a novel one is of the same superclass of CIFAR-100: record.json.

    python benchmarks/near/run.py --data ROOT [--keep FILE.npy]      has the features, or gets them

Rehearsal: of the 80 labelled classes some are known and others hidden; the bar is chosen there, the smallest of BARS at
which four of five first names are right. Result: the 20 novel classes, some of them a draw, under that bar. Groups are
found as apl-features finds them (whitening and k-means on EfficientNet-Lite0's features of 50 images a class); a
group's superclass is that of most of its images.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.data.store import ImageStore
from newfound.data.unpickle import read_pickle
from newfound.engine.features import read_features
from newfound.methods import get_method
from newfound.model.encoder import Encoder
from newfound.nets.pretrained import find_backbone
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.trust.near import NEAR, near_known

RECORD = Path(__file__).parent / "record.json"
EACH = 50
DRAWS = ((8, 6, 12), (16, 8, 12), (30, 10, 8), (60, 15, 4))
"""Known classes, novel ones, and how many draws of such."""
BARS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RIGHT = 0.8


def read(root: Path, keep: Path | None) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Features [100 EACH, D], the class of each, and the superclass of each class."""
    raw: Any = read_pickle(root / "cifar-100-python" / "train")
    fine, coarse = np.array(raw[b"fine_labels"]), np.array(raw[b"coarse_labels"])
    rows = np.concatenate([np.flatnonzero(fine == c)[:EACH] for c in range(100)])
    superclass = np.array([coarse[fine == c][0] for c in range(100)])
    if keep and keep.exists():
        return torch.from_numpy(np.load(keep)), fine[rows], superclass
    pixels = np.asarray(raw[b"data"]).reshape(-1, 3, 32, 32)[rows]
    backbone = find_backbone("efficientnet-lite0", None)
    mean, deviation = torch.tensor(backbone.mean), torch.tensor(backbone.deviation)
    encoder = Encoder(backbone.network, 3, 32, mean, deviation, resized=backbone.size)
    encoder.net.load_state_dict(backbone.net.state_dict())
    device, store = torch.device("cpu"), ImageStore(pixels)
    features = read_features(encoder, store, device, Reporter(False), title="reading", of=encoder.backbone_features)
    if keep:
        np.save(keep, features.numpy())
    return features, fine[rows], superclass


def groups_of(features: torch.Tensor, labels: torch.Tensor, k: int, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    """Whitened features of all, and a group of each that has no label."""
    from newfound.methods.apl_features.method import STARTS, Whitened, kmeans
    from newfound.methods.parts.backbone import start_whitened

    settings: Any = resolve_settings("apl-features", "apl-features", {})
    project = Whitened(features.shape[1], get_method("apl-features")(settings).dimension(features.shape))  # type: ignore[attr-defined]
    inputs = start_whitened(project, features, labels, settings.whitening)
    white = F.normalize(project.linear(inputs)).detach()
    return white, kmeans(white[len(labels) :], k, starts=STARTS, seed=seed).labels.numpy()


def measure(data: tuple[torch.Tensor, np.ndarray, np.ndarray], held_back: bool) -> dict[str, Any]:
    """For each bar: groups, those named, first names right, all names right, names where none can be right."""
    features, classes, superclass = data
    rng = np.random.default_rng(int(held_back))
    tallies = {bar: np.zeros(7) for bar in (BARS if not held_back else (NEAR,))}
    for n_known, n_novel, draws in DRAWS:
        for draw in range(draws):
            some = rng.permutation(80)
            novel = 80 + rng.permutation(20)[:n_novel] if held_back else some[n_known : n_known + n_novel]
            known = np.sort(some[:n_known])
            rows = [np.concatenate([np.flatnonzero(classes == c) for c in part]) for part in (known, novel)]
            labels = torch.from_numpy(np.searchsorted(known, classes[rows[0]]))
            white, found = groups_of(features[np.concatenate(rows)], labels, n_novel, draw)
            for bar, tally in tallies.items():
                near = near_known(white, labels, n_known + found, n_known, n_novel, bar)
                tally += count(near, found, superclass[classes[rows[1]]], superclass[known])
        print(n_known, n_novel, {bar: tally.tolist() for bar, tally in tallies.items()}, flush=True)
    return {str(bar): described(tally) for bar, tally in tallies.items()}


def count(near: list[list[int]], found: np.ndarray, truth: np.ndarray, known: np.ndarray) -> np.ndarray:
    tally = np.zeros(7)
    for group, names in enumerate(near):
        members = truth[found == group]
        if not len(members):
            continue
        own = np.bincount(members).argmax()
        there = own in known
        right = [known[name] == own for name in names]
        tally += [1, there, bool(names), there and bool(names), bool(right[:1] == [True]), len(names), sum(right)]
    return tally


def described(tally: np.ndarray) -> dict[str, float]:
    groups, there, named, there_named, first, names, right = tally.tolist()
    return {
        "groups": int(groups), "with_kin": int(there), "named": named / groups, "kin_named": there_named / there,
        "strangers_named": (named - there_named) / max(1, groups - there), "first_right": first / max(1, named),
        "names": names / max(1, named), "right": right / max(1, names),
    }  # fmt: skip


def table(record: dict[str, Any]) -> str:
    """The record as docs/report.md has it."""
    lines = ["| bar | categories | named | first name right | all names right | named though nothing is of its kind |"]
    lines.append("|---|---|---|---|---|---|")
    for part, title in (("rehearsal", "hidden"), ("result", "novel")):
        for bar, row in record[part].items():
            shares = [row[name] for name in ("named", "first_right", "right", "strangers_named")]
            lines.append(f"| {bar} | {row['groups']} {title} |" + "".join(f" {share:.0%} |" for share in shares))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    data = read(given.data, given.keep)
    rehearsal = measure(data, held_back=False)
    chosen = next((bar for bar in BARS if rehearsal[str(bar)]["first_right"] >= RIGHT), None)
    print("the bar:", chosen, flush=True)
    record = {**begin(settings={}, seed=[0, 1]), "bar": chosen, "rehearsal": rehearsal}
    write(RECORD, record | {"result": measure(data, held_back=True)})


if __name__ == "__main__":
    main()
