r"""A bound on the test error of an overparameterised network from its training errors at higher temperatures.

A network that can fit random labels tells nothing by its training error alone. Sample its Gibbs posterior
:math:`e^{-\beta L(\theta)} \pi(\theta)` from the prior (beta = 0) down to low temperature (beta far above n): the KL
divergence to the prior is the area between the loss curve and its end, and small loss at high temperature already
means a small area. :func:`gibbs_bound` needs three lists of shape (m,) from any sampler; :class:`TemperatureSweep`
makes them for any ``torch.nn.Module`` and any loss of one number an example.

Use it where no data can be spared for a test set, or to tell learning from memorising. Not where a test set of a few
hundred examples exists: its bound is far tighter, and the report prints it for scale. The guarantee is for the mean
error of a network drawn from the exact posterior, with exact mean losses, and for a prior and an input scaling chosen
without the sample. Langevin chains give these means approximately. Batch-means standard errors measure their noise; a
chain that has not come down makes the KL *too small*, and only the warnings speak of that. A calibrated bound is a
heuristic, says so in its name, and fell below the test error in our claim with 1,000 examples.

References:
    A. Maurer, E. Mirzaei, M. Pontil, Generalization of Gibbs and Langevin Monte Carlo Algorithms in the Interpolation
    Regime, ICML 2026, arXiv:2510.06028.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.sampling.gibbs_bounds.baselines import (
        catoni_bound,
        held_out_bound,
        lever_kl,
        mcallester_bound,
        prior_loss_kl,
    )
    from workingpapers.sampling.gibbs_bounds.bernoulli import kl_bernoulli, kl_bound, kl_inverse
    from workingpapers.sampling.gibbs_bounds.bounds import (
        GibbsBound,
        calibration_factor,
        gibbs_bound,
        gibbs_kl_from_losses,
        single_draw_bound,
    )
    from workingpapers.sampling.gibbs_bounds.chains import batch_means_error
    from workingpapers.sampling.gibbs_bounds.losses import (
        BoundedCrossEntropy,
        SavageLoss,
        TangentLoss,
        zero_one_error,
    )
    from workingpapers.sampling.gibbs_bounds.results import SweepResult
    from workingpapers.sampling.gibbs_bounds.sweep import TemperatureSweep, random_labels

_HOMES = {
    "baselines": ("catoni_bound", "held_out_bound", "lever_kl", "mcallester_bound", "prior_loss_kl"),
    "bernoulli": ("kl_bernoulli", "kl_bound", "kl_inverse"),
    "bounds": (
        "GibbsBound",
        "calibration_factor",
        "gibbs_bound",
        "gibbs_kl_from_losses",
        "single_draw_bound",
    ),
    "chains": ("batch_means_error",),
    "losses": ("BoundedCrossEntropy", "SavageLoss", "TangentLoss", "zero_one_error"),
    "results": ("SweepResult",),
    "sweep": ("TemperatureSweep", "random_labels"),
}

__all__ = [
    "BoundedCrossEntropy",
    "GibbsBound",
    "SavageLoss",
    "SweepResult",
    "TangentLoss",
    "TemperatureSweep",
    "batch_means_error",
    "calibration_factor",
    "catoni_bound",
    "gibbs_bound",
    "gibbs_kl_from_losses",
    "held_out_bound",
    "kl_bernoulli",
    "kl_bound",
    "kl_inverse",
    "lever_kl",
    "mcallester_bound",
    "prior_loss_kl",
    "random_labels",
    "single_draw_bound",
    "zero_one_error",
]
__getattr__ = lazy_names(__name__, _HOMES)
