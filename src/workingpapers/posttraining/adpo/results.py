"""What a run changed: figures of held-out pairs before and after, the units left wrong, tables and the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from workingpapers.foundations.language import TokenPair, calm, completion_log_probs
from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.report import paragraph, write_report
from workingpapers.foundations.run_folder import REPORT, SUMMARY, write_json
from workingpapers.posttraining.adpo.fitting import Fitted
from workingpapers.posttraining.adpo.loss import ADPOLoss, adpo_loss
from workingpapers.posttraining.adpo.pictures import margin_picture, training_picture
from workingpapers.posttraining.adpo.plan import MODEL, Plan
from workingpapers.posttraining.adpo.preferences import SIDES, aligned_share
from workingpapers.posttraining.adpo.units import compose

LOW_SHARE = 0.5
WRONG = -0.01  # margins of equal tokens after equal prefixes are 0 up to rounding


def present(fitted: Fitted, plan: Plan, out: Path) -> Outcome:
    """Measure, write summary and report into the folder, and return what the person is told.

    Args:
        fitted: The run.
        plan: What was run.
        out: Its folder.
    """
    with calm():
        now = _log_probs(fitted.trainer.model, fitted.held_out)
        with _reference(fitted) as model:
            before = _log_probs(model, fitted.held_out)
    found = _units(now, before, plan)
    shares = [aligned_share(plan.composition, row["chosen_ids"], row["rejected_ids"]) for row in fitted.held_out]
    facts = _facts(fitted, now, before, found, float(np.mean(shares)))
    tables = [_changes(facts), _worst(fitted, found, plan)]
    history = [log for log in fitted.trainer.state.log_history if "rewards/chosen" in log]
    figures = [training_picture(history), margin_picture(*_margins(found))]
    summary = _sentences(facts)
    write_report(out / REPORT, "ADPO", [paragraph(summary), *tables, *figures])
    write_json(out / SUMMARY, {"summary": summary, **facts})
    return Outcome(summary, tables, figures, (out / MODEL, out / SUMMARY, out / REPORT), facts)


def _log_probs(model: Any, rows: list[dict[str, list[int]]]) -> list[list[torch.Tensor]]:
    model.eval()
    return [
        completion_log_probs(model, [TokenPair(tuple(row["prompt_ids"]), tuple(row[f"{side}_ids"])) for row in rows])
        for side in SIDES
    ]


@contextmanager
def _reference(fitted: Fitted) -> Iterator[Any]:
    if fitted.reference is not None:
        yield fitted.reference
    else:
        with fitted.trainer.model.disable_adapter():
            yield fitted.trainer.model


def _units(now: list[list[torch.Tensor]], before: list[list[torch.Tensor]], plan: Plan) -> ADPOLoss:
    parts = [pad_sequence(rows, batch_first=True) for rows in (*now, *before)]
    masks = [pad_sequence([torch.ones(len(row)) for row in rows], batch_first=True) for rows in now]
    return adpo_loss(*parts, *masks, beta=plan.beta, composition=plan.composition)


def _facts(
    fitted: Fitted, now: list[list[torch.Tensor]], before: list[list[torch.Tensor]], found: ADPOLoss, aligned: float
) -> dict[str, Any]:
    sums = np.array([[[float(row.sum()) for row in side] for side in when] for when in (before, now)])
    pairs = found.chosen_rewards - found.rejected_rewards
    return {
        "steps": fitted.trainer.state.global_step,
        "resumed_from_step": fitted.resumed,
        "pairs": fitted.pairs,
        "measured_pairs": len(fitted.held_out),
        "held_out": fitted.fresh,
        "units": float(found.units.double().mean()),
        "aligned_share": aligned,
        "chosen_likelier_before": float((sums[0, 0] > sums[0, 1]).mean()),
        "chosen_likelier": float((sums[1, 0] > sums[1, 1]).mean()),
        "chosen_log_prob_before": float(sums[0, 0].mean()),
        "chosen_log_prob": float(sums[1, 0].mean()),
        "rejected_log_prob_before": float(sums[0, 1].mean()),
        "rejected_log_prob": float(sums[1, 1].mean()),
        "pair_accuracy": float((pairs > 0).double().mean()),
        "wrong_units": float((found.margins < WRONG).sum() / found.units.sum()),
        "margin": float(pairs.double().mean()),
        "loss": float(found.loss),
    }


def _changes(facts: dict[str, Any]) -> Table:
    where = "held-out pairs" if facts["held_out"] else "pairs of the training set"
    rows = [
        ("chosen likelier than rejected, share", facts["chosen_likelier_before"], facts["chosen_likelier"]),
        ("log-probability of chosen, nats", facts["chosen_log_prob_before"], facts["chosen_log_prob"]),
        ("log-probability of rejected, nats", facts["rejected_log_prob_before"], facts["rejected_log_prob"]),
        ("pairs with a positive margin, share", None, facts["pair_accuracy"]),
        (f"units with a margin under {WRONG:g}, share", None, facts["wrong_units"]),
        ("mean margin of a pair", 0.0, facts["margin"]),
    ]
    return Table(("", "before", "after"), rows, f"{facts['measured_pairs']} {where}")


def _worst(fitted: Fitted, found: ADPOLoss, plan: Plan) -> Table:
    margins = found.margins.masked_fill(~found.unit_mask, float("inf"))
    order = margins.flatten().argsort()[:5].tolist()
    rows = []
    for place in order:
        row, unit = divmod(place, margins.shape[1])
        ids = [fitted.held_out[row][f"{side}_ids"] for side in SIDES]
        texts = []
        for one, other in ((ids[0], ids[1]), (ids[1], ids[0])):
            cuts = compose(plan.composition, len(one), len(other))
            texts.append(repr(fitted.tokenizer.decode(one[cuts[unit] : cuts[unit + 1]]))[:80])
        if torch.isfinite(margins[row, unit]):
            rows.append((row + 1, unit + 1, *texts, float(margins[row, unit])))
    note = "A negative margin: beside the reference, the policy moved towards the rejected response in this unit."
    return Table(("pair", "unit", "chosen", "rejected", "margin"), rows, "Units with the lowest margins", note)


def _margins(found: ADPOLoss) -> tuple[list[float], list[float]]:
    """Return margins and the place of each unit in its response, from 0 to 1."""
    order = found.unit_mask.cumsum(1) - 0.5
    places = (order / found.units[:, None]).masked_select(found.unit_mask)
    return found.margins.masked_select(found.unit_mask).tolist(), places.tolist()


def _sentences(facts: dict[str, Any]) -> str:
    text = (
        f"Trained {facts['steps']} steps on {facts['pairs']} pairs, compared in {facts['units']:.3g} units on average; "
        f"on {facts['measured_pairs']} {'held-out' if facts['held_out'] else 'training'} pairs the chosen response is "
        f"now the likelier one in {facts['chosen_likelier']:.0%}, {facts['chosen_likelier_before']:.0%} before."
    )
    if facts["chosen_log_prob"] < facts["chosen_log_prob_before"] - 1:
        lost = facts["chosen_log_prob_before"] - facts["chosen_log_prob"]
        text += f" Chosen responses themselves lost {lost:.3g} nats: fewer steps or a larger --beta hold them."
    if facts["aligned_share"] < LOW_SHARE:
        text += (
            f" Only {facts['aligned_share']:.0%} of the tokens that both responses share fall into the same unit, so "
            "that units are mostly compared with something else than their counterparts: fewer units or --units 1 "
            "(DPO) suit these pairs better."
        )
    return text
