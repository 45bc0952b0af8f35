"""Exact laws, bitwise equality with plain sampling, and the simulator against its closed form."""

import numpy as np
import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import TokenPair
from workingpapers.foundations.tinylm import Recipe, Sorting
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.bubblespec.cluster import AcceptanceModel, ClusterSpec, LengthModel, simulate
from workingpapers.posttraining.bubblespec.decoding import Request, lossless_decode
from workingpapers.posttraining.bubblespec.drafts import Draft
from workingpapers.posttraining.bubblespec.laws import (
    picked_law,
    random_table,
    sequence_law,
    total_variation,
    verified_law,
)
from workingpapers.posttraining.bubblespec.noise import Key, coupled_acceptance, gumbel_noise
from workingpapers.posttraining.bubblespec.verify import Sampling


@pytest.fixture(scope="module")
def model():
    return new_model(Recipe(task=Sorting(), layers=2, width=16, heads=2, positions=64)).double().eval()


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    return random_table(3, 3, rng, end=2), random_table(3, 3, rng, end=2)


def requests(pools=None):
    prompts = [(1, 5, 6), (1, 9), (1, 7, 8, 9, 10), (1, 30, 31)]
    pools = pools or [()] * len(prompts)
    return [
        Request(prompt, Key(3, n), tuple(pool)) for n, (prompt, pool) in enumerate(zip(prompts, pools, strict=True))
    ]


def tokens(decoded):
    return [one.tokens for one in decoded.written]


@pytest.mark.parametrize("rule", ["match", "rejection"])
@pytest.mark.parametrize("longest", [0, 1, 2, None])
def test_verified_law_is_the_models(tables, rule, longest):
    p, q = tables
    law = verified_law(p, q, rule, sequence_law(q), longest=longest)
    assert total_variation(law, sequence_law(p)) < 1e-12


def test_shortcuts_are_biased_and_matching_is_not(tables):
    p, q = tables
    truth, drafts = sequence_law(p), sequence_law(q)
    picked = picked_law(drafts, better=lambda sequence: sum(sequence))
    assert total_variation(verified_law(p, q, "cut", drafts), truth) > 0.02
    assert total_variation(verified_law(p, p, "cut", truth), truth) < 1e-12
    assert total_variation(verified_law(p, q, "rejection", picked), truth) > 0.02
    assert total_variation(verified_law(p, q, "match", picked), truth) < 1e-12


def test_coupled_acceptance_has_its_bounds_and_its_frequency():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    distance, value = 0.5 * np.abs(p - q).sum(), coupled_acceptance(p, q)
    assert (1 - distance) / (1 + distance) <= value <= 1 - distance
    noise = rng.gumbel(size=(1_000_000, 5))
    share = ((np.log(p) + noise).argmax(1) == (np.log(q) + noise).argmax(1)).mean()
    assert abs(share - value) < 4 * np.sqrt(value * (1 - value) / 1e6)


def test_noise_is_of_its_key_and_place_alone():
    assert torch.equal(gumbel_noise(Key(1, "a"), 4, 10), gumbel_noise(Key(1, "a"), 4, 20)[:10])
    others = [Key(2, "a"), Key(1, "b"), Key(1, "a", 1), Key(1, "a", 0, 1), Key(1, "a").aside()]
    assert all(not torch.equal(gumbel_noise(key, 4, 10), gumbel_noise(Key(1, "a"), 4, 10)) for key in others)


@pytest.mark.parametrize("ahead", [1, 3, 8, 16])
@pytest.mark.parametrize("resync", [True, False])
def test_drafts_change_no_token_and_no_log_prob(model, ahead, resync):
    plain = lossless_decode(model, requests(), most=24)
    rng = np.random.default_rng(ahead)
    garbage = [[Draft(tuple(map(int, rng.integers(90, size=30))))] for _ in range(4)]
    swapped = [[Draft(text), Draft(tokens(plain)[0])] for text in reversed(tokens(plain))]
    for pools in (garbage, swapped):
        found = lossless_decode(model, requests(pools), most=24, ahead=ahead, resync=resync)
        assert tokens(found) == tokens(plain)
        for one, two in zip(found.written, plain.written, strict=True):
            torch.testing.assert_close(one.log_probs, two.log_probs, atol=1e-9, rtol=0)


