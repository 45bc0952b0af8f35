"""The experiments behind the claims: generated banks, a right and a wrong response model, simulated tests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workingpapers.evaluation.adaptive_testing.bank import Bank, calibrate_bank
from workingpapers.evaluation.adaptive_testing.selectors import CLASSIC, Selector
from workingpapers.evaluation.adaptive_testing.session import AdaptiveTest
from workingpapers.evaluation.adaptive_testing.simulation import Simulation, items_needed, simulate
from workingpapers.foundations import item_response
from workingpapers.foundations.item_response import Items
from workingpapers.foundations.progress import Progress, part, silent

Setting = Literal["wrong", "right", "wrong_concepts"]
WEAK_SHARE, WEAK_SLOPE = 0.3, 0.15
CONCEPTS = 3


@dataclass(frozen=True)
class Data:
    """Answers to learn from, answers to test on, and the response model of the test.

    Args:
        bank: What the test believes, n items.
        train: Shape (N, n).
        test: Shape (M, n).
        truth: True abilities of the tested examinees, shape (M, d).
    """

    bank: Bank
    train: np.ndarray
    test: np.ndarray
    truth: np.ndarray


def make_data(seed: int, setting: Setting, items: int, examinees: int, tested: int) -> Data:
    r"""Draw a bank and answers, and calibrate the test's model on the training examinees.

    Truth: slopes :math:`\log a \sim N(0.2, 0.5)`, of which three in ten are replaced by 0.15 (weak items), and standard
    normal difficulties and abilities. ``"right"`` knows the parameters. ``"wrong"`` calibrates a Rasch model, in which
    all slopes are equal. ``"wrong_concepts"`` has three independent abilities, each item measures one of them, and a
    Rasch model is calibrated for each.

    Args:
        seed: Seed.
        setting: Which of the three.
        items: Number of items n.
        examinees: Number of training examinees N.
        tested: Number of tested examinees M.
    """
    rng = np.random.default_rng(seed)
    slope = rng.lognormal(0.2, 0.5, items)
    slope[rng.random(items) < WEAK_SHARE] = WEAK_SLOPE
    truth = Items.dichotomous(slope, rng.normal(size=items))
    dimensions = CONCEPTS if setting == "wrong_concepts" else 1
    theta = rng.normal(size=(examinees + tested, dimensions))
    concept = np.arange(items) % dimensions
    answers = np.empty((len(theta), items))
    for dimension in range(dimensions):
        columns = np.flatnonzero(concept == dimension)
        answers[:, columns] = item_response.simulate(theta[:, dimension], truth.take(columns), rng)
    train = answers[:examinees]
    if setting == "right":
        bank = Bank.from_items(truth)
    else:
        bank = calibrate_bank(train, "1PL", concepts=[str(k) for k in concept] if dimensions > 1 else ())
    return Data(bank, train, answers[examinees:], theta[examinees:])


def classic(
    seed: int,
    progress: Progress,
    *,
    setting: Setting,
    selector: str,
    items: int,
    examinees: int,
    tested: int,
    length: int,
    epochs: int,
) -> dict[str, float]:
    """Test the examinees of `seed` with a classic selector; `epochs` is of the trained ones.

    Args:
        seed: Seed of data and choices.
        progress: Told of each item.
        setting: See :func:`make_data`.
        selector: Key of :data:`~workingpapers.evaluation.adaptive_testing.selectors.CLASSIC`.
        items: Number of items n.
        examinees: Number of training examinees.
        tested: Number of tested examinees.
        length: Number of items T of a test.
        epochs: Ignored.
    """
    data = make_data(seed, setting, items, examinees, tested)
    return _measure(data, CLASSIC[selector], seed, length, progress)


def right_slopes(seed: int, progress: Progress, **settings: int) -> dict[str, float]:
    """Calibrate slopes too (2PL) and test by maximum information: what better calibration gives instead.

    Args:
        seed: Seed of data and choices.
        progress: Told of each item.
        **settings: As for :func:`classic`.
    """
    data = make_data(seed, "wrong", settings["items"], settings["examinees"], settings["tested"])
    bank = calibrate_bank(data.train, "2PL")
    better = Data(bank, data.train, data.test, data.truth)
    return _measure(better, CLASSIC["mfi"], seed, settings["length"], progress)


def gpm(
    seed: int,
    progress: Progress,
    *,
    setting: Setting,
    training: Mapping[str, str | bool],
    items: int,
    examinees: int,
    tested: int,
    length: int,
    epochs: int,
) -> dict[str, float]:
    """Train a policy on the training examinees of `seed` and test the others with it.

    Args:
        seed: Seed of data, weights and choices.
        progress: Told of each batch.
        setting: See :func:`make_data`.
        training: Settings of the training beside length, epochs and seed.
        items: Number of items n.
        examinees: Number of training examinees, a fifth of which choose the epoch.
        tested: Number of tested examinees.
        length: Number of items T of a test.
        epochs: Passes over the training examinees.
    """
    from workingpapers.evaluation.adaptive_testing.gpm import GPMSelector, Settings

    data = make_data(seed, setting, items, examinees, tested)
    settings = Settings(length=length, epochs=epochs, seed=seed, **training)  # type: ignore[arg-type]
    begun = time.perf_counter()
    selector = GPMSelector(data.bank, settings).fit(data.train, progress=part(progress, 0.0, 0.95))
    seconds = time.perf_counter() - begun
    return {**_measure(data, selector, seed, length, part(progress, 0.95, 1.0)), "training_seconds": seconds}


def _measure(data: Data, selector: Selector, seed: int, length: int, progress: Progress) -> dict[str, float]:
    run = _run(data, selector, seed, length, progress)
    reference = _run(data, CLASSIC["mfi"], seed, length, silent)
    error = run.squared_error
    return {
        "mse": float(error[2 * length // 3 - 1]),
        "mse_third": float(error[length // 3 - 1]),
        "mse_end": float(error[-1]),
        "share_of_items": items_needed(error, float(reference.squared_error[-1])) / length,
        "rmse_to_truth": float(run.root_mean_squared_error(data.truth)[-1]),
        "largest_exposure": float(run.exposure.max()),
    }


def _run(data: Data, selector: Selector, seed: int, length: int, progress: Progress) -> Simulation:
    test = AdaptiveTest(data.bank, selector, length)
    return simulate(test, data.test, seed=seed, progress=progress)
