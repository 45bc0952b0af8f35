r"""From a budget (epsilon, delta) to the noise of each stage, and from the stages to the statement.

The stages are: the number of records (Laplace), second moments (one Gaussian release), clusters (one Gaussian release a
round, and one of the final sizes), rewards (T Gaussian releases on Poisson samples of rate q). The number of records is
released first because everything after it is set by it. Settings chosen in the light of a release are covered by basic
composition alone, so its epsilon is added to that of the rest, which is one composition of fixed mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from scipy.optimize import brentq

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.accounting import ACCOUNTANT, compose, gaussian_multiplier
from workingpapers.foundations.privacy.noise import Noise, lattice_slack
from workingpapers.foundations.privacy.statement import (
    PrivacyStatement,
    Stage,
    gaussian_stage,
    pure_stage,
    sampled_gaussian_stage,
)

COUNT_SHARE = 0.02  # of epsilon, for the number of records
ROOT_TWO = math.sqrt(2.0)


@dataclass(frozen=True)
class Settings:
    """What is chosen without looking at the private records.

    Args:
        components: p, dimensions kept; the embedding's own where it has fewer.
        clusters: K, 1 for a single reward.
        rounds: Rounds of k-means.
        batch: Expected number of records of the smallest admissible cluster in a step.
        epochs: Passes over a cluster.
        learning_rate: Of DP-SGD.
        split: Shares of epsilon for second moments, clusters and rewards; the authors take 1/8, 1/8 and 3/4.
        projection: ``"pca"``; ``"random"`` and ``"none"`` are the ablations.
        rewards: ``"sgd"``; ``"centres"`` takes the centres themselves for rewards and trains nothing.
    """

    components: int = 20
    clusters: int = 5
    rounds: int = 3
    batch: int = 64
    epochs: float = 4.0
    learning_rate: float = 0.5
    split: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    projection: Literal["pca", "random", "none"] = "pca"
    rewards: Literal["sgd", "centres"] = "sgd"

    def __post_init__(self) -> None:
        for name in ("components", "clusters", "rounds", "batch", "epochs", "learning_rate"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise InputError(f"The setting {name} is {value}; give a number over 0.")
        if len(self.split) != 3 or min(self.split) <= 0:
            raise InputError(f"The split is {self.split}; give three numbers over 0.")

    @property
    def least_records(self) -> int:
        """Number of records below which the noise is all that training would see."""
        return 50 * (self.clusters + 4)


DEFAULT = Settings()


@dataclass(frozen=True)
class Plan:
    """Noise and schedule of a fit, all set by public facts and by the released number of records.

    Args:
        records: Released number of records, rounded down to two digits.
        rate: q, probability with which a record enters a step of DP-SGD.
        steps: T.
        moment_scale: Noise of the second moments; 0 without such a stage.
        cluster_scale: Noise of counts and sums in a round of k-means.
        size_scale: Noise of the final sizes.
        gradient_scale: Noise of a sum of gradients.
        settings: The settings.
    """

    records: int
    rate: float
    steps: int
    moment_scale: float
    cluster_scale: float
    size_scale: float
    gradient_scale: float
    settings: Settings

    @property
    def size_floor(self) -> float:
        """Least noisy size of a cluster whose reward is kept, N / (K + 4)."""
        return self.records / (self.settings.clusters + 4)

    def scaled(self, moments: float, clusters: float, gradients: float) -> Plan:
        """Return the plan with its noise multiplied."""
        return replace(
            self,
            moment_scale=self.moment_scale * moments,
            cluster_scale=self.cluster_scale * clusters,
            size_scale=self.size_scale * clusters,
            gradient_scale=self.gradient_scale * gradients,
        )

    def stages(self, dimension: int, *, secure: bool) -> tuple[Stage, ...]:
        """Return the stages after the first one, for embeddings of `dimension` numbers."""
        settings = self.settings
        inner = kept_dimensions(settings, dimension)
        found = []
        if settings.projection == "pca":
            size = dimension * (dimension + 1) // 2
            found.append(gaussian_stage("second moments", 1.0, self.moment_scale, size=size, secure=secure))
        if settings.clusters > 1:
            size = settings.clusters * (inner + 1)
            found.append(
                gaussian_stage(
                    "cluster counts and sums",
                    ROOT_TWO,
                    self.cluster_scale,
                    size=size,
                    steps=settings.rounds,
                    secure=secure,
                )
            )
            found.append(gaussian_stage("cluster sizes", 1.0, self.size_scale, size=settings.clusters, secure=secure))
        if settings.rewards == "sgd":
            found.append(
                sampled_gaussian_stage(
                    "reward gradients",
                    1.0,
                    self.gradient_scale,
                    rate=self.rate,
                    steps=self.steps,
                    size=settings.clusters * inner,
                    secure=secure,
                )
            )
        return tuple(found)


def kept_dimensions(settings: Settings, dimension: int) -> int:
    """Return how many dimensions clustering and rewards see."""
    return dimension if settings.projection == "none" else min(settings.components, dimension)


def check_budget(epsilon: float, delta: float) -> None:
    """Raise an InputError for a budget that guarantees nothing.

    Args:
        epsilon: Over 0.
        delta: Between 0 and 1.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise InputError(f"Epsilon is {epsilon:g}; give a finite number over 0.")
    if not 0 < delta < 1:
        raise InputError(f"Delta is {delta:g}; give a number between 0 and 1, such as 1e-6.")


