r"""Counterfactual questions from counterfactual data: formula, experiment or bounds.

For whom: people with a causal diagram over discrete variables (with unobserved confounding) and data of several
regimes: plain observation, ordinary experiments, and experiments that feed a treatment's value to some of its effects
only, while the unit's own value is recorded (counterfactual randomisation).

What it does: :func:`identify` says whether a query such as the effect on the treated, a natural direct effect or any
nested counterfactual :math:`P(Y_{x, M_{x'}} = y \mid X = x')` is a function of those laws, and writes the formula;
:func:`realizable` and :func:`suggest_regimes` say which experiment would make it so; :func:`estimate` gives the number
with a bootstrap interval; :func:`bound` gives the interval that the data allow where no formula exists.

When to use it: the diagram is known and the variables have few values. When not: continuous variables without binning,
or an uncertain diagram; a missing confounding edge makes the formula wrong. Formulas hold in every model with the
diagram; with two values of a treatment some queries are determined that no general formula gives, and :func:`bound`
then returns a point. A probability of necessity and sufficiency is never identified, only bounded.

Example:
    >>> from workingpapers.causality.counterfactual_id import ADMG, ANY, Regime, identify
    >>> graph = ADMG(directed=[("X", "Y")], bidirected=[("X", "Y")])
    >>> found = identify("P(Y[x] = y | X = x')", graph, [Regime("split", cut={("X", "Y"): ANY})])
    >>> print(found.expression)
    P_split(Y = y | X = x'; X->Y := x)

Reference:
    A. Raghavan, E. Bareinboim, Causal Identification from Counterfactual Data: Completeness and Bounding Results, ICML
    2026, arXiv:2602.23541. The identification of factors from edge-wise experiments is a reconstruction from its
    abstract and from arXiv:2107.03190 and arXiv:2503.11870, checked against exact enumeration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.causality.counterfactual_id.bounds import (
        Bounds,
        bound,
        frechet_bounds,
        mediator_pns_bounds,
        pns_bounds,
        tian_pearl_bounds,
    )
    from workingpapers.causality.counterfactual_id.evaluation import Estimate, PositivityError, estimate, evaluate
    from workingpapers.causality.counterfactual_id.expression import Expression
    from workingpapers.causality.counterfactual_id.graph import ADMG
    from workingpapers.causality.counterfactual_id.graph_formats import (
        from_networkx,
        from_y0,
        graph_from_text,
        read_graph,
    )
    from workingpapers.causality.counterfactual_id.identification import Identified, NotIdentified, identify
    from workingpapers.causality.counterfactual_id.linear_program import InconsistentTables, TooManyCells
    from workingpapers.causality.counterfactual_id.query import Event, Query, Response, Symbol
    from workingpapers.causality.counterfactual_id.realizability import Realizability, realizable, suggest_regimes
    from workingpapers.causality.counterfactual_id.regime import ANY, OBSERVATIONAL, Regime, all_regimes, read_regimes
    from workingpapers.causality.counterfactual_id.tables import Sample, Table, read_samples

_HOMES = {
    "bounds": ("Bounds", "bound", "frechet_bounds", "mediator_pns_bounds", "pns_bounds", "tian_pearl_bounds"),
    "evaluation": ("Estimate", "PositivityError", "estimate", "evaluate"),
    "expression": ("Expression",),
    "graph": ("ADMG",),
    "graph_formats": ("from_networkx", "from_y0", "graph_from_text", "read_graph"),
    "identification": ("Identified", "NotIdentified", "identify"),
    "linear_program": ("InconsistentTables", "TooManyCells"),
    "query": ("Event", "Query", "Response", "Symbol"),
    "realizability": ("Realizability", "realizable", "suggest_regimes"),
    "regime": ("ANY", "OBSERVATIONAL", "Regime", "all_regimes", "read_regimes"),
    "tables": ("Sample", "Table", "read_samples"),
}

__all__ = [
    "ADMG",
    "ANY",
    "OBSERVATIONAL",
    "Bounds",
    "Estimate",
    "Event",
    "Expression",
    "Identified",
    "InconsistentTables",
    "NotIdentified",
    "PositivityError",
    "Query",
    "Realizability",
    "Regime",
    "Response",
    "Sample",
    "Symbol",
    "Table",
    "TooManyCells",
    "all_regimes",
    "bound",
    "estimate",
    "evaluate",
    "frechet_bounds",
    "from_networkx",
    "from_y0",
    "graph_from_text",
    "identify",
    "mediator_pns_bounds",
    "pns_bounds",
    "read_graph",
    "read_regimes",
    "read_samples",
    "realizable",
    "suggest_regimes",
    "tian_pearl_bounds",
]

__getattr__ = lazy_names(__name__, _HOMES)
