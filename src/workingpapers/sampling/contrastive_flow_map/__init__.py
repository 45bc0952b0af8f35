r"""Losses for generators that sample in one to four steps, with a contrast that ties training to sampling.

A flow map u(z, r, t) jumps from noise to data. It is trained at states that real data were noised to, and samples from
states that it made itself. :func:`contrastive_flow_map_loss` adds to a marginal loss (:func:`meanflow_loss`,
:func:`shortcut_loss`) a term that jumps as the sampler does, reconstructs an end point, and must tell the data point it
came from among the others of the batch. Sampling stays as it is. The losses take any network on points of shape
(b, ...) and times of shape (b,); :func:`train` is a small trainer, ``papers run contrastive_flow_map`` uses it.

Use it to train or fine-tune a few-step generator, and compare with plain training of equal time, as the claims do.
The paper was readable in its abstract alone: path, positives and the time-dependent temperature are derived here. On
digits we found no gain in quality over plain training (see the claims), and a fixed temperature in the space of the
data has a biased optimum, as the closed form for Gaussian data shows: :func:`gaussian_temperature`.

References:
    J. Zhang, D. Liu, Y. Kim, J. H. Ko, S. Zhang, C. Xu, E. Park, Contrastive Flow Map Matching, ICML 2026. Z. Geng et
    al., Mean Flows for One-step Generative Modeling, arXiv:2505.13447.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workingpapers.foundations.lazy import lazy_names

if TYPE_CHECKING:
    from workingpapers.sampling.contrastive_flow_map.contrast import (
        contrastive_flow_map_loss,
        contrastive_term,
        critic_scores,
        info_nce,
    )
    from workingpapers.sampling.contrastive_flow_map.flow_map import (
        FlowMap,
        NetworkFlowMap,
        from_shortcut,
        jump,
        sample,
        to_shortcut,
    )
    from workingpapers.sampling.contrastive_flow_map.gaussian import (
        contrast_limit,
        gaussian_temperature,
        gaussian_velocity,
    )
    from workingpapers.sampling.contrastive_flow_map.losses import (
        delta_flow_matching_loss,
        meanflow_loss,
        meanflow_target,
        shortcut_loss,
        total_derivative,
    )
    from workingpapers.sampling.contrastive_flow_map.network import FlowMLP, Scaling
    from workingpapers.sampling.contrastive_flow_map.training import Plan, Trained, train

_HOMES = {
    "contrast": ("contrastive_flow_map_loss", "contrastive_term", "critic_scores", "info_nce"),
    "flow_map": ("FlowMap", "NetworkFlowMap", "from_shortcut", "jump", "sample", "to_shortcut"),
    "gaussian": ("contrast_limit", "gaussian_temperature", "gaussian_velocity"),
    "losses": ("delta_flow_matching_loss", "meanflow_loss", "meanflow_target", "shortcut_loss", "total_derivative"),
    "network": ("FlowMLP", "Scaling"),
    "training": ("Plan", "Trained", "train"),
}

__all__ = [
    "FlowMLP",
    "FlowMap",
    "NetworkFlowMap",
    "Plan",
    "Scaling",
    "Trained",
    "contrast_limit",
    "contrastive_flow_map_loss",
    "contrastive_term",
    "critic_scores",
    "delta_flow_matching_loss",
    "from_shortcut",
    "gaussian_temperature",
    "gaussian_velocity",
    "info_nce",
    "jump",
    "meanflow_loss",
    "meanflow_target",
    "sample",
    "shortcut_loss",
    "to_shortcut",
    "total_derivative",
    "train",
]
__getattr__ = lazy_names(__name__, _HOMES)
