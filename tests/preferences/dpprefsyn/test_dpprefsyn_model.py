"""The released model and the labels made with it: what it holds, what it finds, what it may be used for."""

import pickle

import numpy as np
import pytest

pytest.importorskip("opendp")
pytest.importorskip("dp_accounting")

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.privacy.noise import SeededNoise
from workingpapers.preferences.dpprefsyn import RewardMixture, Rewards, Settings, choose_pairs, fit_rewards
from workingpapers.preferences.dpprefsyn.budget import plan_budget
from workingpapers.preferences.dpprefsyn.experiments import in_full, labelling, random_like, recovery
from workingpapers.preferences.dpprefsyn.mechanisms import project
from workingpapers.preferences.dpprefsyn.mixture import fit_plan
from workingpapers.preferences.dpprefsyn.planted import SHARES, World, group_accuracies
from workingpapers.preferences.dpprefsyn.synthesis import label_responses


def silent(fraction, message=""):
    pass


def planted(seed=0, records=3000, dimension=24):
    rng = np.random.default_rng(seed)
    world = World(dimension, rng)
    return world, world.preferences(records, rng), world.preferences(2000, rng)


@pytest.fixture(scope="module")
def fitted():
    _, train, _ = planted()
    return fit_rewards(
        train.chosen, train.rejected, 4.0, 1e-5, settings=Settings(components=8), seed=1, insecure=True, encoder="e"
    )


def test_a_secure_fit_at_full_length():
    _, train, test = planted(1)
    settings = Settings(components=8, epochs=1)
    found = fit_rewards(train.chosen, train.rejected, 4.0, 1e-5, settings=settings)
    assert found.privacy.secure
    assert 0.97 * 4 < found.privacy.epsilon <= 4.0
    best = group_accuracies(in_full(found.rewards), test).max(axis=1)
    assert best @ np.array(SHARES) > 0.85
    again = fit_rewards(train.chosen, train.rejected, 4.0, 1e-5, settings=settings)
    assert not np.array_equal(found.rewards.thetas, again.rewards.thetas)


def test_a_seed_needs_a_word(fitted):
    _, train, _ = planted()
    with pytest.raises(InputError, match="seed 1 anybody"):
        fit_rewards(train.chosen, train.rejected, 4.0, 1e-5, seed=1)
    assert not fitted.privacy.secure
    assert "PROTECTS NOBODY" in fitted.privacy.text()


def test_too_few_records_and_wrong_budgets_are_refused():
    _, train, _ = planted(records=449)
    with pytest.raises(InputError, match=r"449 records .* at least 450"):
        fit_rewards(train.chosen, train.rejected, 1.0, 1e-5)
    with pytest.raises(InputError, match="Epsilon is 0"):
        fit_rewards(train.chosen, train.rejected, 0.0, 1e-5)
    with pytest.raises(InputError, match=r"length 0\.5"):
        fit_rewards(train.chosen / 2, train.rejected, 1.0, 1e-5)


def test_the_model_holds_nothing_but_the_release(fitted):
    assert set(vars(fitted)) == {
        "rewards", "privacy", "budget", "dimension", "encoder", "settings", "name", "records",
    }  # fmt: skip
    assert fitted.records % 100 == 0  # the noisy number, rounded
    assert set(vars(fitted.rewards)) == {"directions", "centres", "thetas", "weights"}
    _, train, _ = planted(records=6000)
    larger = fit_rewards(
        train.chosen, train.rejected, 4.0, 1e-5, settings=Settings(components=8), seed=1, insecure=True, encoder="e"
    )
    sizes = [len(pickle.dumps(model)) / len(model.rewards.weights) for model in (fitted, larger)]
    assert max(sizes) < 1.5 * min(sizes)  # the number of kept clusters varies, the number of records does not show


