"""How many held-out images it takes to reject a share."""

from types import SimpleNamespace

import pytest
import torch

from newfound.errors import UserError
from newfound.model.strangeness import Strangeness
from newfound.trust.reject import calibrate, require_calibrated


def make_model(held_out):
    """A model, as far as it is looked at, that knows so many images it was not trained on."""
    return SimpleNamespace(strangeness=Strangeness(1, 1, held_out))


@pytest.mark.parametrize("reject", [-0.1, 0.0, 1.0, 1.5])
def test_a_share_lies_between_nought_and_one(reject):
    with pytest.raises(UserError, match=r"it is a share of the images, above 0 and below 1"):
        require_calibrated(make_model(10**4), reject)


@pytest.mark.parametrize(("reject", "needed"), [(0.05, 19), (0.1, 9), (0.5, 1), (0.3, 3), (0.9, 1), (0.001, 999)])
def test_a_share_needs_as_many_images_as_make_the_strangest_one_rare_enough(reject, needed):
    require_calibrated(make_model(needed), reject)
    if needed > 1:
        with pytest.raises(UserError, match=f"needs {needed} images .* the model knows of {needed - 1}: choose"):
            require_calibrated(make_model(needed - 1), reject)
    strangest = make_model(needed).strangeness
    strangest.calibrate(torch.zeros(needed))
    smallest = float(strangest.p_value(torch.ones(1)))
    assert smallest <= reject
    assert needed == 1 or 1 / needed > reject


@pytest.mark.parametrize("held_out", [1, 2, 6, 18, 150])
def test_the_share_that_is_advised_is_the_smallest_of_four_digits_that_can_be_had(held_out):
    model = make_model(held_out)
    with pytest.raises(UserError) as told:
        require_calibrated(model, 0.0005)
    least = float(str(told.value).split("choose ")[1].split(" or more")[0])
    assert round(1e4 * least) == pytest.approx(1e4 * least)
    require_calibrated(model, least)
    with pytest.raises(UserError):
        require_calibrated(model, least - 1e-4)


def test_a_model_without_held_out_images_says_so():
    for model in (make_model(0), SimpleNamespace(strangeness=None)):
        with pytest.raises(UserError, match=r"reject 0\.5: nothing was held out when this model was made"):
            require_calibrated(model)


def test_the_last_of_what_a_model_says_is_how_strange_an_image_is():
    model = make_model(0)
    calibrate(model, torch.tensor([[9.0, 8.0, 0.3], [7.0, 6.0, 0.1]]))
    torch.testing.assert_close(model.strangeness.held_out, torch.tensor([0.1, 0.3]))
    with pytest.raises(UserError, match="cannot tell strange images"):
        calibrate(SimpleNamespace(strangeness=None), torch.zeros(1, 3))
