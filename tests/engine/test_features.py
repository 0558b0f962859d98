"""How many images a network is shown at a time."""

import pytest
import torch

from newfound.data.store import ImageStore
from newfound.engine.features import read_features
from newfound.model import Encoder
from newfound.progress import Reporter


@pytest.mark.parametrize(("size", "resized", "largest"), [(8, 0, 512), (8, 224, 55), (64, 0, 512), (128, 0, 170)])
def test_fewer_are_read_at_a_time_where_they_are_large_in_the_network(size, resized, largest, monkeypatch):
    encoder = Encoder("tiny", 3, size, torch.zeros(3), torch.ones(3), resized=resized)
    seen = []

    def of(images):
        seen.append(len(images))
        return images.float().mean((2, 3))

    store = ImageStore(torch.randint(0, 256, (600, 3, size, size), dtype=torch.uint8))
    found = read_features(encoder, store, torch.device("cpu"), Reporter(quiet=True), title="", of=of)
    looked_at_first = max(size, resized) > 64  # one image, which tells how much memory a batch takes
    assert (max(seen), sum(seen)) == (largest, 600 + looked_at_first)
    torch.testing.assert_close(found, store.images.float().mean((2, 3)))
