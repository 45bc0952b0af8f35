"""Arms of the claims. All arms of one seed see the same data, chains and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

from workingpapers.foundations.progress import Progress
from workingpapers.sampling.gibbs_bounds.baselines import (
    catoni_bound,
    held_out_bound,
    lever_kl,
    mcallester_bound,
    prior_loss_kl,
)
from workingpapers.sampling.gibbs_bounds.bernoulli import kl_bound, kl_inverse
from workingpapers.sampling.gibbs_bounds.bounds import calibration_factor, gibbs_kl_from_losses
from workingpapers.sampling.gibbs_bounds.losses import BoundedCrossEntropy
from workingpapers.sampling.gibbs_bounds.results import SweepResult
from workingpapers.sampling.gibbs_bounds.sweep import TemperatureSweep, random_labels

Floats = NDArray[np.float64]
DELTA = 0.05
CHANCE = 0.5
PIXEL = 8.0
"""Half of the range of a pixel: inputs are (x - 8) / 8, a scaling that no data chose."""
RANGE = BoundedCrossEntropy(normalised=False).scale


@lru_cache(maxsize=64)
def digits_sweep(
    seed: int, labels: str, train: int, steps: int, hidden: int, ratios: tuple[float, ...], draws: int
) -> SweepResult:
    """Return a sweep on handwritten digits, 0 to 4 against 5 to 9; all other images are the test set.

    With ``labels="random"`` training and test labels are coin flips, so that every classifier errs one time in two.
    """
    images, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    inputs = torch.tensor((images[order] - PIXEL) / PIXEL, dtype=torch.float32)
    targets = torch.tensor(classes[order] >= 5, dtype=torch.int64)
    if labels == "random":
        targets = random_labels(targets, 2, torch.Generator().manual_seed(seed))
    model = nn.Sequential(nn.Linear(inputs.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, 1))
    sweep = TemperatureSweep(
        model,
        BoundedCrossEntropy(),
        (inputs[:train], targets[:train]),
        betas=[0.0, *(train * ratio for ratio in ratios)],
        burn_in=steps,
        steps=steps,
        prior_draws=draws,
        test_data=(inputs[train:], targets[train:]),
        seed=seed,
    )
    return sweep.run()


def bounds_of(result: SweepResult, rule: str) -> Floats:
    """Return the bound of `rule` at each temperature, shape (m,); where it needs one, with its union bound.

    ``"prior loss"`` and ``"Lever"`` know no other temperature than their own. Lever's prior changes with beta and its
    event concerns the loss of the exponent, so delta is halved and shared among the temperatures.
    """
    n, m, errors = result.n, len(result.betas), result.errors
    if rule == "held out":
        assert result.test_errors is not None
        return held_out_bound(np.clip(result.test_errors, 0, 1), len(load_digits().target) - n, DELTA / m)
    kl = np.maximum.accumulate(gibbs_kl_from_losses(result.betas, result.losses))
    if rule == "prior loss":
        return kl_bound(errors, np.maximum(0, prior_loss_kl(result.betas, result.losses)), n, DELTA)
    if rule == "Lever":
        share = DELTA / (2 * m)
        return kl_bound(errors, lever_kl(result.betas, n, share), n, share)
    if rule == "McAllester":
        return mcallester_bound(errors, kl, n, DELTA)
    if rule == "Catoni":
        return catoni_bound(errors, kl, n, DELTA)
    if rule == "wrong scale":
        # The sampler's loss had range 3.98 and its values were divided by it: the same chains, KL too small by 3.98.
        return kl_bound(errors, kl / RANGE, n, DELTA)
    return result.bound(DELTA).bound


def certificate(
    seed: int,
    progress: Progress,
    *,
    rule: str,
    train: int,
    steps: int,
    hidden: int,
    ratios: tuple[float, ...],
    draws: int,
) -> dict[str, float]:
    """Return the smallest bound on true labels, replaced by 1 where a bound fell below the test error."""
    progress(0.0, "true labels")
    result = digits_sweep(seed, "true", train, steps, hidden, ratios, draws)
    assert result.test_errors is not None
    bounds = bounds_of(result, rule)
    violated = int((bounds < result.test_errors).sum())
    k = int(np.argmin(bounds))
    cold = int(np.argmin(np.abs(result.betas - 4 * result.n)))
    progress(1.0)
    return {
        "certified": 1.0 if violated else float(bounds[k]),
        "violations": float(violated),
        "at_four": float(bounds[cold]),
        "coldest": float(bounds[-1]),
        "best_ratio": float(result.betas[k] / result.n),
        "train_error": float(result.errors[k]),
        "test_error": float(result.test_errors[k]),
        "coldest_train_error": float(result.errors[-1]),
        "coldest_test_error": float(result.test_errors[-1]),
        "warnings": float(len(result.warnings)),
    }


def control(
    seed: int,
    progress: Progress,
    *,
    rule: str,
    train: int,
    steps: int,
    hidden: int,
    ratios: tuple[float, ...],
    draws: int,
) -> dict[str, float]:
    """Return the smallest bound above beta = 0 on random labels, whose risk is one half whatever was learned."""
    progress(0.0, "random labels")
    result = digits_sweep(seed, "random", train, steps, hidden, ratios, draws)
    bounds = bounds_of(result, rule)[1:]
    progress(1.0)
    return {
        "lowest": float(bounds.min()),
        "below_chance": float((bounds < CHANCE).sum()),
        "coldest": float(bounds[-1]),
        "coldest_train_error": float(result.errors[-1]),
        "warnings": float(len(result.warnings)),
    }


def calibrated(
    seed: int,
    progress: Progress,
    *,
    calibrate: bool,
    train: int,
    steps: int,
    hidden: int,
    ratios: tuple[float, ...],
    draws: int,
) -> dict[str, float]:
    """Return the smallest bound with the factor from random labels, replaced by 1 where one fell below the test error.

    `distance` is the mean gap between bound and test error over all temperatures above zero.
    """
    settings = (train, steps, hidden, ratios, draws)
    result = digits_sweep(seed, "true", *settings)
    assert result.test_errors is not None
    factor = 1.0
    if calibrate:
        progress(0.5, "random labels")
        noise = digits_sweep(seed, "random", *settings)
        factor = calibration_factor(noise.betas, noise.losses, noise.errors, noise.n, DELTA, chance=CHANCE)
    found = result.bound(DELTA, calibration=factor).heuristic_calibrated_bound
    assert found is not None
    gaps = found - result.test_errors
    progress(1.0)
    return {
        "certified": 1.0 if (gaps < 0).any() else float(found.min()),
        "violations": float((gaps < 0).sum()),
        "distance": float(gaps[1:].mean()),
        "factor": factor,
        "coldest": float(found[-1]),
    }


def validity(
    seed: int,
    progress: Progress,
    *,
    rule: str,
    family: str,
    datasets: int,
    hypotheses: int,
    n: int,
    ratios: Sequence[float] = (0.25, 1.0, 16.0),
    grid: int = 24,
) -> dict[str, float]:
    """Return how often a bound fails at one temperature or more, all posteriors of a finite class being enumerated.

    ``family="thresholds"``: classifiers x >= t of a uniform x whose label 1[x >= 1/2] is flipped one time in five.
    ``family="independent"``: hypotheses that err independently with probabilities between 0.3 and 0.5, where choosing
    among them overfits most. ``rule="posterior as if fixed"`` leaves the KL out.
    """
    rng = np.random.default_rng(seed)
    failed, gaps = 0, []
    betas = np.concatenate([[0.0], np.geomspace(n / 64, n * max(ratios), grid)])
    betas = np.unique(np.concatenate([betas, [n * ratio for ratio in ratios]]))
    asked = np.searchsorted(betas, [n * ratio for ratio in ratios])
    for number in range(datasets):
        empirical, risks = _finite_class(rng, family, hypotheses, n)
        weights = np.exp(-betas[:, None] * (empirical - empirical.min()))
        weights /= weights.sum(axis=1, keepdims=True)
        errors, truth = np.clip(weights @ empirical, 0, 1), weights @ risks
        if rule == "posterior as if fixed":
            bounds = np.asarray(kl_inverse(errors, math.log(1 / DELTA) / n))
        else:
            kl = gibbs_kl_from_losses(betas, errors) if rule == "integral" else prior_loss_kl(betas, errors)
            bounds = kl_bound(errors, np.maximum(0, kl), n, DELTA)
        gap = (bounds - truth)[asked]
        failed += bool((gap < 0).any())
        gaps.append(gap.mean())
        progress((number + 1) / datasets, f"{number + 1} of {datasets} data sets")
    return {"failed": failed / datasets, "trials": float(datasets), "gap": float(np.mean(gaps))}


def _finite_class(rng: np.random.Generator, family: str, hypotheses: int, n: int) -> tuple[Floats, Floats]:
    """Return empirical and true risks of a finite class on one data set, shape (hypotheses,) each."""
    if family == "thresholds":
        thresholds = np.linspace(0, 1, hypotheses)
        x = rng.random(n)
        y = (x >= 0.5) != (rng.random(n) < 0.2)
        empirical = ((x >= thresholds[:, None]) != y).mean(axis=1)
        return empirical, 0.2 + 0.6 * np.abs(thresholds - 0.5)
    risks = np.linspace(0.3, 0.5, hypotheses)
    return rng.binomial(n, risks) / n, risks
