"""ImageStore: batches, channel statistics, fingerprints."""

import numpy as np
import pytest
import torch

from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (10, 3, 5, 7), dtype=np.uint8)


def test_a_batch_is_the_images_of_its_index_in_its_order(pixels):
    store = ImageStore(pixels)
    index = torch.tensor([7, 0, 7])
    assert store.batch(index).dtype == torch.uint8
    assert np.array_equal(store.batch(index).numpy(), pixels[[7, 0, 7]])


def test_taken_rows_are_a_store_of_their_own_in_their_order(pixels):
    store = ImageStore(pixels)
    rows = np.array([7, 0, 7])
    taken = store.take(rows)
    assert np.array_equal(taken.images, pixels[rows])
    taken.images.zero_()
    assert np.array_equal(store.images, pixels)
    assert len(store.take(np.empty(0, np.int64))) == 0


def test_batches_come_with_their_indices_in_order(pixels):
    indices = [torch.tensor(index) for index in ([3, 1], [9], [0, 0, 4])]
    pairs = list(ImageStore(pixels).batches(iter(indices)))
    assert [index.tolist() for index, _ in pairs] == [[3, 1], [9], [0, 0, 4]]
    for index, images in pairs:
        assert np.array_equal(images, pixels[index.numpy()])


@pytest.mark.parametrize(("size", "lengths"), [(4, [4, 4, 2]), (5, [5, 5]), (10, [10]), (64, [10])])
def test_chunks_are_all_images_in_order(pixels, size, lengths):
    chunks = list(ImageStore(pixels).chunks(size))
    assert [len(chunk) for chunk in chunks] == lengths
    assert np.array_equal(torch.cat(chunks), pixels)


def test_a_store_from_pixels_does_not_change_with_them():
    pixels = np.zeros((2, 4, 4, 1), np.uint8)
    store = ImageStore.from_pixels(pixels)
    pixels += 1
    assert not store.images.any()


def test_a_store_knows_its_length_and_the_shape_of_an_image(pixels):
    store = ImageStore(pixels)
    assert len(store) == 10
    assert store.shape == (3, 5, 7)
    assert store.device == torch.device("cpu")


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 5, 6, 1), (4, 5, 6, 3)])
def test_pixels_given_channels_last_are_turned(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    store = ImageStore.from_pixels(pixels)
    assert store.shape == (shape[3] if len(shape) == 4 else 1, 5, 6)
    assert store.images[2, -1, 3, 4] == pixels.reshape(4, 5, 6, -1)[2, 3, 4, -1]
    assert store.images.is_contiguous()


@pytest.mark.parametrize("images", [np.zeros((2, 3, 4, 4), np.float32), np.zeros((2, 4, 4), np.uint8)])
def test_anything_but_four_dimensions_of_bytes_is_refused(images):
    with pytest.raises(TypeError, match=r"expected uint8 images \[N, C, H, W\]"):
        ImageStore(images)


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_statistics_are_those_of_numpy(pixels, channels):
    mean, deviation = ImageStore(pixels[:, :channels]).channel_statistics()
    units = pixels[:, :channels].astype(np.float64) / 255
    assert mean.dtype == deviation.dtype == torch.float32
    np.testing.assert_allclose(mean, units.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(deviation, units.std((0, 2, 3)), rtol=1e-6)


def test_channel_statistics_do_not_depend_on_the_order_of_the_images(pixels):
    one, other = ImageStore(pixels).channel_statistics(), ImageStore(pixels[::-1].copy()).channel_statistics()
    assert torch.equal(torch.stack(one), torch.stack(other))


def test_the_fingerprint_is_that_of_the_pixels_their_order_and_the_shape(pixels):
    same = ImageStore(pixels.copy()).fingerprint()
    assert ImageStore(pixels).fingerprint() == same
    assert ImageStore(torch.from_numpy(pixels)).fingerprint() == same
    changed = pixels.copy()
    changed[9, 2, 4, 6] ^= 1
    swapped = pixels[[1, 0, *range(2, 10)]]
    reshaped = pixels.reshape(10, 3, 7, 5)
    others = {ImageStore(images).fingerprint() for images in (changed, swapped, reshaped, pixels[:9])}
    assert len(others | {same}) == 5


@pytest.mark.parametrize("hashed_before", [True, False])
@pytest.mark.parametrize("kind", [ImageStore, lambda images: VectorStore(torch.from_numpy(images).flatten(1).float())])
def test_digests_follow_the_rows_of_a_store(pixels, kind, hashed_before):
    store, rows = kind(pixels), np.array([7, 0, 7])
    if hashed_before:
        store.digests()
    taken = store.take(rows).to(torch.device("cpu"))
    assert np.array_equal(taken.digests(), kind(pixels[rows]).digests())


def test_an_image_is_hashed_once_whatever_is_taken_from_its_store(pixels, monkeypatch):
    store = ImageStore(pixels)
    store.digests()
    monkeypatch.setattr("newfound.data.store.digest_images", None)
    taken = store.take(np.arange(4)).to(torch.device("cpu"))
    assert len(taken.digests()) == 4
    assert taken.fingerprint() != store.fingerprint()


def test_a_store_moved_to_where_it_is_holds_the_same_images(pixels):
    moved = ImageStore(pixels).to(torch.device("cpu"))
    assert np.array_equal(moved.images, pixels)
