"""The decision rules, in one place: customary values of psychometrics, each of which a user may change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Thresholds of the report.

    Args:
        significance: Level of the tests of structure and invariance.
        lowest_cfi: A structure with a significant chi-square fails below this comparative fit index.
        highest_rmsea: It also fails above this root mean square error of approximation.
        cfi_drop: A step of invariance needs more than this loss of CFI to be rejected (Cheung and Rensvold 2002) ...
        rmsea_rise: ... or more than this rise of RMSEA (Chen 2007), and a significant difference besides.
        step_rmsea: For categorical answers: RMSEA of the likelihood-ratio difference above which a step is rejected.
        most_released: Largest share of items exempt from equality in partial invariance.
        reliability: Lowest reliability of a score.
        matching: Items are not judged by matching on a score whose alpha is below this in either population.
        rows_per_item: Rows per item that a factor model needs, up to `enough_rows`.
        enough_rows: Rows that suffice for any number of items.
        false_discoveries: False discovery rate of the item tests (Benjamini-Hochberg).
    """

    significance: float = 0.01
    lowest_cfi: float = 0.90
    highest_rmsea: float = 0.10
    cfi_drop: float = 0.010
    rmsea_rise: float = 0.015
    step_rmsea: float = 0.05
    most_released: float = 0.20
    reliability: float = 0.70
    matching: float = 0.5
    rows_per_item: int = 10
    enough_rows: int = 200
    false_discoveries: float = 0.05

    def rows_needed(self, items: int) -> int:
        """Return how many rows each population needs before its structure of `items` items is judged."""
        return min(self.rows_per_item * items, self.enough_rows)


DEFAULT_RULES = Rules()
