"""A collection larger than the memory it is given: 200,000 images of 64 pixels, 2.3 GiB decoded."""

import json
import subprocess
import sys

import numpy as np
import pytest

from newfound.data.store import check_images

CODE = """
import hashlib, json, resource, sys
from pathlib import Path
import numpy as np, torch
from newfound.data.collection import Pool, assemble
from newfound.data.disk import DiskStore
from newfound.data.store import ImageStore
from newfound.engine.loop import Engine
from newfound.engine.sampler import labelled_sampler
from newfound.methods.kmeans import KMeans
from newfound.nets import _BUILDERS
from newfound.config.settings import PlanSettings
from newfound.methods.kmeans import KMeansSettings

class Pooled(torch.nn.Sequential):  # costs nothing, so that the store is what is measured
    width = 48

_BUILDERS["pooled"] = (64, lambda channels, size: Pooled(torch.nn.AvgPool2d(16), torch.nn.Flatten()))
folder, n = Path(sys.argv[1]), int(sys.argv[2])
if sys.argv[3] == "disk":
    tables = (np.load(folder / f"{name}.npy") for name in ("digests", "checks"))
    store = DiskStore(folder / "pixels.bin", (3, 64, 64), *tables)
else:
    store = ImageStore(np.fromfile(folder / "pixels.bin", np.uint8).reshape(n, 3, 64, 64))
row = np.arange(n)
pool = Pool(store, [str(i) for i in row], [str(i % 4) for i in row])
reading = assemble(pool, labelled=row[: n // 2], unlabelled=row[n // 2 :], n_novel=4, seed=0)
settings = KMeansSettings(network="pooled", stage1=PlanSettings(epochs=1, batch=256))
collection = reading.collection
engine = Engine(collection, torch.device("cpu"))
outcome = KMeans(settings).fit(collection, engine)
sampler = labelled_sampler(collection.labelled, 256)
digest = hashlib.blake2b()
for _, images in engine.train_images.batches(sampler.epoch(engine.generator("stage1", 0, "batches"))):
    digest.update(images.numpy().data)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
on_disk = isinstance(reading.collection.train, DiskStore)
print(json.dumps({"disk": on_disk, "peak": peak, "found": len(outcome.assignments), "batches": digest.hexdigest()}))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_200000_images_train_an_epoch_in_less_than_2_gib(tmp_path):
    n, block = 200_000, 10_000
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 200, (block, 3, 64, 64), dtype=np.uint8)
    checks = []
    with open(tmp_path / "pixels.bin", "wb") as file:
        for first in range(0, n, block):
            brightness = (np.arange(first, first + block) % 4 * 10).astype(np.uint8)
            images = noise + brightness[:, None, None, None]
            file.write(images.tobytes())
            checks.append(check_images(images))
    np.save(tmp_path / "checks.npy", np.concatenate(checks))
    np.save(tmp_path / "digests.npy", rng.integers(0, 256, (n, 16), dtype=np.uint8))

    def run(kind):
        command = [sys.executable, "-c", CODE, str(tmp_path), str(n), kind]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    result = run("disk")
    print(result)
    assert result["disk"]
    assert result["batches"] == run("resident")["batches"]
    assert result["found"] == n // 2
    assert result["peak"] < 2 * 2**30, f"{result['peak'] / 2**30:.2f} GiB"
