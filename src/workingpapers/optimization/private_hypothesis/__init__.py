r"""Which of n given distributions fits private records best? An answer under differential privacy, in near-linear time.

Give it candidates (rows of probabilities of shape (n, X), frozen scipy.stats distributions, fitted scikit-learn
mixtures) and s private records. It returns one candidate, drawn with probability proportional to
:math:`e^{-\epsilon s W(j) / 2}` where W is the largest misfit on a Scheffe set, with its privacy statement and an error
bound that does not depend on the data. The lazy exponential mechanism draws from this law exactly while scoring only a
few candidates against all others. With a cover of a parameter space for candidates it becomes an estimator of
locations, scales and rates whose error does not grow with the tails of the data.

Use it to choose among models, priors or simulators fitted on public data, and to estimate a parameter of data with
heavy tails or several modes. Not for candidates that were fitted to the same private records: that voids the
guarantee, and nobody can detect it. Not where an outsider can measure the running time, which depends on the data. For
the mean of light-tailed data within known bounds a noisy mean is simpler and as good.

The authors' own loss is not public; the algorithm here has the same law as the quadratic exponential mechanism, which
has the optimal rate. Its near-linear cost is measured and not proved: where no candidate fits and all are equally
wrong, the cost grows almost quadratically.

References:
    H. Asi, H. Chen, Fast and Optimal Algorithms for Private Hypothesis Selection, ICML 2026. The law: I. Aden-Ali,
    H. Ashtiani, G. Kamath (2021), arXiv:2010.09465. Rivals: M. Bun, G. Kamath, T. Steinke, Z. S. Wu (2019),
    arXiv:1905.13229; M. Aliakbarpour, Z. Shi, R. Stevens, V. Wang (2025), arXiv:2506.01162.
"""

from workingpapers.foundations.lazy import lazy_names

__all__ = [
    "Cover",
    "DensityScores",
    "Diagnostics",
    "Estimate",
    "Family",
    "PrivateGridEstimator",
    "Selection",
    "TableScores",
    "all_scores",
    "error_bound",
    "estimate",
    "lazy_exponential",
    "make_cover",
    "minimum_distance",
    "required_samples",
    "scheffe_tournament",
    "select_hypothesis",
    "table_scores",
    "total_variation",
]
__getattr__ = lazy_names(
    __name__,
    {
        "covers": ["Cover", "Family", "make_cover"],
        "estimation": ["Estimate", "PrivateGridEstimator", "estimate"],
        "lazy": ["Diagnostics", "lazy_exponential"],
        "rivals": ["minimum_distance", "scheffe_tournament"],
        "scores": ["DensityScores", "TableScores", "all_scores", "table_scores", "total_variation"],
        "selection": ["Selection", "error_bound", "required_samples", "select_hypothesis"],
    },
)
