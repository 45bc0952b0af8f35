r"""The paper's attribution to one functional unit, its parts and its break-even points, in closed form.

.. math:: C_{FU} = C_\mathrm{inference} + \frac{t_\mathrm{use}\,C_\mathrm{embodied}}{t_\mathrm{lifespan}}
          + \frac{C_\mathrm{experimentation} + C_\mathrm{training}}{N_\mathrm{lifetime}}

All functions take floats or arrays that broadcast, shape (n,).

References:
    Fernandez, Na, Bisk, Samaras, Strubell: Evaluation of ML Resource Utilization Requires Model Life Cycle Assessment.
    ICML 2026, arXiv 2606.07632.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from workingpapers.foundations.errors import InputError

Number = Any
"""A float or a float64 array, shape (n,)."""
Rule = Literal["physical", "tokens", "economic", "equal", "cut_off", "first_use"]
RULES: tuple[Rule, ...] = ("physical", "tokens", "economic", "equal", "cut_off", "first_use")


def cost_per_unit(
    inference: Number,
    use_time: Number,
    embodied: Number,
    lifespan: Number,
    experimentation: Number,
    training: Number,
    volume: Number,
) -> Number:
    """Return the burden of one functional unit, :math:`C_{FU}`, in the unit of the burdens given.

    Args:
        inference: Operational burden of one functional unit.
        use_time: Device time that one functional unit occupies, in the unit of `lifespan`.
        embodied: Burden of making one device.
        lifespan: Time that a device serves.
        experimentation: Burden of all experiments, failed runs and evaluations.
        training: Burden of the runs that made the model.
        volume: Functional units served over the model's life.

    Raises:
        InputError: `volume` or `lifespan` is not positive.
    """
    _positive(volume=volume, lifespan=lifespan)
    return inference + use_time * embodied / lifespan + (experimentation + training) / volume


def break_even_volume(upstream: Number, marginal: Number) -> Number:
    r"""Return the volume at which serving has cost as much as everything before it, :math:`N^* = F / v`.

    Args:
        upstream: Burden F before the first functional unit.
        marginal: Burden v of one more functional unit.

    Raises:
        InputError: `marginal` is not positive.
    """
    _positive(marginal=marginal)
    return upstream / marginal


def crossover_volume(upstream_a: Number, marginal_a: Number, upstream_b: Number, marginal_b: Number) -> Number:
    r"""Return the volume at which two designs cost the same, :math:`N^* = (F_A - F_B) / (v_B - v_A)`.

    Args:
        upstream_a: Burden of design A before the first functional unit.
        marginal_a: Burden of one more functional unit of A.
        upstream_b: The same of design B.
        marginal_b: The same of design B.

    Returns:
        The volume; NaN where one design is better at every volume.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        volume = np.true_divide(np.subtract(upstream_a, upstream_b), np.subtract(marginal_b, marginal_a))
    found = np.where(np.isfinite(volume) & (volume > 0), volume, np.nan)
    return found if found.ndim else float(found)


def device_burden(card: Number, server_without_cards: Number, slots: Number) -> Number:
    r"""Return the embodied burden of one card with its share of the server, :math:`M_s / G + M_c`.

    Args:
        card: Burden of one accelerator card.
        server_without_cards: Burden of the server without its cards; one that holds them counts them twice.
        slots: Cards G in the server.
    """
    return server_without_cards / slots + card


def training_hours(parameters: Number, tokens: Number, peak: Number, utilisation: Number) -> Number:
    r"""Return device hours of training by :math:`6 N D / (\mathrm{peak} \cdot \mathrm{MFU})`, a rough estimate.

    Args:
        parameters: Active parameters N.
        tokens: Training tokens D.
        peak: Peak of one device, floating-point operations a second.
        utilisation: Model FLOP utilisation, from 0 to 1.
    """
    return 6 * parameters * tokens / (peak * utilisation) / 3600


