"""Richardson's model of arms races: equilibrium, stability, exact thresholds and the reaction to constrain first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from workingpapers.foundations.errors import InputError

Vector = npt.NDArray[np.float64]
SIMPLE_ROOT = 1e-9


@dataclass(frozen=True)
class Balance:
    r"""A balance of n actors, :math:`\dot x = (A - \mathrm{diag}(m))\,x + g`.

    Args:
        reaction: A, shape (n, n), non-negative: how strongly actor i answers the level of actor j, per unit of time.
        fatigue: m, shape (n,), positive: how fast a level decays on its own, per unit of time.
        grievance: g, shape (n,): what moves an actor whatever the others do, level per unit of time.
        actors: Names of the actors.

    Raises:
        InputError: Shapes disagree, a value is not finite, a reaction is negative or a fatigue not positive.

    References:
        L. F. Richardson, Arms and Insecurity (1960).
    """

    reaction: Vector
    fatigue: Vector
    grievance: Vector
    actors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            a, m, g = (np.asarray(v, dtype=np.float64) for v in (self.reaction, self.fatigue, self.grievance))
        except (TypeError, ValueError):
            raise InputError(
                "Reaction, fatigue and grievance must be tables of numbers with rows of one length."
            ) from None
        n = m.size
        if n < 1 or a.shape != (n, n) or m.shape != (n,) or g.shape != (n,):
            raise InputError(f"Reaction has shape {a.shape}, fatigue {m.shape} and grievance {g.shape}; "
                             "n actors need (n, n), (n,) and (n,).")  # fmt: skip
        if not all(np.isfinite(v).all() for v in (a, m, g)):
            raise InputError("Reaction, fatigue and grievance hold a value that is not finite; give numbers.")
        if (a < 0).any():
            i, j = np.argwhere(a < 0)[0]
            raise InputError(
                f"The reaction of actor {i + 1} to actor {j + 1} is {a[i, j]:g}; reactions are not negative."
            )
        if (m <= 0).any():
            i = int(np.argmax(m <= 0))
            raise InputError(f"The fatigue of actor {i + 1} is {m[i]:g}; it must be greater than 0.")
        names = self.actors or tuple(f"actor {i + 1}" for i in range(n))
        if len(names) != n or len(set(names)) != n:
            raise InputError(f"There are {n} actors but the names {list(names)}; give one different name each.")
        for name, value in (("reaction", a), ("fatigue", m), ("grievance", g), ("actors", tuple(names))):
            object.__setattr__(self, name, value)

    @property
    def jacobian(self) -> Vector:
        """A - diag(m), shape (n, n)."""
        return self.reaction - np.diag(self.fatigue)


def equilibrium(balance: Balance) -> Vector:
    r"""Return the point where nothing moves, :math:`x^* = (\mathrm{diag}(m) - A)^{-1} g`, shape (n,).

    For two actors with reactions a, b and fatigues m, n it is
    :math:`x^* = (n g + a h)/(m n - a b),\; y^* = (m h + b g)/(m n - a b)`. Without stability it repels.

    Args:
        balance: The balance.

    Raises:
        InputError: The balance is exactly at its threshold and has no single equilibrium.
    """
    try:
        point = np.asarray(np.linalg.solve(-balance.jacobian, balance.grievance), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise InputError("The balance stands exactly at its threshold, so it has no single equilibrium; "
                         "change a reaction or a fatigue a little.") from None  # fmt: skip
    return point


def spectral_radius(balance: Balance) -> float:
    r"""Return :math:`\rho = \rho(\mathrm{diag}(m)^{-1} A)`; the balance is stable iff it is below 1.

    For non-negative A this is equivalent to all eigenvalues of :math:`A - \mathrm{diag}(m)` having negative real parts.

    Args:
        balance: The balance.
    """
    return float(np.abs(np.linalg.eigvals(balance.reaction / balance.fatigue[:, None])).max())


def margin(balance: Balance) -> float:
    r"""Return :math:`1 - \rho`: positive when stable, until all reactions grow by :math:`1/\rho`.

    Args:
        balance: The balance.
    """
    return 1.0 - spectral_radius(balance)


def sensitivity(balance: Balance) -> Vector | None:
    r"""Return :math:`\partial\rho/\partial A_{ij} = u_i v_j / (m_i\, u^\top v)`, shape (n, n).

    u and v are the left and right Perron vectors of :math:`\mathrm{diag}(m)^{-1} A`. The products
    :math:`A_{ij}\,\partial\rho/\partial A_{ij}` sum to :math:`\rho`.

    Args:
        balance: The balance.

    Returns:
        The derivatives, or None where the largest eigenvalue is not simple and no derivative exists (two separate loops
        of the same strength, or no loop at all).
    """
    from scipy.linalg import eig

    values, left, right = eig(balance.reaction / balance.fatigue[:, None], left=True, right=True)
    top = int(np.argmax(values.real))
    scale = max(1.0, float(np.abs(values).max()))
    gap = np.delete(np.abs(values - values[top]), top)
    u, v = np.abs(left[:, top].real), np.abs(right[:, top].real)
    if (gap.size and gap.min() < SIMPLE_ROOT * scale) or u @ v < SIMPLE_ROOT or values[top].real <= 0:
        return None
    return np.asarray(np.outer(u / balance.fatigue, v) / (u @ v), dtype=np.float64)


def critical_reactions(balance: Balance) -> Vector:
    r"""Return for each reaction the value at which the balance stands exactly at its threshold, all else equal.

    :math:`\det(\mathrm{diag}(m) - A)` is linear in each entry, so the change that makes it 0 is
    :math:`t_{ij} = 1 / [(\mathrm{diag}(m) - A)^{-1}]_{ji}`.

    Args:
        balance: The balance.

    Returns:
        Shape (n, n): the critical value of :math:`A_{ij}`; ``inf`` where no growth of this reaction alone upsets a
        stable balance, ``nan`` where an unstable one stays unstable even without this reaction.
    """
    try:
        change = np.linalg.inv(-balance.jacobian).T
    except np.linalg.LinAlgError:
        return balance.reaction.copy()
    with np.errstate(divide="ignore"):
        critical = balance.reaction + np.where(np.abs(change) < 1e-14, math.inf, 1.0 / change)
    if margin(balance) > 0:
        return np.asarray(critical, dtype=np.float64)
    n = balance.fatigue.size
    for i in range(n):
        for j in range(n):
            without = balance.reaction.copy()
            without[i, j] = 0.0
            if margin(Balance(without, balance.fatigue, balance.grievance)) <= 0:
                critical[i, j] = math.nan
    return np.asarray(critical, dtype=np.float64)


def is_stable_exact(reaction: Sequence[Sequence[Fraction]], fatigue: Sequence[Fraction]) -> bool:
    r"""Whether a balance with rational entries is stable, without rounding.

    :math:`\mathrm{diag}(m) - A` has non-positive off-diagonal entries; it is a nonsingular M-matrix, and the balance
    stable, iff all its leading principal minors are positive. The minors are the products of the pivots of Gaussian
    elimination without exchanges.

    Args:
        reaction: A, n rows of n non-negative fractions.
        fatigue: m, n positive fractions.

    References:
        A. Berman and R. J. Plemmons, Nonnegative Matrices in the Mathematical Sciences (1994), chapter 6.
    """
    n = len(fatigue)
    rows = [[(fatigue[i] if i == j else Fraction(0)) - Fraction(reaction[i][j]) for j in range(n)] for i in range(n)]
    for k in range(n):
        if rows[k][k] <= 0:
            return False
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return True


def critical_step(balance: Balance) -> float:
    r"""Return the period h below which the stepwise balance :math:`x_{t+1} = x_t + h(\dot x)_t` is stable.

    It is stable iff :math:`|1 + h\lambda| < 1` for every eigenvalue, that is
    :math:`h < \min_\lambda -2\,\mathrm{Re}\,\lambda/|\lambda|^2`; 0 where the continuous balance is unstable.

    Args:
        balance: The balance.
    """
    values = np.linalg.eigvals(balance.jacobian)
    if values.real.max() >= 0:
        return 0.0
    return float((-2.0 * values.real / np.abs(values) ** 2).min())


@dataclass(frozen=True)
class DelayLimits:
    """How much delay a balance bears, in its unit of time.

    Args:
        reaction: Delay in seeing the others alone (own fatigue at once): infinite for every stable balance, because
            reactions are not negative; 0 for an unstable one.
        response_oscillates: Delay of the whole response from which the balance overshoots and swings (None where the
            eigenvalues are not all real: it swings at once).
        response_unstable: Delay of the whole response from which the swings grow.
    """

    reaction: float
    response_oscillates: float | None
    response_unstable: float


def delay_limits(balance: Balance) -> DelayLimits:
    r"""Return the delays at which the balance starts to oscillate and at which it stops being stable.

    Delay in the reactions, :math:`\dot x(t) = A x(t-\tau) - m x(t) + g`: stable for every delay iff stable without one
    (positive systems). Delay of the whole response, :math:`\dot x(t) = (A - \mathrm{diag}\,m)\,x(t-\tau) + g`: along an
    eigenvalue :math:`\lambda` the motion oscillates from :math:`|\lambda|\tau = 1/e` and grows from
    :math:`\tau = (|\arg\lambda| - \pi/2)/|\lambda|`, which is :math:`\pi/(2|\lambda|)` for real :math:`\lambda < 0`.

    Args:
        balance: The balance.

    References:
        W. M. Haddad and V. Chellaboina, Systems & Control Letters 51 (2004) 355; J. K. Hale and S. M. Verduyn Lunel,
        Introduction to Functional Differential Equations (1993).
    """
    values = np.linalg.eigvals(balance.jacobian)
    if values.real.max() >= 0:
        return DelayLimits(0.0, None, 0.0)
    sizes = np.abs(values)
    real = bool((np.abs(values.imag) <= 1e-9 * sizes).all())
    onset = float(1.0 / (math.e * sizes.max())) if real else None
    return DelayLimits(math.inf, onset, float(((np.abs(np.angle(values)) - math.pi / 2) / sizes).min()))


def simulate(
    balance: Balance,
    start: Vector,
    horizon: float,
    *,
    delay: float = 0.0,
    delayed: str = "response",
    step: float = 0.01,
) -> tuple[Vector, Vector]:
    """Integrate the balance, with a delay if wanted (second-order steps; the past before 0 is `start`).

    Args:
        balance: The balance.
        start: Levels at time 0 and before, shape (n,).
        horizon: Time to integrate to.
        delay: Delay, 0 for none; rounded to whole steps.
        delayed: What comes late: ``"response"`` (everything) or ``"reaction"`` (what others do).
        step: Length of a step; well below 1 / largest eigenvalue.

    Returns:
        Times, shape (steps + 1,), and levels, shape (steps + 1, n).

    Raises:
        InputError: The horizon, delay or step is out of range, or the kind of delay unknown.
    """
    if not horizon > 0 or not 0 < step <= horizon or not 0 <= delay < math.inf:
        raise InputError(
            f"Cannot integrate to {horizon:g} in steps of {step:g} with delay {delay:g}; give positive numbers."
        )
    if delayed not in ("response", "reaction"):
        raise InputError(f"The delayed part is {delayed!r}; it is 'response' or 'reaction'.")
    count, lag = round(horizon / step), round(delay / step)
    levels = np.empty((count + 1 + lag, balance.fatigue.size))
    levels[: lag + 1] = start
    derivative = _derivative(balance, delayed, lag)
    for k in range(lag, lag + count):
        slope = derivative(levels[k], levels[k - lag])
        ahead = levels[k] + step * slope
        late = levels[k + 1 - lag] if lag else ahead
        levels[k + 1] = levels[k] + 0.5 * step * (slope + derivative(ahead, late))
    return np.arange(count + 1, dtype=np.float64) * step, levels[lag:]


def _derivative(balance: Balance, delayed: str, lag: int) -> Callable[[Vector, Vector], Vector]:
    if delayed == "response" or lag == 0:
        return lambda now, late: balance.jacobian @ late + balance.grievance
    return lambda now, late: balance.reaction @ late - balance.fatigue * now + balance.grievance


def summary(balance: Balance) -> dict[str, Any]:
    """Return equilibrium, eigenvalues, margin and thresholds as JSON types (infinite and missing values as None).

    Args:
        balance: The balance.
    """
    limits, gap = delay_limits(balance), margin(balance)
    point = equilibrium(balance)
    derivative = sensitivity(balance)
    return {
        "actors": list(balance.actors),
        "stable": gap > 0,
        "margin": gap,
        "spectral_radius": 1.0 - gap,
        "equilibrium": point.tolist(),
        "eigenvalues": [[float(v.real), float(v.imag)] for v in np.linalg.eigvals(balance.jacobian)],
        "critical_reactions": [[_finite(x) for x in row] for row in critical_reactions(balance)],
        "sensitivity": None if derivative is None else derivative.tolist(),
        "critical_step": critical_step(balance),
        "delay_oscillates": limits.response_oscillates,
        "delay_unstable": _finite(limits.response_unstable),
    }


def ranking(balance: Balance) -> list[tuple[float, int, int]]:
    r"""Return the reactions by how much a small relative cut lowers :math:`\rho`: ``(A_ij * d rho / d A_ij, i, j)``.

    The list is empty where no derivative exists (see :func:`sensitivity`).

    Args:
        balance: The balance.
    """
    derivative = sensitivity(balance)
    if derivative is None:
        return []
    effect = balance.reaction * derivative
    places = [(float(effect[i, j]), int(i), int(j)) for i, j in np.argwhere(balance.reaction > 0)]
    return sorted(places, key=lambda entry: (-entry[0], entry[1], entry[2]))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
