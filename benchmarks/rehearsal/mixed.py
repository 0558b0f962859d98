"""A rehearsal of CIFAR-10's task: five classes of 5,000 images each play the novel ones.

CIFAR-10 itself has five labelled classes, too few to take five away. So here all of them play the novel ones, and the
known categories are superclasses of CIFAR-100, animals and vehicles, of its 80 labelled classes alone. No image of a
class that is novel in either data set is looked at.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newfound.data.cifar import read_cifar10, read_cifar100
from newfound.data.collection import Pool, Reading, assemble
from newfound.data.store import ImageStore

SUPERCLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}


def read_mixed(root: Path, seed: int) -> Reading:
    """Images [3, 32, 32]: ten superclasses of CIFAR-100 known, CIFAR-10's five labelled classes to be discovered."""
    ten, hundred = read_cifar10(root, seed).collection, read_cifar100(root, seed).collection
    group = {fine: name for name, members in SUPERCLASSES.items() for fine in members.split()}
    fine = [hundred.classes[label] for label in hundred.labels[hundred.labelled]]
    known = np.flatnonzero([name in group for name in fine])
    novel = ten.labelled
    images = np.concatenate([hundred.train.take(known).images.numpy(), ten.train.take(novel).images.numpy()])
    pool = Pool(
        images=ImageStore(images),
        names=[str(i) for i in range(len(images))],
        categories=[group[fine[i]] for i in known] + [ten.classes[label] for label in ten.labels[novel]],
    )
    rows = np.arange(len(images))
    return assemble(
        pool, labelled=rows[: len(known)], unlabelled=rows[len(known) :], n_novel=len(ten.classes), seed=seed
    )
