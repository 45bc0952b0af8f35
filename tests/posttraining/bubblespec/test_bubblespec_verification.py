"""Verification on known laws: rejection, matching with independent noise, top-k and top-p, limits and end marks."""

import numpy as np
import pytest
import torch

from workingpapers.foundations.tinylm import Recipe, Sorting
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.bubblespec.decoding import Request, lossless_decode
from workingpapers.posttraining.bubblespec.drafts import Draft, DraftStore, Follower
from workingpapers.posttraining.bubblespec.noise import Key
from workingpapers.posttraining.bubblespec.scheduler import BubbleScheduler
from workingpapers.posttraining.bubblespec.verify import Sampling, matching, rejection, residual

P = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
Q = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
DRAWS = 20_000


def shares(values, size=3):
    return np.bincount(values, minlength=size) / len(values)


def near(found, law, count):
    return bool((np.abs(found - law) < 4.5 * np.sqrt(law * (1 - law) / count) + 1e-12).all())


def test_rejection_writes_the_models_law_at_each_place_and_accepts_as_often_as_laws_overlap():
    """Two places, drafts drawn from Q; the second place is judged where the first draft token stood."""
    rng = np.random.default_rng(0)
    log_laws = torch.tensor(np.vstack([P, P[:1]])).log()
    first, second, stood = [], [], 0
    for number in range(DRAWS):
        draft = [int(rng.choice(3, p=Q[0])), int(rng.choice(3, p=Q[1]))]
        written, count = rejection(log_laws, draft, torch.tensor(Q), Key(1, number), 0)
        assert written[:count] == draft[:count]
        assert len(written) == count + 1
        first.append(written[0])
        stood += count >= 1
        if count >= 1:
            second.append(written[1])
    assert near(shares(first), P[0], DRAWS)
    assert near(shares(second), P[1], len(second))
    overlap = np.minimum(P[0], Q[0]).sum()  # 1 - TV
    assert abs(stood / DRAWS - overlap) < 4.5 * np.sqrt(overlap * (1 - overlap) / DRAWS)


def test_matching_with_noise_of_its_own_accepts_as_often_as_two_draws_agree():
    rng = np.random.default_rng(1)
    log_laws = torch.tensor(np.vstack([P[:1], P[1:]])).log()
    first, stood = [], 0
    for number in range(DRAWS):
        written, count = matching(log_laws, [int(rng.choice(3, p=Q[0]))], Key(2, number), 0)
        first.append(written[0])
        stood += count
    assert near(shares(first), P[0], DRAWS)
    agree = float((P[0] * Q[0]).sum())
    assert abs(stood / DRAWS - agree) < 4.5 * np.sqrt(agree * (1 - agree) / DRAWS)


