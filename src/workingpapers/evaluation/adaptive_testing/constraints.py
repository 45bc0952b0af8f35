"""What a test may ask: content blueprint, enemy items and exposure, as masks on every selector's scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from workingpapers.foundations.errors import InputError, near_match


@dataclass(frozen=True)
class Constraints:
    """Rules beside the selector.

    Args:
        areas: Content area of each item, n of them, or none.
        minimum: Area -> fewest items of a whole test.
        maximum: Area -> most items of a whole test.
        enemies: Enemy group of each item, n of them, or none; of one group at most one item is asked. An empty text is
            no group.
        top: Choose at random among this many best items (1: the best).
        eligibility: Probability that an item may be asked of an examinee at all, shape (n,); see
            :func:`~workingpapers.evaluation.adaptive_testing.simulation.fit_eligibility`. An examinee with no eligible
            item left is asked another.
    """

    areas: tuple[str, ...] = ()
    minimum: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)
    enemies: tuple[str, ...] = ()
    top: int = 1
    eligibility: np.ndarray | None = None

    def check(self, count: int, length: int) -> None:
        """Raise InputError where no test of `length` items from a bank of `count` can obey.

        Raises:
            InputError: Lengths disagree, an area is unknown, or the numbers contradict each other.
        """
        for label, values in (("areas", self.areas), ("enemy groups", self.enemies)):
            if values and len(values) != count:
                raise InputError(f"There are {len(values)} {label} for {count} items; give one for each item.")
        if self.top < 1:
            raise InputError(f"The choice is among the {self.top} best items; give at least 1.")
        sizes = {area: self.areas.count(area) for area in dict.fromkeys(self.areas)}
        for area in (*self.minimum, *self.maximum):
            if area not in sizes:
                raise InputError(f"No item has the area {area!r}{near_match(area, sizes) or '; check the blueprint.'}")
        for area, least in self.minimum.items():
            most = min(sizes[area], self.maximum.get(area, length))
            if least > most:
                raise InputError(
                    f"Area {area!r} needs at least {least} items but can give {most}; change the blueprint."
                )
        if sum(self.minimum.values()) > length:
            raise InputError(
                f"The areas need at least {sum(self.minimum.values())} items, more than the {length} of the test."
            )
        if sizes and sum(min(size, self.maximum.get(area, length)) for area, size in sizes.items()) < length:
            raise InputError(f"The areas allow fewer than the {length} items of the test; raise a maximum.")

    def allowed(self, chosen: np.ndarray, remaining: int) -> np.ndarray:
        """Return what may be asked next, bool, shape (B, n).

        Args:
            chosen: Asked items, bool, shape (B, n).
            remaining: Items still to ask, the next one included.
        """
        allowed = ~chosen
        if self.areas and (self.minimum or self.maximum):
            allowed &= self._blueprint(chosen, remaining)
        if self.enemies:
            groups = np.array(self.enemies)
            for group in set(self.enemies) - {""}:
                members = groups == group
                allowed[:, members] &= ~chosen[:, members].any(axis=1, keepdims=True)
        return np.asarray(allowed)

    def _blueprint(self, chosen: np.ndarray, remaining: int) -> np.ndarray:
        labels = list(dict.fromkeys(self.areas))
        membership = np.array([[area == label for label in labels] for area in self.areas], dtype=np.int64)
        counts = chosen @ membership
        missing = np.maximum(np.array([self.minimum.get(label, 0) for label in labels]) - counts, 0)
        full = counts >= np.array([self.maximum.get(label, len(self.areas)) for label in labels])
        # When all remaining items are spoken for, only areas that still lack some may be asked.
        bound = missing.sum(axis=1, keepdims=True) >= remaining
        open_area = ~full & (~bound | (missing > 0))
        return np.asarray(open_area[:, membership.argmax(axis=1)])
