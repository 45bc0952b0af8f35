"""One adaptive test: what it asks, when it stops, and a session that carries one examinee through it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from workingpapers.evaluation.adaptive_testing.bank import Bank, estimate
from workingpapers.evaluation.adaptive_testing.constraints import Constraints
from workingpapers.evaluation.adaptive_testing.selectors import Selector, State
from workingpapers.foundations.errors import InputError, near_match

CONFIDENCE = 1.96


@dataclass(frozen=True)
class AdaptiveTest:
    """A test: start, selection, stopping and constraints. Abilities are posterior modes under N(0, I).

    Args:
        bank: The items, n of them.
        selector: What chooses the next item.
        length: Most items T.
        standard_error: Stop when the largest standard error of the ability has come down to this; None never.
        cut: Stop when the 95 % interval of the first ability leaves this pass mark out; None never.
        random_start: Choose the first item at random instead of by the selector.
        constraints: Content, enemies, exposure.
    """

    bank: Bank
    selector: Selector
    length: int = 15
    standard_error: float | None = None
    cut: float | None = None
    random_start: bool = False
    constraints: Constraints = field(default_factory=Constraints)

    def __post_init__(self) -> None:
        if not 1 <= self.length <= self.bank.count:
            raise InputError(f"A test of {self.length} items cannot be asked from {self.bank.count} items; shorten it.")
        if self.standard_error is not None and not self.standard_error > 0:
            raise InputError(f"The standard error to reach is {self.standard_error:g}; it must be greater than 0.")
        self.constraints.check(self.bank.count, self.length)

    def choose(
        self,
        state: State,
        available: np.ndarray,
        generator: np.random.Generator,
        eligible: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the next item of each examinee, int64, shape (B,).

        Args:
            state: Where the examinees stand.
            available: Items that can be asked of each examinee at all, bool, shape (B, n).
            generator: Source of random choices.
            eligible: Items that exposure control leaves to each examinee, bool, shape (B, n).

        Raises:
            InputError: The constraints leave an examinee nothing.
        """
        asked = state.asked.shape[1]
        allowed = available & self.constraints.allowed(state.answered != 0, self.length - asked)
        if not allowed.any(axis=1).all():
            who = int(np.argmin(allowed.any(axis=1)))
            raise InputError(
                f"After {asked} items the constraints leave nothing to ask examinee {who + 1}; "
                "loosen the blueprint or the enemy groups, or shorten the test."
            )
        if eligible is not None:
            both = allowed & eligible
            allowed = np.where(both.any(axis=1, keepdims=True), both, allowed)
        random_first = self.random_start and asked == 0
        scores = generator.random(allowed.shape) if random_first else self.selector.scores(self.bank, state, generator)
        scores = np.where(allowed, scores, -np.inf)
        top = min(self.constraints.top, self.bank.count)
        if top == 1:
            return np.asarray(scores.argmax(axis=1))
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        reach = np.minimum(top, allowed.sum(axis=1))
        pick = (generator.random(len(best)) * reach).astype(np.int64)
        return np.asarray(best[np.arange(len(best)), pick])

    def stops(self, theta: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Return whether the precision suffices, bool, shape (B,), at abilities (B, d) with covariances (B, d, d)."""
        errors = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        done = np.zeros(len(theta), dtype=bool)
        if self.standard_error is not None:
            done |= errors.max(axis=1) <= self.standard_error
        if self.cut is not None:
            done |= np.abs(theta[:, 0] - self.cut) > CONFIDENCE * errors[:, 0]
        return done


class Session:
    """One examinee in a test.

    Args:
        test: The test.
        seed: Seed of random choices and of exposure control for this examinee.
    """

    def __init__(self, test: AdaptiveTest, seed: int = 0) -> None:
        self.test = test
        self._generator = np.random.default_rng(seed)
        chance = test.constraints.eligibility
        self._eligible = None if chance is None else self._generator.random((1, test.bank.count)) < chance
        self._items: list[int] = []
        self._answers: list[float] = []
        self._offered: int | None = None
        self._theta = np.zeros((1, test.bank.dimensions))
        self._covariance = np.eye(test.bank.dimensions)[None]

    @property
    def theta(self) -> np.ndarray:
        """Current ability, shape (d,); zero, the mean of the calibrated population, before any answer."""
        return np.array(self._theta[0])

    @property
    def error(self) -> np.ndarray:
        """Its standard errors, shape (d,)."""
        return np.asarray(np.sqrt(np.diagonal(self._covariance[0])))

    @property
    def answers(self) -> dict[str, int]:
        """Items asked so far, in order, with their answers."""
        return {self.test.bank.names[item]: int(y) for item, y in zip(self._items, self._answers, strict=True)}

    @property
    def finished(self) -> bool:
        """Whether the test is over."""
        if len(self._items) >= self.test.length:
            return True
        return bool(self._items) and bool(self.test.stops(self._theta, self._covariance)[0])

    def next_item(self) -> str | None:
        """Return the name of the item to ask now (the same until it is answered), or None when the test is over."""
        if self.finished:
            return None
        if self._offered is None:
            answered = np.zeros((1, self.test.bank.count), dtype=np.int8)
            answered[0, self._items] = [2 * y - 1 for y in self._answers]
            asked = np.array([self._items], dtype=np.int64).reshape(1, -1)
            state = State(answered, self._theta, self._covariance, asked, self.test.length)
            available = np.ones((1, self.test.bank.count), dtype=bool)
            self._offered = int(self.test.choose(state, available, self._generator, self._eligible)[0])
        return self.test.bank.names[self._offered]

    def answer(self, item: str, y: int) -> None:
        """Take the answer to the item that was offered.

        Args:
            item: Its name.
            y: 1 for right, 0 for wrong.

        Raises:
            InputError: The item was not offered, or the answer is something else than 0 or 1.
        """
        if self._offered is None or item != self.test.bank.names[self._offered]:
            names = self.test.bank.names
            what = f"item {item!r} was not offered" if item in names else f"there is no item {item!r}"
            offered = f"the item to answer is {names[self._offered]!r}" if self._offered is not None else ""
            way_out = offered or near_match(item, names).removeprefix("; ") or "ask for the next item first"
            raise InputError(f"An answer cannot be taken: {what}; {way_out.rstrip('?')}.")
        if y not in (0, 1):
            raise InputError(f"The answer to {item!r} is {y}; give 1 for right or 0 for wrong.")
        self._items.append(self._offered)
        self._answers.append(float(y))
        self._offered = None
        self._theta, self._covariance = estimate(
            self.test.bank, np.array([self._items]), np.array([self._answers]), self._theta
        )