def test_the_residual_is_what_the_model_has_more():
    found = residual(torch.tensor(P[0]), torch.tensor(Q[0]))
    assert torch.allclose(found, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    same = torch.tensor(P[0])
    assert torch.equal(residual(same, same), same)


def test_laws_after_cuts():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    law = Sampling(top_k=2).log_law(logits).exp()
    assert torch.allclose(law, torch.tensor([0.731059, 0.268941, 0, 0], dtype=torch.float64), atol=1e-6)
    whole = logits.double().softmax(-1)
    law = Sampling(top_p=0.7).log_law(logits).exp()
    assert torch.allclose(law[:2], whole[:2] / whole[:2].sum())
    assert float(law[2:].sum()) == 0
    assert torch.allclose(Sampling(temperature=2.0).log_law(logits).exp(), (logits.double() / 2).softmax(-1))
    assert Sampling(temperature=0.0).log_law(logits).tolist() == [0.0, *[-np.inf] * 3]


@pytest.fixture(scope="module")
def model():
    return new_model(Recipe(task=Sorting(), layers=1, width=16, heads=2, positions=64)).double().eval()


def test_rejection_in_the_decoder_follows_the_models_law(model):
    """First tokens over many keys, with drafts of a changed model and the laws that they were drawn from."""
    changed = new_model(Recipe(task=Sorting(), layers=1, width=16, heads=2, positions=64, seed=9)).double().eval()
    sampling = Sampling(temperature=0.15)
    count = 3000
    asked = [Request((1, 5, 6), Key(4, number)) for number in range(count)]
    aside = [Request(one.prompt, one.key.aside()) for one in asked]
    drafts = lossless_decode(changed, aside, most=3, sampling=sampling, keep_laws=True).written
    pools = [
        Request(one.prompt, one.key, (Draft(draft.tokens, law=draft.law),))
        for one, draft in zip(asked, drafts, strict=True)
    ]
    found = lossless_decode(model, pools, mode="rejection", most=3, ahead=2, sampling=sampling).written
    assert 0 < sum(one.accepted for one in found) < sum(one.drafted for one in found)
    for place in (0, 1):
        words = [one.tokens[place] for one in found if len(one.tokens) > place]
        prefix = (1, 5, 6)
        if place:
            common = max({one.tokens[:1] for one in found}, key=[one.tokens[:1] for one in found].count)
            words = [one.tokens[1] for one in found if one.tokens[:1] == common and len(one.tokens) > 1]
            prefix = (*prefix, *common)
        law = sampling.log_law(model(input_ids=torch.tensor([prefix])).logits[0, -1]).exp().detach().numpy()
        assert near(shares(words, len(law)), law, len(words))


def test_rejection_takes_each_place_by_its_own_law(model):
    """Drafts by the model itself, with the requests' keys: every checked token stands, pass after pass."""
    asked = [Request((1, 5 + number), Key(0, number)) for number in range(4)]
    drafts = lossless_decode(model, asked, most=16, ends=[-1], keep_laws=True).written
    assert drafts[0].law.shape == (16, model.config.vocab_size)
    again = [
        Request(one.prompt, one.key, (Draft(draft.tokens, law=draft.law),))
        for one, draft in zip(asked, drafts, strict=True)
    ]
    found = lossless_decode(model, again, mode="rejection", most=16, ends=[-1], ahead=2)
    assert found.acceptance == 1
    assert [one.tokens for one in found.written] == [draft.tokens for draft in drafts]
    assert found.passes == 6  # three tokens a pass


def test_end_marks_and_the_limit_cut_an_accepted_run(model):
    request = Request((1, 5, 6), Key(0, "x"))
    (plain,) = lossless_decode(model, [request], most=12, ends=[-1]).written
    assert len(plain.tokens) == 12
    assert not plain.ended
    whole = Request(request.prompt, request.key, (Draft(plain.tokens),))
    for most in (1, 2, 5, 9, 10):
        (found,) = lossless_decode(model, [whole], most=most, ends=[-1], ahead=4).written
        assert found.tokens == plain.tokens[:most]
        assert len(found.log_probs) == most
    end = plain.tokens[4]
    stop = plain.tokens.index(end) + 1
    (found,) = lossless_decode(model, [whole], most=12, ends=[end], ahead=8).written
    assert found.tokens == plain.tokens[:stop]
    assert found.ended
    longer = Request(request.prompt, request.key, (Draft((*plain.tokens, 5, 5, 5)),))
    assert lossless_decode(model, [longer], most=12, ends=[-1]).written[0].tokens == plain.tokens


def test_a_window_that_is_stopped_leaves_a_beginning_that_can_be_gone_on_from(model):
    asked = [Request((1, 5 + n), Key(0, n)) for n in range(3)]
    whole = [one.tokens for one in lossless_decode(model, asked, most=20, ends=[-1]).written]
    left = [5]

    def stop():
        left[0] -= 1
        return left[0] < 0

    part = lossless_decode(model, asked, most=20, ends=[-1], stop=stop)
    assert [one.tokens for one in part.written] == [text[:5] for text in whole]
    again = [Request(one.prompt, one.key, begun=text.tokens) for one, text in zip(asked, part.written, strict=True)]
    assert [one.tokens for one in lossless_decode(model, again, most=20, ends=[-1]).written] == whole


def test_capacity_bounds_what_is_checked_beside_the_live_sequences(model):
    asked = [Request((1, 5 + n), Key(0, n)) for n in range(4)]
    texts = [one.tokens for one in lossless_decode(model, asked, most=20, ends=[-1]).written]
    drafted = [Request(one.prompt, one.key, (Draft(text),)) for one, text in zip(asked, texts, strict=True)]
    found = lossless_decode(model, drafted, most=20, ends=[-1], capacity=6)
    assert [one.tokens for one in found.written] == texts
    # Two draft tokens a pass beside four sequences: 80 tokens at six a pass, the last ones alone.
    assert sum(one.drafted for one in found.written) <= 2 * found.passes + 8
    assert lossless_decode(model, drafted, most=20, ends=[-1], capacity=4).acceptance == 0
    assert lossless_decode(model, drafted, most=20, ends=[-1], capacity=4).passes >= 20 - 1


def test_the_cache_is_packed_when_refused_drafts_fill_it(model):
    rng = np.random.default_rng(0)
    asked = [Request((1, 5 + n), Key(0, n)) for n in range(3)]
    plain = [one.tokens for one in lossless_decode(model, asked, most=40, ends=[-1]).written]
    pools = [tuple(Draft(tuple(rng.integers(5, 90, 60).tolist())) for _ in range(30)) for _ in asked]
    drafted = [Request(one.prompt, one.key, pool) for one, pool in zip(asked, pools, strict=True)]
    found = lossless_decode(model, drafted, most=40, ends=[-1], ahead=16)
    assert sum(one.drafted - one.accepted for one in found.written) > 100
    assert [one.tokens for one in found.written] == plain


def test_a_follower_leaves_its_draft_and_finds_its_way_back():
    follower = Follower([(1, 2, 3, 4, 5, 6), (9, 3, 4, 7, 8)])
    assert follower.propose(3) == [1, 2, 3]
    follower.advance([1, 2])
    assert follower.propose(2) == [3, 4]
    follower.advance([9])
    assert follower.propose(4) == []
    follower.advance([3, 4])  # "9 3 4" stands in the second draft, "3 4" in both: the longer match wins
    assert follower.propose(4) == [7, 8]
    stubborn = Follower([(1, 2, 3)], resync=False)
    stubborn.advance([7])
    stubborn.advance([1, 2])
    assert stubborn.propose(2) == []


def test_the_store_keeps_own_drafts_first_and_forgets_old_ones():
    store = DraftStore()
    for sample, version in ((0, 1), (1, 2), (2, 2)):
        store.put("p", sample, Draft((sample,), version))
    assert [one.tokens for one in store.pool("p", 2)] == [(2,), (0,), (1,)]
    assert store.pool("other", 0) == []
    assert store.drop_before(2) == 1
    assert len(store) == 2
    assert store.own("p", 0) is None


@pytest.mark.parametrize("order", ["own", "pooled"])
def test_every_prompt_gets_a_draft_before_any_gets_two(order):
    scheduler = BubbleScheduler([["a", "b"], ["c"]], samples=2, order=order)
    handed = [job for job, _ in scheduler.on_rank_done(0, 2 if order == "own" else 3)]
    assert handed == [("a", 0), ("b", 0)] if order == "own" else [("a", 0), ("b", 0), ("c", 0)]
    second = [job for job, _ in scheduler.on_rank_done(1, 9)]
    assert second == ([("c", 0), ("c", 1)] if order == "own" else [("a", 1), ("b", 1), ("c", 1)])
    scheduler.on_draft(0, ("a", 0), [4, 5])
    assert scheduler.store.own("a", 0).tokens == (4, 5)
    assert scheduler.on_barrier() == len(handed) + len(second) - 1
    assert scheduler.on_rank_done(0, 5) == []
    scheduler.on_draft(0, ("b", 0), [])
    assert scheduler.store.own("b", 0) is None
