import pytest

from newfound.data.digits import read_digits


@pytest.fixture(scope="session")
def digits():
    """120 labelled and 150 unlabelled digits."""
    import dataclasses

    import numpy as np

    from newfound.data.collection import Collection, novel_tasks

    whole = read_digits(0).collection
    rows = np.concatenate([np.arange(120), whole.n_labelled + np.arange(150)])
    tasks = novel_tasks(5, ("", 5, np.arange(120, 270)))
    return dataclasses.replace(
        Collection(whole.train.take(rows), whole.labels[rows], whole.classes, tasks), test=whole.test
    )


@pytest.fixture
def as_found(monkeypatch):
    """Categories keep the numbers that a method gave them, for tests that look into its stages."""
    monkeypatch.setattr("newfound.methods.base.largest_first", lambda outcome, collection: outcome)
