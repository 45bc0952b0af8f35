"""Samplers against closed forms: the biased variance of ULA, exactness of MALA and HMC, the law of SGLD."""

import math

import numpy as np
import pytest
import torch

from workingpapers.foundations import langevin
from workingpapers.foundations.errors import InputError


def gaussian(mean, variance):
    return lambda x: -0.5 * ((x - mean) ** 2 / variance).sum(-1)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def test_ula_has_the_variance_of_its_recursion(generator):
    # x' = (1 - h / v) x + sqrt(2 h) xi is stationary at 2 h / (1 - (1 - h / v)^2) = v / (1 - h / (2 v)).
    h, v = 0.5, 2.0
    start = torch.zeros(4000, 1, dtype=torch.float64)
    chains = langevin.ula(gaussian(0.0, v), start, step=h, steps=200, burn_in=100, keep_every=20, generator=generator)
    draws = chains.samples.flatten()
    assert float(draws.var()) == pytest.approx(v / (1 - h / (2 * v)), rel=4 * math.sqrt(2 / len(draws)))
    assert chains.gradients == 4000 * 301


@pytest.mark.parametrize("sampler", ["mala", "hmc"])
def test_metropolis_samplers_are_exact_whatever_the_step(sampler, generator):
    scale = torch.tensor([0.3, 3.0], dtype=torch.float64)
    run = getattr(langevin, sampler)
    start = torch.randn(2000, 2, generator=generator, dtype=torch.float64) * scale
    chains = run(gaussian(1.0, scale**2), start + 1, steps=60, warm_up=300, keep_every=60, generator=generator)
    draws = chains.last
    assert torch.allclose(draws.mean(0), torch.ones(2, dtype=torch.float64), atol=4 * 3 / math.sqrt(2000))
    assert torch.allclose(draws.var(0), scale**2, rtol=4 * math.sqrt(2 / 2000))
    assert chains.acceptance == pytest.approx({"mala": 0.574, "hmc": 0.8}[sampler], abs=0.08)


def test_mala_with_a_poor_step_keeps_the_target_where_ula_does_not(generator):
    start = torch.randn(4000, 1, generator=generator, dtype=torch.float64)
    density = gaussian(0.0, 1.0)
    exact = langevin.mala(density, start, step=1.2, steps=30, warm_up=0, keep_every=30, generator=generator)
    biased = langevin.ula(density, start, step=1.2, steps=30, keep_every=30, generator=generator)
    assert float(exact.last.var()) == pytest.approx(1, rel=4 * math.sqrt(2 / 4000))
    assert float(biased.last.var()) == pytest.approx(1 / (1 - 0.6), rel=0.1)


def test_mala_accepts_by_the_ratio_of_both_directions(generator):
    density = lambda x: (2 * x - x.exp()).sum(-1)  # noqa: E731 - log of a Gamma(2, 1) variable
    start = torch.zeros(3000, 1, dtype=torch.float64)
    chains = langevin.mala(density, start, steps=300, warm_up=200, keep_every=100, generator=generator)
    assert float(chains.last.exp().mean()) == pytest.approx(2, abs=4 * math.sqrt(2 / 3000))
    assert float(chains.last.mean()) == pytest.approx(1 - 0.5772156649, abs=4 * math.sqrt((math.pi**2 / 6 - 1) / 3000))


def test_sgld_samples_the_tempered_posterior(generator):
    # L = a (h - c)^2 / 2: the exact variance of the recursion with slope k = a + 1 / (s^2 beta).
    a, c, s, beta, eta = 2.0, 1.5, 0.8, 5.0, 0.2
    h = torch.zeros(20_000, dtype=torch.float64, requires_grad=True)
    optimizer = langevin.SGLD([h], lr=eta, beta=beta, prior_std=s, generator=generator)
    for _ in range(200):
        optimizer.zero_grad()
        (0.5 * a * (h - c) ** 2).sum().backward()
        optimizer.step()
    slope = a + 1 / (s**2 * beta)
    variance = eta / beta / (1 - (1 - eta / 2 * slope) ** 2)
    assert float(h.detach().var()) == pytest.approx(variance, rel=4 * math.sqrt(2 / 20_000))
    assert float(h.detach().mean()) == pytest.approx(a * c / slope, abs=4 * math.sqrt(variance / 20_000))


def test_diagnostics_tell_chains_that_agree_from_chains_that_do_not():
    rng = np.random.default_rng(0)
    good = rng.standard_normal((500, 4, 1))
    apart = good + np.arange(4)[None, :, None] * 3
    both = langevin.diagnose(np.concatenate([good, apart], axis=-1))
    assert both.r_hat[0] < 1.01 < 1.5 < both.r_hat[1]
    assert both.effective_size[0] == pytest.approx(2000, rel=0.15)
    assert both.standard_error[0] == pytest.approx(1 / math.sqrt(2000), rel=0.15)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: langevin.ula(gaussian(0, 1), torch.zeros(2), step=0.1, steps=5), "shape (chains, d)"),
        (lambda: langevin.ula(gaussian(0, 1), torch.zeros(2, 1), step=-0.1, steps=5), "-0.1"),
        (lambda: langevin.ula(gaussian(0, 1e-3), torch.ones(2, 1), step=1.0, steps=500), "diverged at step"),
        (lambda: langevin.mala(lambda x: x.sum(-1) * math.inf, torch.ones(2, 1), steps=5), "not finite at a start"),
        (lambda: langevin.ula(lambda x: x, torch.ones(2, 3), step=0.1, steps=5), "one number a row"),
        (lambda: langevin.SGLD([torch.zeros(1)], lr=0.1, beta=0.0), "beta must be positive, not 0.0"),
        (lambda: langevin.ula(gaussian(0, 1), torch.ones(2, 1), step=0.1, steps=3, keep_every=5), "keep no state"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)