def test_what_is_saved_is_what_is_read(fitted, tmp_path):
    path = fitted.save(tmp_path / "model.npz")
    read = RewardMixture.load(path)
    for name in ("directions", "centres", "thetas", "weights"):
        np.testing.assert_array_equal(getattr(read.rewards, name), getattr(fitted.rewards, name))
    assert read.privacy == fitted.privacy
    assert read.privacy.text() == fitted.privacy.text()
    assert (read.settings, read.name, read.budget, read.encoder) == (fitted.settings, fitted.name, 4.0, "e")
    assert read.records == fitted.records
    for content in (b"not a model", path.read_bytes()[:200]):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(InputError, match="not a fitted model"):
            RewardMixture.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "other.npz", facts=np.array("{}"))
    with pytest.raises(InputError, match="not a fitted model"):
        RewardMixture.load(tmp_path / "other.npz")


def test_centring_would_remove_the_reward():
    """Under Bradley-Terry the mean difference points along the reward: without it one reward falls below chance."""
    rng = np.random.default_rng(3)
    world = World(64, rng)
    train, test = world.preferences(8000, rng), world.preferences(4000, rng)
    plan = plan_budget(8000, 64, np.inf, 1e-5, Settings(clusters=1, components=10))
    accuracies = []
    for rows in (train.differences, train.differences - train.differences.mean(axis=0)):
        direction = in_full(fit_plan(rows, plan, SeededNoise(0)))
        accuracies.append(float(group_accuracies(direction, test)[:, 0] @ np.array(SHARES)))
    assert accuracies[0] > 0.65
    assert accuracies[1] < 0.5


def test_best_and_worst_by_hand():
    rewards = Rewards(None, np.eye(2), np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 0.0]))
    rows = np.array([[1, 0], [0, 1], [-1, 0], [0.6, 0.8], [0.8, 0.6], [0, 1.0]])
    first, second = choose_pairs(rewards, rows, [0, 3, 5, 6, 6], np.random.default_rng(0))
    assert (first.prompt, first.best, first.worst, first.cluster, first.scores) == (0, 0, 2, 0, (1.0, -1.0))
    assert (second.prompt, second.best, second.worst) == (1, 4, 3)
    assert second.margin == pytest.approx(0.2)
    other = Rewards(None, np.eye(2), rewards.thetas, np.array([0.0, 1.0]))
    first, second = choose_pairs(other, rows, [0, 3, 5, 6, 6], np.random.default_rng(0))
    assert (first.best, first.worst, second.best, second.worst) == (1, 0, 3, 4)  # of equal worst ones the first


def test_margins_lie_between_zero_and_twice_the_length(fitted):
    rng = np.random.default_rng(4)
    rows, _ = project(rng.standard_normal((500, 24)), None)
    lengths = np.linalg.norm(fitted.rewards.thetas, axis=1)
    choices = choose_pairs(fitted.rewards, rows, range(0, 501, 5), rng)
    assert len(choices) == 100
    for choice in choices:
        assert 0 <= choice.margin <= 2 * lengths[choice.cluster] + 1e-12
        assert choice.best != choice.worst
        assert (
            choice.prompt * 5
            <= min(choice.best, choice.worst)
            <= max(choice.best, choice.worst)
            < choice.prompt * 5 + 5
        )
        inner = rows[choice.best] @ fitted.rewards.directions.T
        expected = fitted.rewards.thetas[choice.cluster] @ inner / np.linalg.norm(inner)
        assert choice.scores[0] == pytest.approx(expected, rel=1e-12)


def test_clusters_are_drawn_by_weight(fitted):
    rows, _ = project(np.random.default_rng(5).standard_normal((20_000, 24)), None)
    choices = choose_pairs(fitted.rewards, rows, range(0, 20_001, 4), np.random.default_rng(6))
    shares = np.bincount([choice.cluster for choice in choices]) / len(choices)
    np.testing.assert_allclose(shares, fitted.rewards.weights, atol=0.03)


class Embedding:
    """Each text has a direction of its own, by its hash."""

    def __init__(self, dimension=24):
        self.dimension = dimension

    def __call__(self, texts):
        rows = [np.random.default_rng(list(text.encode())).standard_normal(self.dimension) for text in texts]
        return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


