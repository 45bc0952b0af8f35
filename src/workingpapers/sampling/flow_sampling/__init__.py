r"""Samples of a density known up to a constant: a learned drift, trained on few evaluations of the energy.

Give it any batched log-density on torch points, shape (b, d) to (b,), in flat space, for particles with a fixed centre
of mass, on a sphere or on hyperbolic space. It learns the drift of a diffusion from easy noise to the density by
regression on targets in closed form; each gradient of the log-density serves every time and every noise point, so few
are needed. Afterwards samples cost network evaluations alone, and importance weights (flat space) give the partition
function.

Use it where gradients of the energy are dear, modes are many and samples are wanted in quantity. Not where a long chain
is cheap: MALA or HMC are exact in the limit and this is not. Modes that exploration never met are missed, as with any
sampler that is trained on its own samples: look at the weights, and at known masses.

References:
    A. Havens, B. Karrer, N. Shaul, Flow Sampling: Learning to Sample from Unnormalized Densities via Denoising
    Conditional Processes, ICML 2026, arXiv:2605.03984.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "AdjointSampler",
    "DenoisedSampler",
    "FlowSampler",
    "MeanFree",
    "PathSampler",
    "ReplayBuffer",
    "Round",
    "WeightedSamples",
    "adjoint_sampling_target",
    "flow_sampling_target",
    "noised_score",
]
__getattr__ = lazy_names(
    __name__,
    {
        "adjoint": ["AdjointSampler", "adjoint_sampling_target"],
        "denoised": ["DenoisedSampler", "noised_score"],
        "paths": ["PathSampler"],
        "replay": ["ReplayBuffer", "Round"],
        "sampler": ["FlowSampler"],
        "targets": ["MeanFree", "flow_sampling_target"],
        "weights": ["WeightedSamples"],
    },
)
