"""Two classifiers as one: the shift between known and novel categories."""

import torch

from newfound.methods.parts.sidebyside import level_parts
from newfound.nets.heads import LinearClassifier

KNOWN, LABELLED = 2, 30


def case(seed=0):
    """A classifier over 2 known and 3 novel categories, and features of 30 labelled and 20 unlabelled images."""
    torch.manual_seed(seed)
    head = LinearClassifier(4, 5)
    with torch.no_grad():
        head.weight[:KNOWN, 0] += 1  # what labelled images have more of
    features = torch.randn(50, 4)
    features[:LABELLED, 0] += 1
    return head, features


def shares(logits):
    """The shares of labelled images that are called known, and of unlabelled ones that are called novel."""
    known = logits.argmax(1) < KNOWN
    return known[:LABELLED].double().mean() + (~known[LABELLED:]).double().mean()


def test_labelled_and_unlabelled_images_are_told_apart_as_well_as_any_shift_can():
    for seed in range(5):
        head, features = case(seed)
        logits = head(features).detach()
        tried = [logits + shift * (torch.arange(5) >= KNOWN) for shift in torch.linspace(-5, 5, 2001)]
        level_parts(head, features, LABELLED, KNOWN)
        levelled = shares(head(features))
        assert levelled == max(map(shares, tried))
        assert levelled > shares(logits + 5 * (torch.arange(5) >= KNOWN))


def test_within_known_and_within_novel_categories_nothing_changes():
    head, features = case()
    before, weight = head(features).detach(), head.weight.clone()
    level_parts(head, features, LABELLED, KNOWN)
    after = head(features).detach()
    assert torch.equal(head.weight, weight)
    assert torch.equal(after[:, :KNOWN], before[:, :KNOWN])
    torch.testing.assert_close(after[:, KNOWN:].softmax(1), before[:, KNOWN:].softmax(1))
    assert not torch.equal(after[:, KNOWN:], before[:, KNOWN:])
