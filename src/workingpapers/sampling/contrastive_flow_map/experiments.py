"""Arms of the claims: fine-tuning on digits and on a ring from one shared flow map, and the contrast's optimum."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import torch
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_digits
from torch import Tensor, nn

from workingpapers.foundations.densities import ring
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.transport import energy_distance, wasserstein
from workingpapers.sampling.contrastive_flow_map.contrast import critic_scores, info_nce
from workingpapers.sampling.contrastive_flow_map.flow_map import sample
from workingpapers.sampling.contrastive_flow_map.gaussian import contrast_limit, gaussian_temperature
from workingpapers.sampling.contrastive_flow_map.network import FlowMLP, Scaling
from workingpapers.sampling.contrastive_flow_map.training import Plan, train

TuneOptions = dict[str, Any]
DIGITS = Plan(batch=128, contrast=0.0, warm_up=0.0, law="logit_normal")
RING = Plan(batch=256, contrast=0.0, warm_up=0.0, law="uniform")
TUNING_RATE = 3e-4
JUDGED = 1000
TIME_FACTOR = 1.5  # a step with the contrast takes 1.4 to 1.5 times as long as a plain one; "tune_seconds" tells


def split_digits(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return 1,200 training digits, the 597 others, in one scale of unit variance, and the training labels.

    Args:
        seed: Of the split.

    Returns:
        Shapes (1200, 64), (597, 64) and (1200,).
    """
    images, classes = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    rows = torch.tensor(images, dtype=torch.float32)[order]
    scaling = Scaling.of(rows[:1200], shared=True)
    return scaling.forward(rows[:1200]), scaling.forward(rows[1200:]), torch.tensor(classes)[order[:1200]]


@lru_cache(maxsize=16)
def pretrained(name: Literal["digits", "ring"], seed: int, steps: int) -> nn.Module:
    """Return the flow map that all arms of a seed start from; kept, since each arm would train the same one.

    Args:
        name: The data.
        seed: Of weights and training.
        steps: Training steps.
    """
    first = torch.Generator().manual_seed(seed)
    network = FlowMLP(64, 192, 3, generator=first) if name == "digits" else FlowMLP(2, 96, 3, generator=first)
    data = split_digits(seed)[0] if name == "digits" else ring_rows(seed)
    plan = replace(DIGITS if name == "digits" else RING, steps=steps, seed=seed)
    return train(network, data, plan).network


@lru_cache(maxsize=16)
def digit_features(seed: int) -> nn.Module:
    """Return the layers below the last one of a classifier of the training digits, shape (b, 64) to (b, 64).

    Args:
        seed: Of split and weights.
    """
    rows, _, labels = split_digits(seed)
    source = torch.Generator().manual_seed(seed + 7)
    body = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 64), nn.SiLU())
    head = nn.Linear(64, 10)
    for parameter in [*body.parameters(), *head.parameters()]:
        bound = 1 / math.sqrt(parameter.shape[-1])
        nn.init.uniform_(parameter, -bound, bound, generator=source)
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(400):
        batch = torch.randint(len(rows), (128,), generator=source)
        loss = nn.functional.cross_entropy(head(body(rows[batch])), labels[batch])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return body.requires_grad_(False)


def nearest_neighbour_temperature(rows: Tensor) -> float:
    """Return an eighth of the mean squared distance to the nearest neighbour, of rows of shape (n, d).

    Args:
        rows: Shape (n, d).
    """
    distances = torch.cdist(rows, rows).fill_diagonal_(math.inf)
    return float((distances.amin(1) ** 2).mean()) / 8


def digits(
    seed: int,
    progress: Progress = silent,
    *,
    options: TuneOptions | None = None,
    features: bool = False,
    near: bool = False,
    length: float = 1.0,
    pretrain: int,
    tune: int,
) -> dict[str, float]:
    """Fine-tune the shared flow map of digits and measure its samples against held-out digits.

    Args:
        seed: Of split, weights, training and samples.
        progress: Called along the way.
        options: Changes of the plan; none for plain continued training.
        features: Whether the contrast is one of features.
        near: Whether the temperature is that of nearest neighbours.
        length: Factor of the number of steps.
        pretrain: Steps of the shared flow map.
        tune: Steps of fine-tuning.
    """
    rows, held_out, _ = split_digits(seed)
    begin = pretrained("digits", seed, pretrain)
    progress(0.3, "flow map trained")
    chosen = dict(options or {})
    if near:
        chosen["tau"] = nearest_neighbour_temperature(rows)
    embed = digit_features(seed) if features else None
    plan = replace(DIGITS, steps=round(length * tune), lr=TUNING_RATE, seed=seed + 1000, **chosen)
    network, seconds = _timed(begin, rows, plan, embed, part(progress, 0.3, 0.9))
    noise = torch.randn(JUDGED, 64, generator=torch.Generator().manual_seed(seed + 2000))
    found = {f"energy_distance_{k}": energy_distance(sample(network, noise, steps=k), held_out) for k in (1, 2, 4)}
    return {**found, "tune_seconds": seconds}


