"""Energy-guided sampling where every law can be enumerated."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from workingpapers.foundations.errors import InputError
from workingpapers.posttraining.ets import (
    EnergyGuidedSampler,
    MaskedChain,
    SelfConsistency,
    TableChain,
    Verifier,
    best_of,
    log_energy,
    majority_vote,
    optimal_success,
)
from workingpapers.posttraining.ets.energy import effective_size, weights
from workingpapers.posttraining.ets.rivals import draws
from workingpapers.posttraining.ets.states import EMPTY, Streams, choose
from workingpapers.posttraining.ets.tables import TableReward, target_law

V, D = 3, 4


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    chain = TableChain.random(V, D, rng)
    return chain, rng.random(V**D), chain.mixed(TableChain.random(V, D, rng), 0.6)


def law_of(answers):
    return np.bincount(np.asarray(answers), minlength=V**D) / len(answers)


def distance(first, second):
    return 0.5 * np.abs(first - second).sum()


def run(world, runs=20_000, seed=0, **options):
    chain, rewards, _ = world
    options = {"temperature": 0.25, "candidates": 16, "rollouts": 1, "block": 1, **options}
    return EnergyGuidedSampler(chain, TableReward(rewards), **options).sample(range(runs), seeds=seed * runs)


def test_tower_identity_and_the_energy_of_the_start_is_the_partition_function(world):
    chain, rewards, _ = world
    exact = np.exp(rewards / 0.25)  # E of finished answers, then backwards: E(x_t) = sum p_ref(x_s | x_t) E(x_s)
    for table in reversed(chain.tables):
        exact = (table * exact.reshape(table.shape)).sum(-1)
    assert exact[0] == pytest.approx(float(chain.law() @ np.exp(rewards / 0.25)), rel=1e-12)


def test_the_law_approaches_the_target_as_candidates_grow(world):
    chain, rewards, _ = world
    target = target_law(chain.law(), rewards, 0.25)
    assert distance(chain.law(), target) > 0.25
    far, near = (distance(law_of(run(world, candidates=m).completions), target) for m in (2, 16))
    floor = math.sqrt(
        V**D / (2 * math.pi * 20_000)
    )  # mean distance of 20,000 exact draws, a little less for uneven laws
    assert near < 0.035 + floor
    assert far > 2.5 * near


@pytest.mark.parametrize("options", [{"temperature": 1e6}, {"candidates": 1}], ids=str)
def test_without_guidance_it_is_the_reference(world, options):
    assert distance(law_of(run(world, **options).completions), world[0].law()) < math.sqrt(V**D / (2 * math.pi * 2e4))


def test_one_block_and_no_temperature_is_best_of_m(world):
    chain, rewards, _ = world
    found = run(world, runs=2000, temperature=1e-6, block=D).completions
    best, tokens = best_of(chain, TableReward(rewards), range(2000), 16, seeds=0)
    assert np.array_equal(found, best)  # the same seeds draw the same candidates
    assert tokens == 2000 * 16 * D


def test_constants_and_common_scales_of_the_reward_change_nothing(world):
    chain, rewards, _ = world
    plain = run(world, runs=500)
    for shift, scale in ((7.0, 1.0), (0.0, 3.0)):
        other = EnergyGuidedSampler(
            chain, TableReward((rewards + shift) * scale), temperature=0.25 * scale, candidates=16, rollouts=1, block=1
        ).sample(range(500))
        assert np.array_equal(plain.completions, other.completions)
        for one, two in zip(plain.trace[0], other.trace[0], strict=True):
            np.testing.assert_allclose(one.weights, two.weights, atol=1e-12)


def test_a_proposal_equal_to_the_reference_changes_nothing(world):
    plain = run(world, runs=500, rollouts=2)
    same = run(world, runs=500, rollouts=2, proposal=TableChain(world[0].tables))
    assert np.array_equal(plain.completions, same.completions)


def test_importance_ratios_are_unbiased_for_the_energy(world):
    chain, rewards, proposal = world
    streams = Streams([5])
    begin = chain.extend([None], chain.start([None], streams), 2, streams)
    ended = proposal.extend([None], begin.repeat(200_000), D, streams)
    since = np.full(len(ended), 2)
    ratio = chain.log_probs([None], ended, since) - proposal.log_probs([None], ended, since)
    values = np.exp(ratio + rewards[np.asarray(chain.read([None], ended))] / 0.25)
    below = chain.number(begin)[0] * V**2 + np.arange(V**2)
    share = (
        chain.tables[2][chain.number(begin)[0]][:, None] * chain.tables[3].reshape(-1, V, V)[chain.number(begin)[0]]
    ).ravel()
    exact = float(share @ np.exp(rewards[below] / 0.25))
    assert values.mean() == pytest.approx(exact, abs=4 * values.std() / math.sqrt(len(values)))
    assert log_energy(rewards[np.asarray(chain.read([None], ended))], 0.25, ratio) == pytest.approx(
        math.log(exact), abs=0.02
    )


def test_importance_sampling_keeps_the_target(world):
    chain, rewards, proposal = world
    target = target_law(chain.law(), rewards, 0.25)
    found = run(world, candidates=32, rollouts=3, block=2, proposal=proposal)
    assert distance(law_of(found.completions), target) < 0.035 + math.sqrt(V**D / (2 * math.pi * 2e4))
    assert found.tokens.scored == found.tokens.rollouts
    clipped = run(world, runs=200, proposal=proposal, rollouts=3, block=2, clip=0.01)
    assert sum(step.clipped for steps in clipped.trace for step in steps) > 0
    assert all(step.clipped == 0 for steps in found.trace[:200] for step in steps)


def test_tokens_are_counted_as_the_formula_says(world):
    found = run(world, runs=100, candidates=5, rollouts=3, block=2)
    assert found.tokens.candidates == 100 * 5 * D
    assert found.tokens.rollouts == 100 * 5 * 3 * D // 2  # M K d (I - 1) / 2 with I = 2; the last block needs none
    assert all(len(steps) == 2 for steps in found.trace)


def test_answers_depend_on_their_own_seed_alone(world):
    chain, rewards, _ = world
    sampler = EnergyGuidedSampler(chain, TableReward(rewards), temperature=0.25, candidates=4, rollouts=2, block=2)
    together = sampler.sample(range(5), seeds=[3, 1, 4, 1, 5]).completions
    alone = [int(sampler.sample(range(1), seeds=[seed]).completions[0]) for seed in (3, 1, 4, 1, 5)]
    assert list(together) == alone
    assert together[1] == together[3]


def test_energies_and_weights():
    assert log_energy([1.0, 3.0], 0.5) == pytest.approx(logsumexp([2.0, 6.0]) - math.log(2))
    shares = weights(log_energy(np.array([[500.0], [-500.0]]), 0.1))
    assert shares.tolist() == [1.0, 0.0]
    assert weights([0.0, 0.0, 0.0]).tolist() == pytest.approx([1 / 3] * 3)
    assert weights([-np.inf, -np.inf]).tolist() == [0.5, 0.5]
    assert effective_size(weights([0.0, 0.0, -np.inf])) == pytest.approx(2)
    assert optimal_success(0.2, 1.0) == pytest.approx(0.2 * math.e / (0.8 + 0.2 * math.e))
    assert optimal_success([0.0, 1.0], 0.5).tolist() == [0.0, 1.0]


def test_self_consistency_votes_within_a_query():
    reward = SelfConsistency(lambda text: int(text) if text.isdigit() else None)
    groups = np.array([0, 0, 0, 0, 0, 1, 1])
    assert reward([""] * 7, ["7", "7", "7", "3", "no", "4", "2"], groups).tolist() == [1, 1, 1, 0, 0, 1, 0]
    assert reward(["", ""], ["no", "no"], np.array([0, 0])).tolist() == [0, 0]
    long = SelfConsistency(lambda text: text, pool="run")
    assert long([""], ["a"], np.array([0])).tolist() == [1]
    assert long(["", ""], ["b", "a"], np.array([0, 0])).tolist() == [0, 1]
    long.reset()
    assert long([""], ["b"], np.array([0])).tolist() == [1]


def test_majority_votes(world):
    chain, _, _ = world
    found, tokens = majority_vote(chain, lambda number: int(number) // V**3, range(300), 51)
    first = int(chain.tables[0][0].argmax())
    assert np.mean([one == first for one in found]) > 0.8
    assert tokens == 300 * 51 * D
    assert majority_vote(chain, lambda number: None, range(2), 3)[0] == [None, None]


def test_streams_are_uniform_and_independent():
    streams = Streams(range(2000))
    numbers = np.stack([streams.draw(np.arange(2000)) for _ in range(50)])
    assert numbers.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * numbers.size))
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 4 / math.sqrt(numbers.size)
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 4 / math.sqrt(numbers.size)
    assert np.bincount(choose(np.tile([0.2, 0.0, 0.8], (numbers.size, 1)), numbers.ravel()), minlength=3)[1] == 0


def test_masked_diffusion_reaches_the_same_target_in_any_order(world):
    # The conditionals of a joint law, whatever is masked: every order gives the joint law.
    chain, rewards, _ = world
    joint = chain.law().reshape((V,) * D)

    def logits(prompts, tokens):
        found = np.empty((len(tokens), D, V))
        patterns, which = np.unique(tokens, axis=0, return_inverse=True)
        for number, row in enumerate(patterns):
            seen = joint[tuple(slice(None) if token == EMPTY else slice(token, token + 1) for token in row)]
            for place in range(D):
                table = seen.sum(axis=tuple(axis for axis in range(D) if axis != place))
                found[which.ravel() == number, place] = np.log(table if len(table) == V else np.full(V, 1.0))
        return found

    masked = MaskedChain(logits, longest=D, vocabulary=V, decode=lambda row: int(row @ V ** np.arange(D - 1, -1, -1)))
    plain, _ = draws(masked, range(6000), 1)
    assert distance(law_of(masked.read(range(6000), plain)), chain.law()) < math.sqrt(V**D / (2 * math.pi * 6000))
    np.testing.assert_allclose(
        masked.log_probs(range(6000), plain, np.zeros(6000, dtype=int)),
        np.log(chain.law()[np.asarray(masked.read(range(6000), plain))]),
        atol=1e-9,
    )
    found = EnergyGuidedSampler(
        masked, TableReward(rewards), temperature=0.25, candidates=16, rollouts=1, block=2
    ).sample(range(6000))
    target = target_law(chain.law(), rewards, 0.25)
    assert distance(law_of(found.completions), target) < 0.04 + math.sqrt(V**D / (2 * math.pi * 6000))


def wrong_masked_model(chain):
    masked = MaskedChain(lambda prompts, tokens: np.zeros((1, 1, 1)), longest=2, vocabulary=2)
    return masked.extend(range(1), masked.start(range(1), Streams([0])), 1, Streams([0]))


def guided(chain, reward, **options):
    return EnergyGuidedSampler(chain, reward, block=1, **options).sample(range(2))


BAD = [
    (lambda c: EnergyGuidedSampler(c, None, temperature=0.0), "is 0.0"),
    (lambda c: EnergyGuidedSampler(c, None, candidates=0), "candidates must be at least 1"),
    (lambda c: EnergyGuidedSampler(c, None, clip=0.0), "clip must be positive"),
    (lambda c: guided(c, None, proposal=TableChain.random(2, D, np.random.default_rng(0))), "of 3 and 2"),
    (lambda c: guided(c, lambda prompts, completions, groups: np.ones(1)), "one each"),
    (lambda c: guided(c, TableReward(np.full(V**D, np.nan))), "Reward 0 is nan"),
    (lambda c: EnergyGuidedSampler(c, None).sample(range(2), seeds=[1]), "2 prompts and 1 seeds"),
    (lambda c: Verifier(lambda prompts, completions: [1.0])("ab", "cd", np.arange(2)), "one each"),
    (lambda c: Verifier(lambda prompts, completions: [1.0, math.inf])("ab", "cd", np.arange(2)), "completion 1 is inf"),
    (lambda c: TableChain([np.array([[0.5, 0.6]])]), "do not sum to one"),
    (lambda c: best_of(c, None, range(2), 0), "and is 0"),
    (wrong_masked_model, "logits of shape"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_input_that_cannot_be_used_is_named(world, call, words):
    with pytest.raises(InputError) as error:
        call(world[0])
    assert words in str(error.value)
