"""The novel categories of an outcome are numbered by size."""

import dataclasses

import numpy as np
import torch

from newfound.data.collection import Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.methods.base import Outcome, largest_first
from newfound.model import Encoder, Model
from newfound.nets.heads import LinearClassifier


def test_the_largest_comes_first_in_each_task_and_the_model_agrees():
    images = torch.randint(0, 256, (14, 3, 8, 8), dtype=torch.uint8)
    labels = np.array([0, 1] + [-1] * 12)
    tasks = novel_tasks(2, ("A", 3, np.arange(2, 9)), ("B", 2, np.arange(9, 14)))
    collection = Collection(ImageStore(images), labels, ("x", "y"), tasks)
    torch.manual_seed(0)
    encoder = Encoder("tiny", 3, 8, torch.zeros(3), torch.ones(3))
    model = Model(encoder, LinearClassifier(encoder.width, 7), ("x", "y"), tuple("abcde"), method="test").eval()
    before = model(images).detach()
    assigned = np.array([2, 3, 3, 3, 4, 4, 4, 5, 6, 6, 6, 6])
    earlier = {"first": assigned[::-1].copy()}
    found = largest_first(Outcome(model, assigned, np.ones(12), earlier=earlier), collection)
    # of A, 3 and 4 are equally large and keep their order; of B, 6 is the larger
    assert found.assignments.tolist() == [4, 2, 2, 2, 3, 3, 3, 6, 5, 5, 5, 5]
    assert found.earlier["first"].tolist() == found.assignments[::-1].tolist()
    torch.testing.assert_close(model(images), before[:, [0, 1, 3, 4, 2, 6, 5]])
    again = largest_first(dataclasses.replace(found), collection)
    np.testing.assert_array_equal(again.assignments, found.assignments)
