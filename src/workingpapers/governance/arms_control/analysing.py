"""Commands of the analyst: stability of a balance, inspection plans, escalation logs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.files import column, read_table
from workingpapers.foundations.outcome import Figure, Outcome, Table
from workingpapers.governance.arms_control import cooperation as games
from workingpapers.governance.arms_control import inspection as plans
from workingpapers.governance.arms_control.checking import finish
from workingpapers.governance.arms_control.declaring import read_json
from workingpapers.governance.arms_control.inspection_game import stage
from workingpapers.governance.arms_control.pictures import (
    cooperation_map,
    detection_curves,
    game_picture,
    phase_portrait,
    reactions_picture,
)
from workingpapers.governance.arms_control.richardson import Balance, is_stable_exact, ranking, summary

MODEL_NOTE = (
    "A stability margin is a statement about the model with these numbers, not about states: reactions, fatigue and "
    "payoffs are assumptions, and analogies with nuclear arms control are imperfect. Vary them first."
)


def analyse_stability(balance: Path, report: Path | None) -> Outcome:
    """Analyse a balance and, where given, cooperation under verification and fear of surprise."""
    content = read_json(balance)
    known = {"actors", "reaction", "fatigue", "grievance", "cooperation", "surprise", "deterrence"}
    if not isinstance(content, dict) or set(content) - known or not content:
        extra = sorted(set(content) - known) if isinstance(content, dict) else []
        raise InputError(f"{str(balance)!r} must be an object with some of {', '.join(sorted(known))}; found {extra}.")
    tables: list[Table] = []
    figures: list[Figure] = []
    sentences: list[str] = []
    data: dict[str, Any] = {}
    if "reaction" in content:
        _richardson(content, tables, figures, sentences, data)
    if "cooperation" in content:
        _cooperation(_object(content, "cooperation"), tables, figures, sentences, data)
    if "surprise" in content:
        _surprise(_object(content, "surprise"), tables, sentences, data)
    if "deterrence" in content:
        entry = _object(content, "deterrence")
        needed = games.deterring_detection(_number(entry, "gain"), _number(entry, "loss"))
        sentences.append(f"Inspections deter from a detection probability of {needed:.3g}.")
        data["deterring_detection"] = needed
    if not sentences:
        raise InputError(f"{str(balance)!r} names actors but nothing to analyse; give reaction, fatigue and grievance.")
    return finish("Stability of a balance", " ".join(sentences), tables, figures, data, report, MODEL_NOTE)


def _richardson(
    content: Mapping[str, Any], tables: list[Table], figures: list[Figure], sentences: list[str], data: dict[str, Any]
) -> None:
    missing = {"fatigue", "grievance"} - set(content)
    if missing:
        raise InputError(f"The balance has reactions but lacks {', '.join(sorted(missing))}; give them too.")
    balance = Balance(content["reaction"], content["fatigue"], content["grievance"], tuple(content.get("actors", ())))
    found = summary(balance)
    exact = is_stable_exact(
        [[Fraction(repr(float(x))) for x in row] for row in balance.reaction.tolist()],
        [Fraction(repr(float(x))) for x in balance.fatigue.tolist()],
    )
    found["stable"] = exact
    places = ranking(balance)
    if found["spectral_radius"] > 0:
        sentences.append(
            f"The balance is {'stable' if exact else 'unstable'} (exact test): margin {found['margin']:.3g}; it "
            f"stands at its threshold when all reactions are multiplied by {1 / found['spectral_radius']:.3g}."
        )
    else:
        sentences.append("The balance is stable: no reaction comes back to whom it came from.")
    if places:
        effect, i, j = places[0]
        if len(places) > 1 and places[1][0] > 0.999 * effect:
            sentences.append("Cutting either of the first two reactions by the same share does the same.")
        else:
            sentences.append(f"Constrain first how {balance.actors[i]} reacts to {balance.actors[j]}.")
    critical = found["critical_reactions"]
    rows = [
        (f"{balance.actors[i]} to {balance.actors[j]}", float(balance.reaction[i, j]), critical[i][j], effect)
        for effect, i, j in places
    ]
    if rows:
        tables.append(
            Table(
                ("reaction", "value", "threshold", "effect on rho"),
                rows,
                "Reactions, the most effective first",
                "Threshold: value at which this reaction alone brings the balance to the edge. Effect: fall of rho for "
                "a small relative cut, A dρ/dA.",
            )
        )
    levels = [(name, value) for name, value in zip(balance.actors, found["equilibrium"], strict=True)]
    tables.append(Table(("actor", "level at rest"), levels, "Equilibrium"))
    limits = [
        ("longest period of a stepwise balance", found["critical_step"]),
        ("delay of the response from which it swings", found["delay_oscillates"]),
        ("delay of the response from which swings grow", found["delay_unstable"]),
    ]
    tables.append(Table(("limit", "time"), limits, "Steps and delays",
                        "Delay in seeing the others alone never upsets a stable balance of this kind."))  # fmt: skip
    loop = balance.fatigue.size == 2 and balance.reaction[0, 1] > 0 and balance.reaction[1, 0] > 0
    two = loop and bool((np.diag(balance.jacobian) < 0).all())
    figures.append(phase_portrait(balance) if two else reactions_picture(balance))
    data["balance"] = {**found, "ranking": [[effect, i, j] for effect, i, j in places]}


def _cooperation(
    entry: Mapping[str, Any], tables: list[Table], figures: list[Figure], sentences: list[str], data: dict[str, Any]
) -> None:
    game = games.Dilemma(*(_number(entry, name) for name in ("temptation", "reward", "punishment", "sucker")))
    detection, false_alarm = _number(entry, "detection"), _number(entry, "false_alarm", 0.0)
    needed = games.critical_discount(game, detection, false_alarm)
    rows = [
        ("discount factor from which complying pays", needed if math.isfinite(needed) else None),
        ("the same without false alarms", games.critical_discount(game, detection)),
        ("the same with certain detection besides", games.critical_discount(game, 1.0)),
    ]
    discount = _number(entry, "discount") if "discount" in entry else None
    if discount is not None:
        least = games.critical_detection(game, discount, false_alarm)
        rows += [
            ("least detection per period", least),
            ("most false alarms per period", games.critical_false_alarm(game, discount, detection)),
        ]
        sentences.append(
            f"Complying {'pays' if discount >= needed else 'does not pay'} at a discount factor of {discount:g}."
        )
        if least > 1:
            sentences.append("No verification regime suffices: even certain detection is too little.")
    elif math.isfinite(needed):
        sentences.append(f"Complying pays from a discount factor of {needed:.3g}.")
    else:
        sentences.append("Complying pays at no discount factor: false alarms undo what detection gains.")
    tables.append(Table(("threshold", "value"), rows, "Cooperation under verification"))
    figures.append(cooperation_map(game, discount, detection, false_alarm))
    data["cooperation"] = {name: plain(value) for name, value in rows}


def _surprise(entry: Mapping[str, Any], tables: list[Table], sentences: list[str], data: dict[str, Any]) -> None:
    crisis = games.Surprise(*(_number(entry, name) for name in ("hold", "first", "struck", "both")))
    threshold = games.fear_threshold(crisis)
    rows: list[tuple[str, float]] = [("belief in attack above which striking is the better choice", threshold)]
    if "prior" in entry:
        prior, hit, false_alarm = (_number(entry, name) for name in ("prior", "hit", "false_alarm"))
        belief = games.after_warning(prior, hit, false_alarm)
        rows += [
            ("belief after one warning", belief),
            ("false-alarm rate below which one warning tips the crisis", games.tipping_false_alarm(crisis, prior, hit)),
        ]
        sentences.append(f"One warning {'tips' if belief > threshold else 'does not tip'} the crisis.")
    else:
        sentences.append(f"The crisis holds up to a belief in attack of {threshold:.3g}.")
    tables.append(Table(("threshold", "probability"), rows, "Fear of surprise"))
    data["surprise"] = dict(rows)


def plan_inspection(
    size: int | None, violations: int, wanted: float, miss: float, count: int | None, strata: Path | None,
    periods: int, inspections: int, gain: float | None, loss: float | None, report: Path | None,
) -> Outcome:  # fmt: skip
    """Plan how many items to inspect, where, and when."""
    if (size is None) == (strata is None):
        raise InputError("Give either --size for one population or --strata for a table of several.")
    if strata is not None and count is not None:
        raise InputError("A sample size was given with strata, which get their own; leave out --count.")
    if (periods == 0) != (inspections == 0):
        raise InputError(f"There are {periods} periods and {inspections} inspections; give both or neither.")
    if (gain is None) != (loss is None):
        raise InputError("A gain or a loss was given alone; deterrence needs both --gain and --loss.")
    tables: list[Table] = []
    data: dict[str, Any] = {}
    if strata is not None:
        reached, figures, sentence = _plan_strata(strata, violations, wanted, tables, data)
    else:
        assert size is not None
        reached, figures, sentence = _plan_one(size, violations, wanted, miss, count, tables, data)
    sentences = [sentence]
    if gain is not None and loss is not None:
        needed = games.deterring_detection(gain, loss)
        sentences.append(f"Deterrence needs {needed:.3g}: {'reached' if reached >= needed else 'not reached'}.")
        data["deterring_detection"] = needed
    if periods:
        first = stage(periods, inspections)
        rows = [
            (left, used, float(stage(left, used).inspect), float(stage(left, used).value))
            for left in range(periods, 0, -1)
            for used in range(1, inspections + 1)
            if used == inspections or left < periods
        ]
        tables.append(Table(("periods left", "inspections left", "inspect now with probability", "value"), rows[:40],
                            "Optimal play over time", "Value: 1 caught, -1 missed, 0 no violation."))  # fmt: skip
        figures.append(game_picture(periods, inspections))
        sentences.append(
            f"Over time: inspect the first of {periods} periods with probability {float(first.inspect):.3g}."
        )
        data["game"] = {"value": str(first.value), "inspect_first": str(first.inspect)}
    note = (
        "The probability holds for a sample that nobody could predict or steer, and for violations among declared "
        "items; undeclared sites are outside every sample."
    )
    return finish("Inspection plan", " ".join(sentences), tables, figures, data, report, note)


def _plan_one(
    size: int, violations: int, wanted: float, miss: float, count: int | None, tables: list[Table], data: dict[str, Any]
) -> tuple[float, list[Figure], str]:
    needed = plans.sample_size(size, violations, wanted, miss)
    used = needed if count is None else count
    reached = plans.detection_probability(size, violations, used, miss)
    rows = [
        ("needed", needed, plans.detection_probability(size, violations, needed, miss)),
        ("one fewer", needed - 1, plans.detection_probability(size, violations, needed - 1, miss)),
    ]
    if miss == 0:
        binomial = min(size, plans.binomial_sample_size(size, violations, wanted))
        rows.append(("binomial approximation", binomial, plans.detection_probability(size, violations, binomial)))
    if count is not None:
        rows.append(("as given", count, reached))
    tables.append(Table(("plan", "items inspected", "detection probability"), rows, f"Of {size} items"))
    many = sorted({max(1, violations // 5), violations, min(size, violations * 3)})
    data |= {"needed": needed, "used": used, "detection": reached}
    sentence = (
        f"Inspect {needed} of {size} items to meet one of {violations} violations with probability {wanted:g}"
        f"{f'; the {count} given reach {reached:.4g}' if count is not None else f' (exactly {reached:.4g})'}."
    )
    return reached, [detection_curves(size, many, used, wanted, miss)], sentence


def _plan_strata(
    path: Path, violations: int, wanted: float, tables: list[Table], data: dict[str, Any]
) -> tuple[float, list[Figure], str]:
    frame = read_table(path)
    names, sizes = column(frame, "name", path), column(frame, "size", path)
    misses = frame["miss"] if "miss" in frame.columns else [0.0] * len(frame)
    costs = frame["cost"] if "cost" in frame.columns else [1.0] * len(frame)
    strata = []
    for name, size, miss, cost in zip(names, sizes, misses, costs, strict=True):
        try:
            whole = int(size)
            entry = plans.Stratum(str(name), whole, float(miss), float(cost))
        except (TypeError, ValueError):
            raise InputError(
                f"The stratum {name!r} in {str(path)!r} has a size, miss or cost that is no number."
            ) from None
        if whole != size or not math.isfinite(entry.cost):
            raise InputError(f"The stratum {name!r} in {str(path)!r} has the size {size!r}; give whole numbers.")
        strata.append(entry)
    plan = plans.plan_strata(strata, violations, wanted)
    reached, placement = plans.worst_placement(plan, violations)
    rows = [
        (s.name, s.size, s.count, s.detection(violations), placed) for s, placed in zip(plan, placement, strict=True)
    ]
    cost = math.fsum(s.cost * s.count for s in plan)
    tables.append(Table(
        ("stratum", "items", "inspected", "detection if all are here", "worst placement"), rows, f"Cost {cost:g}",
        "The last column splits the violations as a clever violator would; the promise holds against it.",
    ))  # fmt: skip
    data |= {"detection": reached, "cost": cost, "plan": {s.name: s.count for s in plan}, "worst_placement": placement}
    sentence = (
        f"Inspect {sum(s.count for s in plan)} items at cost {cost:g} to meet one of {violations} violations with "
        f"probability {reached:.4g}, wherever they are placed."
    )
    return reached, [], sentence


def _object(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if not isinstance(content[name], dict):
        raise InputError(f"The part {name} must be an object with numbers.")
    return dict(content[name])


def _number(entry: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = entry.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"The field {name} is {value!r}; give a number.")
    return float(value)


def plain(value: Any) -> Any:
    """Return `value` as JSON takes it: a float that is not finite becomes None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
