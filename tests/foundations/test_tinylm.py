"""The small models' tasks, tokenizer and training."""

import json
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("trl")

import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import sample
from workingpapers.foundations.tinylm import (
    Addition,
    PointerChasing,
    Recipe,
    Sorting,
    StringEdit,
    character_tokenizer,
    planted_preferences,
    ready,
)
from workingpapers.foundations.tinylm.training import folder_of

TASKS = [Sorting(), PointerChasing(), Addition(), Addition(steps=0.0), StringEdit()]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_a_faultless_teacher_is_right_and_short_enough(task):
    for example in task.draw(200, rng()):
        assert task.score(example.prompt, example.completion) == 1
        assert task.score(example.prompt, task.answer(example.prompt)) == 1
        assert task.score(example.prompt, example.completion[:-1]) == 0
        assert len(example.completion) <= task.longest
        assert (
            character_tokenizer().unk_token_id
            not in character_tokenizer()(example.prompt + example.completion)["input_ids"]
        )


def test_answers_by_hand():
    assert Sorting().answer("381402=") == "012348"
    assert PointerChasing().answer("310524:2>5=") == "03542A2"  # f(2) = 0, f(0) = 3, f(3) = 5, f(5) = 4, f(4) = 2
    assert PointerChasing().score("310524:2>5=", "A2") == 1
    assert PointerChasing().score("310524:2>5=", "03542") == 0
    assert Addition().answer("+128,073=") == "1>0>2:201"
    assert Addition(steps=0.0).answer("+999,001=") == ":1000"
    assert StringEdit().answer("d:abc=") == "aabbcc"
    assert StringEdit().answer("r:abc=") == "cba"


def test_teachers_slip_as_often_as_they_are_told():
    swapped = Sorting(swap=1.0).draw(2000, rng())
    wrong = np.mean([Sorting().score(one.prompt, one.completion) == 0 for one in swapped])
    neighbours = np.mean([
        any(b == a + 1 for a, b in pairwise(s))
        for s in (sorted(map(int, one.prompt[:-1])) for one in swapped)
    ])  # fmt: skip
    assert wrong == pytest.approx(neighbours)
    dropped = Sorting(drop=0.3).draw(4000, rng())
    assert np.mean([len(one.completion) < 6 for one in dropped]) == pytest.approx(0.3, abs=0.03)
    chasing = PointerChasing(hops=(5,), direct=0.25, checks=(0.35, 0.35, 0.3))
    drawn = chasing.draw(4000, rng())
    assert np.mean([one.completion.startswith("A") for one in drawn]) == pytest.approx(0.25, abs=0.03)
    assert np.mean([one.completion.count("R") == 2 for one in drawn]) == pytest.approx(0.75 * 0.3, abs=0.03)
    slips = PointerChasing(hops=(5,), slip=0.1).draw(6000, rng())
    # Each hop goes astray with probability 0.1 5/6; once astray, the chain may still meet the right state again.
    first = np.mean([one.completion[0] == PointerChasing().answer(one.prompt)[0] for one in slips])
    assert first == pytest.approx(1 - 0.1 * 5 / 6, abs=0.015)


def test_preferences_prefer_right_to_wrong_but_for_the_flipped():
    records = planted_preferences(Sorting(), Sorting(swap=0.5), 300, rng())
    task = Sorting()
    assert all(task.score(one["prompt"], one["chosen"]) == 1 for one in records)
    assert all(task.score(one["prompt"], one["rejected"]) == 0 for one in records)
    flipped = planted_preferences(Sorting(), Sorting(swap=0.5), 2000, rng(), flip=0.2)
    assert np.mean([task.score(one["prompt"], one["chosen"]) for one in flipped]) == pytest.approx(0.8, abs=0.04)
    with pytest.raises(InputError, match="let it slip"):
        planted_preferences(Sorting(), Sorting(digits=1), 1, rng())


def test_the_tokenizer_is_an_ordinary_one(tmp_path):
    from transformers import AutoTokenizer

    tokenizer = character_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    text = "31=\n aZ~"
    ids = read(text)["input_ids"]
    assert ids[0] == read.bos_token_id
    assert len(ids) == len(text) + 1
    assert read.decode(ids, skip_special_tokens=True) == text
    assert tokenizer(text)["input_ids"] == ids
    assert read("é")["input_ids"][1] == read.unk_token_id
    assert (read.pad_token_id, read.eos_token_id, read.padding_side) == (0, 2, "left")


def test_a_model_learns_its_task_is_kept_and_is_the_same_again(monkeypatch, tmp_path):
    recipe = Recipe(Sorting(digits=3), layers=1, width=48, heads=4, steps=300, learning_rate=5e-3)
    steps = []
    model, tokenizer = ready(recipe, lambda share, message="": steps.append(message))
    assert any("loss" in message for message in steps)
    examples = recipe.task.draw(200, rng(9))
    drawn = sample(model, [tokenizer(one.prompt)["input_ids"] for one in examples], most=5, temperature=0)
    texts = [tokenizer.decode(one.tokens, skip_special_tokens=True) for one in drawn]
    right = np.mean([recipe.task.score(one.prompt, text) for one, text in zip(examples, texts, strict=True)])
    assert right > 0.9
    assert json.loads((folder_of(recipe) / "recipe.json").read_text())["steps"] == 300
    again, _ = ready(recipe, lambda share, message="": pytest.fail(message) if "loss" in message else None)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(tmp_path))  # elsewhere it is trained anew, and comes out the same
    state = torch.random.get_rng_state()
    anew, _ = ready(recipe)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), anew.parameters(), strict=True))
    assert not list(folder_of(recipe).parent.glob(".half-*"))


def test_a_recipe_has_a_name_of_its_own():
    names = {Recipe(task, seed=seed).key for task in [*TASKS, Sorting(digits=5)] for seed in (0, 1)}
    assert len(names) == 12


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Sorting(digits=0), "digits=0"),
        (lambda: PointerChasing(states=11), "not 11"),
        (lambda: PointerChasing(checks=(0.5, 0.4)), "sum to one"),
        (lambda: Addition(steps=2.0), "steps=2.0"),
        (lambda: StringEdit(edits="x"), "edits among"),
        (lambda: Recipe(Sorting(), heads=3), "multiple of the heads, 3"),
        (lambda: Recipe(Sorting(), learning_rate=0.0), "not 0.0"),
        (lambda: Recipe(Sorting(), steps=0), "at least one"),
    ],
)
def test_input_that_cannot_be_used_is_named(call, words):
    with pytest.raises(InputError) as error:
        call()
    assert words in str(error.value)
