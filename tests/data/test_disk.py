import numpy as np
import pytest
import torch

from newfound.data.disk import DiskStore
from newfound.data.store import ImageStore, check_images, digest_images
from newfound.errors import UserError


@pytest.fixture
def pair(tmp_path):
    """The same 50 images resident and on disk."""
    images = np.random.default_rng(0).integers(0, 256, (50, 3, 6, 5), dtype=np.uint8)
    (tmp_path / "pixels.bin").write_bytes(images.tobytes())
    return ImageStore(images), DiskStore(
        tmp_path / "pixels.bin", (3, 6, 5), digest_images(images), check_images(images)
    )


def test_it_gives_the_batches_of_a_resident_store_in_order(pair):
    resident, disk = pair
    indices = torch.randint(0, 50, (20, 8), generator=torch.Generator().manual_seed(0))
    expected, got = list(resident.batches(indices)), list(disk.batches(indices))
    assert len(got) == 20
    for (i, a), (j, b) in zip(expected, got, strict=True):
        assert torch.equal(i, j)
        assert torch.equal(a, b)


def test_rows_taken_twice_over_are_the_rows_of_rows(pair):
    resident, disk = pair
    rows, again = np.array([7, 3, 3, 49]), np.array([3, 0])
    assert torch.equal(next(disk.take(rows).take(again).chunks()), resident.take(rows).take(again).images)
    assert disk.take(rows).fingerprint() == resident.take(rows).fingerprint()


def test_statistics_are_those_of_the_resident_store(pair):
    resident, disk = pair
    for a, b in zip(resident.channel_statistics(), disk.channel_statistics(), strict=True):
        assert torch.equal(a, b)


def test_a_consumer_that_stops_early_stops_the_reading(pair):
    _, disk = pair
    stream = disk.batches(torch.zeros(1000, 4, dtype=torch.int64))
    next(stream)
    stream.close()
    assert len(next(disk.chunks())) == 50


def test_a_file_that_ends_early_is_an_error_and_not_noise(pair, tmp_path):
    _, disk = pair
    with open(tmp_path / "pixels.bin", "ab") as file:
        file.truncate(100)
    with pytest.raises(UserError, match=r"image 49 .* ends after 0 of 90 bytes"):
        disk.batch(torch.tensor([49]))


def test_an_image_that_has_rotted_on_disk_is_an_error_where_it_is_read_and_forgets_the_cache(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 5), dtype=np.uint8)
    path, forgotten = tmp_path / "pixels.bin", []
    path.write_bytes(images.tobytes())
    disk = DiskStore(
        path, (3, 6, 5), digest_images(images), check_images(images), forget=lambda: forgotten.append(True)
    )
    with open(path, "r+b") as file:
        file.seek(3 * 90 + 17)
        file.write(bytes([images.reshape(-1)[3 * 90 + 17] ^ 1]))
    assert torch.equal(disk.batch(torch.tensor([2, 4])), torch.from_numpy(images[[2, 4]]))
    with pytest.raises(UserError, match=r"image 3 .* is not what was written"):
        list(disk.take(np.array([3])).batches(torch.tensor([[0]])))
    assert forgotten


@pytest.mark.gpu
def test_batches_arrive_on_the_gpu(pair):
    resident, disk = pair
    device = torch.device("cuda")
    indices = torch.randint(0, 50, (10, 8)).to(device)
    for (_, a), (_, b) in zip(resident.to(device).batches(indices), disk.to(device).batches(indices), strict=True):
        assert a.device.type == b.device.type == "cuda"
        assert torch.equal(a, b)
