"""Adaptive testing with a learned selection policy (GPM), classic selectors, sessions and simulations.

Use it to ask each examinee (or language model) the few items of a bank that best predict the ability that all items
would give: calibrate a bank from a log of answers, train :class:`~.gpm.GPMSelector` or take a classic rule, run it on
one examinee (:class:`~.session.Session`) or simulate it on thousands at once (:func:`~.simulation.simulate`).

The learned policy pays where the response model is wrong in ways that the log shows, as when a Rasch model hides that
some items say little. Where the model is right, maximum information is as good and needs no training. Where slopes can
be calibrated, calibrating them is the better cure. The policy is greedy: without an exposure limit a few items are
asked of nearly everybody.

References:
    Zhuang et al., "Efficient Adaptive Testing via Gradient Path Matching Subset Selection for AI Education", ICML 2026
    (OpenReview XnK6Jr0i8D). BECAT: Zhuang et al., NeurIPS 2023. KLI: Chang and Ying, Applied Psychological Measurement
    20 (1996). MEPV: van der Linden, Psychometrika 63 (1998). Item eligibility: van der Linden and Veldkamp, Journal of
    Educational and Behavioral Statistics 29 (2004).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workingpapers.evaluation.adaptive_testing.bank import Bank, calibrate_bank, estimate, estimate_full
    from workingpapers.evaluation.adaptive_testing.constraints import Constraints
    from workingpapers.evaluation.adaptive_testing.gpm import GPMSelector, Settings
    from workingpapers.evaluation.adaptive_testing.selectors import (
        Becat,
        KullbackLeibler,
        MaximumInformation,
        MinimumExpectedPosteriorVariance,
        Random,
        State,
    )
    from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest, Session
    from workingpapers.evaluation.adaptive_testing.simulation import (
        Simulation,
        fit_eligibility,
        hold_out,
        items_needed,
        prediction,
        simulate,
    )

_HOMES = {
    "bank": ("Bank", "calibrate_bank", "estimate", "estimate_full"),
    "constraints": ("Constraints",),
    "gpm": ("GPMSelector", "Settings"),
    "selectors": (
        "Becat",
        "KullbackLeibler",
        "MaximumInformation",
        "MinimumExpectedPosteriorVariance",
        "Random",
        "State",
    ),
    "session": ("AdaptiveTest", "Session"),
    "simulation": ("Simulation", "fit_eligibility", "hold_out", "items_needed", "prediction", "simulate"),
}

__all__ = [
    "AdaptiveTest",
    "Bank",
    "Becat",
    "Constraints",
    "GPMSelector",
    "KullbackLeibler",
    "MaximumInformation",
    "MinimumExpectedPosteriorVariance",
    "Random",
    "Session",
    "Settings",
    "Simulation",
    "State",
    "calibrate_bank",
    "estimate",
    "estimate_full",
    "fit_eligibility",
    "hold_out",
    "items_needed",
    "prediction",
    "simulate",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
