"""All of CIFAR-10 and CIFAR-100 as mixed piles, with --mixed and without: writes cifar.json.

    python benchmarks/mixed/whole.py --data ROOT [--cache CACHE] [--seeds 0]

Half of the images of each known class are in the pile, as published for generalised category discovery. The methods are
those of run.py, over EfficientNet-Lite0 as it is, with the settings that were chosen there. One seed takes more than an
hour on one core.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write
from run import RECIPES, RECORD, run_one, table
from unsaid import unsaid

from newfound.data.cache import default_cache
from newfound.data.cifar import read_cifar10, read_cifar100
from newfound.plan.recipe import resolve_settings

CIFAR = {"CIFAR-10": read_cifar10, "CIFAR-100": read_cifar100}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    settings = {name: resolve_settings(name, recipe, {}) for name, recipe in RECIPES.items()}
    data = "CIFAR-10 and CIFAR-100, half of the known images in the pile"
    record = {"data": data, "runs": runs, **begin(settings=settings, seed=options.seeds)}
    for seed, name, method in product(options.seeds, CIFAR, RECIPES):
        reading = CIFAR[name](options.data, seed, mixed=True)
        for way, said in (("--mixed", reading), ("without", unsaid(reading))):
            found = run_one(said, method, seed, options.cache)
            runs.setdefault(f"{name}, {method}", {}).setdefault(way, []).append(found)
            print(name, method, way, found, flush=True)
            write(RECORD.with_name("cifar.json"), record)
    print(table(record))


if __name__ == "__main__":
    main()
