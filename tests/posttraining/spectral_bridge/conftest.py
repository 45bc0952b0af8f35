"""A small untrained language model in a folder, and files of prompts and completions."""

import json

import numpy as np
import pytest

from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    recipe = Recipe(task=Sorting(), layers=1, width=16, heads=2, positions=32)
    new_model(recipe).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


def write_records(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def data(tmp_path):
    draw = Sorting(digits=3).draw(24, np.random.default_rng(0))
    return write_records(
        tmp_path / "data.jsonl", [{"prompt": one.prompt, "completion": one.completion} for one in draw]
    )
