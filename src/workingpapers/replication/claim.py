"""The small types of a claim. A paper's ``claim.py`` imports this module and nothing else of replication."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workingpapers.foundations.progress import Progress

Direction = Literal["lower", "higher"]
Effect = Literal["difference", "ratio", "proportion"]
Arm = Callable[..., Mapping[str, float]]
"""``arm(seed, progress, **settings) -> {metric: value}``. All arms of one seed build the same data from it."""

SIZES = ("smallest", "small", "full")


@dataclass(frozen=True)
class Size:
    """How much work a claim does at one size.

    Args:
        seeds: Number of seeds; the runner uses 0, 1, ..., seeds - 1 and nobody chooses among them.
        settings: Keyword arguments that every arm is called with (rows, steps, ...).
    """

    seeds: int
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    r"""A statement of a paper as an experiment with arms, a judged metric and a verdict.

    For seed :math:`s` let :math:`m_s` be the judged metric of the method and :math:`b_s` that of a baseline. The
    improvement is, by `effect`,

    * ``"difference"``: :math:`d_s = b_s - m_s` (`direction` ``"lower"``) or :math:`m_s - b_s` (``"higher"``), judged by
      Student's t interval of the mean;
    * ``"ratio"``: :math:`1 - e^{\bar\ell}` (``"lower"``) or :math:`e^{\bar\ell} - 1` (``"higher"``) with
      :math:`\ell_s = \log(m_s / b_s)`, judged by Student's t interval of :math:`\bar\ell`, for positive metrics whose
      scale has no meaning of its own;
    * ``"proportion"``: the metric is a share of successes in ``counts`` trials and `against` is a number that the
      pooled share must be below or above, judged by the exact Clopper-Pearson interval.

    The claim is *supported* when the whole 95 % interval of the improvement lies above `margin`, *not supported* when
    it lies below, else *inconclusive*. A negative margin states non-inferiority: "not worse by more than".

    Args:
        name: Short identifier, unique within the paper (``"headline"``, ``"refusal"``, ...).
        statement: The statement that the verdict is about, one sentence, true or false at the sizes given here.
        metric: Key of the judged metric in what the arms return.
        direction: Whether a ``"lower"`` or a ``"higher"`` metric is better.
        arms: Name -> callable ``arm(seed, progress, **settings)``; top-level functions or partials (they are sent to
            worker processes).
        method: Name of the arm that is the paper's method.
        against: Name of the baseline arm, several of them (the method must beat each), or a fixed number.
        sizes: ``{"smallest": ..., "small": ..., "full": ...}``; continuous integration runs the smallest, people run
            ``small``, ``full`` is the size worth quoting.
        margin: Minimal improvement of interest in the unit of the improvement (a share for ``"ratio"``).
        effect: How method and baseline are compared (above).
        counts: For ``"proportion"``: key of the number of trials behind each seed's share; None means one.
        unit: Unit of the metric, for tables and axes.
        paper_result: The paper's own figure, at the paper's own scale, for the reader to hold beside ours.
        notes: What a reader must know to read the result right: what differs from the paper, what the controls show.
    """

    name: str
    statement: str
    metric: str
    direction: Direction
    arms: Mapping[str, Arm]
    method: str
    against: str | tuple[str, ...] | float
    sizes: Mapping[str, Size]
    margin: float = 0.0
    effect: Effect = "difference"
    counts: str | None = None
    unit: str = ""
    paper_result: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"name is {self.name!r}; use lower case letters, digits and underscores")
        if self.method not in self.arms:
            raise ValueError(f"method {self.method!r} is not among the arms {sorted(self.arms)}")
        for name in self.baselines:
            if name not in self.arms or name == self.method:
                raise ValueError(f"against names {name!r}, which is not a baseline arm of {sorted(self.arms)}")
        if self.direction not in ("lower", "higher"):
            raise ValueError(f"direction is {self.direction!r}; use 'lower' or 'higher'")
        if self.effect not in ("difference", "ratio", "proportion"):
            raise ValueError(f"effect is {self.effect!r}; use 'difference', 'ratio' or 'proportion'")
        if self.effect == "proportion" and self.baselines:
            raise ValueError("effect 'proportion' compares with a fixed number; set against to it")
        if self.effect == "ratio" and not self.baselines:
            raise ValueError("effect 'ratio' compares arms; name a baseline arm in against")
        unknown = set(self.sizes) - set(SIZES)
        if unknown or "smallest" not in self.sizes:
            raise ValueError(f"sizes are {sorted(self.sizes)}; 'smallest' is needed, others are among {SIZES}")

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the baseline arms in the judgement; empty where `against` is a number."""
        if isinstance(self.against, str):
            return (self.against,)
        return self.against if isinstance(self.against, tuple) else ()

    def size(self, name: str) -> Size:
        """Return the size `name`, or the next smaller one that the claim defines."""
        order = SIZES[: SIZES.index(name) + 1]
        return next(self.sizes[candidate] for candidate in reversed(order) if candidate in self.sizes)


__all__ = ["SIZES", "Arm", "Claim", "Progress", "Size"]
