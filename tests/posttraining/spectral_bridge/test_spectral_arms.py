"""The problems behind the claims are what they say they are."""

import math

import pytest
import torch

from workingpapers.foundations.progress import silent
from workingpapers.posttraining.spectral_bridge import encoder, experiments
from workingpapers.posttraining.spectral_bridge.docstrings import docstrings


def test_the_planted_changes_have_the_planted_ranks():
    problem = experiments.planted_problem(0, 200)
    again = experiments.planted_problem(0, 200)
    assert torch.equal(problem["targets"], again["targets"])
    base = experiments.Network(problem["weights"])
    assert float((base(problem["fresh"]).detach() - problem["clean"]).square().mean()) == pytest.approx(
        problem["reference"]
    )
    assert [tuple(weight.shape) for weight in problem["weights"]] == [(64, 64), (64, 64), (32, 64)]
    residual = problem["targets"] - base(problem["inputs"]).detach()
    assert float(residual.std()) == pytest.approx(problem["noise"] * 2**0.5, rel=0.05)


def test_a_fixed_rank_uses_its_rank_and_the_frozen_network_is_the_unit():
    found = experiments.planted(0, silent, steps=2, rows=300, method="lora", rank=4)
    assert found["error"] == pytest.approx(1, abs=0.2)
    found = experiments.planted(0, silent, steps=300, rows=1500, method="oracle")
    assert (found["rank_1"], found["rank_2"], found["rank_3"]) == experiments.PLANTED
    assert found["weights"] == 2 * 128 + 6 * 96
    assert found["error"] < 0.2


def test_adalora_ends_with_the_budget_it_was_given():
    found = experiments.planted(0, silent, steps=120, rows=500, method="adalora", rank=3, learning_rate=2e-2)
    assert found["rank_1"] + found["rank_2"] + found["rank_3"] == 9


def test_pure_noise_leaves_nothing_and_a_strong_signal_something():
    assert experiments.denoised(0, silent, draws=2, steps=200, rows=100, columns=20, signals=False)["any_kept"] == 0
    found = experiments.denoised(0, silent, draws=1, steps=400)
    assert found["distance"] < 0.01
    assert found["as_predicted"] == 1
    plain = experiments.denoised(0, silent, draws=1, steps=400, friction="constant")
    assert plain["error"] > found["error"]


def test_the_split_encoder_is_the_encoder():
    bert, tokens, _ = encoder._encoder("tiny")
    ids, mask = tokens(["a text that ends", "no"])
    whole = bert(input_ids=ids, attention_mask=mask).last_hidden_state
    split = encoder.FillIn(bert.encoder.layer, torch.nn.Linear(32, 2))
    with torch.no_grad():
        features = split.features(bert.embeddings(input_ids=ids), mask)
    assert torch.allclose(features[mask.bool()], whole[mask.bool()], atol=1e-5)


def test_gaps_hide_common_words_and_nothing_else():
    gaps = encoder._gaps("tiny", 300, 100, 0)
    asked = gaps.answers != encoder.NOTHING
    assert not bool((asked & (gaps.mask == 0)).any())
    assert not bool(asked[:, 0].any())
    assert int(gaps.answers.max()) < encoder.WORDS
    share = float(asked.sum() / gaps.mask.sum())
    assert 0.1 < share < encoder.MASKED
    # Below the layers a gap looks the same whatever word it hides.
    bert, _, gap = encoder._encoder("tiny")
    with torch.no_grad():
        hidden = bert.embeddings(input_ids=torch.full((1, encoder.TOKENS), gap))[0]
    row, column = (int(value) for value in asked.nonzero()[0])
    assert torch.allclose(gaps.states[row, column], hidden[column], atol=1e-6)


def test_the_arms_have_the_ranks_that_they_are_named_for():
    found = encoder.fill_in(0, silent, model="tiny", train=300, test=100, steps=60, method="frozen")
    assert found["loss"] < math.log(encoder.WORDS)
    assert found["modes"] == 0
    lora = encoder.fill_in(0, silent, model="tiny", train=300, test=100, steps=2, method="lora", rank=3)
    assert lora["modes"] == 3 * 6
    adalora = encoder.fill_in(0, silent, model="tiny", train=300, test=100, steps=60, method="adalora", rank=2)
    assert adalora["modes"] == 2 * 6


def test_docstrings_are_short_and_each_stands_once():
    texts = docstrings()
    assert len(texts) == len(set(texts)) > 5500
    assert all(5 <= len(text.split()) <= 40 for text in texts)
