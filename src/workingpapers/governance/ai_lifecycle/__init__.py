"""Life cycle assessment of machine-learning models: from an inventory to impacts that an auditor can follow.

For whom: teams that must say what a model costs in energy, greenhouse gases, water and materials, over everything that
it took to make it and everything that it will serve; and readers of such statements.

What it does: an inventory (TOML, YAML, JSON; measured logs may be named in it) becomes the burden of one functional
unit, by stage and by source, with an interval, the inputs that matter and the values at which the conclusion turns.
:func:`load` reads, :func:`assess` computes, :func:`compare` sets two designs side by side over paired draws;
:func:`cost_per_unit` is the paper's formula alone. Samples have shape (n, categories).

When not to use it: for one run alone (a tracker is simpler), for a certified declaration (that needs a critical
review), or for products outside computing, where a general engine with a licensed database belongs.

Example:
    >>> from workingpapers.governance.ai_lifecycle import break_even_volume, cost_per_unit
    >>> round(break_even_volume(78_000, 1e-3 * 0.384) / 1e8, 3)  # kgCO2e before the first request and for each
    2.031
    >>> cost_per_unit(3.84e-4, 1.0, 876.5, 35_040, 26_000, 52_000, 1e9) > 3.84e-4
    True

Reference:
    Fernandez, Na, Bisk, Samaras, Strubell: Position: Evaluation of ML Resource Utilization Requires Model Life Cycle
    Assessment. ICML 2026, arXiv 2606.07632.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.governance.ai_lifecycle.assessment import Result, allocation_table, assess, ledger
    from workingpapers.governance.ai_lifecycle.attribution import (
        break_even_volume,
        cost_per_unit,
        crossover_volume,
        shares,
    )
    from workingpapers.governance.ai_lifecycle.checks import checks
    from workingpapers.governance.ai_lifecycle.comparison import compare, what_would_turn
    from workingpapers.governance.ai_lifecycle.factors import lookup
    from workingpapers.governance.ai_lifecycle.inventory import load, parse
    from workingpapers.governance.ai_lifecycle.matrix import System, solve, solve_with_brightway
    from workingpapers.governance.ai_lifecycle.quantities import Quantity
    from workingpapers.governance.ai_lifecycle.sensitivity import elasticities, sobol, switches, tornado, total_of
    from workingpapers.governance.ai_lifecycle.study import Study

_HOMES = {
    "assessment": ("Result", "allocation_table", "assess", "ledger"),
    "attribution": ("break_even_volume", "cost_per_unit", "crossover_volume", "shares"),
    "checks": ("checks",),
    "comparison": ("compare", "what_would_turn"),
    "factors": ("lookup",),
    "inventory": ("load", "parse"),
    "matrix": ("System", "solve", "solve_with_brightway"),
    "quantities": ("Quantity",),
    "sensitivity": ("elasticities", "sobol", "switches", "tornado", "total_of"),
    "study": ("Study",),
}
__all__ = [
    "Quantity",
    "Result",
    "Study",
    "System",
    "allocation_table",
    "assess",
    "break_even_volume",
    "checks",
    "compare",
    "cost_per_unit",
    "crossover_volume",
    "elasticities",
    "ledger",
    "load",
    "lookup",
    "parse",
    "shares",
    "sobol",
    "solve",
    "solve_with_brightway",
    "switches",
    "tornado",
    "total_of",
    "what_would_turn",
]

__getattr__ = lazy_names(__name__, _HOMES)