PROMPTS = [f"prompt {n}" for n in range(40)]
RESPONSES = [[f"answer {n}.{m}" for m in range(4)] for n in range(38)] + [["same", "same", " "], []]


def test_labels_keep_to_threshold_and_format(fitted):
    cut = 1.2
    made = label_responses(fitted, PROMPTS, RESPONSES, Embedding(), min_margin=cut)
    assert made.skipped == 2
    assert len(made.margins) == 38
    assert len(made.records) == sum(margin >= cut for margin in made.margins)
    assert 0 < len(made.records) < 38
    for record in made.records:
        assert record["margin"] == pytest.approx(record["score_chosen"] - record["score_rejected"])
        assert record["margin"] >= cut
        assert record["chosen"] != record["rejected"]
        own = RESPONSES[PROMPTS.index(record["prompt"])]
        assert {record["chosen"], record["rejected"]} <= set(own)
    half = label_responses(fitted, PROMPTS, RESPONSES, Embedding(), keep=0.5)
    assert len(half.records) == 19
    assert min(record["margin"] for record in half.records) == pytest.approx(sorted(made.margins)[19])
    talk = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    talked = label_responses(fitted, talk, RESPONSES, Embedding(), min_margin=cut)
    assert talked.records[0]["chosen"] == [{"role": "assistant", "content": made.records[0]["chosen"]}]
    assert talked.records[0]["prompt"] == [{"role": "user", "content": made.records[0]["prompt"]}]


def test_labelling_is_post_processing(fitted, tmp_path):
    """A model read from its file, with the private records long gone, labels; the statement stays what it was."""
    before = fitted.privacy.text()
    read = RewardMixture.load(fitted.save(tmp_path / "model.npz"))
    once = label_responses(read, PROMPTS, RESPONSES, Embedding(), seed=1)
    again = label_responses(fitted, PROMPTS, RESPONSES, Embedding(), seed=1)
    other = label_responses(fitted, PROMPTS[:20], RESPONSES[:20], Embedding(), seed=2)
    assert once == again
    assert once.records != other.records
    assert read.privacy.text() == fitted.privacy.text() == before


def test_another_encoder_is_noticed(fitted):
    with pytest.raises(InputError, match=r"shape \(152, 7\); the model was fitted on 24"):
        label_responses(fitted, PROMPTS, RESPONSES, Embedding(7))
    with pytest.raises(InputError, match="Row 0 of the response embeddings has length 2"):
        label_responses(fitted, PROMPTS, RESPONSES, lambda texts: 2 * Embedding()(texts))


SMALL = {"records": 4000, "dimension": 32, "epsilon": 3.0, "delta": 1e-5}


def test_opposite_tastes_are_kept_apart_and_one_reward_cannot():
    mixture = recovery(100, silent, **SMALL)
    single = recovery(100, silent, **SMALL, settings=Settings(clusters=1, projection="none"))
    chance = recovery(100, silent, **SMALL, shuffled=True)
    assert mixture["worst"] >= 0.80
    assert single["worst"] <= 0.35
    assert mixture["accuracy"] >= single["accuracy"] + 0.15
    assert chance["accuracy"] < mixture["accuracy"] - 0.1


def test_labels_of_random_rewards_are_coin_flips():
    # Each random reward is right about its own taste somewhat more or less than half of the time: average a few.
    options = {**SMALL, "prompts": 1000}
    learned = labelling(101, silent, **options)
    assert learned["agreement"] > 0.85
    rng = np.random.default_rng(0)
    world = World(32, rng)
    rewards = Rewards(None, np.eye(4, 32), np.ones((4, 32)), np.full(4, 0.25))
    right = []
    for _ in range(60):
        drawn = in_full(random_like(rewards, rng))
        right.append(group_accuracies(drawn, world.preferences(400, rng))[0].mean())
    assert np.mean(right) == pytest.approx(0.5, abs=0.06)