def water(it_energy: Number, pue: Number, site: Number, grid: Number) -> Number:
    r"""Return litres of water, :math:`E_{IT} (\mathrm{WUE}_{site} + \mathrm{PUE} \cdot \mathrm{WUE}_{grid})`.

    Args:
        it_energy: Energy at the devices, before PUE, kWh. The site's WUE is defined per kWh of this energy.
        pue: Power usage effectiveness, at least 1.
        site: Water evaporated on the site, L per kWh of IT energy.
        grid: Water consumed by making electricity, L per kWh delivered.
    """
    return it_energy * (site + pue * grid)


def energy_of_power(seconds: np.ndarray, watts: np.ndarray) -> float:
    r"""Return kWh of a power log by the trapezoid rule, :math:`\int P\,dt`.

    Args:
        seconds: Times of the readings, rising, shape (n,).
        watts: Power at these times, shape (n,).
    """
    return float(np.trapezoid(watts, seconds)) / 3.6e6


def shares(
    rule: Rule, products: Sequence[str], keys: Mapping[str, Sequence[Any]] | None = None, first: str = ""
) -> dict[str, Fraction]:
    """Split the burden of something that several products share.

    Args:
        rule: ``"physical"`` by device hours, ``"tokens"``, ``"economic"`` by revenue, ``"equal"``,
            ``"cut_off"``: the base product bears all, ``"first_use"``: the product that was made first bears all.
        products: Names of all products that share the burden.
        keys: ``{"device_hours": ..., "tokens": ..., "revenue": ...}``, one number for each product, for the rules that
            need one.
        first: The base product or the first one; the first of `products` where empty.

    Returns:
        Product -> share, exact; the shares sum to 1.

    Raises:
        InputError: The rule's key is missing, has another length, is negative or sums to 0, or a name is unknown.
    """
    names = list(products)
    if len(set(names)) != len(names) or not names:
        raise InputError(f"The products {names} must be at least one and differ; name each once.")
    if rule == "equal":
        return dict.fromkeys(names, Fraction(1, len(names)))
    if rule in ("cut_off", "first_use"):
        bearer = first or names[0]
        if bearer not in names:
            raise InputError(f"{bearer!r} is not among the products {names}; name one of them.")
        return {name: Fraction(int(name == bearer)) for name in names}
    key = {"physical": "device_hours", "tokens": "tokens", "economic": "revenue"}[rule]
    weights = (keys or {}).get(key)
    if weights is None:
        raise InputError(f"The allocation rule {rule!r} needs {key} of every product; give it or choose another rule.")
    if not isinstance(weights, list | tuple):
        raise InputError(f"{key} is {weights!r}; give a list of numbers, one for each product.")
    exact = [_fraction(weight, key) for weight in weights]
    if len(exact) != len(names) or any(weight < 0 for weight in exact) or not sum(exact) > 0:
        raise InputError(f"{key} is {list(weights)}; give one number, not negative, for each of {len(names)} products.")
    return {name: weight / sum(exact) for name, weight in zip(names, exact, strict=True)}


def check_shares(given: Mapping[str, Any]) -> dict[str, Fraction]:
    """Return declared shares as fractions.

    Args:
        given: Product -> share; a number, or a text such as ``"1/3"``.

    Raises:
        InputError: They do not sum to exactly 1.
    """
    exact = {name: _fraction(share, f"the share of {name}") for name, share in given.items()}
    if sum(exact.values()) != 1 or any(share < 0 for share in exact.values()):
        listed = ", ".join(f"{name} {share}" for name, share in exact.items())
        raise InputError(f"The shares ({listed}) sum to {sum(exact.values())}; they must sum to 1.")
    return exact


def _fraction(value: Any, name: str) -> Fraction:
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{name} is {value!r}; give a number or a fraction such as '1/3'.") from None


def _positive(**values: Number) -> None:
    for name, value in values.items():
        if not np.all(np.real(value) > 0):
            raise InputError(f"{name} is {np.min(value):g}; it must be greater than 0.")
