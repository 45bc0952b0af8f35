"""Laws and fitted scores that several test files share."""

import numpy as np
import pytest

from workingpapers.sampling.subspace_diffusion.score import UoSScore
from workingpapers.sampling.subspace_diffusion.truth import random_union


@pytest.fixture
def law():
    return random_union(np.random.default_rng(5), dim=6, subspaces=3, low=2)


@pytest.fixture
def samples(law):
    return law.sample(120, np.random.default_rng(6))[0]


@pytest.fixture
def bare(law, samples):
    """Return the score without threshold, clip and gate."""
    return UoSScore(bases=law.bases, threshold="none", clip=False).fit(samples)


@pytest.fixture
def regular(law, samples):
    """Return the paper's score."""
    return UoSScore(bases=law.bases).fit(samples)
