"""Impact assessment of a study: the central figures, their spread by Monte Carlo, and the accounts behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.progress import Progress, silent
from workingpapers.governance.ai_lifecycle import attribution
from workingpapers.governance.ai_lifecycle.impacts import (
    SOURCES,
    Impacts,
    category_names,
    category_unit,
    device_factor,
    evaluate,
    grid_factor,
    matrices,
)
from workingpapers.governance.ai_lifecycle.matrix import solve
from workingpapers.governance.ai_lifecycle.quantities import draw
from workingpapers.governance.ai_lifecycle.study import STAGES, VOLUME, Study

CHUNK = 2000
CREDIT = {"cut_off": 0.0, "fifty_fifty": 0.5, "avoided_burden": 1.0}


@dataclass(frozen=True)
class Result:
    """Impacts of one functional unit.

    Args:
        study: The study.
        rule: Allocation rule, ``"declared"`` for that of each process.
        shares: Process -> exact share of its burden that this product bears.
        central: Impacts at the central values (n = 1).
        samples: Monte Carlo totals, float64, shape (n, categories).
        stage_samples: The same by stage, shape (n, stages, categories), in the order of `stages`.
        matrix_gap: Largest relative difference between the closed forms and the matrix solution.
        seed: Seed of the draws.
    """

    study: Study
    rule: str
    shares: Mapping[str, Fraction]
    central: Impacts
    samples: np.ndarray
    stage_samples: np.ndarray
    matrix_gap: float
    seed: int

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the categories."""
        return self.central.categories

    @property
    def stages(self) -> tuple[str, ...]:
        """Stages that have a process, in the order of the life cycle."""
        return stages_of(self.study)

    @property
    def totals(self) -> dict[str, float]:
        """Category -> central total of one functional unit."""
        return dict(zip(self.categories, self.central.totals[0].tolist(), strict=True))

    def by_stage(self) -> np.ndarray:
        """Return central impacts by stage, source and category, shape (stages, 4, categories)."""
        table = self.central.table[0]
        member = _membership(self.study)
        return np.asarray(np.einsum("sp,pok->sok", member, table))

    def interval(self, category: str, level: float = 0.95) -> tuple[float, float, float]:
        """Return lower end, median and upper end of the Monte Carlo totals.

        Args:
            category: Name of the category.
            level: Probability inside the ends.
        """
        column = self.samples[:, self.categories.index(category)]
        low, middle, high = np.quantile(column, [(1 - level) / 2, 0.5, (1 + level) / 2])
        return float(low), float(middle), float(high)

    def upstream_and_marginal(self, category: str) -> tuple[float, float]:
        """Return the burden before the first unit of output and that of one more unit, at the central values.

        Args:
            category: Name of the category.
        """
        return upstream_and_marginal(self.study, category, self.shares)

    def software_carbon_intensity(self) -> dict[str, float]:
        """Return the view of ISO/IEC 21031 for one functional unit: operational, embodied and their sum, kgCO2e."""
        table = self.central.table[0, :, :, self.categories.index("gwp")]
        operational, embodied = table[:, 0].sum(), table[:, 1].sum()
        return {"operational": float(operational), "embodied": float(embodied), "sci": float(operational + embodied)}

    def recovery_credit(self) -> float:
        """Return the end-of-life credit of one functional unit, kgCO2e: shown apart, never part of a total."""
        values = {name: np.array([value]) for name, value in self.study.medians.items()}
        total = 0.0
        for j, process in enumerate(self.study.processes.values()):
            device = self.study.devices.get(process.device, {})
            if "recovery_credit" in device:
                active = float((values[device["lifespan"]] * values[device["utilisation"]])[0])
                credit = float(values[device["recovery_credit"]][0])
                total += float(self.central.supplies["hours"][0, j]) * credit / active
        return CREDIT[self.study.end_of_life] * total


def assess(
    study: Study, *, rule: str = "declared", samples: int = 10_000, seed: int = 0, progress: Progress = silent
) -> Result:
    """Assess a study: central impacts, Monte Carlo samples, and the check against the matrix form.

    Args:
        study: The study.
        rule: Allocation rule for everything that is shared, or ``"declared"``.
        samples: Monte Carlo samples n.
        seed: Seed of the draws.
        progress: Called with the share done.

    Returns:
        The result; its arrays have shapes (n, categories) and (n, stages, categories).

    Raises:
        InputError: The rule lacks its key, or the processes form an impossible loop.
    """
    exact = shares_of(study, rule)
    shares = {name: float(share) for name, share in exact.items()}
    central = evaluate(study, {name: np.array([value]) for name, value in study.medians.items()}, shares)
    scores = solve(matrices(study, study.medians, shares)).scores
    gap = np.abs(scores - central.totals[0]) / np.maximum(np.abs(scores), np.finfo(np.float64).tiny)
    drawn = draw(dict(study.quantities), samples, seed)
    member = _membership(study)
    parts = []
    for start in range(0, samples, CHUNK):
        piece = {name: array[start : start + CHUNK] for name, array in drawn.items()}
        parts.append(np.einsum("sp,npok->nsk", member, evaluate(study, piece, shares).table))
        progress(min(1.0, (start + CHUNK) / samples), "sampling")
    by_stage = np.concatenate(parts)
    return Result(study, rule, exact, central, by_stage.sum(axis=1), by_stage, float(gap.max()), seed)


