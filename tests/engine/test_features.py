"""How many images a network is shown at a time."""

import pytest
import torch

from newfound.data.store import ImageStore
from newfound.engine.features import PASSING, _batch, read_features
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


def test_the_largest_layer_of_a_network_for_photographs_passes_on_no_more_than_it_may():
    """Layers that the network goes past where features are read count as well: their maps are as large."""
    encoder = Encoder("efficientnet-lite0", 3, 224, torch.zeros(3), torch.ones(3), resized=224).eval()
    store = ImageStore(torch.zeros(2, 3, 224, 224, dtype=torch.uint8))
    with torch.no_grad():
        batch = _batch(encoder, store, torch.device("cpu"), encoder.backbone_features)
    widest = 4 * 2 * 96 * 112 * 112  # float32, in and out of a batch norm after the first widening
    assert batch == PASSING // widest == 27
