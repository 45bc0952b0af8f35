r"""Gaussian data N(0, S I), for which everything is known: the flow map, the posterior and the contrast's optimum.

With :math:`v_t = (1-t)^2 S + t^2`, the variance of z_t:

.. math:: X_{t \to r}(z) = z \sqrt{v_r / v_t}, \qquad E[x \mid z_t = z] = \frac{(1-t) S}{v_t} z, \qquad
          \mathrm{Var}[x \mid z_t] = \frac{t^2 S}{v_t}

What stands here is derived from the path and the critic of this folder; it is not quoted from the paper.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.contrastive_flow_map.flow_map import fit

FLOOR = 0.01


def path_variance(t: Tensor, variance: float) -> Tensor:
    """Return v_t = (1 - t)^2 S + t^2.

    Args:
        t: Times, any shape.
        variance: S.
    """
    return (1 - t) ** 2 * variance + t**2


def gaussian_velocity(z: Tensor, r: Tensor, t: Tensor, variance: float = 1.0) -> Tensor:
    r"""Return the exact average velocity of N(0, S I) data.

    .. math:: u(z, r, t) = z\, \frac{1 - \sqrt{v_r / v_t}}{t - r}
              = z\, \frac{(t+r)(1+S) - 2S}{\sqrt{v_t}\,(\sqrt{v_t} + \sqrt{v_r})}

    The second form has no difference of near numbers and holds at r = t, where it is v(z, t).

    Args:
        z: Points, shape (b, ...).
        r: Shape (b,).
        t: Shape (b,).
        variance: S.
    """
    root_t, root_r = path_variance(t, variance).sqrt(), path_variance(r, variance).sqrt()
    return fit(((t + r) * (1 + variance) - 2 * variance) / (root_t * (root_t + root_r)), z) * z


def gaussian_temperature(t: Tensor, variance: float, floor: float = FLOOR) -> Tensor:
    r"""Return the temperature at which the contrast and the flow map of Gaussian data have one optimum (derived).

    .. math:: \tau_t = \sqrt{S v_t} / (1-t) - S

    The contrast with critic :math:`-|\hat x - x|^2 / 2\tau` is least at :math:`\hat x = (1 + \tau/S)\,E[x \mid z_t]`.
    That is the flow map :math:`z \sqrt{S/v_t}` for this temperature alone. It is of order t^2 near the data and
    infinite at t = 1, where a point tells nothing about the x that it came from and gets no contrast.

    Args:
        t: Times, shape (b,).
        variance: S, the variance of a coordinate of the data.
        floor: Least temperature, as a share of S.

    Returns:
        Temperatures, shape (b,), infinite where t = 1.

    Raises:
        InputError: The variance is not positive.
    """
    if not variance > 0:
        raise InputError(f"The variance of the data is {variance:g}; the Gaussian temperature needs a positive one.")
    # t^2 S / (sqrt(v_t) + (1-t) sqrt(S)) is sqrt(S)(sqrt(v_t) - (1-t) sqrt(S)) without its cancellation near t = 0.
    root = path_variance(t, variance).sqrt()
    value = variance**0.5 * t**2 / ((1 - t) * (root + (1 - t) * variance**0.5))
    found: Tensor = value.clamp_min(floor * variance)
    return found


def contrast_limit(t: float, variance: float, tau: float, scale: float) -> float:
    r"""Return what the contrast less log B tends to as B grows, for one Gaussian coordinate and x_hat = scale * z_t.

    .. math:: L - \log B \to E_z\, \mathrm{KL}\bigl(p(x \mid z) \,\|\, q(x \mid z)\bigr) - I(z; x), \qquad
              q(x \mid z) \propto p(x)\, e^{-(\hat x - x)^2 / 2\tau}

    Args:
        t: Time of z_t, 0 < t < 1.
        variance: S.
        tau: Temperature.
        scale: Factor of the reconstruction.
    """
    time = torch.tensor(t, dtype=torch.float64)
    spread = path_variance(time, variance)
    posterior = t**2 * variance / spread
    model = torch.tensor(variance * tau / (variance + tau), dtype=torch.float64)
    shift = (1 - t) * variance / spread - scale * variance / (variance + tau)
    divergence = 0.5 * ((posterior + shift**2 * spread) / model - 1 - torch.log(posterior / model))
    information = 0.5 * torch.log(variance / posterior)
    return float(divergence - information)
