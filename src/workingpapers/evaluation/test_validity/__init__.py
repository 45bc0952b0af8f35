"""May the scores of people and of AI systems on one test be compared? Standard psychometrics, one verdict.

Use it when a test made for people (personality items, an exam) was given to many AI systems and to people, and a score
or a difference of scores is about to be interpreted: :func:`make_study` and :func:`judge` examine reliability,
structure, measurement invariance, items that differ at equal scores and response styles, and say level by level what
may be claimed.
Every part works alone on arrays of answers, shape (n, p): :func:`reliability`, :func:`fit_factors`,
:func:`factor_invariance`, :func:`fit_responses`, :func:`mantel_haenszel`, :func:`screen_items`, :func:`g_study`.

Do not use it to show that a test measures what its name says: that takes content, response processes, other variables
and consequences besides. Do not use it on samples of one model as if they were subjects, nor on a few models: it then
answers "insufficient data".

Reference: Sühr, Dorner, Salaudeen, Kelava and Samadi, Position: Stop evaluating AI with human tests, develop
principled, AI-specific tests instead, arXiv 2507.23009. The paper argues for such an examination and gives none; the
methods are standard ones, named where they stand.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workingpapers.evaluation.test_validity.differential import mantel_haenszel, regression_test, screen_items
    from workingpapers.evaluation.test_validity.dimensionality import (
        congruence,
        exploratory_loadings,
        minimum_average_partial,
        parallel_analysis,
    )
    from workingpapers.evaluation.test_validity.factor_model import fit_factors, moments, score_test
    from workingpapers.evaluation.test_validity.generalizability import Components, coefficients, g_study
    from workingpapers.evaluation.test_validity.invariance import factor_invariance, response_invariance
    from workingpapers.evaluation.test_validity.judging import ValidityReport, contamination, judge
    from workingpapers.evaluation.test_validity.reliability import (
        content_validity_ratio,
        cronbach_alpha,
        disattenuate,
        feldt_interval,
        intraclass,
        mcdonald_omega,
        reliability,
        spearman_brown,
    )
    from workingpapers.evaluation.test_validity.response_model import (
        fit_responses,
        likelihood_ratios,
        test_difference,
    )
    from workingpapers.evaluation.test_validity.rules import Rules
    from workingpapers.evaluation.test_validity.styles import position_preference, response_styles
    from workingpapers.evaluation.test_validity.tables import Study, make_study, read_study

_HOMES = {
    "differential": ("mantel_haenszel", "regression_test", "screen_items"),
    "dimensionality": ("congruence", "exploratory_loadings", "minimum_average_partial", "parallel_analysis"),
    "factor_model": ("fit_factors", "moments", "score_test"),
    "generalizability": ("Components", "coefficients", "g_study"),
    "invariance": ("factor_invariance", "response_invariance"),
    "judging": ("ValidityReport", "contamination", "judge"),
    "reliability": (
        "content_validity_ratio",
        "cronbach_alpha",
        "disattenuate",
        "feldt_interval",
        "intraclass",
        "mcdonald_omega",
        "reliability",
        "spearman_brown",
    ),
    "response_model": ("fit_responses", "likelihood_ratios", "test_difference"),
    "rules": ("Rules",),
    "styles": ("position_preference", "response_styles"),
    "tables": ("Study", "make_study", "read_study"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Components",
    "Rules",
    "Study",
    "ValidityReport",
    "coefficients",
    "congruence",
    "contamination",
    "content_validity_ratio",
    "cronbach_alpha",
    "disattenuate",
    "exploratory_loadings",
    "factor_invariance",
    "feldt_interval",
    "fit_factors",
    "fit_responses",
    "g_study",
    "intraclass",
    "judge",
    "likelihood_ratios",
    "make_study",
    "mantel_haenszel",
    "mcdonald_omega",
    "minimum_average_partial",
    "moments",
    "parallel_analysis",
    "position_preference",
    "read_study",
    "regression_test",
    "reliability",
    "response_invariance",
    "response_styles",
    "score_test",
    "screen_items",
    "spearman_brown",
    "test_difference",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
