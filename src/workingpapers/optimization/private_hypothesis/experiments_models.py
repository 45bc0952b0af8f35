"""The claim on real data: choosing among mixtures that were fitted on few public records."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.foundations.progress import Progress
from workingpapers.optimization.private_hypothesis.lazy import lazy_exponential
from workingpapers.optimization.private_hypothesis.rivals import minimum_distance
from workingpapers.optimization.private_hypothesis.sampling import draw
from workingpapers.optimization.private_hypothesis.scores import DensityScores

Floats = NDArray[np.float64]
ModelChooser = Callable[[DensityScores, Floats, float, SeededNoise], int]
CUT = 4.0  # log densities of the standardised feature are cut to [-4, 0] where they are a score


def choose_lazy(scores: DensityScores, heights: Floats, epsilon: float, noise: SeededNoise) -> int:
    """Choose by the lazy exponential mechanism."""
    return lazy_exponential(scores, epsilon / 2, noise)[0]


def choose_minimum(scores: DensityScores, heights: Floats, epsilon: float, noise: SeededNoise) -> int:
    """Choose the least Scheffe score: not private."""
    return minimum_distance(scores)


def choose_likelihood(scores: DensityScores, heights: Floats, epsilon: float, noise: SeededNoise) -> int:
    """Choose by the exponential mechanism over clipped log likelihoods."""
    totals = -np.clip(heights, -CUT, 0.0).sum(axis=0)
    return draw(np.rint(totals * 2.0**20) / 2.0**20, epsilon / (2 * CUT), noise)


def choose_blindly(scores: DensityScores, heights: Floats, epsilon: float, noise: SeededNoise) -> int:
    """Choose any candidate."""
    return draw(np.zeros(scores.count), 1.0, noise)


def fitted_models(
    seed: int, progress: Progress, *, chooser: ModelChooser, models: int, samples: int, epsilon: float = 1.0
) -> dict[str, float]:
    """Return the loss in nats a record of the chosen model on records that nobody has seen.

    The first principal component of the breast cancer measurements is split into public records, from which `models`
    mixtures are fitted to 20 records each, 226 private ones to choose by, and the rest to judge.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    records = rng.permutation(StandardScaler().fit_transform(load_breast_cancer().data))
    public, private, unseen = records[:226], records[226:452], records[452:]
    axis = PCA(1).fit(public)
    scale = StandardScaler().fit(axis.transform(public))
    known, private, unseen = (scale.transform(axis.transform(part)) for part in (public, private, unseen))
    fitted = []
    for number in range(models):
        progress(0.3 * number / models, "fitting")
        few = known[rng.choice(len(known), 20, replace=False)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted.append(GaussianMixture(1 + number % 5, reg_covar=1e-3, random_state=number).fit(few))
    from workingpapers.optimization.private_hypothesis.adapters import as_density

    scores = DensityScores([as_density(model) for model in fitted], private, samples=samples, seed=seed)
    heights = np.stack([model.score_samples(private) for model in fitted], axis=1)
    progress(0.4, "choosing")
    chosen = chooser(scores, heights, epsilon, SeededNoise(rng))
    losses = [-float(model.score_samples(unseen).mean()) for model in fitted]
    return {"loss": losses[chosen], "best": min(losses), "median": float(np.median(losses))}
