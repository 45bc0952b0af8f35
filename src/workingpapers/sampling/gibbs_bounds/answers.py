"""What the command says: a summary, a table of temperatures, two pictures and the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.outcome import Outcome, Table
from workingpapers.foundations.report import Section, heading, paragraph, write_report
from workingpapers.sampling.gibbs_bounds.baselines import held_out_bound, prior_loss_kl
from workingpapers.sampling.gibbs_bounds.bernoulli import kl_bound
from workingpapers.sampling.gibbs_bounds.bounds import LOWEST_FACTOR, GibbsBound, calibration_factor, gibbs_bound
from workingpapers.sampling.gibbs_bounds.pictures import bound_picture, divergence_picture
from workingpapers.sampling.gibbs_bounds.tables import read_trace

Floats = NDArray[np.float64]
GUARANTEE = (
    "What is guaranteed: with probability {share:.4g} over the {n:,} training examples, the expected error of a "
    "network drawn from the posterior is at most the bound, at all temperatures at once. This holds for exact "
    "posterior means, and for a prior, an input scaling and a loss that were chosen without these examples. It is "
    "about the average network of the posterior, not about one trained network."
)
NOTHING_LEARNED = (
    "The calibration ended at its smallest factor, since the bounds on random labels are above chance even so; it "
    "tells nothing, and the calibrated bound is likely too small: take more examples, or more steps."
)
APPROXIMATE = (
    "What is approximate: chains of finite length stand in for the posterior means, and Langevin steps without a "
    "Metropolis test leave a bias of their own. The bound with noise moves every mean the unfavourable way by "
    "{deviations:g} standard errors, where these are known; it covers the noise of the chains, not their bias. A chain "
    "that has not come down to its temperature makes the divergence too small."
)


def bound_trace(
    path: Path, n: int, delta: float, scale: float, random_path: Path | None, classes: int, *, report: Path | None
) -> Outcome:
    """Bound the means in a file.

    Args:
        path: Table of means.
        n: Number of training examples.
        delta: Probability of failure.
        scale: Range of the loss in the sampler over that of the file's losses.
        random_path: Table of a run on random labels, or None.
        classes: Number of classes of the random labels.
        report: HTML report, or None.
    """
    trace, factor = read_trace(path), None
    if random_path is not None:
        noise = read_trace(random_path)
        factor = calibration_factor(
            noise.betas, noise.losses, noise.errors, n, delta, chance=1 - 1 / classes, scale=scale
        )  # fmt: skip
    found = gibbs_bound(
        trace.betas, trace.losses, trace.errors, n, delta, scale=scale, sampler_scale=trace.sampler_scale,
        reported_scale=trace.reported_scale, loss_standard_errors=trace.loss_standard_errors,
        error_standard_errors=trace.error_standard_errors, calibration=factor,
    )  # fmt: skip
    return present(found, trace.losses, trace.test_errors, scale=scale, report=report)


def present(
    found: GibbsBound,
    losses: Floats,
    test_errors: Floats | None,
    *,
    scale: float = 1.0,
    chance: float | None = None,
    test_examples: int | None = None,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    files: Sequence[Path] = (),
    report: Path | None = None,
) -> Outcome:
    """Say what the bounds mean, and write the report.

    Args:
        found: The bounds, shape (m,).
        losses: Mean training losses, shape (m,).
        test_errors: Mean test errors, shape (m,), or None.
        scale: Of the losses.
        chance: Risk without learning, or None.
        test_examples: Number of held-out examples, or None.
        notes: Sentences on the data and the network.
        warnings: Sentences beside those of the bounds.
        files: Files that were written already.
        report: HTML report, or None.
    """
    from workingpapers.foundations.files import check_writable

    if report is not None:
        check_writable(report)
    told = [*dict.fromkeys([*warnings, *found.warnings])]
    if found.calibration is not None and found.calibration <= LOWEST_FACTOR:
        told.append(NOTHING_LEARNED)
    kl = np.maximum(0, scale * prior_loss_kl(found.betas, losses))
    prior = kl_bound(found.errors, kl, found.n, found.delta)
    table = _table(found, losses, test_errors)
    figures = [bound_picture(found, prior, test_errors, chance), divergence_picture(found)] if len(losses) > 1 else []
    summary = _summary(found, test_errors, test_examples, chance, told)
    written = list(files)
    if report is not None:
        approximate = APPROXIMATE.format(deviations=found.deviations)
        sections: list[Section] = [paragraph(summary), *(paragraph(note, "soft") for note in notes), *figures[:1]]
        sections += [table, heading("What this is worth"), paragraph(
            GUARANTEE.format(share=1 - found.delta, n=found.n)), paragraph(approximate)]  # fmt: skip
        if told:
            sections += [heading("Warnings"), *(paragraph(warning) for warning in told)]
        sections += [heading("How far the posterior moved"), *figures[1:]]
        written.append(write_report(report, "Gibbs bound", sections))
    return Outcome(summary, [table], figures, written, _data(found, losses, prior, test_errors, told))


def _summary(
    found: GibbsBound,
    test_errors: Floats | None,
    test_examples: int | None,
    chance: float | None,
    warnings: Sequence[str],
) -> str:
    k = found.best
    text = (
        f"The smallest bound on the test error is {found.bound[k]:.3f}, at beta = {found.betas[k] / found.n:.4g} n, "
        f"where the training error is {found.errors[k]:.3f}"
    )
    if test_errors is not None:
        text += f" and the measured test error {test_errors[k]:.3f}"
        if test_examples:
            held_out = float(held_out_bound(np.clip(test_errors[k], 0, 1), test_examples, found.delta))
            text += f" (from the {test_examples:,} held-out examples alone a bound of {held_out:.3f})"
    text += "." if chance is None else f"; chance is {chance:.3g}."
    if found.bound_with_sampling_error is not None:
        text += f" With {found.deviations:g} standard errors of the chains against it: " \
                f"{found.bound_with_sampling_error[k]:.3f}."  # fmt: skip
    if test_errors is not None and (found.bound < test_errors).any():
        text += " At some temperature the bound lies BELOW the test error: do not rely on it."
    if warnings:
        text += f" {len(warnings)} warning{'s' if len(warnings) > 1 else ''}, the first: {warnings[0]}"
    return text


def _table(found: GibbsBound, losses: Floats, test_errors: Floats | None) -> Table:
    columns: dict[str, Any] = {
        "beta/n": found.betas / found.n,
        "loss": losses,
        "train": found.errors,
        "test": test_errors,
        "KL/n": found.kl / found.n,
        "bound": found.bound,
        "noise": found.bound_with_sampling_error,
        "calibrated": found.heuristic_calibrated_bound,
    }
    shown = {name: values for name, values in columns.items() if values is not None}
    # Four decimals are more than the noise of a chain leaves, and let the table fit a terminal.
    rows = [[round(float(value), 4) for value in row] for row in zip(*shown.values(), strict=True)]
    note = "train, test: mean errors of the posterior."
    if found.bound_with_sampling_error is not None:
        note += f" noise: the bound with {found.deviations:g} standard errors of the chains against it."
    if found.calibration is not None:
        note += f" calibrated: a heuristic without a guarantee, factor {found.calibration:.4g} from random labels."
    return Table(tuple(shown), rows, f"Bounds at delta = {found.delta:g}, n = {found.n:,}", note)


def _data(
    found: GibbsBound, losses: Floats, prior: Floats, test_errors: Floats | None, warnings: Sequence[str]
) -> dict[str, Any]:
    def plain(values: Floats | None) -> list[float] | None:
        return None if values is None else [float(value) for value in values]

    return {
        "n": found.n,
        "delta": found.delta,
        "beta": plain(found.betas),
        "loss": plain(losses),
        "training_error": plain(found.errors),
        "test_error": plain(test_errors),
        "kl": plain(found.kl),
        "kl_lower": plain(found.kl_lower),
        "bound": plain(found.bound),
        "bound_with_sampling_error": plain(found.bound_with_sampling_error),
        "calibration_factor": found.calibration,
        "heuristic_calibrated_bound": plain(found.heuristic_calibrated_bound),
        "prior_loss_bound": plain(prior),
        "best": found.best,
        "warnings": list(warnings),
    }
