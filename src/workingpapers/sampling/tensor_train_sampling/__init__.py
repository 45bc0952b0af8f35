r"""Samples and log Z of a density known up to a constant, by low-rank regressions instead of a network.

Give it a batched log-density with a gradient on R^d, shape (b, d) to (b,). The potential of the noised density solves a
Hamilton-Jacobi-Bellman equation; it is fitted backward in time as a functional tensor train, by least squares along
simulated paths. :class:`HJBSampler` then draws paths whose weights give log Z without bias;
:class:`FunctionalTT` and :func:`als_fit` are of use on their own, for regression in many coordinates.

Use it for up to ten or so coordinates, or for densities that are nearly products or chains, where minutes on one
processor shall give weighted samples and log Z. Not where coordinates interact all with all (ranks grow), where a
density is far from unit scale (shift and scale it first), or where MALA mixes and log Z is not wanted: chains are then
cheaper and need no fit. Look at the effective share before relying on a result.

References:
    R. Gruhlke, J. Berner, D. Sommer, L. Richter, Tensor Train Diffusion: Leveraging Low-Rank Structures for
    High-Dimensional Score-Based Sampling, ICML 2026, arXiv:2607.06841.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "ExtendedFourier",
    "Fit",
    "FunctionalTT",
    "GinzburgLandau",
    "HJBSampler",
    "Kitagawa",
    "Legendre",
    "NeuralControl",
    "Settings",
    "WeightedSamples",
    "additive_fit",
    "als_fit",
    "annealed_langevin",
    "sample_weighted",
    "time_grid",
]
__getattr__ = lazy_names(
    __name__,
    {
        "als": ["Fit", "additive_fit", "als_fit"],
        "bases": ["ExtendedFourier", "Legendre"],
        "chains": ["GinzburgLandau", "Kitagawa"],
        "neural": ["NeuralControl"],
        "paths": ["WeightedSamples", "annealed_langevin", "sample_weighted", "time_grid"],
        "sampler": ["HJBSampler", "Settings"],
        "train": ["FunctionalTT"],
    },
)
