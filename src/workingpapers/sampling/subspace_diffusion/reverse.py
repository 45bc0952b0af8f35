r"""The reverse diffusion on any score that has `score_ve`, by the shared integrators.

.. math:: dY = (Y + 2\, s_{X_{T - r}}(Y))\, dr + \sqrt2\, dB, \qquad Y_0 \sim N(0, I),\ r \in [0, T - \tau]

The times T - r fall geometrically from T to tau. Data in another unit are divided by a length before and multiplied by
it after.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from workingpapers.foundations.diffusion import euler_maruyama, exponential_euler, geometric_times
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, part, silent

Floats = NDArray[np.float64]
BATCH = 2000
"""Paths walked at once."""


class TorchScore:
    """A fitted score as a function of torch points and an Ornstein-Uhlenbeck time, for samplers that take one.

    Args:
        model: Anything with `score_ve(x, t)`.
        scale: Length of the data that counts as one.
    """

    def __init__(self, model: Any, scale: float = 1.0) -> None:
        self.model, self.scale = model, scale

    def __call__(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the score at points, shape (b, d), and a noising time over 0, shape () or (b,)."""
        time = t.detach().cpu().numpy().astype(np.float64)
        growth = np.exp(time) if time.ndim == 0 else np.exp(time)[:, None]
        points = growth * x.detach().cpu().numpy().astype(np.float64) * self.scale
        score = self.model.score_ve(points, np.expm1(2 * time) * self.scale**2)
        return torch.from_numpy(growth * score * self.scale).to(x)


def reverse_diffusion(
    model: Any,
    n_samples: int,
    *,
    first_time: float | None = None,
    last_time: float | None = None,
    n_steps: int = 200,
    method: Literal["em", "ei"] = "ei",
    final_denoise: bool = True,
    scale: float | Literal["auto"] = 1.0,
    random_state: int = 0,
    progress: Progress = silent,
) -> Floats:
    """Return samples of the reverse diffusion, shape (n_samples, d).

    Args:
        model: A fitted :class:`UoSScore`.
        n_samples: How many.
        first_time: T; None takes log N, at least 1.
        last_time: tau; None takes the model's.
        n_steps: Steps of the geometric grid.
        method: ``"em"`` or ``"ei"``.
        final_denoise: Whether to end at the conditional mean (x + sigma^2 s) / c.
        scale: Length of the data that counts as one, or ``"auto"``.
        random_state: Seed.
        progress: Told of the share done.

    Raises:
        InputError: Times, steps or counts are out of range, or a path leaves the finite numbers.
    """
    stop = model.last_time() if last_time is None else last_time
    # log N is below tau = N^(-2/k) for a handful of samples in many dimensions.
    start = max(1.0, math.log(model.n_samples_), 2 * stop) if first_time is None else first_time
    unit = typical_length(model) if scale == "auto" else float(scale)
    if n_samples < 1 or method not in ("em", "ei") or not 0 < unit < math.inf:
        raise InputError(f"A sampler needs samples (not {n_samples}), method 'em' or 'ei' (not {method!r}) and a scale "
                         f"over 0 (not {unit}).")  # fmt: skip
    noising = geometric_times(n_steps, start, stop)
    times = start - noising
    score = TorchScore(model, unit)
    generator = torch.Generator().manual_seed(random_state)

    def guided(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return 2 * score(x, start - r)

    def drift(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return x + guided(x, r)

    batches = []
    for begin in range(0, n_samples, BATCH):
        size = min(BATCH, n_samples - begin)
        watched = part(progress, begin / n_samples, (begin + size) / n_samples)
        x = torch.randn(size, model.n_features_in_, generator=generator, dtype=torch.float64)
        if method == "em":
            x = euler_maruyama(drift, x, times, diffusion=math.sqrt(2), generator=generator, progress=watched)
        else:
            x = exponential_euler(
                guided, x, times, rate=1.0, diffusion=math.sqrt(2), generator=generator, progress=watched
            )
        if final_denoise:
            last = torch.as_tensor(stop, dtype=torch.float64)
            x = (x - torch.expm1(-2 * last) * score(x, last)) * torch.exp(last)
        batches.append(x.numpy())
    return unit * np.concatenate(batches)


def typical_length(model: Any) -> float:
    """Return the root mean square coordinate of the samples along their subspaces."""
    total = sum(float((low**2).sum()) for low in model.projected_)
    count = sum(low.size for low in model.projected_)
    return math.sqrt(total / count) if total > 0 else 1.0
