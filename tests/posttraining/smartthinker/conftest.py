"""A model that has learned the form of answers and hardly more: right and wrong answers of several lengths."""

import numpy as np
import pytest

pytest.importorskip("trl")

from workingpapers.foundations.language import quiet
from workingpapers.foundations.tinylm import PointerChasing, Recipe, train

TASK = PointerChasing(states=3, hops=(1, 2), direct=0.5)
RECIPE = Recipe(TASK, layers=1, width=16, heads=2, positions=32, steps=60, learning_rate=1e-2)


@pytest.fixture(scope="session")
def records():
    """Prompts with answers."""
    examples = TASK.draw(20, np.random.default_rng(0))
    return [{"prompt": example.prompt, "answer": TASK.answer(example.prompt)[-1]} for example in examples]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A folder with the model, as a person may have one."""
    folder = tmp_path_factory.mktemp("model")
    trained, tokenizer = train(RECIPE)
    with quiet():
        trained.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder
