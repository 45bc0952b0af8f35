"""The arms of the claims: samplers at equal numbers of gradients, judged against exact samples."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from workingpapers.foundations import densities
from workingpapers.foundations.densities import Counted, Density, GaussianMixture
from workingpapers.foundations.diffusion import EquivariantDrift
from workingpapers.foundations.langevin import mala, ula
from workingpapers.foundations.manifolds import Manifold, Sphere
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.transport import wasserstein, wasserstein_1d
from workingpapers.sampling.flow_sampling.adjoint import AdjointSampler
from workingpapers.sampling.flow_sampling.denoised import DenoisedSampler
from workingpapers.sampling.flow_sampling.paths import PathSampler, Reference
from workingpapers.sampling.flow_sampling.replay import ReplaySampler
from workingpapers.sampling.flow_sampling.sampler import FlowSampler
from workingpapers.sampling.flow_sampling.targets import MeanFree, flow_sampling_target

Name = Literal["ring", "multi_well", "particles", "sphere"]
Method = Literal["flow", "adjoint", "adjoint_wide", "adjoint_geometric", "no_gradient", "factor_t", "no_curvature"]
JUDGED = 2000  # samples of each method that are compared
CLIP = 30.0
MODES = ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (-0.6, -0.8, 0.0))


class WithFactorT(FlowSampler):
    """A wrong form met in the literature: the gradient carries a factor t that its noise does not answer to."""

    def regression(self, points: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the wrong targets."""
        x, t, drift = super().regression(points, gradients)
        return x, t, drift - self.gamma * (1 - t[:, None]) * gradients


