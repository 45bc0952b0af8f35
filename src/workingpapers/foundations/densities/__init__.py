"""Target densities for samplers: log-density, score, known log-partition, exact or reference samples.

Every density takes batches of torch points, shape (b, d), in float32 or float64. A user's own target needs no class:
:class:`FromCallable` wraps any function from (b, d) to (b,).
"""

from workingpapers.foundations.densities.base import Counted, Density, FromCallable
from workingpapers.foundations.densities.curved import VonMisesFisherMixture, WrappedGaussianMixture
from workingpapers.foundations.densities.euclidean import Funnel, GaussianMixture, gaussian, gmm40, ring
from workingpapers.foundations.densities.particles import DoubleWellParticles, LennardJones
from workingpapers.foundations.densities.wells import MultiWell, many_well

__all__ = [
    "Counted",
    "Density",
    "DoubleWellParticles",
    "FromCallable",
    "Funnel",
    "GaussianMixture",
    "LennardJones",
    "MultiWell",
    "VonMisesFisherMixture",
    "WrappedGaussianMixture",
    "gaussian",
    "gmm40",
    "many_well",
    "ring",
]