def count_records(records: int, epsilon: float, noise: Noise) -> tuple[int, Stage]:
    """Release the number of records, rounded down to two digits, with the stage that did it.

    Args:
        records: The true number.
        epsilon: Budget of the whole fit, of which this takes a fiftieth; infinity for no noise.
        noise: Source of noise.
    """
    scale = 1 / (COUNT_SHARE * epsilon)
    full = 1.0 + (lattice_slack(1, scale, 1) if noise.secure else 0.0)
    released = float(noise.laplace([float(records)], scale)[0])
    stage = pure_stage("number of records", "Laplace", full / scale) if scale else Stage("records", "none", "pure")
    if released < 10:
        raise InputError(f"The released number of records is {released:.0f}; give more records or a larger epsilon.")
    digits = 10 ** (int(math.log10(released)) - 1)
    return int(released // digits * digits), stage


@lru_cache(maxsize=256)
def plan_budget(
    records: int, dimension: int, epsilon: float, delta: float, settings: Settings = DEFAULT, *, secure: bool = True
) -> Plan:
    r"""Return the plan whose stages cost at most `epsilon` at `delta` together, and little less.

    The share of each stage sets how loud it is beside the others; then one factor on all noise is found with the
    composition of all stages, which costs less than the sum of their epsilons.

    Args:
        records: Number of records that is known to everybody or released.
        dimension: d of the embeddings.
        epsilon: Budget; infinity for no noise at all.
        delta: Budget.
        settings: The settings.
        secure: Whether the noise will come from the secure source.
    """
    floor = records / (settings.clusters + 4)
    rate = min(1.0, settings.batch / floor)
    steps = max(1, round(settings.epochs / rate))
    unit = Plan(records, rate, steps, 1.0, ROOT_TWO, 1.0, 1.0, settings)
    if math.isinf(epsilon):
        return unit.scaled(0.0, 0.0, 0.0)
    check_budget(epsilon, delta)
    moments, clusters, gradients = settings.split
    present = (settings.projection == "pca", settings.clusters > 1, settings.rewards == "sgd")
    total = sum(share for share, there in zip(settings.split, present, strict=True) if there)
    if total == 0:
        raise InputError("With these settings nothing is learned; train rewards, or give more than one cluster.")
    shaped = unit.scaled(
        gaussian_multiplier(epsilon * moments / total, delta),
        gaussian_multiplier(epsilon * clusters / total, delta) * math.sqrt(settings.rounds + 1),
        1.0,
    )
    if present[2]:
        goal = epsilon * gradients / total
        alone = least_factor(
            lambda factor: unit.scaled(1, 1, factor).stages(dimension, secure=secure)[-1:], goal, delta
        )
        shaped = shaped.scaled(1.0, 1.0, alone)
    factor = least_factor(lambda f: shaped.scaled(f, f, f).stages(dimension, secure=secure), epsilon, delta)
    return shaped.scaled(factor, factor, factor)


def least_factor(stages_at: Callable[[float], Sequence[Stage]], epsilon: float, delta: float) -> float:
    """Return the least factor on the noise, within 0.1 %, at which Gaussian stages cost at most `epsilon`.

    The search starts where much noise makes the accounting cheap and never goes to where little noise makes it take
    minutes; on a grid as fine as a thousandth of epsilon.
    """
    interval = max(1e-4, epsilon / 1000)

    def excess(log_factor: float) -> float:
        return math.log(max(1e-9, _cost(stages_at(math.exp(log_factor)), delta, interval)) / epsilon)

    high = math.log(gaussian_multiplier(epsilon, delta))
    if excess(high) > 0:
        while excess(high) > 0:
            low, high = high, high + 0.7
    else:
        low = high - 0.7
        while excess(low) <= 0:
            low, high = low - 0.7, low
    found = float(brentq(excess, low, high, xtol=5e-4))
    while excess(found) > 0:
        found += 5e-4
    return math.exp(found)


def make_statement(
    first: Stage, plan: Plan, dimension: int, delta: float, *, secure: bool, public: Sequence[str]
) -> PrivacyStatement:
    """Return the statement of a fit.

    Args:
        first: Stage that released the number of records.
        plan: The plan of the rest.
        dimension: d.
        delta: Of the guarantee.
        secure: Whether the noise came from the secure source.
        public: What is taken as known.
    """
    stages = plan.stages(dimension, secure=secure)
    epsilon = first.epsilon + compose(stages, delta)
    how = f"the epsilon of the number of records plus that of the other stages together by {ACCOUNTANT}"
    return PrivacyStatement(
        epsilon, delta, "add or remove one record", (first, *stages), how, tuple(public), "one record", secure
    )


def _cost(stages: Sequence[Stage], delta: float, interval: float) -> float:
    """Return an upper bound on epsilon on a coarse grid; Gaussian releases on all records merge into one."""
    from dp_accounting.pld import privacy_loss_distribution as losses

    total = losses.identity(value_discretization_interval=interval)
    precision = math.fsum(stage.steps / stage.multiplier**2 for stage in stages if stage.rate == 1)
    if precision:
        total = losses.from_gaussian_mechanism(precision**-0.5, value_discretization_interval=interval)
    for stage in stages:
        if stage.rate < 1:
            step = losses.from_gaussian_mechanism(
                stage.multiplier, sampling_prob=stage.rate, value_discretization_interval=interval
            )
            total = total.compose(step.self_compose(stage.steps))
    return float(total.get_epsilon_for_delta(delta))