class WithoutCurvature(FlowSampler):
    """The target on the sphere without the term (m - 1)(t cot t w - cot w), as if volume were not stretched."""

    def regression(self, points: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return targets whose stretch of volume is left out."""
        noise = self._noise_for(points)
        t = torch.rand(len(points), generator=self.generator, dtype=self.dtype)
        x, drift = flow_sampling_target(noise, points, gradients, t, self.gamma, self.manifold)
        _, bare = flow_sampling_target(noise, points, torch.zeros_like(gradients), t, self.gamma, self.manifold)
        _, flow = flow_sampling_target(noise, points, torch.zeros_like(gradients), t, 0.0, self.manifold)
        return x, t, drift - (bare - flow)


def density_of(name: Name) -> tuple[Density, Manifold | None]:
    """Return a target of the claims and the space it lives in."""
    if name == "ring":
        return densities.ring(), None
    if name == "multi_well":
        return densities.MultiWell.shifted(5, 5, delta=4.0), None
    if name == "particles":
        return densities.DoubleWellParticles(), MeanFree(8, particles=4)
    sphere = Sphere(2)
    return densities.VonMisesFisherMixture(torch.tensor(MODES, dtype=torch.float64), 20.0), sphere


def sampler_of(method: Method, name: Name, seed: int, strength: float) -> ReplaySampler:
    """Return an untrained sampler for a target."""
    target, manifold = density_of(name)
    options: dict[str, Any] = {"seed": seed, "clip": CLIP, "manifold": manifold}
    if name == "particles":
        first = torch.Generator().manual_seed(seed)
        options["network"] = EquivariantDrift(4, 2, 32, 2, generator=first)
    if method == "adjoint":
        return AdjointSampler(target, largest=1.0, **options)
    if method == "adjoint_wide":
        return AdjointSampler(target, largest=4.0, **options)
    if method == "adjoint_geometric":
        return AdjointSampler(target, largest=2.0, smallest=0.1, schedule="geometric", **options)
    kinds = {"factor_t": WithFactorT, "no_curvature": WithoutCurvature}
    strength = 0.0 if method == "no_gradient" else strength
    return kinds.get(method, FlowSampler)(target, strength=strength, **options)


def learned(
    seed: int,
    progress: Progress = silent,
    *,
    method: Method,
    target: Name = "ring",
    strength: float = 1.0,
    steps: int = 32,
    rounds: int,
    updates: int,
    new_samples: int,
) -> dict[str, float]:
    """Train a sampler and judge its samples.

    Args:
        seed: Of weights, noise and the exact samples.
        progress: Called along the way.
        method: The sampler.
        target: The density.
        strength: c of Flow Sampling.
        steps: Network evaluations a path, in training and afterwards.
        rounds: Rounds.
        updates: Gradient steps a round.
        new_samples: New samples a round.
    """
    sampler = sampler_of(method, target, seed, strength)
    sampler.fit(
        rounds, updates=updates, new_samples=new_samples, steps=steps, batch=512, progress=part(progress, 0.0, 0.9)
    )
    drawn = sampler.sample(JUDGED, steps=steps, generator=torch.Generator().manual_seed(1000 + seed))
    return {**judged(drawn, target, seed), "gradients": float(sampler.evaluations)}


def paths(
    seed: int,
    progress: Progress = silent,
    *,
    reference: Reference,
    scale: float,
    batch: int,
    target: Name = "ring",
    loss: Literal["kl", "log-variance"] = "kl",
    steps: int = 32,
    rounds: int,
    updates: int,
    new_samples: int,
) -> dict[str, float]:
    """Train a sampler on whole paths with as many gradients, and judge its samples.

    Args:
        seed: Of weights, noise and the exact samples.
        progress: Called along the way.
        reference: Process without control.
        scale: Standard deviation of its end.
        batch: Paths an update, each with one gradient.
        target: The density.
        loss: What is trained.
        steps: Network evaluations a path.
        rounds: With `new_samples`, the number of gradients.
        updates: Not used: there is one a batch.
        new_samples: With `rounds`, the number of gradients.
    """
    sampler = PathSampler(
        density_of(target)[0], reference=reference, scale=scale, loss=loss, clip=CLIP, seed=seed
    )  # fmt: skip
    budget = rounds * new_samples
    sampler.fit(budget // batch, batch=batch, steps=steps, progress=part(progress, 0.0, 0.9))
    drawn = sampler.sample(JUDGED, steps=steps, generator=torch.Generator().manual_seed(1000 + seed))
    return {**judged(drawn, target, seed), "gradients": float(sampler.evaluations)}


def denoised(
    seed: int,
    progress: Progress = silent,
    *,
    perturbed: int,
    largest: float,
    target: Name = "ring",
    steps: int = 32,
    rounds: int,
    updates: int,
    new_samples: int,
) -> dict[str, float]:
    """Train by iterated denoising with as many gradients, and judge the samples.

    Args:
        seed: Of weights, noise and the exact samples.
        progress: Called along the way.
        perturbed: Gradients for each point of the regression.
        largest: Largest noise.
        target: The density.
        steps: Network evaluations a path.
        rounds: Rounds.
        updates: Gradient steps a round.
        new_samples: Gradients a round, and new samples of the model.
    """
    sampler = DenoisedSampler(density_of(target)[0], perturbed=perturbed, largest=largest, clip=CLIP, seed=seed)
    sampler.fit(
        rounds, points=new_samples // perturbed, updates=updates, new_samples=new_samples, steps=steps, batch=512,
        progress=part(progress, 0.0, 0.9),
    )  # fmt: skip
    drawn = sampler.sample(JUDGED, steps=steps, generator=torch.Generator().manual_seed(1000 + seed))
    return {**judged(drawn, target, seed), "gradients": float(sampler.evaluations)}


def chains(
    seed: int,
    progress: Progress = silent,
    *,
    adjusted: bool,
    target: Name = "ring",
    rounds: int,
    updates: int,
    new_samples: int,
) -> dict[str, float]:
    """Run Langevin chains from standard Gaussian starts with as many gradients, and judge their later states.

    Args:
        seed: Of the chains.
        progress: Called along the way.
        adjusted: Whether to accept and reject (MALA).
        target: The density.
        rounds: With `new_samples`, the number of gradients.
        updates: Not used: chains do not train.
        new_samples: With `rounds`, the number of gradients.
    """
    counted = Counted(density_of(target)[0])
    budget = rounds * new_samples
    many = max(1, min(100, budget // 100))
    each = budget // many - 1
    source = torch.Generator().manual_seed(seed)
    start = torch.randn(many, counted.dim, generator=source, dtype=torch.float64)
    if adjusted:
        run = mala(counted.log_density, start, steps=each - each // 3, warm_up=each // 3, generator=source)
    else:
        run = ula(counted.log_density, start, step=0.02, steps=each - each // 3, burn_in=each // 3, generator=source)
    states = run.samples.reshape(-1, counted.dim)
    rows = torch.randperm(len(states), generator=source)[:JUDGED]
    progress(0.9, "chains done")
    return {**judged(states[rows], target, seed), "gradients": float(counted.evaluations)}


def exact(seed: int, progress: Progress = silent, *, target: Name = "ring", **_: Any) -> dict[str, float]:
    """Judge exact samples: the floor of every measure.

    Args:
        seed: Of the samples.
        progress: Called along the way.
        target: The density.
        **_: Settings of the other arms.
    """
    drawn = density_of(target)[0].sample(JUDGED, torch.Generator().manual_seed(2000 + seed))
    return judged(drawn, target, seed)


def judged(drawn: Tensor, target: Name, seed: int) -> dict[str, float]:
    """Return distances of samples, shape (n, d), to exact (for particles: reference) samples of the target."""
    density, manifold = density_of(target)
    points = drawn.to(torch.float64)
    truth = density.sample(JUDGED, torch.Generator().manual_seed(3000 + seed))
    energies = [-density.log_density(x) for x in (points, truth)]
    found = {"energy_w2": wasserstein_1d(*energies)}
    if isinstance(density, GaussianMixture):
        masses = density.mode_masses(points)
        found["least_mode"] = float(masses.min())
        found["mode_error"] = float(0.5 * (masses - density.weights).abs().sum())
    if target == "sphere" and manifold is not None:
        found["w2"] = wasserstein(points, truth, cost=manifold.distance(points[:, None], truth).numpy())
    elif target != "particles":
        found["w2"] = wasserstein(points, truth)
    if target == "multi_well":
        signs = [(x > 0).to(torch.float64).mean(0) for x in (points, truth)]
        found["side_error"] = float((signs[0] - signs[1]).abs().mean())
        found["wells"] = float(len(torch.unique((points > 0).to(torch.int64) @ (2 ** torch.arange(5)))))
    if not all(math.isfinite(value) for value in found.values()):
        found = {name: value if math.isfinite(value) else 1e6 for name, value in found.items()}
    return found
