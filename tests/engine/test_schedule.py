import numpy as np
import pytest

from newfound.config.settings import PlanSettings
from newfound.engine.schedule import cosine, learning_rates, ramp_up


def test_the_cosine_starts_at_the_first_value_and_is_half_way_in_the_middle():
    values = cosine(1.0, 0.2, 100)
    assert values[0] == 1.0
    assert values[50] == pytest.approx(0.6)
    assert (np.diff(values) < 0).all()


def test_warm_up_is_linear_and_ends_at_the_full_rate():
    rates = learning_rates(PlanSettings(epochs=5, lr=0.4, warmup_epochs=2), steps_per_epoch=10)
    np.testing.assert_allclose(rates[:20], 0.4 * np.arange(1, 21) / 20, rtol=1e-6)
    assert rates[20] == pytest.approx(0.4)
    assert rates[-1] < 0.01


def test_steps_multiply_the_rate_at_their_epochs():
    plan = PlanSettings(epochs=4, lr=1.0, schedule="steps", milestones=(1, 3), decay=0.1)
    rates = learning_rates(plan, steps_per_epoch=2)
    np.testing.assert_allclose(rates, [1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01], rtol=1e-6)


def test_steps_without_milestones_and_constant_are_flat():
    for schedule in ("steps", "constant"):
        rates = learning_rates(PlanSettings(epochs=3, lr=0.3, schedule=schedule), steps_per_epoch=2)
        np.testing.assert_allclose(rates, np.full(6, 0.3), rtol=1e-6)


def test_a_warm_up_longer_than_the_run_is_cut():
    assert len(learning_rates(PlanSettings(epochs=1, warmup_epochs=9), steps_per_epoch=3)) == 3


def test_a_ramp_rises_by_epochs_to_its_weight_and_stays_there():
    weights = ramp_up(3.0, 4, epochs=6, steps_per_epoch=2)
    expected = [3 * np.exp(-5 * (1 - share) ** 2) for share in (0, 0.25, 0.5, 0.75, 1, 1)]
    np.testing.assert_allclose(weights, np.repeat(expected, 2))
    assert (ramp_up(3.0, 0, 2, 2) == 3).all()
