r"""Maximise saturating rewards under budgets, online or offline, with a proven share of the best.

The rewards f are DR-submodular (each coordinate is worth less, the more there is of any) but need not be monotone:
spending can do harm. The set K of allowed points, shape (d,), is down-closed: budgets, capacities, packing constraints
:math:`A x \le b` with A, b >= 0 inside the unit box. Instead of moving x, the method moves w with
:math:`x = 1 - e^{-w}`; for w the problem behaves like a linear one, so that projected ascent, a learner without
projections or one that tracks a moving optimum can be plugged in, and so that feedback may be gradients anywhere, only
at the played point, or mere values.

Use it when rewards change from round to round, perhaps against you, and plain ascent may get stuck; or offline, for the
upper bound of the optimum that comes with each answer. The share is 1/e, with one gradient a round; for monotone f the
wrapper ``boosted`` has 1 - 1/e. On easy, smooth streams plain ascent earns more, because :math:`1 - e^{-w}` never
passes 0.632: run both and follow them by :func:`hedge`, which keeps the guarantee. f must be non-negative on the whole
unit box (:func:`floor` tells), and adding a constant to f changes what 1/e of it means.

References:
    Y. Lu, H. Jadav, M. Pedramfar, R. Singh, V. Aggarwal, Upper-Linearizability of Online Non-Monotone DR-Submodular
    Maximization over Down-Closed Convex Sets, ICML 2026, arXiv:2602.20578.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.optimization.dr_submodular.baselines import MetaFrankWolfe, hedge, measured_greedy
    from workingpapers.optimization.dr_submodular.learners import (
        GradientAscent,
        SeparationAscent,
        TrackingExperts,
    )
    from workingpapers.optimization.dr_submodular.objectives import (
        Coverage,
        Cut,
        MeanField,
        Mixture,
        Quadratic,
        Revenue,
        dr_violation,
        floor,
        gradient_bound,
    )
    from workingpapers.optimization.dr_submodular.online import FEEDBACK, OnlineMaximizer, Question
    from workingpapers.optimization.dr_submodular.polytope import Polytope, box, budget, partition
    from workingpapers.optimization.dr_submodular.simulation import (
        best_fixed,
        brute_force,
        certified_regret,
        fit_exponent,
        maximise,
        play,
    )
    from workingpapers.optimization.dr_submodular.wrappers import WRAPPERS, Wrapper

__all__ = [
    "FEEDBACK",
    "WRAPPERS",
    "Coverage",
    "Cut",
    "GradientAscent",
    "MeanField",
    "MetaFrankWolfe",
    "Mixture",
    "OnlineMaximizer",
    "Polytope",
    "Quadratic",
    "Question",
    "Revenue",
    "SeparationAscent",
    "TrackingExperts",
    "Wrapper",
    "best_fixed",
    "box",
    "brute_force",
    "budget",
    "certified_regret",
    "dr_violation",
    "fit_exponent",
    "floor",
    "gradient_bound",
    "hedge",
    "maximise",
    "measured_greedy",
    "partition",
    "play",
]

__getattr__ = lazy_names(
    __name__,
    {
        "baselines": ("MetaFrankWolfe", "hedge", "measured_greedy"),
        "learners": ("GradientAscent", "SeparationAscent", "TrackingExperts"),
        "objectives": (
            "Coverage", "Cut", "MeanField", "Mixture", "Quadratic", "Revenue", "dr_violation", "floor",
            "gradient_bound",
        ),
        "online": ("FEEDBACK", "OnlineMaximizer", "Question"),
        "simulation": ("best_fixed", "brute_force", "certified_regret", "fit_exponent", "maximise", "play"),
        "polytope": ("Polytope", "box", "budget", "partition"),
        "wrappers": ("WRAPPERS", "Wrapper"),
    },
)  # fmt: skip
