import pytest
import torch
from reference import studentt as reference

from newfound.losses import TemporalEnsemble, cluster_divergence, sharpen, soft_assignment


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


ALLOWED = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)


def alike(fast, slow, *inputs):
    """Value and gradient of ``fast`` in single precision against those of ``slow`` in double precision."""
    expected = slow(*inputs)
    weights = random(*expected.shape, seed=9)  # a different slope for every number
    gradients = torch.autograd.grad((weights * expected).sum(), inputs)
    single = [value.detach().float().requires_grad_() for value in inputs]
    got = fast(*single)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(torch.autograd.grad((weights.float() * got).sum(), single), gradients, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("allowed", [None, ALLOWED], ids=["all", "some"])
def test_soft_assignment_has_value_and_gradient_of_the_plain_reference(allowed):
    vectors, centres = (2 * random(4, 3)).requires_grad_(), random(5, 3, seed=1).requires_grad_()
    alike(
        lambda z, mu: soft_assignment(z, mu, allowed),
        lambda z, mu: reference.assignment(z, mu, allowed),
        vectors,
        centres,
    )


@pytest.mark.parametrize("allowed", [None, ALLOWED], ids=["all", "some"])
def test_the_divergence_has_value_and_gradient_of_the_plain_reference(allowed):
    vectors, centres = (2 * random(4, 3)).requires_grad_(), random(5, 3, seed=1).requires_grad_()
    targets = reference.sharpen(reference.assignment(random(4, 3, seed=2), random(5, 3, seed=3), allowed))
    alike(
        lambda z, mu: cluster_divergence(targets.float(), soft_assignment(z, mu, allowed), allowed),
        lambda z, mu: reference.divergence(targets, reference.assignment(z, mu, allowed), allowed),
        vectors,
        centres,
    )


@pytest.mark.parametrize("allowed", [None, ALLOWED], ids=["all", "some"])
def test_sharper_targets_are_those_of_the_plain_reference_and_have_no_gradient(allowed):
    q = reference.assignment(random(4, 3), random(5, 3, seed=1), allowed)
    given = q.float().requires_grad_()
    found = sharpen(given)
    torch.testing.assert_close(found.double(), reference.sharpen(q), rtol=1e-5, atol=1e-6)
    assert not found.requires_grad


def test_an_image_belongs_most_to_the_nearest_centre_it_may_have():
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    q = soft_assignment(torch.tensor([[1.0, 0.0]]), centres)
    torch.testing.assert_close(q, torch.tensor([[1 / 2, 1 / 5, 1 / 27]]) / (1 / 2 + 1 / 5 + 1 / 27))
    without = soft_assignment(torch.tensor([[1.0, 0.0]]), centres, torch.tensor([[False, True, True]]))
    assert without[0, 0] == 0
    assert without.argmax() == 1
    assert without.sum().item() == pytest.approx(1)


def test_targets_are_surer_and_favour_small_clusters():
    q = torch.tensor([[0.7, 0.3]] * 5 + [[0.5, 0.5]])
    p = sharpen(q)
    assert (p[:5, 0] > 0.7).all()
    assert p[5, 1] > 0.5, "the second cluster is the smaller one"


def test_vectors_of_half_precision_are_compared_in_single_precision():
    vectors, centres = random(6, 3).bfloat16(), random(4, 3, seed=1).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        q = soft_assignment(vectors, centres)
        found = cluster_divergence(sharpen(q), q)
    expected = soft_assignment(vectors.float(), centres.float())
    assert torch.equal(q, expected)
    assert torch.equal(found, cluster_divergence(sharpen(expected), expected))


# Temporal ensembles


def test_an_ensemble_is_the_weighted_mean_of_the_plain_reference():
    ensemble, epochs = TemporalEnsemble(4, 3, momentum=0.6), [random(4, 3, seed=e).softmax(1) for e in range(5)]
    for now, predictions in enumerate(epochs):
        for rows in (torch.tensor([2, 0]), torch.tensor([1, 3])):
            ensemble.record(rows, predictions[rows].float())
        ensemble.update()
        expected = reference.ensemble(epochs[: now + 1], 0.6)
        torch.testing.assert_close(ensemble.of(slice(None)).double(), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ensemble.of(torch.tensor([3, 1])).double(), expected[[3, 1]], rtol=1e-5, atol=1e-6)


def test_an_image_that_an_epoch_left_out_keeps_its_last_predictions():
    ensemble = TemporalEnsemble(2, 2, momentum=0.5)
    ensemble.record(torch.tensor([0, 1]), torch.tensor([[1.0, 0.0], [0.2, 0.8]]))
    ensemble.update()
    ensemble.record(torch.tensor([0]), torch.tensor([[0.0, 1.0]]))
    ensemble.update()
    torch.testing.assert_close(ensemble.of(slice(None)), torch.tensor([[1 / 3, 2 / 3], [0.2, 0.8]]))


def test_what_is_recorded_is_no_part_of_the_graph():
    ensemble, predictions = TemporalEnsemble(2, 2), torch.ones(2, 2, requires_grad=True)
    ensemble.record(torch.tensor([0, 1]), 2 * predictions)
    ensemble.update()
    assert not ensemble.of(slice(None)).requires_grad
