r"""Noise schedules, integrators and small networks for flows and diffusions, with one convention of time and sign.

Time runs from 0 (noise) to 1 (data): :math:`X_t = \alpha_t X_1 + \sigma_t X_0` with X_0 standard Gaussian, alpha rising
and sigma falling. Drifts point forward in this time, :math:`dX = u(X, t)\,dt + g(t)\,dW`, and integrators walk along
increasing times. A score is the gradient of log p_t. Diffusions that the literature writes as noising in a time s that
starts at the data appear here by :math:`s = T (1 - t)`.
"""

from workingpapers.foundations.diffusion.integrators import (
    euler_maruyama,
    exponential_euler,
    geodesic_euler_maruyama,
    heun,
    langevin_correction,
)
from workingpapers.foundations.diffusion.networks import DriftMLP, EquivariantDrift, TimeFeatures, moving_average
from workingpapers.foundations.diffusion.schedules import (
    Linear,
    OrnsteinUhlenbeck,
    Schedule,
    Trigonometric,
    geometric_times,
    uniform_times,
)

__all__ = [
    "DriftMLP",
    "EquivariantDrift",
    "Linear",
    "OrnsteinUhlenbeck",
    "Schedule",
    "TimeFeatures",
    "Trigonometric",
    "euler_maruyama",
    "exponential_euler",
    "geodesic_euler_maruyama",
    "geometric_times",
    "heun",
    "langevin_correction",
    "moving_average",
    "uniform_times",
]
