r"""The contrast that ties training to sampling, and the loss that adds it to a marginal loss.

By data processing and the chain rule, for any time s,

.. math:: \mathrm{KL}(p_\theta(x_0) \| p(x_0)) \le \mathrm{KL}(p_\theta(z_s) \| p(z_s))
          + E_{z_s \sim p_\theta} \mathrm{KL}(p_\theta(x_0 \mid z_s) \| p(x_0 \mid z_s)).

A marginal loss sees to the first term. For the second, the network jumps from z_t to a state z_s of its own, as the
sampler would, reconstructs an end point from it, and must tell the x that z_t was made of from the other x of the
batch. What the positives are, the temperature and its dependence on time are derived here from the abstract and the
methods that it builds on; the paper's own choices may differ.

References:
    J. Zhang et al., Contrastive Flow Map Matching, ICML 2026. A. van den Oord et al., Representation Learning with
    Contrastive Predictive Coding, arXiv:1807.03748.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.contrastive_flow_map.flow_map import (
    Network,
    interpolate,
    jump,
    normal_like,
    uniform_like,
)
from workingpapers.sampling.contrastive_flow_map.gaussian import gaussian_temperature
from workingpapers.sampling.contrastive_flow_map.losses import Parts, meanflow_loss

Embedding = Callable[[Tensor], Tensor]
Temperature = float | Literal["gaussian"]
Positives = Literal["data", "rollout"]
Similarity = Literal["distance", "cosine"]


def info_nce(scores: Tensor, allowed: Tensor | None = None) -> Tensor:
    r"""Return the mean cross-entropy of picking the positive of each row.

    .. math:: -\frac1B \sum_i \log \frac{e^{f_{ii}}}{\sum_j e^{f_{ij}}}

    A constant critic gives log B, perfect separation 0.

    Args:
        scores: f, shape (B, M), M >= B; the positive of row i stands in column i.
        allowed: Which columns a row may use, bool, shape (B, M); its own always counts.

    Raises:
        InputError: Fewer columns than rows.
    """
    if scores.ndim != 2 or scores.shape[1] < scores.shape[0]:
        raise InputError(f"Scores have shape {tuple(scores.shape)}; give (B, M) with a column for each row's positive.")
    if allowed is not None:
        own = torch.eye(*scores.shape, dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~(allowed | own), -math.inf)
    return (scores.logsumexp(1) - scores.diagonal()).mean()


def critic_scores(found: Tensor, candidates: Tensor, tau: Tensor, similarity: Similarity = "distance") -> Tensor:
    r"""Return the critic :math:`f_{ij} = -|\hat x_i - x_j|^2 / 2\tau_i`, or the cosine over tau_i.

    Args:
        found: Reconstructions or their features, shape (B, ...).
        candidates: Shape (M, ...).
        tau: Temperatures, shape (B,); an infinite one gives a constant row.
        similarity: distance or cosine.

    Returns:
        Shape (B, M).
    """
    first, second = found.flatten(1), candidates.flatten(1)
    if similarity == "cosine":
        normal = torch.nn.functional.normalize
        return normal(first, dim=1) @ normal(second, dim=1).T / tau[:, None]
    # |a - b|^2 less |a|^2, which is the same in a whole row and drops out of the softmax; no difference of near numbers
    # arises because the data's own spread sets the scale.
    return (first @ second.T - second.square().sum(1) / 2) / tau[:, None]


def contrastive_term(
    network: Network,
    x: Tensor,
    condition: Tensor | None = None,
    *,
    tau: Temperature = "gaussian",
    positives: Positives = "data",
    variance: float | None = None,
    embed: Embedding | None = None,
    similarity: Similarity = "distance",
    teacher: Network | None = None,
    rollout_steps: int = 8,
    negatives: Tensor | None = None,
    t: Tensor | None = None,
    s: Tensor | None = None,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Return the contrast of end points reconstructed from the network's own states.

    .. math:: z_s = \mathrm{sg}\,X_{t \to s}(z_t), \quad \hat x_i = X_{s \to 0}(z_s), \quad
              L = -\frac1B \sum_i \log \frac{e^{f_{ii}}}{\sum_j e^{f_{ij}}}

    Args:
        network: u.
        x: Data, shape (b, ...), b >= 2.
        condition: Labels, shape (b,) or (b, k); negatives are then the rows of the same label.
        tau: gaussian, the time-dependent temperature without bias on Gaussian data, or a number. A number biases: a
            cluster of variance w is drawn out to (w + tau)^2 / w.
        positives: data, the x that z_t was made of; or rollout, where the teacher arrives from z_t in many steps.
        variance: S, variance of a coordinate of the data, for the Gaussian temperature; the batch's by default.
        embed: Map of end points to features, shape (b, e), in which to compare.
        similarity: distance or cosine.
        teacher: Network of the rollouts, usually the moving average; `network` by default.
        rollout_steps: Steps of a rollout.
        negatives: Further candidates, shape (m, ...), such as those of other workers; data positives without labels.
        t: Times of z_t, shape (b,); uniform on (0, 1] by default, for rollouts 1 in half of the rows.
        s: Times of the jump's end, shape (b,), s <= t; uniform below t by default.
        noise: Shape of `x`; standard Gaussian by default.
        generator: Source of times and noise.

    Returns:
        The loss, shape ().

    Raises:
        InputError: Fewer than two rows, a temperature that is not positive, or options that do not go together.
    """
    check_contrast(len(x), tau, positives, embed, similarity, negatives is not None and condition is not None)
    t = _uniform(x, generator, positives == "rollout") if t is None else t
    s = uniform_like(x, generator) * t if s is None else s
    noise = normal_like(x, generator) if noise is None else noise
    z = interpolate(x, noise, t)
    with torch.no_grad():
        state = jump(network, z, t, s, condition)
        candidates = x if positives == "data" else _rollout(teacher or network, z, t, condition, rollout_steps)
        if negatives is not None and positives == "data":
            candidates = torch.cat([candidates, negatives])
    found = jump(network, state, s, torch.zeros_like(s), condition)
    if isinstance(tau, str):
        spread = float(x.var(0).mean()) if variance is None else variance
        temperature = gaussian_temperature(t, spread)
    else:
        temperature = torch.full_like(t, tau)
    if embed is not None:
        found = embed(found)
        with torch.no_grad():
            candidates = embed(candidates)
    allowed = None
    if condition is not None:
        labels = condition.reshape(len(condition), -1)
        allowed = (labels[:, None] == labels).all(-1)
    return info_nce(critic_scores(found, candidates, temperature, similarity), allowed)


