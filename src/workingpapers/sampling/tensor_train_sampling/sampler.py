r"""The sampler: solve the Hamilton-Jacobi-Bellman equation backward in time by regressions on paths.

The noised target's potential V(x, t) = -log p_{T-t}(x) obeys

.. math:: \partial_t V = -\Delta V - x \cdot \nabla V + d + |\nabla V|^2, \qquad V(\cdot, T) = -\log\rho

Along a path with control u it moves by
:math:`dV = [d + |\nabla V|^2 + \sigma u \cdot \nabla V]\,dt + \sqrt2\,\nabla V \cdot dW`, so that V at step n is the
regression, over a tensor train, of

.. math:: V_n(X_n) + \sqrt{2\tau}\,\xi \cdot \nabla V_n(X_n)
          = V_{n+1}(X_{n+1}) - \tau \bigl[d + |g|^2 + \sigma u \cdot g\bigr], \qquad g = \nabla V_{n+1}(X_{n+1})
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from workingpapers.foundations.densities import Density
from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.progress import Progress, part, silent
from workingpapers.sampling.tensor_train_sampling.als import Fit, additive_fit, als_fit
from workingpapers.sampling.tensor_train_sampling.bases import KINDS, Basis
from workingpapers.sampling.tensor_train_sampling.keeping import plain, read_state, write_state
from workingpapers.sampling.tensor_train_sampling.paths import (
    Paths,
    Policy,
    Schedule,
    WeightedSamples,
    annealed_langevin,
    sample_weighted,
    simulate,
    time_grid,
)
from workingpapers.sampling.tensor_train_sampling.train import FunctionalTT, check_ranks

BAD_FIT = 0.3  # residual over the variance of y above which a fit starts again from the additive model
OUTLIERS = 1e-3  # share of the points, at each end of each coordinate, that lie outside the box before it is widened
WIDEN = 0.1  # share of the box's width that is added at each end
FEWEST_PER_COEFFICIENT = 2
NOT_FINITE = "A regression gave no finite numbers; take a larger batch, more steps or smaller bases."


class DivergedError(InputError):
    """The recursion left the finite numbers."""


@dataclass(frozen=True)
class Settings:
    """What decides a fit.

    Args:
        horizon: Time T of the noising; the prior differs from the noised target by the share exp(-T) of its mean.
        steps: Number N of steps of the time grid.
        schedule: ``linear`` (steps shrink towards the target) or ``constant``.
        basis: ``legendre`` or ``fourier``.
        sizes: Functions a coordinate, one number or d of them.
        ranks: Ranks of the trains, one number or d - 1 of them.
        batch: Paths that the regressions see.
        iterations: Outer iterations; the first runs on annealed Langevin paths, each other on the policy before it.
        margin: Share of a domain's width, at each side, where the gradient is already extended by the Hessian.
        box: Half width of the cube that paths must stay in to be fitted to; None measures a box on the paths.
        tolerance: End of the sweeps of a regression.
        max_sweeps: Most double sweeps of a regression.
        ito: Whether the term S . grad V stands in the regression; without it each step adds noise.
        fallback: Whether a first iteration that fails with the term S . grad V is run again without it: noisier, and
            far harder to break.
        rank_tolerance: Above 0, singular values below this share of the largest are cut after each regression and the
            next one may have one rank more than was kept, up to `ranks`.
    """

    horizon: float = 2.0
    steps: int = 150
    schedule: Schedule = "linear"
    basis: str = "legendre"
    sizes: int | Sequence[int] = 9
    ranks: int | Sequence[int] = 2
    batch: int = 2000
    iterations: int = 2
    margin: float = 0.1
    box: float | None = None
    tolerance: float = 1e-4
    max_sweeps: int = 20
    ito: bool = True
    fallback: bool = True
    rank_tolerance: float = 0.0

    def check(self, dim: int) -> list[int]:
        """Return the sizes of the bases of `dim` coordinates.

        Raises:
            InputError: When a setting is out of range or numbers of sizes or ranks do not fit.
        """
        sizes = [self.sizes] * dim if isinstance(self.sizes, int) else list(self.sizes)
        if len(sizes) != dim:
            raise InputError(f"{dim} coordinates need {dim} basis sizes, not {len(sizes)}.")
        if min(sizes) < 1:
            raise InputError(f"A basis needs one function or more, not {min(sizes)}.")
        check_ranks(self.ranks, sizes)
        if self.basis not in KINDS:
            hint = near_match(self.basis, KINDS) or f"; choose among {', '.join(KINDS)}"
            raise InputError(f"There is no basis {self.basis!r}{hint}.")
        if not 0 <= self.margin < 0.5:
            raise InputError(f"The margin must be from 0 to under 0.5, not {self.margin}.")
        if self.iterations < 1 or self.batch < 2:
            raise InputError(f"iterations={self.iterations} and batch={self.batch}: one and two are the least.")
        return sizes


@dataclass(frozen=True)
class StepRecord:
    """How one regression went: outer iteration, step n, residual over the variance, ranks, sweeps, restart."""

    iteration: int
    step: int
    residual: float
    ranks: tuple[int, ...]
    sweeps: int
    restarted: bool


@dataclass(frozen=True)
class Value:
    """V_n up to a constant: a train and the share of its domain where the gradient is extended by the Hessian."""

    train: FunctionalTT
    margin: float

    def gradient(self, x: Tensor) -> Tensor:
        r"""Return grad V, shape (b, d), which beyond the inner box goes on linearly and points back inward.

        .. math:: \nabla V(x) = \nabla V(\bar x) + H(\bar x) (x - \bar x), \qquad \bar x = \mathrm{clip}(x)

        with the curvature along x - clip(x) raised to 1 where it is less: a constant gradient lets paths escape, since
        the drift holds +x.
        """
        low = torch.tensor([basis.low for basis in self.train.bases], dtype=torch.float64)
        high = torch.tensor([basis.high for basis in self.train.bases], dtype=torch.float64)
        cut = self.margin * (high - low)
        inside = torch.minimum(torch.maximum(x, low + cut), high - cut)
        gradient, away = self.train.grad(inside), x - inside
        outer = (away != 0).any(dim=1)
        if bool(outer.any()):
            _, bent = self.train.hvp(inside[outer], away[outer])
            square = (away[outer] ** 2).sum(1)
            curvature = (away[outer] * bent).sum(1) / square
            gradient[outer] += bent + (1 - curvature).clamp(min=0)[:, None] * away[outer]
        return gradient


def bsde_rate(slope: Tensor, control: Tensor) -> Tensor:
    r"""Return the rate d + |g|^2 + sigma u . g at which V moves along paths, without its martingale, shape (b,).

    Args:
        slope: g = grad V, shape (b, d).
        control: sigma u of the policy that made the paths, shape (b, d).
    """
    return slope.shape[1] + (slope**2).sum(1) + (control * slope).sum(1)


class HJBSampler:
    r"""A sampler of an unnormalised density that needs no network and no samples.

    .. math:: dX = (X - 2\nabla V(X, t))\,dt + \sqrt2\,dW, \qquad X_0 \sim N(0, I)

    Args:
        target: The density; shift and scale it so that its mass lies within a few units of the origin.
        settings: What decides the fit.
        seed: Seed of the paths of the fit.

    Raises:
        InputError: When settings do not fit the target.

    References:
        R. Gruhlke, J. Berner, D. Sommer, L. Richter, arXiv:2607.06841. L. Richter, L. Sallandt, N. Nüsken, ICML 2021.
    """

    def __init__(self, target: Density, settings: Settings | None = None, *, seed: int = 0) -> None:
        self.target = target
        self.settings = settings or Settings()
        self.sizes = self.settings.check(target.dim)
        self.times = time_grid(self.settings.horizon, self.settings.steps, self.settings.schedule)
        self.values: list[Value] = []
        self.records: list[StepRecord] = []
        self.kept: list[float] = []
        self.stopped = ""
        self.fell_back = False
        self._generator = torch.Generator().manual_seed(seed)
        self._seed = seed

    @property
    def initial_policy(self) -> Policy:
        """The annealed Langevin policy of the first iteration."""
        return annealed_langevin(self.target, self.times)

    def policy(self, x: Tensor, n: int) -> Tensor:
        """Return sigma u = -2 grad V_n, shape (b, d); the target's own gradient at the last time."""
        if n == self.settings.steps:
            return 2 * self.target.score(x)
        return -2 * self.values[n].gradient(x)

    def fit(
        self,
        progress: Progress = silent,
        after: Callable[[int], None] | None = None,
        checkpoint: Path | None = None,
    ) -> Self:
        """Run the outer iterations.

        Args:
            progress: Told of the share done and of the residual.
            after: Called with the number of each finished iteration.
            checkpoint: File that holds the state after each iteration; where it exists the fit goes on from it.

        Raises:
            InputError: In the first iteration, when the density is not finite on the paths, too few paths stay in the
                box, or a regression gives no finite numbers even from the additive model. Where a later iteration
                fails, the one before it stands and :attr:`stopped` says why.
        """
        facts = {"dim": self.target.dim, "seed": self._seed, **plain(self.settings)}
        if checkpoint is not None and checkpoint.exists():
            self._resume(checkpoint, facts)
        done = len(self.kept)
        policy = self.policy if done else self.initial_policy
        for iteration in range(done, self.settings.iterations):
            share = self.settings.iterations
            stretch = part(progress, iteration / share, (iteration + 1) / share)
            try:
                self.values = (
                    self._first(policy, stretch) if not iteration else self._iterate(policy, iteration, stretch)
                )
            except InputError as error:
                if not iteration:
                    raise
                self.stopped = f"Iteration {iteration + 1} failed, and the one before it is used: {error}"
                break
            policy = self.policy
            if checkpoint is not None:
                done_so_far = {"records": [astuple(one) for one in self.records], "kept": self.kept}
                facts_now = {**facts, **done_so_far, "fell_back": self.fell_back}
                write_state(checkpoint, facts_now, [value.train for value in self.values], self._generator)
            if after is not None:
                after(iteration)
        return self

    def sample(self, count: int, *, seed: int = 1, progress: Progress = silent) -> WeightedSamples:
        """Return fresh samples with their weights, none left out.

        Args:
            count: Number n.
            seed: Seed of start and noise; other than that of the fit.
            progress: Told of the share done.

        Raises:
            InputError: Before :meth:`fit`.
        """
        if not self.values:
            raise InputError("The sampler has not been fitted; call fit() first.")
        generator = torch.Generator().manual_seed(seed)
        return sample_weighted(self.policy, self.target, self.times, count, generator, progress)

    def _resume(self, checkpoint: Path, facts: dict[str, Any]) -> None:
        found, trains, source = read_state(checkpoint, facts)
        self.values = [Value(train, self.settings.margin) for train in trains]
        self.records = [StepRecord(*record) for record in found["records"]]
        self.kept, self.fell_back = list(found["kept"]), bool(found["fell_back"])
        self._generator.set_state(source)

    def _first(self, policy: Policy, progress: Progress) -> list[Value]:
        """Return the values of the first iteration; where it diverges, without the Ito term on fresh paths."""
        try:
            return self._iterate(policy, 0, progress)
        except DivergedError:
            if not (self.settings.ito and self.settings.fallback):
                raise
        self.records.clear()
        self.fell_back = True
        return self._iterate(policy, 0, progress, ito=False)

    def _iterate(self, policy: Policy, iteration: int, progress: Progress, *, ito: bool | None = None) -> list[Value]:
        """Return the values of one outer iteration, fitted on paths of `policy`."""
        paths = simulate(policy, self.times, self.settings.batch, self.target.dim, self._generator,
                         part(progress, 0, 0.2))  # fmt: skip
        paths, inside = paths.within(self._box(paths))
        self._enough(paths)
        values = self._backward(
            paths, policy, iteration, part(progress, 0.2, 1), self.settings.ito if ito is None else ito
        )  # fmt: skip
        self.kept.append(float(inside.double().mean()))
        return values

    def _box(self, paths: Paths) -> Tensor:
        """Return the box for the fit, shape (2, d): the user's cube, or nearly all points of these paths."""
        dim = self.target.dim
        if self.settings.box is not None:
            return self.settings.box * torch.tensor([[-1.0], [1.0]], dtype=torch.float64).expand(2, dim)
        points = paths.points.flatten(0, 1)
        points = points[torch.isfinite(points).all(dim=1)]
        if not len(points):
            raise InputError("The density or its gradient is not finite at the first points; it must be on all of R^d.")
        ordered = points.sort(dim=0).values
        tail = int(OUTLIERS * (len(points) - 1))
        low, high = ordered[tail], ordered[-1 - tail]
        return torch.stack([low - WIDEN * (high - low), high + WIDEN * (high - low)])

    def _enough(self, paths: Paths) -> None:
        left = paths.points.shape[1]
        inner = check_ranks(self.settings.ranks, self.sizes)
        ranks = [1, *inner, 1]
        largest = max(r * m * q for r, m, q in zip(ranks, self.sizes, ranks[1:], strict=False))
        needed = FEWEST_PER_COEFFICIENT * largest
        if left < needed:
            raise InputError(
                f"Only {left} of {self.settings.batch} paths stayed finite and in the box, and cores of {largest} "
                f"coefficients need {needed}; take more steps, a larger batch or a larger box."
            )

    def _domains(self, points: Tensor) -> tuple[Basis, ...]:
        kind = KINDS[self.settings.basis]
        low, high = points.min(dim=0).values.tolist(), points.max(dim=0).values.tolist()
        return tuple(kind(a, b, size) for a, b, size in zip(low, high, self.sizes, strict=True))

    def _backward(
        self, paths: Paths, policy: Policy, iteration: int, progress: Progress, ito: bool
    ) -> list[Value]:  # fmt: skip
        """Fit V_{N-1}, ..., V_0, each on the paths' points of its time."""
        steps, taus = self.settings.steps, self.times.diff().tolist()
        last = paths.points[-1]
        potential, slope = -self.target.log_density(last).double(), -self.target.score(last)
        if not bool(torch.isfinite(potential).all() and torch.isfinite(slope).all()):
            raise InputError("The log-density or its gradient is not finite on the paths; it must be on all of R^d.")
        # The terminal fit may be exact and its ridge nothing; the first regression starts with a ridge of its own.
        fit = self._terminal(last)
        ridge: float | None = None
        control = policy(last, steps)
        values: list[Value] = []
        for n in range(steps - 1, -1, -1):
            x, tau = paths.points[n], taus[n]
            wanted = potential - tau * bsde_rate(slope, control)
            # The constant of V moves no path: without it neither rounding nor ridge depend on Z.
            wanted = wanted - wanted.mean()
            noise = math.sqrt(2 * tau) * paths.noise[n] if ito else None
            fit, restarted = self._regress(fit.train, ridge, self._domains(x), x, wanted, noise)
            ridge = fit.ridge
            value = Value(fit.train, self.settings.margin)
            potential, slope = fit.train.value_and_grad(x)
            control = paths.controls[n]
            values.append(value)
            self.records.append(StepRecord(iteration, n, fit.error, fit.train.ranks, fit.sweeps, restarted))
            progress((steps - n) / steps, f"iteration {iteration + 1}, step {n}: residual {fit.error:.2e}")
        return values[::-1]

    def _terminal(self, points: Tensor) -> Fit:
        """Return a plain fit of V_T on uniform points of the terminal box, the start of the first regression."""
        bases = self._domains(points)
        low, high = (torch.tensor([getattr(b, end) for b in bases], dtype=torch.float64) for end in ("low", "high"))
        x = low + (high - low) * torch.rand(points.shape, generator=self._generator, dtype=torch.float64)
        y = -self.target.log_density(x).double()
        return self._from_additive(bases, x, y - y.mean(), None)

    def _from_additive(self, bases: tuple[Basis, ...], x: Tensor, y: Tensor, noise: Tensor | None) -> Fit:
        start = additive_fit(bases, x, y, noise)
        if not start.finite:
            raise DivergedError(NOT_FINITE)
        try:
            train = start.train.round(rank=self.settings.ranks)[0].padded(self.settings.ranks, self._generator)
        except RuntimeError:  # LinAlgError: products of huge numbers overflow on the way
            raise DivergedError(NOT_FINITE) from None
        return self._als(train, x, y, noise, None)

    def _caps(self) -> list[int]:
        return check_ranks(self.settings.ranks, self.sizes)

    def _als(self, train: FunctionalTT, x: Tensor, y: Tensor, noise: Tensor | None, ridge: float | None) -> Fit:
        return als_fit(
            train, x, y, noise, ridge=ridge, tolerance=self.settings.tolerance, max_sweeps=self.settings.max_sweeps
        )

    def _regress(
        self,
        before: FunctionalTT,
        ridge: float | None,
        bases: tuple[Basis, ...],
        x: Tensor,
        y: Tensor,
        noise: Tensor | None,
    ) -> tuple[Fit, bool]:
        """Fit one step from the train of the step after it; from the additive model where that goes wrong."""
        if not bool(torch.isfinite(y).all()):
            raise DivergedError("The regression's values left the finite numbers; take more steps or a smaller box.")
        train = before.change_basis(bases)
        if self.settings.rank_tolerance:
            train = self._adapted(train)
        fit = self._als(train, x, y, noise, ridge)
        if fit.finite and fit.error <= BAD_FIT:
            return fit, False
        again = self._from_additive(bases, x, y, noise)
        if not again.finite:
            raise DivergedError(NOT_FINITE)
        return (fit if fit.finite and fit.error < again.error else again), True

    def _adapted(self, train: FunctionalTT) -> FunctionalTT:
        """Cut small singular values, then allow one rank more than was kept."""
        cut = train.round(self.settings.rank_tolerance)[0]
        more = [min(rank + 1, cap) for rank, cap in zip(cut.ranks, self._caps(), strict=True)]
        return cut.padded(more, self._generator)
