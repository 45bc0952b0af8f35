"""Rivals: weights of paths are exact for any control, optimal controls are known, noised scores have a limit."""

import math

import pytest
import torch

from workingpapers.foundations import densities
from workingpapers.foundations.errors import InputError
from workingpapers.sampling.flow_sampling import DenoisedSampler, PathSampler, noised_score

BOTH = pytest.mark.parametrize("reference", ["brownian", "ornstein-uhlenbeck"])


class Field(torch.nn.Module):
    def __init__(self, field):
        super().__init__()
        self.field = field

    def forward(self, x, t):
        return self.field(x, t)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def known(scale=0.5, mean=0.8):
    """3 N(mean, scale^2) in one dimension: the partition function is 3."""
    return lambda x: math.log(3) - 0.5 * ((x[:, 0] - mean) / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi))


@BOTH
@pytest.mark.parametrize(("steps", "schedule"), [(1, "cosine"), (2, "constant"), (7, "cosine")])
def test_weights_of_any_control_have_the_partition_function_for_mean(reference, steps, schedule):
    field = Field(lambda x, t: 0.4 * torch.sin(x) + 0.3 * (1 - t))
    sampler = PathSampler(known(), dim=1, reference=reference, scale=1.2, schedule=schedule, network=field)
    x, log_weight = sampler.log_weights(200_000, steps=steps, generator=seeded())
    weight = log_weight.double().exp()
    error = float(weight.std()) / math.sqrt(len(weight))
    assert abs(float(weight.mean()) - 3) < 4 * error < 0.2
    # The weighted mean is that of the density.
    centred = weight * (x[:, 0] - 0.8)
    assert abs(float(centred.mean())) < 4 * float(centred.std()) / math.sqrt(len(weight))


@BOTH
def test_without_control_the_chain_ends_in_its_reference(reference):
    sampler = PathSampler(known(), dim=1, reference=reference, scale=1.7)
    x = sampler.sample(40_000, steps=9, last_noise=True, generator=seeded())
    assert float(x.mean()) == pytest.approx(0, abs=0.04)
    assert float(x.std()) == pytest.approx(1.7, rel=0.015)


def test_one_step_of_brownian_motion_has_a_control_without_loss():
    # From 0 in one step the end is N(S u, ...): for a target of the reference's width the control S u = mean is exact.
    target = densities.gaussian([0.9], 1.0)
    field = Field(lambda x, t: torch.full_like(x, 0.9))
    _, log_weight = PathSampler(target, scale=1.0, network=field).log_weights(1000, steps=1)
    assert float(log_weight.std()) < 1e-5
    assert float(log_weight.mean()) == pytest.approx(target.log_partition or 0.0, abs=1e-5)


@BOTH
@pytest.mark.parametrize("loss", ["kl", "log-variance"])
def test_both_losses_find_a_gaussian(reference, loss):
    sampler = PathSampler(known(0.5, 0.8), dim=1, reference=reference, loss=loss)
    sampler.fit(150, batch=64, steps=16, learning_rate=5e-3)
    assert sampler.evaluations == 150 * 64
    x = sampler.sample(10_000, steps=16, generator=seeded())
    assert float(x.mean()) == pytest.approx(0.8, abs=0.1)
    assert float(x.std()) == pytest.approx(0.5, abs=0.1)


@BOTH
def test_the_slopes_of_both_losses_are_those_of_their_estimands(reference):
    """Finite differences in one weight of the control, with the same noise."""

    def sampler(strength, loss):
        weight = torch.nn.Parameter(torch.tensor(strength, dtype=torch.float32))
        field = Field(lambda x, t: weight * (1 - x))
        field.weight = weight
        return PathSampler(known(), dim=1, reference=reference, loss=loss, network=field, seed=5)

    def divergence(strength):
        one = sampler(strength, "kl")
        return float(one._loss(200_000, 4).detach())

    slope = (divergence(0.52) - divergence(0.48)) / 0.04
    one = sampler(0.5, "kl")
    one._loss(200_000, 4).backward()
    assert float(one.network.weight.grad) == pytest.approx(slope, abs=0.02)
    # At the sampler's own law the slope of half the variance is that of the divergence.
    other = sampler(0.5, "log-variance")
    other._loss(200_000, 4).backward()
    assert 0.5 * float(other.network.weight.grad) == pytest.approx(slope, abs=0.15)  # 4 deviations


def test_clipped_gradients_are_shortened():
    steep = PathSampler(lambda x: -1e4 * x[:, 0] ** 2 + 1e4 * x[:, 0], dim=1, clip=1.0, network=_constant())
    steep._loss(64, 4).backward()
    assert abs(float(steep.network.weight.grad)) < 3


def _constant():
    weight = torch.nn.Parameter(torch.tensor(0.0))
    field = Field(lambda x, t: weight + 0 * x)
    field.weight = weight
    return field


def test_noised_scores_converge_to_the_convolved_density():
    target = densities.gaussian([1.0, -1.0], 0.6)
    x = torch.tensor([[0.0, 0.0], [2.0, 1.0]], dtype=torch.float64)
    h = torch.tensor([0.3, 0.8], dtype=torch.float64)
    noise = torch.randn(2, 200_000, 2, generator=seeded(), dtype=torch.float64)
    exact = (torch.tensor([1.0, -1.0], dtype=torch.float64) - x) / (0.36 + h)[:, None]
    assert torch.allclose(noised_score(target.log_density, x, h, noise), exact, atol=0.02)
    # One perturbed point gives the score there; no noise gives the score itself.
    single = noised_score(target.log_density, x, 0 * h, noise[:, :1])
    assert torch.allclose(single, target.score(x))


def test_iterated_denoising_finds_a_gaussian_and_counts():
    sampler = DenoisedSampler(known(0.5, 0.8), dim=1, largest=2.0, perturbed=8)
    sampler.fit(15, points=64, updates=30, new_samples=128, steps=16, batch=128, learning_rate=3e-3)
    assert sampler.evaluations == 15 * 64 * 8
    x = sampler.sample(10_000, steps=32, generator=seeded())
    assert float(x.mean()) == pytest.approx(0.8, abs=0.1)
    assert float(x.std()) == pytest.approx(0.5, abs=0.15)
    assert float(sampler.variance(torch.tensor(0.0))) == 0
    assert float(sampler.variance(torch.tensor(1.0))) == pytest.approx(4 - 0.05**2)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: PathSampler(known(), dim=1, reference="levy"), "levy"),
        (lambda: PathSampler(known(), dim=1, scale=0), "scale=0"),
        (lambda: PathSampler(known(), dim=1, schedule="linear"), "linear"),
        (lambda: PathSampler(known(), dim=1).fit(0), "updates=0"),
        (lambda: PathSampler(known()), "give dim"),
        (lambda: PathSampler(lambda x: x[:, 0] * float("nan"), dim=1).fit(2), "not finite at update 1"),
        (lambda: DenoisedSampler(known(), dim=1, smallest=5.0), "smallest=5.0"),
        (lambda: DenoisedSampler(known(), dim=1).fit(0), "at least 1"),
    ],
)
def test_wrong_rivals_are_told(call, told):
    with pytest.raises(InputError, match=told):
        call()
