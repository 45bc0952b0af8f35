r"""Generate from data that lie on several low-dimensional subspaces, with a score in closed form and no network.

Give it samples of shape (n, d). :class:`SubspaceClustering` finds the subspaces (their number too, if need be),
:class:`UoSScore` estimates the score of the noised data from kernels inside the subspaces, and its reverse diffusion
draws new samples. Beside it stand the intrinsic dimension of the data, a measure of memorisation, and a plan of how
many samples a wanted W1 error takes.

``UoSScore()`` is the paper's estimator. For sampling take ``threshold="gaussian"``: where the paper sets the
score to zero, paths of the sampler run away from the data at the sizes of a computer.

Use it as an analytic score for tests of diffusion samplers, as a generator for data with clear linear structure (a rank
that is low within each group), and to learn how many samples such data need. Not for curved sets or images, where the
dimension of a linear span is far above the intrinsic one. Not where a score at large noise is all that matters: from
moderate noise on the plain kernel score is better, which ``threshold="none", clip=False`` gives. At the sizes that a
computer holds, samples stay close to the training samples; look at :func:`memorisation` before you call them new.

References:
    J. Wu, C. Cai, Diffusion Models Are Statistically Optimal for Learning Low-Dimensional Multi-Modal Distributions,
    ICML 2026, arXiv:2605.30153. Clustering: E. Elhamifar, R. Vidal, arXiv:1203.1005; R. Heckel, H. Boelcskei,
    arXiv:1307.4891.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "GaussianMixtureScore",
    "IntrinsicDimension",
    "Memorisation",
    "Plan",
    "SubspaceClustering",
    "TorchScore",
    "UnionLaw",
    "UoSScore",
    "ambient_score",
    "intrinsic_dimension",
    "memorisation",
    "plan_samples",
    "plug_in_score",
    "random_union",
    "single_subspace_score",
]
__getattr__ = lazy_names(
    __name__,
    {
        "baselines": ["GaussianMixtureScore", "ambient_score", "plug_in_score", "single_subspace_score"],
        "clustering": ["SubspaceClustering"],
        "planning": [
            "IntrinsicDimension",
            "Memorisation",
            "Plan",
            "intrinsic_dimension",
            "memorisation",
            "plan_samples",
        ],
        "reverse": ["TorchScore"],
        "score": ["UoSScore"],
        "truth": ["UnionLaw", "random_union"],
    },
)