def shares_of(study: Study, rule: str = "declared") -> dict[str, Fraction]:
    """Return the exact share of every process that this product bears.

    Args:
        study: The study.
        rule: An allocation rule, or ``"declared"`` for the one that each process names.

    Raises:
        InputError: The rule needs a key that a shared process does not give.
    """
    found = {}
    for name, process in study.processes.items():
        shared = process.shared
        if not shared:
            found[name] = Fraction(1)
            continue
        chosen: Any = shared["rule"] if rule == "declared" else rule
        try:
            if chosen == "shares":
                split = attribution.check_shares(shared["shares"])
            else:
                split = attribution.shares(chosen, shared.get("among", []), shared, shared.get("first", ""))
        except InputError as error:
            raise InputError(f"process.{name}: {error}") from None
        found[name] = split[shared["product"]]
    return found


def allocation_table(study: Study) -> dict[str, dict[str, float]]:
    """Return the totals under every allocation rule that the study's keys allow: rule -> category -> total.

    Args:
        study: The study.
    """
    if not any(process.shared for process in study.processes.values()):
        return {}
    found = {}
    values = {name: np.array([value]) for name, value in study.medians.items()}
    for rule in ("declared", *attribution.RULES):
        try:
            shares = {name: float(share) for name, share in shares_of(study, rule).items()}
        except InputError:
            continue  # the study gives no key for this rule
        totals = evaluate(study, values, shares).totals[0]
        found[rule] = dict(zip(category_names(study), totals.tolist(), strict=True))
    return found


def upstream_and_marginal(
    study: Study,
    category: str,
    shares: Mapping[str, Fraction] | None = None,
    values: Mapping[str, float] | None = None,
) -> tuple[float, float]:
    r"""Return F and v of :math:`h(N) = F / N + v`: the burden before the first unit of output and of one more.

    Args:
        study: The study.
        category: Name of the category.
        shares: As :func:`shares_of` returns them.
        values: One number for each quantity; the central ones where None.
    """
    exact = shares or shares_of(study)
    base = values or study.medians
    at = {name: np.array([value, value]) for name, value in base.items()}
    # A burden is linear in 1/N, so that two volumes determine both parts; 1/N = 0 gives the second one exactly.
    at[VOLUME] = np.array([1.0, np.inf])
    once = replace(study, functional_unit=replace(study.functional_unit, amount=1.0))
    totals = evaluate(once, at, {name: float(share) for name, share in exact.items()}).totals
    first, endless = totals[:, category_names(study).index(category)]
    return float(first - endless), float(endless)


def ledger(result: Result) -> list[dict[str, object]]:
    """Return the accounts: every line is supply times factor, and the lines of a category sum to its total.

    Args:
        result: The result.

    Returns:
        Rows with stage, process, category, source, what was supplied, amount, unit, factor, its unit, impact, unit.
    """
    study, rows = result.study, []
    values = {name: np.array([value]) for name, value in study.medians.items()}
    supplies = result.central.supplies
    for j, (name, process) in enumerate(study.processes.items()):
        for k, category in enumerate(result.categories):
            for o, source in enumerate(SOURCES):
                impact = float(result.central.table[0, j, o, k])
                if impact == 0:
                    continue
                factor: object = 1.0
                if source == "electricity":
                    grid = study.facilities[process.facility]["grid"]
                    amount, unit, what = float(supplies["meter_kwh"][0, j]), "kWh", f"grid {grid}"
                    factor = grid_factor(study, grid, category, values)
                elif source == "hardware":
                    amount, unit, what = float(supplies["hours"][0, j]), "device hours", f"device {process.device}"
                    factor = device_factor(study, process.device, category, values)
                elif source == "site water":
                    amount, unit, what = float(supplies["site_l"][0, j]), "L", f"facility {process.facility}"
                else:
                    amount, unit, what = float(supplies["runs"][0, j]), "runs", f"direct flows of {name}"
                    factor = impact / amount
                own = category_unit(study, category)
                rows.append(
                    {
                        "stage": process.stage, "process": name, "category": category, "source": source, "supply": what,
                        "amount": amount, "amount_unit": unit, "factor": float(np.ravel(np.asarray(factor))[0]),
                        "factor_unit": f"{own}/{unit}", "impact": impact, "impact_unit": own,
                    }
                )  # fmt: skip
    return rows


def stages_of(study: Study) -> tuple[str, ...]:
    """Return the stages that have a process, in the order of the life cycle.

    Args:
        study: The study.
    """
    used = {process.stage for process in study.processes.values()}
    return tuple(stage for stage in STAGES if stage in used)


def _membership(study: Study) -> np.ndarray:
    """Return 1 where a process (column) belongs to a stage (row), shape (stages, processes)."""
    stages = stages_of(study)
    return np.array([[float(process.stage == stage) for process in study.processes.values()] for stage in stages])
