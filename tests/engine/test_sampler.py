import numpy as np
import pytest
import torch

from newfound.engine.sampler import Sampler, Stream, labelled_sampler


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_batch_holds_its_fixed_number_from_each_stream():
    sampler = Sampler([Stream(np.arange(0, 30), 6), Stream(np.arange(30, 40), 2)], n_known=6)
    epoch = sampler.epoch(generator())
    assert epoch.shape == (5, 8)
    assert (epoch[:, :6] < 30).all()
    assert (epoch[:, 6:] >= 30).all()


def test_an_epoch_shows_each_image_of_the_longest_stream_once():
    epoch = Sampler([Stream(np.arange(100, 130), 6)], n_known=6).epoch(generator())
    assert sorted(epoch.flatten().tolist()) == list(range(100, 130))


def test_a_stream_that_ends_sooner_starts_again_in_another_order():
    epoch = Sampler([Stream(np.arange(0, 40), 4), Stream(np.arange(40, 45), 2)], n_known=4).epoch(generator())
    small = epoch[:, 4:].flatten().tolist()
    assert len(small) == 20
    assert all(sorted(small[i : i + 5]) == [40, 41, 42, 43, 44] for i in range(0, 20, 5))
    assert small[:5] != small[5:10]


def test_a_collection_smaller_than_a_batch_gives_one_batch():
    sampler = labelled_sampler(np.arange(7), 128)
    assert (sampler.steps, sampler.batch) == (1, 7)


def test_the_same_seed_gives_the_same_epoch_and_another_seed_another():
    sampler = Sampler([Stream(np.arange(50), 5)], n_known=5)
    assert torch.equal(sampler.epoch(generator(1)), sampler.epoch(generator(1)))
    assert not torch.equal(sampler.epoch(generator(1)), sampler.epoch(generator(2)))


def test_an_empty_stream_is_refused():
    with pytest.raises(ValueError, match="needs an image"):
        Sampler([Stream(np.arange(0), 4)], n_known=4)
