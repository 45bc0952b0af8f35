import numpy as np
import pytest

from workingpapers.optimization.dr_submodular.experiments import random_objective


@pytest.fixture
def make():
    return random_objective


@pytest.fixture
def rng():
    return np.random.default_rng(0)
