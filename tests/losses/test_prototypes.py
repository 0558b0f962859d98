import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import prototypes as reference
from torch.nn import functional as F

from newfound.losses import self_distillation, separation
from newfound.losses.prototypes import OnlinePrototypes

KINDS = ["cosine", "euclidean", "dot"]
RULES = {"batch_mean": reference.batch_mean, "per_sample": reference.per_sample}


def batch(n, k, d, seed, soft=False, absent=()):
    """Features [n, D] and targets [n, K] in which the absent classes have no weight."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, d, generator=generator)
    targets = torch.rand(n, k, generator=generator) if soft else torch.zeros(n, k)
    targets[:, list(absent)] = 0
    present = [c for c in range(k) if c not in absent]
    if soft:
        return features, targets / targets.sum(dim=1, keepdim=True).clamp(min=1e-9)
    if present:
        labels = torch.tensor(present)[torch.randint(0, len(present), (n,), generator=generator)]
        targets[torch.arange(n), labels] = 1
    return features, targets


def start(k, d, seed=0, **options):
    return OnlinePrototypes(torch.randn(k, d, generator=torch.Generator().manual_seed(1000 + seed)), **options)


# Similarity and assignment


@pytest.mark.parametrize("kind", KINDS)
def test_similarities_are_those_of_the_plain_reference(kind):
    opl, (features, _) = start(4, 6, similarity=kind), batch(5, 4, 6, seed=0)
    expected = [[reference.similarity(kind, f, p) for p in opl.prototypes.double()] for f in features.double()]
    torch.testing.assert_close(opl.similarities(features).double(), torch.tensor(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_unbalanced_hard_targets_are_the_most_similar_prototypes(kind):
    opl, (features, _) = start(5, 6, similarity=kind), batch(40, 5, 6, seed=0)
    targets = opl.assign(features, balanced=False, soft=False)
    assert torch.equal(targets, F.one_hot(opl.similarities(features).argmax(dim=1), 5).float())


@pytest.mark.parametrize("kind", KINDS)
def test_unbalanced_soft_targets_are_a_softmax_of_the_similarities(kind):
    opl, (features, _) = start(5, 6, similarity=kind), batch(40, 5, 6, seed=0)
    scores = opl.similarities(features)
    if kind != "cosine":
        scores = (scores - scores.mean()) / scores.std(correction=0)
    targets = opl.assign(features, balanced=False, soft=True, epsilon=0.3)
    torch.testing.assert_close(targets, (scores / 0.3).softmax(dim=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_balanced_targets_are_balanced_where_the_nearest_prototype_would_take_nearly_all(kind, soft, seed):
    opl, (features, _) = start(5, 16, seed, similarity=kind), batch(500, 5, 16, seed)
    features += 3 * opl.prototypes[2]
    assert opl.assign(features, balanced=False, soft=False).sum(dim=0).max() > 300
    counts = opl.assign(features, balanced=True, soft=soft, rounds=30).sum(dim=0)
    assert counts.sum().item() == pytest.approx(500, abs=0.01)
    assert (counts - 100).abs().max() < (2 if soft else 15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_an_image_goes_only_where_it_may(kind, balanced, soft):
    opl, (features, _) = start(6, 8, similarity=kind), batch(30, 6, 8, seed=0)
    allowed = torch.zeros(30, 6, dtype=torch.bool)
    allowed[:10, :2], allowed[10:25, 2:] = True, True  # the last five may go nowhere
    targets = opl.assign(features, balanced=balanced, soft=soft, allowed=allowed)
    assert (targets[~allowed] == 0).all()
    torch.testing.assert_close(targets.sum(dim=1), allowed.any(dim=1).float())
    if not soft:
        assert set(targets.unique().tolist()) == {0.0, 1.0}


def test_targets_are_those_of_three_rounds_at_a_twentieth_unless_told_otherwise():
    opl, (features, _) = start(4, 6), batch(50, 4, 6, seed=0)
    usual = opl.assign(features, balanced=True, soft=True)
    assert torch.equal(usual, opl.assign(features, balanced=True, soft=True, epsilon=0.05, rounds=3))
    assert not torch.allclose(usual, opl.assign(features, balanced=True, soft=True, rounds=4))


def test_images_that_are_all_alike_share_the_categories_evenly():
    opl = OnlinePrototypes(torch.ones(3, 4), similarity="dot")
    targets = opl.assign(torch.ones(5, 4), balanced=False, soft=True)
    torch.testing.assert_close(targets, torch.full((5, 3), 1 / 3))


def test_the_scale_of_features_changes_no_target_of_dot_products():
    opl, (features, _) = start(4, 6, similarity="dot"), batch(50, 4, 6, seed=0)
    small = opl.assign(features, balanced=True, soft=True)
    torch.testing.assert_close(opl.assign(100 * features, balanced=True, soft=True), small, rtol=1e-3, atol=1e-4)


# Update


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("momentum", [0.0, 0.7, 0.99])
def test_an_update_is_that_of_the_plain_reference(rule, soft, kind, momentum):
    opl = start(4, 5, similarity=kind, update=rule, momentum=momentum)
    features, targets = batch(12, 4, 5, seed=0, soft=soft, absent=[1])
    expected = RULES[rule](opl.prototypes.double(), features.double(), targets, momentum, cosine=kind == "cosine")
    opl.update(features, targets)
    torch.testing.assert_close(opl.prototypes.double(), expected, rtol=1e-4, atol=1e-5)


def test_projecting_once_a_batch_hardly_differs_from_projecting_after_each_sample():
    opl = start(3, 8, update="per_sample")
    features, targets = batch(75, 3, 8, seed=0)
    each = reference.per_sample(opl.prototypes.double(), features.double(), targets, 0.99, project_each=True)
    opl.update(features, targets)
    assert (opl.prototypes.double() * each).sum(dim=1).min() > 0.995


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from(list(RULES)), st.booleans())
@settings(max_examples=50, deadline=None)
def test_prototypes_stay_on_the_sphere_after_any_number_of_updates(k, d, seed, rule, soft):
    opl = start(k, d, seed, update=rule, momentum=[0.0, 0.5, 0.9, 0.99][seed % 4])
    for i in range(12):
        features, targets = batch(6, k, d, seed + i, soft=soft, absent=[i % k])
        features[0] = 0
        opl.update(10.0 ** (i - 6) * features, targets)
        torch.testing.assert_close(opl.prototypes.norm(dim=1), torch.ones(k), rtol=0, atol=1e-5)


def test_a_feature_opposite_to_its_prototype_does_not_throw_it_off_the_sphere():
    opl = OnlinePrototypes(torch.tensor([[3.0, 4.0]]), momentum=0.5)
    opl.update(torch.tensor([[-3.0, -4.0]]), torch.ones(1, 1))
    torch.testing.assert_close(opl.prototypes.norm(dim=1), torch.ones(1))


@given(st.integers(1, 6), st.integers(0, 10**6), st.sampled_from(list(RULES)), st.sampled_from(KINDS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_prototype_of_an_absent_class_does_not_move_by_one_bit(k, seed, rule, kind, soft):
    opl = start(k, 4, seed, similarity=kind, update=rule)
    absent = [c for c in range(k) if (seed >> c) & 1]
    before = opl.prototypes.clone()
    opl.update(*batch(9, k, 4, seed, soft=soft, absent=absent))
    assert torch.equal(opl.prototypes[absent], before[absent])
    weightless = opl.prototypes.clone()
    opl.update(torch.randn(9, 4), torch.zeros(9, k))
    assert torch.equal(opl.prototypes, weightless)


@pytest.mark.parametrize(("rule", "momentum"), [("batch_mean", 0.9), ("per_sample", 0.99)])
def test_prototypes_come_to_the_mean_of_steady_features(rule, momentum):
    features, targets = batch(30, 3, 8, seed=0)
    opl = start(3, 8, update=rule, momentum=momentum)
    for _ in range(200):
        opl.update(features, targets)
    means = targets.T @ F.normalize(features, dim=1)
    assert F.cosine_similarity(opl.prototypes, means).min() > 0.999


# The gradient that reaches the features


def gradients(opl, way, features, targets, loss):
    """The gradient [n, D] of a loss of prototypes, by way of "straight_through" or "ema"."""
    features = features.clone().requires_grad_()
    return torch.autograd.grad(loss(getattr(opl, way)(features, targets)), features)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("soft", [False, True])
def test_straight_through_has_the_value_of_the_prototypes_and_the_gradient_of_the_means(kind, soft):
    opl = start(4, 5, similarity=kind)
    features, targets = batch(12, 4, 5, seed=0, soft=soft, absent=[2])
    assert torch.equal(opl.straight_through(features, targets), opl.prototypes)
    direction = torch.randn(4, 5, generator=torch.Generator().manual_seed(5))
    got = gradients(opl, "straight_through", features, targets, lambda p: (p * direction).sum())
    slow = features.double().requires_grad_()
    means = [reference.class_mean(slow, targets, c, kind == "cosine") for c in range(4)]
    total = sum((m * direction[c]).sum() for c, m in enumerate(means) if m is not None)
    (expected,) = torch.autograd.grad(total, slow)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_ema_gives_the_next_prototypes_and_the_gradient_of_the_batchs_part(rule, soft, kind):
    opl = start(4, 5, similarity=kind, update=rule, momentum=0.8)
    features, targets = batch(12, 4, 5, seed=0, soft=soft, absent=[2])
    direction = torch.randn(4, 5, generator=torch.Generator().manual_seed(5))
    got = gradients(opl, "ema", features, targets, lambda p: (p * direction).sum())
    slow = features.double().requires_grad_()
    moved = RULES[rule](opl.prototypes.double(), slow, targets, 0.8, cosine=kind == "cosine")
    (expected,) = torch.autograd.grad((moved * direction).sum(), slow)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-6)
    promised = opl.ema(features, targets)
    opl.update(features, targets)
    assert torch.equal(opl.prototypes, promised)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("way", ["straight_through", "ema"])
def test_an_update_before_the_backward_pass_does_not_change_the_gradient(way, rule):
    opl, (features, targets) = start(3, 4, update=rule), batch(8, 3, 4, seed=0)
    expected = gradients(opl, way, features, targets, separation)
    features.requires_grad_()
    loss = separation(getattr(opl, way)(features, targets))
    opl.update(features, targets)
    loss.backward()
    assert torch.equal(features.grad, expected)


@pytest.mark.parametrize("way", ["straight_through", "ema"])
def test_a_class_absent_from_the_batch_passes_no_gradient_on(way):
    opl, (features, targets) = start(3, 4), batch(8, 3, 4, seed=0, absent=[1])
    assert not gradients(opl, way, features, targets, lambda p: p[1].sum()).any()
    assert gradients(opl, way, features, targets, lambda p: p[0].sum()).any()


@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans())
@settings(max_examples=30, deadline=None)
def test_separation_reaches_the_features_as_it_would_through_the_batch_means_alone(k, seed, soft):
    features, targets = batch(8 * k, k, 16, seed, soft=soft)
    opl = start(k, 16, seed)
    opl.update(features, targets)
    plain = features.clone().requires_grad_()
    mass = targets.sum(dim=0).clamp(min=1e-9)
    means = (targets / mass).T @ F.normalize(plain, dim=1)
    (full,) = torch.autograd.grad(separation(means), plain)
    through = gradients(opl, "straight_through", features, targets, separation)
    assert through.norm() > 0.01 * full.norm()
    slowly = gradients(opl, "ema", features, targets, separation)
    opl.update(features, targets)  # where ema looked from, so that the nearest prototypes are the same ones
    through = gradients(opl, "straight_through", features, targets, separation)
    torch.testing.assert_close(slowly.norm(), (1 - opl.momentum) * through.norm(), rtol=0.03, atol=0)


@pytest.mark.parametrize("kind", ["euclidean", "dot"])
def test_without_a_sphere_ema_has_one_minus_momentum_times_the_gradient_of_straight_through(kind):
    opl, (features, targets) = start(4, 6, similarity=kind, momentum=0.9), batch(20, 4, 6, seed=0)
    direction = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    straight, slow = (
        gradients(opl, way, features, targets, lambda p: (p * direction).sum()) for way in ("straight_through", "ema")
    )
    torch.testing.assert_close(slow, 0.1 * straight)


@pytest.mark.parametrize("seed", range(5))
def test_the_separation_term_moves_the_features_of_the_nearest_classes_apart(seed):
    features, targets = batch(40, 4, 8, seed)
    opl = start(4, 8, seed, momentum=0.0)
    opl.update(features, targets)

    def closest(prototypes):
        return (prototypes @ prototypes.T - 2 * torch.eye(4)).max()

    before = closest(opl.prototypes)
    features = features - 0.5 * gradients(opl, "straight_through", features, targets, separation)
    opl.update(features, targets)
    assert closest(opl.prototypes) < before - 1e-4


def test_neither_targets_nor_prototypes_learn_by_gradient():
    initial = torch.randn(3, 4, requires_grad=True)
    opl, (features, targets) = OnlinePrototypes(initial), batch(8, 3, 4, seed=0, soft=True)
    assert not opl.prototypes.requires_grad
    targets.requires_grad_()
    for way in (opl.straight_through, opl.ema):
        assert not way(features, targets).requires_grad


# Edges


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_a_single_prototype_takes_every_image_and_is_separated_from_nothing(kind, rule):
    opl, (features, _) = start(1, 4, similarity=kind, update=rule), batch(6, 1, 4, seed=0)
    for balanced in (False, True):
        for soft in (False, True):
            targets = opl.assign(features, balanced=balanced, soft=soft)
            assert torch.equal(targets, torch.ones(6, 1))
    assert separation(opl.straight_through(features, targets)).item() == 0
    before = opl.prototypes.clone()
    opl.update(features, targets)
    assert opl.prototypes.isfinite().all()
    assert not torch.equal(opl.prototypes, before)


def test_initial_prototypes_are_projected_for_cosine_alone():
    initial = torch.tensor([[3.0, 4.0], [0.0, 0.1]])
    torch.testing.assert_close(OnlinePrototypes(initial).prototypes, torch.tensor([[0.6, 0.8], [0.0, 1.0]]))
    for kind in ("euclidean", "dot"):
        assert torch.equal(OnlinePrototypes(initial, similarity=kind).prototypes, initial)


def test_prototypes_are_a_copy_that_a_checkpoint_keeps_and_an_update_writes_in_place():
    initial = torch.randn(3, 4)
    opl = OnlinePrototypes(initial, similarity="dot")
    address, given_values = opl.prototypes.data_ptr(), initial.clone()
    opl.update(*batch(9, 3, 4, seed=0))
    assert torch.equal(initial, given_values)
    assert opl.prototypes.data_ptr() == address  # a captured graph reads from there
    assert list(opl.state_dict()) == ["prototypes"]
    assert not list(opl.parameters())


def test_half_precision_around_it_changes_nothing():
    features, _ = batch(20, 4, 32, seed=0)
    results = []
    for enabled in (False, True):
        opl = start(4, 32)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            targets = opl.assign(features, balanced=True, soft=True)
            opl.update(features, targets)
            results.append(
                (targets, opl.prototypes, opl.similarities(features), opl.straight_through(features, targets))
            )
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_step_is_one_graph_without_a_look_at_any_value(rule):
    opl = start(4, 8, update=rule)
    student, teacher = torch.randn(3, 6, 5), torch.randn(2, 6, 5)
    groups, allowed = torch.tensor([0, 0, 1, 1]), torch.ones(6, 4, dtype=torch.bool)

    def step(features):
        targets = opl.assign(features, balanced=True, soft=False, allowed=allowed)
        loss = self_distillation(student, teacher, torch.zeros(5))
        loss = loss + separation(opl.straight_through(features, targets), groups)
        loss = loss + separation(opl.ema(features, targets))
        opl.update(features, targets)
        return loss

    features = torch.randn(6, 8)
    before = opl.prototypes.clone()
    expected, moved = step(features), opl.prototypes.clone()
    opl.prototypes.copy_(before)
    # Anything that needs a value on the host, or whose shape depends on one, would break the graph and raise here.
    torch.testing.assert_close(torch.compile(step, backend="eager", fullgraph=True)(features), expected)
    torch.testing.assert_close(opl.prototypes, moved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": "angle"}, "no similarity 'angle'; choose one of cosine, euclidean, dot"),
        ({"update": "mean"}, "no update 'mean'; choose one of batch_mean, per_sample"),
        ({"momentum": 1.0}, "momentum is 1.0; choose at least 0 and less than 1"),
    ],
)
def test_wrong_options_are_answered_with_the_right_ones(options, message):
    with pytest.raises(ValueError, match=message):
        OnlinePrototypes(torch.randn(3, 4), **options)


def test_initial_prototypes_must_be_a_table():
    with pytest.raises(ValueError, match=r"expected initial prototypes \[K, D\], got a tensor of shape \(4,\)"):
        OnlinePrototypes(torch.randn(4))