def digits_floor(seed: int, progress: Progress = silent, **_: Any) -> dict[str, float]:
    """Measure training digits in place of samples: the floor.

    Args:
        seed: Of the split.
        progress: Called along the way.
        **_: Settings of the other arms.
    """
    rows, held_out, _labels = split_digits(seed)
    floor = energy_distance(rows[:JUDGED], held_out)
    return {f"energy_distance_{k}": floor for k in (1, 2, 4)}


def ring_rows(seed: int) -> Tensor:
    """Return 5,000 points of eight Gaussians at radius 2 with standard deviation 0.1, shape (5000, 2).

    Args:
        seed: Of the points.
    """
    return ring(8, 2.0, 0.1).sample(5000, torch.Generator().manual_seed(seed + 500), torch.float32)


def on_ring(
    seed: int,
    progress: Progress = silent,
    *,
    options: TuneOptions | None = None,
    length: float = 1.0,
    pretrain: int,
    tune: int,
) -> dict[str, float]:
    """Fine-tune the shared flow map of the ring and measure its samples against exact ones.

    Args:
        seed: Of data, weights, training and samples.
        progress: Called along the way.
        options: Changes of the plan; none for plain continued training.
        length: Factor of the number of steps.
        pretrain: Steps of the shared flow map.
        tune: Steps of fine-tuning.
    """
    begin = pretrained("ring", seed, pretrain)
    progress(0.3, "flow map trained")
    plan = replace(RING, steps=round(length * tune), lr=TUNING_RATE, seed=seed + 1000, **(options or {}))
    network, seconds = _timed(begin, ring_rows(seed), plan, None, part(progress, 0.3, 0.9))
    noise = torch.randn(JUDGED, 2, generator=torch.Generator().manual_seed(seed + 2000))
    found: dict[str, float] = {}
    for k in (1, 2, 16):
        found |= _ring_measures(sample(network, noise, steps=k), seed, k)
    return {**found, "tune_seconds": seconds}


def ring_floor(seed: int, progress: Progress = silent, **_: Any) -> dict[str, float]:
    """Measure exact samples in place of the network's: the floor.

    Args:
        seed: Of the samples.
        progress: Called along the way.
        **_: Settings of the other arms.
    """
    drawn = ring(8, 2.0, 0.1).sample(JUDGED, torch.Generator().manual_seed(seed + 4000))
    found: dict[str, float] = {}
    for k in (1, 2, 16):
        found |= _ring_measures(drawn, seed, k)
    return found


def optimum(
    seed: int, progress: Progress = silent, *, tau: float | None, times: tuple[float, ...], rows: int
) -> dict[str, float]:
    """Minimise the contrast over the scale a of x_hat = a z_t for Gaussian data and compare with the exact flow map.

    Args:
        seed: Of data and noise.
        progress: Called along the way.
        tau: A constant temperature, or None for the Gaussian one.
        times: Times of z_t.
        rows: Batch.

    Returns:
        error, the mean relative error of the scale, and limit_gap, the mean distance in nats of the contrast less log B
        from its closed form at the optimum.
    """
    source = torch.Generator().manual_seed(seed)
    errors, gaps = [], []
    for number, t in enumerate(times):
        x = torch.randn(rows, 1, generator=source, dtype=torch.float64)
        z = (1 - t) * x + t * torch.randn(rows, 1, generator=source, dtype=torch.float64)
        time = torch.full((rows,), t, dtype=torch.float64)
        temperature = gaussian_temperature(time, 1.0) if tau is None else torch.full_like(time, tau)
        loss = _contrast_of_scale(z, x, temperature)
        best = minimize_scalar(loss, bounds=(0.05, 12.0), method="bounded", options={"xatol": 1e-4})
        exact = 1 / math.sqrt((1 - t) ** 2 + t**2)
        errors.append(abs(best.x / exact - 1))
        gaps.append(abs(best.fun - math.log(rows) - contrast_limit(t, 1.0, float(temperature[0]), best.x)))
        progress((number + 1) / len(times), f"t = {t:g}")
    return {"error": sum(errors) / len(errors), "limit_gap": sum(gaps) / len(gaps)}


def _contrast_of_scale(z: Tensor, x: Tensor, tau: Tensor) -> Any:
    return lambda scale: float(info_nce(critic_scores(scale * z, x, tau)))


def _timed(
    begin: nn.Module, rows: Tensor, plan: Plan, embed: nn.Module | None, progress: Progress
) -> tuple[nn.Module, float]:
    import time

    start = time.process_time()
    network = train(begin, rows, plan, embed=embed, progress=progress).network
    return network, time.process_time() - start


def _ring_measures(points: Tensor, seed: int, steps: int) -> dict[str, float]:
    target = ring(8, 2.0, 0.1)
    truth = target.sample(JUDGED, torch.Generator().manual_seed(seed + 3000))
    nearest = torch.cdist(points.double(), target.means).amin(1)
    return {
        f"w2_{steps}": wasserstein(points, truth),
        f"energy_distance_{steps}": energy_distance(points, truth),
        f"off_mode_{steps}": float((nearest > 0.4).double().mean()),  # four standard deviations
    }
