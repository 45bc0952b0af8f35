"""The command: calibrate a bank, train the policy, simulate, report, and test somebody on the terminal."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np

from workingpapers.evaluation.adaptive_testing.bank import Bank, calibrate_bank
from workingpapers.evaluation.adaptive_testing.selectors import CLASSIC, Selector
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest, Session
from workingpapers.evaluation.adaptive_testing.simulation import fit_eligibility, hold_out, simulate
from workingpapers.evaluation.adaptive_testing.tables import Parts
from workingpapers.evaluation.adaptive_testing.terminal import converse
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.outcome import Outcome
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.foundations.signature import Between, InputFile, OutputFile, OutputFolder

MOST_PAIRS = 3_000_000_000
"""BECAT compares all pairs of items for every examinee and step; above this many it is left out of the comparison."""


def run(
    responses: InputFile,
    *,
    items: Annotated[int, Between(1, 500)] = 15,
    model: Literal["1PL", "2PL", "3PL"] = "2PL",
    selector: Literal["gpm", "mfi", "kli", "mepv", "becat", "random"] = "gpm",
    target: Literal["path", "global"] = "path",
    head: Literal["items", "features", "prototype"] = "items",
    epochs: Annotated[int, Between(0, 1000)] = 25,
    about: InputFile | None = None,
    blueprint: str = "",
    exposure: Annotated[float, Between(0, 1, open_low=True)] = 1.0,
    top: Annotated[int, Between(1, 50)] = 1,
    standard_error: Annotated[float, Between(0)] = 0.0,
    examinee: str = "examinee",
    save: OutputFolder | None = None,
    serve_session: bool = False,
    seed: int = 0,
    report: OutputFile | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Calibrate an item bank, train a selection policy, and simulate adaptive tests with it and with the classic rules.

    Args:
        responses: Table with one row an examinee (or a language model) and one column an item: 1, 0 or empty.
        items: Number of items of a test.
        model: Response model to calibrate: equal slopes, slopes, or slopes and guessing.
        selector: Selector of the test; gpm is the trained policy, the others need no training and are compared anyway.
        target: Where gpm matches gradients, on the path of the estimate or over a grid of abilities.
        head: Network of gpm; features also scores items that were not in training.
        epochs: Passes over the training examinees.
        about: Table of items: item, and any of area, enemies (items of one group exclude each other) and text.
        blueprint: Fewest and most items of an area, as in algebra=3-5,geometry=2-.
        exposure: Largest share of examinees that the selector may ask an item.
        top: Choose at random among this many best items.
        standard_error: Stop a test when the standard error has come down to this; 0 never.
        examinee: Column that names the examinees, left out where it exists.
        save: Folder to write the trained policy and its bank to.
        serve_session: Test somebody on the terminal afterwards.
        seed: Seed of the split, of training and of random choices.
        report: HTML page to write.
    """
    from workingpapers.evaluation.adaptive_testing import reporting, tables
    from workingpapers.foundations.report import Section, heading, paragraph, write_report

    if serve_session and threading.current_thread() is not threading.main_thread():
        raise InputError("A session needs a terminal; run --serve-session from the command line.")
    if save is not None and selector != "gpm":
        raise InputError(f"--save writes a trained policy and the selector is {selector!r}; use --selector gpm.")
    plan = tables.read_blueprint(blueprint)
    log = tables.read_log(responses, examinee, items)
    parts, log, left_out = tables.split(log, items, seed)
    known = tables.read_about(about, log.names)
    rules = tables.constraints(known, plan, log.names, top)
    rules.check(len(log.names), items)
    progress(0.01, "calibrating")
    bank = calibrate_bank(parts.train, model, names=log.names, progress=part(progress, 0.01, 0.15))
    chosen = _selector(bank, selector, parts, items, target, head, epochs, seed, part(progress, 0.15, 0.8))
    test = AdaptiveTest(bank, chosen, items, standard_error or None, constraints=rules)
    tests = [test, *_others(test, len(parts.test))]
    if exposure < 1:
        progress(0.8, "limiting exposure")
        tests = [fit_eligibility(each, parts.train, exposure, seed=seed) for each in tests]
    query = hold_out(parts.test, items, np.random.default_rng(seed))
    runs = []
    for number, each in enumerate(tests):
        progress(0.85 + 0.14 * number / len(tests), f"simulating {each.selector.name}")
        runs.append(simulate(each, parts.test, query=query, seed=seed))

    table, further, rows = reporting.comparison(runs, bank, parts.test, query)
    figures = [reporting.error_figure(runs), reporting.exposure_figure(runs, exposure if exposure < 1 else None)]
    summary = reporting.sentence(runs)
    if left_out:
        summary += f" {len(left_out)} items without both answers among the training examinees were left out."
    files = []
    if save is not None:
        from workingpapers.evaluation.adaptive_testing.gpm import GPMSelector

        assert isinstance(chosen, GPMSelector)
        files += chosen.save(save)
    if report is not None:
        how = (
            f"{len(log.responses)} examinees and {len(log.names)} items; {model} calibrated and the policy trained on "
            f"{len(parts.train)} examinees, the epoch chosen on {len(parts.validation)}, tests of {items} items "
            f"simulated on {len(parts.test)}."
        )
        page: list[Section] = [paragraph(summary), paragraph(how, "soft"), figures[0], table, figures[1]]
        page += [heading("Item by item"), reporting.steps(runs), further]
        files.append(write_report(report, "Adaptive testing", page))
    progress(1.0, "done")
    data: dict[str, Any] = {"selectors": rows, "left_out": list(left_out), "items": len(log.names)}
    if serve_session:
        session = Session(tests[0], seed)
        converse(session, known, sys.stdin, sys.stderr)
        data["session"] = {
            "answers": session.answers,
            "ability": session.theta.tolist(),
            "error": session.error.tolist(),
        }
        summary += (
            f" The session asked {len(session.answers)} items; ability {session.theta[0]:+.2f}, "
            f"standard error {session.error[0]:.2f}."
        )
    return Outcome(summary, [table], figures, files, data)


def _selector(
    bank: Bank,
    name: str,
    parts: Parts,
    items: int,
    target: Literal["path", "global"],
    head: Literal["items", "features", "prototype"],
    epochs: int,
    seed: int,
    progress: Progress,
) -> Selector:
    if name != "gpm":
        return CLASSIC[name]
    from workingpapers.evaluation.adaptive_testing.gpm import GPMSelector, Settings

    settings = Settings(length=items, target=target, head=head, epochs=epochs, seed=seed)
    return GPMSelector(bank, settings).fit(parts.train, parts.validation, progress=progress)


def _others(test: AdaptiveTest, examinees: int) -> list[AdaptiveTest]:
    """Return the same test with each classic selector that it does not have and that is quick enough."""
    pairs = examinees * test.bank.count**2 * test.length
    return [
        replace(test, selector=other)
        for other in CLASSIC.values()
        if other.name != test.selector.name and (other.name != "BECAT" or pairs < MOST_PAIRS)
    ]