@pytest.mark.parametrize("ahead", [1, 4, 8])
def test_unchanged_weights_accept_all(model, ahead):
    plain = lossless_decode(model, requests(), most=24)
    found = lossless_decode(model, requests([[Draft(text)] for text in tokens(plain)]), most=24, ahead=ahead)
    assert tokens(found) == tokens(plain)
    assert found.acceptance == 1
    assert [one.passes for one in found.written] == [-(-len(text) // (ahead + 1)) for text in tokens(plain)]


def test_plain_output_does_not_depend_on_the_batch(model):
    whole = tokens(lossless_decode(model, requests(), most=24))
    assert [tokens(lossless_decode(model, [one], most=24))[0] for one in requests()] == whole


@pytest.mark.parametrize("pools", [None, [[Draft((5, 6, 7, 5, 6, 7, 5, 6))]] * 4])
def test_log_probs_are_those_of_a_teacher_forced_pass(model, pools):
    asked = requests(pools)
    found = lossless_decode(model, asked, most=24, ahead=3)
    pairs = [TokenPair(one.prompt, text) for one, text in zip(asked, tokens(found), strict=True)]
    for one, pair in zip(found.written, pairs, strict=True):
        ids = torch.tensor([[*pair.prompt, *pair.completion]])
        law = model(input_ids=ids).logits[0, len(pair.prompt) - 1 : -1].log_softmax(-1)
        told = law.gather(-1, ids[0, len(pair.prompt) :, None])[:, 0]
        torch.testing.assert_close(one.log_probs, told, atol=1e-9, rtol=0)


def test_temperature_zero_is_greedy(model):
    found = lossless_decode(model, requests([[Draft((5, 6, 7))]] * 4), most=12, sampling=Sampling(0.0))
    for one, asked in zip(found.written, requests(), strict=True):
        ids = list(asked.prompt)
        for token in one.tokens:
            assert token == int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            ids.append(token)


def test_rejection_refuses_drafts_without_law_or_picked(model):
    with pytest.raises(InputError, match="shape"):
        lossless_decode(model, requests([[Draft((5, 6))]] * 4), mode="rejection", most=24)
    with pytest.raises(InputError, match="picked"):
        lossless_decode(model, requests([[Draft((5, 6), chosen=True)]] * 4), mode="rejection", most=24)


def test_simulator_without_drafts_is_the_closed_form():
    spec, lengths = ClusterSpec(ranks=3, saturation=5, step_time=0.25), LengthModel(longest=100)
    found = simulate(spec, lengths, AcceptanceModel(0.0, 0.0), steps=1, seed=4)
    true, _ = lengths.draw(6, 8, np.random.default_rng([4, 0]))
    ends = []
    for rank in range(3):
        ordered = np.append(np.sort(true[2 * rank : 2 * rank + 2].ravel())[::-1], 0)
        ends.append(sum(0.25 * max(1, n / 5) * (ordered[n - 1] - ordered[n]) for n in range(1, 17)))
    assert found.plain_seconds == pytest.approx(max(ends), rel=1e-12)


def test_simulator_controls():
    assert simulate(ClusterSpec(), LengthModel(), AcceptanceModel(0.0, 0.3), steps=4).speedup == pytest.approx(1)
    even = simulate(ClusterSpec(), LengthModel(prompt_spread=0, sample_spread=0), AcceptanceModel(), steps=4)
    assert even.idle == pytest.approx(0)
    assert even.speedup == pytest.approx(1)
