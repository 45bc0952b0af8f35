r"""Where a response is cut into units of feedback: windows of a fixed size, or a fixed number of even parts.

A response has two lengths: :math:`\mu(y)`, its tokens, and :math:`\mu'(y)`, the units in which it is compared with
another. Unit i of one response meets unit i of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Static:
    r"""Windows of `window` tokens, :math:`\mu'(y^w, y^l) = \lceil \max(T_w, T_l) / k \rceil`; the last may be short.

    Where one response is over, its tokens count as log-ratio 0.

    Args:
        window: Tokens of a unit, k; 1 compares token with token.
    """

    window: int

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window is {self.window}; a unit has at least one token.")


@dataclass(frozen=True)
class Adaptive:
    r"""As many units in both responses, as even as can be, cut at :math:`\lfloor j T / m \rfloor`, j = 0..m.

    Args:
        units: Units of each response, m; 1 is DPO.
        allow_empty: What happens where a response has fewer than m tokens. By default the pair is compared in
            :math:`\min(m, T_w, T_l)` units; with True it keeps m units, of which some are empty.
    """

    units: int
    allow_empty: bool = False

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f"units is {self.units}; a response has at least one unit.")


Composition = Static | Adaptive


def composition_of(units: int | None, window: int | None, *, allow_empty: bool = False) -> Composition:
    """Return the composition that options name.

    Args:
        units: m of :class:`Adaptive`, or None.
        window: k of :class:`Static`, or None.
        allow_empty: Of :class:`Adaptive`.

    Raises:
        ValueError: When both or neither is given, or a number is under 1.
    """
    if (units is None) == (window is None):
        raise ValueError(f"units={units} and window={window}: give exactly one of them.")
    return Static(window) if window is not None else Adaptive(units or 0, allow_empty)


def compose(composition: Composition, length: int, other: int | None = None) -> tuple[int, ...]:
    r"""Return the boundaries of the units of a response, :math:`0 = b_0 \le b_1 \le ... \le b_{T'} = T`.

    Args:
        composition: How to cut.
        length: Tokens of the response, T.
        other: Tokens of the response that it is compared with; the same by default.

    Returns:
        :math:`T' + 1` positions; equal neighbours stand for an empty unit.

    Raises:
        ValueError: When a length is under 1.
    """
    other = length if other is None else other
    if min(length, other) < 1:
        raise ValueError(f"lengths are {length} and {other}; a completion has at least one token.")
    count = int(feedback_length(composition, torch.tensor([length]), torch.tensor([other])))
    if isinstance(composition, Static):
        return tuple(min(place * composition.window, length) for place in range(count + 1))
    count = composition.units if composition.allow_empty else count
    return tuple(place * length // count for place in range(count + 1))


def feedback_length(composition: Composition, chosen_lengths: Tensor, rejected_lengths: Tensor) -> Tensor:
    r"""Return :math:`\mu'` of each pair: the units that are compared, those empty on both sides left out.

    Args:
        composition: How responses are cut.
        chosen_lengths: Tokens of the chosen responses, int64, shape (B,).
        rejected_lengths: Tokens of the rejected responses, int64, shape (B,).

    Returns:
        int64, shape (B,).
    """
    longer = torch.maximum(chosen_lengths, rejected_lengths)
    if isinstance(composition, Static):
        return (longer + composition.window - 1) // composition.window
    if not composition.allow_empty:
        return torch.minimum(chosen_lengths, rejected_lengths).clamp_max(composition.units)
    columns = torch.arange(composition.units, device=longer.device)
    filled = torch.zeros(len(longer), composition.units, dtype=torch.bool, device=longer.device)
    for lengths in (chosen_lengths, rejected_lengths):
        cuts = (torch.arange(composition.units + 1, device=longer.device) * lengths[:, None]) // composition.units
        filled |= (cuts[:, 1:] > cuts[:, :-1])[:, columns]
    return filled.sum(1)


def unit_index(composition: Composition, mask: Tensor, other_lengths: Tensor) -> Tensor:
    """Return the unit of each token.

    Args:
        composition: How to cut.
        mask: 1 at the tokens of a response, 0 at its prompt and at padding on whatever side, shape (B, T).
        other_lengths: Tokens of the responses that they are compared with, int64, shape (B,).

    Returns:
        int64, shape (B, T), counted from 0; 0 where the mask is 0.
    """
    places = mask.long().cumsum(1) - 1
    if isinstance(composition, Static):
        return places.clamp_min(0) // composition.window
    lengths = mask.long().sum(1)
    count = torch.full_like(lengths, composition.units)
    if not composition.allow_empty:
        count = torch.minimum(count, torch.minimum(lengths, other_lengths))
    # Token p is in the last unit j with floor(j T / m) <= p.
    index = ((places + 1) * count[:, None] - 1) // lengths.clamp_min(1)[:, None]
    return index.clamp_min(0)
