"""The contrast: InfoNCE, its limit and gradient, the temperature, and how it joins a marginal loss."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.contrastive_flow_map import (
    FlowMLP,
    contrast_limit,
    contrastive_flow_map_loss,
    contrastive_term,
    critic_scores,
    gaussian_temperature,
    gaussian_velocity,
    info_nce,
    meanflow_loss,
    sample,
)

DOUBLE = torch.float64


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def network(seed=0):
    found = FlowMLP(3, 16, 2, generator=source(seed))
    with torch.no_grad():
        found.body.layers[-1].weight.normal_(0, 0.3, generator=source(seed + 1))
    return found


def batch(rows=8, seed=0):
    return torch.randn(rows, 3, generator=source(seed))


def test_info_nce_between_its_limits():
    for size in (1, 2, 7):
        assert float(info_nce(torch.full((size, size), 0.3, dtype=DOUBLE))) == pytest.approx(math.log(size), abs=1e-12)
    assert float(info_nce(1e6 * torch.eye(5, dtype=DOUBLE))) == 0.0
    scores = 5 * torch.randn(6, 9, generator=source(), dtype=DOUBLE)
    assert float(info_nce(scores)) > 0
    wanted = torch.nn.functional.cross_entropy(scores, torch.arange(6))
    torch.testing.assert_close(info_nce(scores), wanted)


def test_masked_columns_do_not_count():
    scores = torch.randn(4, 4, generator=source(), dtype=DOUBLE)
    pairs = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]).bool()
    wanted = info_nce(scores[:2, :2]) * 2 / 4  # the others are alone with their positive: 0
    torch.testing.assert_close(info_nce(scores, pairs), wanted)


def test_the_critic_is_the_squared_distance():
    found, x = torch.randn(5, 3, generator=source(), dtype=DOUBLE), torch.randn(7, 3, generator=source(1), dtype=DOUBLE)
    tau = torch.tensor([0.1, 0.5, 1.0, 4.0, math.inf], dtype=DOUBLE)
    wanted = -(torch.cdist(found, x) ** 2) / (2 * tau[:, None])
    torch.testing.assert_close(critic_scores(found, x, tau).softmax(1), wanted.softmax(1))
    cosine = torch.nn.functional.cosine_similarity(found[:, None], x, dim=-1) / tau[:, None]
    torch.testing.assert_close(critic_scores(found, x, tau, "cosine"), cosine)


def test_gradient_is_the_softmax_mean_less_the_positive():
    found = torch.randn(6, 3, generator=source(), dtype=DOUBLE, requires_grad=True)
    x = torch.randn(6, 3, generator=source(1), dtype=DOUBLE)
    tau = 0.7
    weights = (-(torch.cdist(found.detach(), x) ** 2) / (2 * tau)).softmax(1)
    wanted = (weights @ x - x) / (tau * 6)
    (slope,) = torch.autograd.grad(info_nce(critic_scores(found, x, torch.full((6,), tau, dtype=DOUBLE))), found)
    torch.testing.assert_close(slope, wanted, rtol=0, atol=1e-12)


def test_the_order_of_the_batch_does_not_matter():
    found, x = torch.randn(6, 3, generator=source(), dtype=DOUBLE), torch.randn(6, 3, generator=source(1), dtype=DOUBLE)
    tau, order = torch.rand(6, generator=source(2), dtype=DOUBLE) + 0.1, torch.randperm(6, generator=source(3))
    torch.testing.assert_close(
        info_nce(critic_scores(found[order], x[order], tau[order])), info_nce(critic_scores(found, x, tau))
    )


@pytest.mark.parametrize(("tau", "limit"), [(1.0, -0.5 * math.log(2)), (math.sqrt(2) - 1, -0.2606), (0.05, 3.228)])
def test_the_limit_of_the_contrast(tau, limit):
    """S = 1, t = 1/2, x_hat at its optimum (1 + tau) z: KL - I in closed form, by quadrature, and in a batch."""
    scale = 1 + tau
    assert contrast_limit(0.5, 1.0, tau, scale) == pytest.approx(limit, abs=1e-3)
    grid = np.linspace(-9, 9, 4001)
    total, width = 0.0, grid[1] - grid[0]
    for z in np.linspace(-4, 4, 161):
        posterior = norm.pdf(grid, z, math.sqrt(0.5))
        model = norm.logpdf(grid) - (scale * z - grid) ** 2 / (2 * tau)
        model -= np.log(np.exp(model - model.max()).sum() * width) + model.max()
        log_ratio = norm.logpdf(grid) - model
        total += norm.pdf(z, 0, math.sqrt(0.5)) * 0.05 * (posterior * log_ratio).sum() * width
    assert total == pytest.approx(limit, abs=2e-3)
    gaps = []
    for seed in range(8):
        x = torch.randn(1500, 1, generator=source(seed), dtype=DOUBLE)
        z = (x + torch.randn(1500, 1, generator=source(100 + seed), dtype=DOUBLE)) / 2
        loss = info_nce(critic_scores(scale * z, x, torch.full((1500,), tau, dtype=DOUBLE)))
        gaps.append(float(loss) - math.log(1500) - limit)
        assert float(loss) >= math.log(1500) - 0.5 * math.log(2) - 0.1
    # A small temperature sees few of the batch, so that the finite sum falls short of its limit.
    assert abs(np.mean(gaps)) < (0.25 if tau == 0.05 else 0.03)


def test_gaussian_temperature_has_its_closed_form():
    t = torch.tensor([0.05, 0.2, 0.5, 0.9, 0.999], dtype=DOUBLE)
    for spread in (0.3, 1.0, 4.0):
        wanted = (spread * ((1 - t) ** 2 * spread + t**2)).sqrt() / (1 - t) - spread
        torch.testing.assert_close(gaussian_temperature(t, spread, floor=0.0), wanted)
    assert float(gaussian_temperature(torch.tensor([0.5], dtype=DOUBLE), 1.0)) == pytest.approx(math.sqrt(2) - 1)
    ends = gaussian_temperature(torch.tensor([0.0, 1.0], dtype=DOUBLE), 2.0)
    assert ends.tolist() == [0.02, math.inf]
    small = gaussian_temperature(torch.tensor([1e-6], dtype=DOUBLE), 1.0, floor=0.0)
    assert float(small) == pytest.approx(0.5e-12, rel=1e-5)  # order t^2


@pytest.mark.parametrize(("tau", "scale"), [(None, math.sqrt(2)), (0.05, 1.05)])
def test_the_optimum_of_gaussian_data(tau, scale):
    t, rows = 0.5, 4096
    x = torch.randn(rows, 1, generator=source(11), dtype=DOUBLE)
    z = (1 - t) * x + t * torch.randn(rows, 1, generator=source(12), dtype=DOUBLE)
    time = torch.full((rows,), t, dtype=DOUBLE)
    temperature = gaussian_temperature(time, 1.0) if tau is None else torch.full_like(time, tau)
    found = minimize_scalar(
        lambda a: float(info_nce(critic_scores(a * z, x, temperature))), bounds=(0.5, 2.5), method="bounded",
        options={"xatol": 5e-3},
    )  # fmt: skip
    assert found.x == pytest.approx(scale, rel=0.03)


def test_the_term_contrasts_end_points_of_the_networks_own_states():
    model, x, noise = network(), batch(), batch(seed=1)
    t, s = torch.linspace(0.2, 0.9, 8), torch.linspace(0.1, 0.4, 8)
    z = (1 - t[:, None]) * x + t[:, None] * noise
    with torch.no_grad():
        state = z - (t - s)[:, None] * model(z, s, t)
    ends = state - s[:, None] * model(state, torch.zeros(8), s)
    wanted = info_nce(critic_scores(ends, x, gaussian_temperature(t, 0.8)))
    found = contrastive_term(model, x, variance=0.8, t=t, s=s, noise=noise)
    torch.testing.assert_close(found, wanted)
    weights = list(model.parameters())
    for a, b in zip(torch.autograd.grad(found, weights), torch.autograd.grad(wanted, weights), strict=True):
        torch.testing.assert_close(a, b)


def test_no_gradient_through_states_and_rollouts():
    """With s = 0 the end point is the state itself: nothing is left to differentiate."""
    model, x = network(), batch()
    still = contrastive_term(model, x, t=torch.full((8,), 0.5), s=torch.zeros(8), generator=source(1))
    assert all(float(g.abs().sum()) == 0 for g in torch.autograd.grad(still, list(model.parameters())))
    teacher = network(5)
    loss = contrastive_term(model, x, tau=0.5, positives="rollout", teacher=teacher, generator=source(1))
    loss.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert any(float(parameter.grad.abs().sum()) > 0 for parameter in model.parameters())


def test_rollouts_are_the_teachers_samples():
    model, teacher, x, noise = network(), network(5), batch(), batch(seed=1)
    one, half = torch.ones(8), torch.full((8,), 0.5)
    ends = sample(teacher, noise, steps=8)
    state = noise - 0.5 * model(noise, half, one)
    found = state - 0.5 * model(state, torch.zeros(8), half)
    wanted = info_nce(critic_scores(found, ends, torch.full((8,), 0.5)))
    term = contrastive_term(model, x, tau=0.5, positives="rollout", teacher=teacher, t=one, s=half, noise=noise)
    torch.testing.assert_close(term, wanted)
    drawn = []

    def spy(z, r, t):
        drawn.append(t)
        return model(z, r, t)

    contrastive_term(spy, x, tau=0.5, positives="rollout", generator=source(3))
    assert int((drawn[0] == 1).sum()) == 4


def test_an_exact_flow_map_is_stationary_under_the_gaussian_temperature_alone():
    """The mean slope of the contrast in the scale of u at the exact map of N(0, 1), in six batches of 1,000."""

    def slopes(tau):
        found = []
        for seed in range(6):
            scale = torch.ones((), dtype=DOUBLE, requires_grad=True)
            x = torch.randn(1000, 1, generator=source(seed), dtype=DOUBLE)
            half = torch.full((1000,), 0.5, dtype=DOUBLE)
            loss = contrastive_term(
                lambda z, r, t, scale=scale: scale * gaussian_velocity(z, r, t), x, tau=tau, variance=1.0, t=half,
                s=half, generator=source(50 + seed),
            )  # fmt: skip
            found.append(float(torch.autograd.grad(loss, scale)[0]))
        return np.array(found)

    right, wrong = slopes("gaussian"), slopes(0.05)
    error = right.std(ddof=1) / math.sqrt(6)
    assert abs(right.mean()) < 4 * error + 0.003
    assert abs(wrong.mean()) > 0.3


def test_embedding_labels_and_further_negatives():
    model, x, noise = network(), batch(), batch(seed=1)
    t, s = torch.full((8,), 0.6), torch.full((8,), 0.3)
    given = {"t": t, "s": s, "noise": noise, "tau": 0.5}

    def ends():
        z = 0.4 * x + 0.6 * noise
        state = z - 0.3 * model(z, s, t)
        return state - 0.3 * model(state, torch.zeros(8), s)

    tau = torch.full((8,), 0.5)
    torch.testing.assert_close(
        contrastive_term(model, x, embed=torch.sin, **given), info_nce(critic_scores(ends().sin(), x.sin(), tau))
    )
    more = batch(5, seed=9)
    torch.testing.assert_close(
        contrastive_term(model, x, negatives=more, **given), info_nce(critic_scores(ends(), torch.cat([x, more]), tau))
    )
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 2, 2])
    found = contrastive_term(lambda z, r, t, c: model(z, r, t), x, labels, **given)
    same = labels[:, None] == labels
    torch.testing.assert_close(found, info_nce(critic_scores(ends(), x, tau), same))


def test_weight_zero_is_the_marginal_loss_bit_for_bit():
    model, x = network(), batch(16)
    first, second = source(4), source(4)
    plain, _ = meanflow_loss(model, x, generator=first)
    total, parts = contrastive_flow_map_loss(model, x, weight=0.0, generator=second)
    assert torch.equal(plain, total)
    assert torch.equal(first.get_state(), second.get_state())
    assert "contrast" not in parts


def test_the_contrast_is_added_with_its_weight_and_has_draws_of_its_own():
    model, x = network(), batch(16)
    plain, _ = meanflow_loss(model, x, generator=source(4))
    total, parts = contrastive_flow_map_loss(model, x, weight=0.3, generator=source(4), contrast_generator=source(5))
    term = contrastive_term(model, x, generator=source(5))
    torch.testing.assert_close(total, plain + 0.3 * term)
    assert torch.equal(parts["marginal"], plain.detach())
    assert torch.equal(parts["contrast"], term.detach())


def test_chain_rule_bound_on_gaussian_chains():
    """KL of end points <= KL of states + mean KL of end points given states; equal where p(z | x) agree."""

    def kl(mean_p, var_p, mean_q, var_q):
        return 0.5 * (np.log(var_q / var_p) + (var_p + (mean_p - mean_q) ** 2) / var_q - 1)

    def terms(p, q):
        """A chain: state N(m, v), end = a state + N(0, w)."""
        (m, v, a, w), (n, u, b, y) = p, q
        ends = kl(a * m, a * a * v + w, b * n, b * b * u + y)
        states = kl(m, v, n, u)
        given = 0.5 * (np.log(y / w) + (w + (a - b) ** 2 * (v + m * m)) / y - 1)
        return ends, states + given

    rng = np.random.default_rng(0)
    for _ in range(200):
        p, q = ((rng.normal(), rng.gamma(2), rng.normal(), rng.gamma(2)) for _ in range(2))
        ends, bound = terms(p, q)
        assert ends <= bound + 1e-12
    # Two chains whose noising kernel p(z | x) = N(g x, h) agrees: all the difference is in the end points.
    g, h = 0.6, 0.3
    chains = []
    for mean, var in ((0.2, 1.0), (-0.5, 2.0)):
        total = g * g * var + h
        gain = g * var / total
        assert mean == pytest.approx(gain * g * mean + (mean - gain * g * mean))
        chains.append((mean, var, total, gain))
    (mean, var, total, gain), (mean_q, var_q, total_q, gain_q) = chains
    ends = kl(mean, var, mean_q, var_q)
    states = kl(g * mean, total, g * mean_q, total_q)
    left, left_q = var - gain**2 * total, var_q - gain_q**2 * total_q
    offset = (mean - gain * g * mean) - (mean_q - gain_q * g * mean_q)
    slope, centre = gain - gain_q, g * mean
    second = slope**2 * total + (slope * centre + offset) ** 2
    given = 0.5 * (np.log(left_q / left) + (left + second) / left_q - 1)
    assert ends == pytest.approx(states + given, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tau": 0.0}, "tau is 0"),
        ({"tau": -1.0}, "tau is -1"),
        ({"tau": math.nan}, "tau is nan"),
        ({"tau": "fixed"}, "'fixed'"),
        ({"positives": "pairs"}, "'pairs'"),
        ({"similarity": "dot"}, "'dot'"),
        ({"embed": torch.sin}, "number"),
        ({"positives": "rollout"}, "number"),
        ({"similarity": "cosine"}, "number"),
        ({"t": torch.full((8,), 0.2), "s": torch.full((8,), 0.4)}, "r = 0.4 and t = 0.2"),
        ({"variance": 0.0}, "variance of the data is 0"),
    ],
)
def test_wrong_options_are_told(options, told):
    with pytest.raises(InputError, match=told):
        contrastive_term(network(), batch(), **options)


def test_other_wrong_calls_are_told():
    with pytest.raises(InputError, match="batch has 1 row"):
        contrastive_term(network(), batch(1))
    with pytest.raises(InputError, match="weight of the contrast is -1"):
        contrastive_flow_map_loss(network(), batch(), weight=-1)
    with pytest.raises(InputError, match=r"\(3, 2\)"):
        info_nce(torch.zeros(3, 2))
    with pytest.raises(InputError, match="no labels"):
        contrastive_term(lambda z, r, t, c: z, batch(), torch.zeros(8, dtype=torch.long), negatives=batch(2), tau=1.0)