def contrastive_flow_map_loss(
    network: Network,
    x: Tensor,
    condition: Tensor | None = None,
    *,
    weight: float = 0.1,
    tau: Temperature = "gaussian",
    positives: Positives = "data",
    marginal: Callable[..., tuple[Tensor, Parts]] = meanflow_loss,
    generator: torch.Generator | None = None,
    contrast_generator: torch.Generator | None = None,
    **contrast: Any,
) -> tuple[Tensor, Parts]:
    r"""Return :math:`L_\mathrm{marginal} + \lambda L_\mathrm{contrast}`.

    With weight 0 nothing is drawn for the contrast: the loss is the marginal one bit for bit.

    Args:
        network: u.
        x: Data, shape (b, ...).
        condition: Labels, shape (b,) or (b, k), or None.
        weight: lambda, at least 0.
        tau: Temperature of :func:`contrastive_term`.
        positives: Positives of :func:`contrastive_term`.
        marginal: Called with network, x, condition and generator; `functools.partial` sets its options.
        generator: Source of the marginal loss's draws.
        contrast_generator: Source of the contrast's draws; `generator` by default. One of its own keeps the marginal
            loss's draws the same for every weight.
        **contrast: Further options of :func:`contrastive_term`.

    Returns:
        The loss, shape (), and its parts: those of the marginal loss, "marginal" and "contrast".

    Raises:
        InputError: A negative weight, or as the two losses.
    """
    if not weight >= 0:
        raise InputError(f"The weight of the contrast is {weight:g}; give 0 or more.")
    total, parts = marginal(network, x, condition, generator=generator)
    parts = {**parts, "marginal": total.detach()}
    if weight == 0:
        return total, parts
    term = contrastive_term(
        network, x, condition, tau=tau, positives=positives, generator=contrast_generator or generator, **contrast
    )
    return total + weight * term, {**parts, "contrast": term.detach()}


def check_contrast(
    count: int,
    tau: Temperature,
    positives: Positives,
    embed: Embedding | None,
    similarity: Similarity,
    labelled_extras: bool = False,
) -> None:
    """See that options of the contrast go together.

    Args:
        count: Rows of a batch.
        tau: Temperature.
        positives: Positives.
        embed: Map to features, or None.
        similarity: Similarity.
        labelled_extras: Whether further negatives come with labels.

    Raises:
        InputError: They do not.
    """
    if count < 2:
        raise InputError(f"The batch has {count} row; the contrast needs two or more.")
    if positives not in ("data", "rollout") or similarity not in ("distance", "cosine"):
        raise InputError(f"positives is {positives!r} and similarity {similarity!r}; choose data or rollout, and "
                         "distance or cosine.")  # fmt: skip
    if labelled_extras:
        raise InputError("Further negatives have no labels; leave out negatives or condition.")
    if isinstance(tau, str):
        if tau != "gaussian":
            raise InputError(f"tau is {tau!r}; give 'gaussian' or a positive number.")
        if embed is not None or similarity != "distance" or positives != "data":
            raise InputError("The Gaussian temperature is derived for distances to data; give tau a number with "
                             "features, the cosine or rollouts.")  # fmt: skip
    elif not 0 < tau < math.inf:
        raise InputError(f"tau is {tau:g}; give 'gaussian' or a positive number.")


def _uniform(x: Tensor, generator: torch.Generator | None, from_noise: bool) -> Tensor:
    t = 1 - uniform_like(x, generator)
    if from_noise:
        t[: len(x) // 2] = 1
    return t


def _rollout(network: Network, z: Tensor, t: Tensor, condition: Tensor | None, steps: int) -> Tensor:
    """Return where the network arrives from z_t in equal steps, shape of `z`."""
    for number in range(steps):
        z = jump(network, z, t * (1 - number / steps), t * (1 - (number + 1) / steps), condition)
    return z
