import numpy as np
import pytest
import torch

from newfound.data.collection import UNKNOWN, Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.engine.sampler import (
    Sampler,
    Stream,
    class_sampler,
    labelled_sampler,
    mixed_sampler,
    unlabelled_sampler,
)


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


def two_tasks():
    """4 known categories of 5 images each, then a task of 30 images and one of 7."""
    labels = np.array([i // 5 for i in range(20)] + [UNKNOWN] * 37)
    tasks = novel_tasks(4, ("A", 2, np.arange(20, 50)), ("B", 2, np.arange(50, 57)))
    return Collection(ImageStore(np.zeros((57, 1, 8, 8), np.uint8)), labels, tuple("abcd"), tasks)


def test_unlabelled_images_of_a_batch_are_of_one_task_and_every_image_is_shown():
    sampler = unlabelled_sampler(two_tasks(), 6, one_task=True)
    seen, epochs = set(), [sampler.epoch(generator(seed)) for seed in range(4)]
    for batch in torch.cat(epochs):
        assert bool((batch < 50).all()) != bool((batch >= 50).all())
        seen |= set(batch.tolist())
    assert seen == set(range(20, 57))


def test_small_tasks_make_smaller_batches_and_an_epoch_shows_all_of_them():
    sizes = (10, 4, 7)
    starts = np.cumsum((0, *sizes[:-1]))
    tasks = [(str(i), 1, start + np.arange(size)) for i, (start, size) in enumerate(zip(starts, sizes, strict=True))]
    labels = np.full(sum(sizes), UNKNOWN)
    store = ImageStore(np.zeros((len(labels), 1, 8, 8), np.uint8))
    sampler = unlabelled_sampler(Collection(store, labels, (), novel_tasks(0, *tasks)), 64, one_task=True)
    assert (sampler.batch, sampler.steps) == (10, 3)
    assert set(sampler.epoch(generator()).flatten().tolist()) == set(range(21))


def test_a_mixed_batch_has_labelled_images_first_and_others_of_one_task():
    sampler = mixed_sampler(two_tasks(), 12, 0.5, one_task=True)
    assert sampler.n_known == 6
    for batch in sampler.epoch(generator()):
        assert (batch[:6] < 20).all()
        assert (batch[6:] >= 20).all()
        assert bool((batch[6:] < 50).all()) != bool((batch[6:] >= 50).all())


def test_a_batch_by_classes_has_as_many_images_of_each_of_some_random_ones():
    collection = two_tasks()
    sampler = class_sampler(collection, classes=3, per_class=4)
    assert (sampler.batch, sampler.n_known, sampler.steps) == (12, 12, 1)
    chosen = set()
    for seed in range(20):
        (batch,) = sampler.epoch(generator(seed))
        labels = collection.labels[batch].reshape(3, 4)
        assert (labels == labels[:, :1]).all()
        assert len(set(labels[:, 0])) == 3
        assert len(set(batch.tolist())) == 12
        chosen |= set(labels[:, 0])
    assert chosen == {0, 1, 2, 3}


def test_by_classes_there_are_no_more_than_known_and_few_images_come_again():
    sampler = class_sampler(two_tasks(), classes=20, per_class=7)
    (batch,) = sampler.epoch(generator())
    assert batch.shape == (28,)
    assert all(len(set(own.tolist())) == 5 for own in batch.view(4, 7))
