"""The loss of ADPO: closed forms, its limits, bounds and invariances."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from workingpapers.posttraining.adpo import (
    Adaptive,
    Static,
    adpo_loss,
    compose,
    composition_of,
    contrastive_scores,
    feedback_length,
    normalised_rewards,
    prefix_preference,
    unit_index,
)

COMPOSITIONS = [Static(1), Static(2), Static(4), Static(50), Adaptive(1), Adaptive(2), Adaptive(4), Adaptive(50),
                Adaptive(6, allow_empty=True)]  # fmt: skip


def batch(lengths=((5, 9), (7, 4), (3, 3)), seed=0, scale=1.0):
    """Return policy and reference log-probabilities and masks of pairs with these lengths, padded right with junk."""
    source = torch.Generator().manual_seed(seed)
    widths = [max(pair[side] for pair in lengths) for side in (0, 1)]
    values = [scale * torch.randn(len(lengths), width, generator=source, dtype=torch.float64) for width in widths * 2]
    masks = [
        torch.tensor([[int(place < pair[side]) for place in range(widths[side])] for pair in lengths])
        for side in (0, 1)
    ]
    return [*values, *masks]


def loss_of(parts, composition, beta=0.7, **options):
    return adpo_loss(*parts, beta=beta, composition=composition, **options)


def log_ratio_sums(parts):
    chosen, rejected, ref_chosen, ref_rejected, chosen_mask, rejected_mask = parts
    return ((chosen - ref_chosen) * chosen_mask).sum(1), ((rejected - ref_rejected) * rejected_mask).sum(1)


# 1, 2: limits


@pytest.mark.parametrize("composition", [Adaptive(1), Static(9), Static(1000), Adaptive(1, allow_empty=True)])
def test_one_unit_is_dpo(composition):
    parts = batch()
    chosen, rejected = log_ratio_sums(parts)
    expected = -F.logsigmoid(0.7 * (chosen - rejected))
    found = loss_of(parts, composition)
    torch.testing.assert_close(found.per_pair, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.loss, expected.mean(), rtol=0, atol=1e-12)
    assert found.units.tolist() == [1, 1, 1]
    torch.testing.assert_close(found.chosen_rewards, 0.7 * chosen)
    torch.testing.assert_close(found.rejected_rewards, 0.7 * rejected)


@pytest.mark.parametrize("composition", [Static(1), Adaptive(6), Adaptive(100)])
def test_one_token_a_unit_is_the_token_level_formula(composition):
    parts = batch(((6, 6), (6, 6)))
    chosen, rejected, ref_chosen, ref_rejected, *_ = parts
    expected = -F.logsigmoid(0.7 * (chosen - ref_chosen) - 0.7 * (rejected - ref_rejected)).sum(1)
    torch.testing.assert_close(loss_of(parts, composition).per_pair, expected, rtol=0, atol=1e-12)


# 8: by hand


def test_values_by_hand():
    ratios = [torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2)]
    parts = [*ratios, torch.ones(1, 2), torch.ones(1, 2)]
    assert loss_of(parts, Adaptive(1), beta=1.0).loss.item() == pytest.approx(math.log(2), abs=1e-6)
    found = loss_of(parts, Static(1), beta=1.0)
    assert found.loss.item() == pytest.approx(0.313262 + 1.313262, abs=1e-5)
    assert found.margins.tolist() == [[1.0, -1.0]]
    assert loss_of(parts, Static(1), beta=1.0, normalize="units").loss.item() == pytest.approx(1.626523 / 2, abs=1e-5)


# 3: at the start


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=repr)
def test_at_the_reference_the_loss_counts_units_and_the_gradient_is_that_of_dpo(composition):
    chosen, rejected, _, _, *masks = batch()
    chosen.requires_grad_(), rejected.requires_grad_()
    parts = [chosen, rejected, chosen.detach(), rejected.detach(), *masks]
    found = loss_of(parts, composition)
    torch.testing.assert_close(found.per_pair, math.log(2) * found.units.double(), rtol=0, atol=1e-12)
    gradients = torch.autograd.grad(found.loss, [chosen, rejected])
    plain = torch.autograd.grad(loss_of(parts, Adaptive(1)).loss, [chosen, rejected])
    for one, other, mask, sign in zip(gradients, plain, masks, (-1, 1), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
        torch.testing.assert_close(one, sign * 0.7 / 2 * mask.double() / 3, rtol=0, atol=1e-10)


def test_the_gradient_of_a_unit_is_its_own():
    parts = batch(((6, 6),), scale=3.0)
    parts[0].requires_grad_()
    found = loss_of(parts, Static(2))
    (gradient,) = torch.autograd.grad(found.loss, [parts[0]])
    expected = -0.7 * torch.sigmoid(-found.margins[0]).repeat_interleave(2)
    torch.testing.assert_close(gradient[0], expected.detach())


# 4: bounds


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000), st.integers(1, 4))
def test_coarser_units_never_cost_more(chosen_length, rejected_length, seed, window):
    parts = batch(((chosen_length, rejected_length),), seed, scale=2.0)
    plain = loss_of(parts, Adaptive(1)).loss.item()
    fine, coarse = (loss_of(parts, Static(size)) for size in (window, 2 * window))
    assert plain <= coarse.loss.item() + 1e-12
    assert coarse.loss.item() <= fine.loss.item() + 1e-12
    if coarse.units.item() < fine.units.item():
        assert coarse.loss.item() < fine.loss.item()
    least = min(chosen_length, rejected_length)
    if least >= 4:  # floor cuts at j T / 2 are among those at j T / 4
        assert loss_of(parts, Adaptive(2)).loss.item() < loss_of(parts, Adaptive(4)).loss.item()


# 5, 7: units


@pytest.mark.parametrize(
    ("length", "units", "sizes"),
    [(5, 4, [1, 1, 1, 2]), (7, 4, [1, 2, 2, 2]), (9, 4, [2, 2, 2, 3]), (5, 2, [2, 3]), (7, 2, [3, 4])],
)
def test_sizes_of_adaptive_units(length, units, sizes):
    cuts = compose(Adaptive(units), length)
    assert [after - before for before, after in pairwise(cuts)] == sizes


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 50), st.booleans())
def test_units_cover_a_response_and_tokens_know_theirs(length, other, number, static):
    composition = Static(number) if static else Adaptive(number)
    cuts = compose(composition, length, other)
    sizes = [after - before for before, after in pairwise(cuts)]
    assert (cuts[0], cuts[-1]) == (0, length)
    mask = torch.ones(1, length)
    index = unit_index(composition, mask, torch.tensor([other]))[0]
    assert torch.bincount(index, minlength=len(sizes)).tolist() == sizes
    assert len(sizes) == feedback_length(composition, torch.tensor([length]), torch.tensor([other])).item()
    if static:
        assert len(sizes) == -(-max(length, other) // number)
        assert max(sizes) <= number
    else:
        assert len(sizes) == min(number, length, other)
        assert min(sizes) > 0
        assert max(sizes) - min(sizes) <= 1
        assert sizes[-1] == max(sizes)


def test_windows_of_responses_of_different_length():
    parts = batch(((5, 9),))
    found = loss_of(parts, Static(4))
    rejected = (parts[1] - parts[3])[0]
    assert found.units.tolist() == [3]
    assert found.margins[0, 2].item() == pytest.approx(-0.7 * rejected[8].item())
    assert found.margins[0, 1].item() == pytest.approx(0.7 * ((parts[0] - parts[2])[0, 4] - rejected[4:8].sum()).item())
    assert loss_of(batch(((7, 4),)), Static(4)).units.tolist() == [2]


def test_more_units_than_tokens():
    parts = batch(((2, 9),))
    assert loss_of(parts, Adaptive(4)).units.tolist() == [2]
    kept = loss_of(parts, Adaptive(4, allow_empty=True))
    assert compose(Adaptive(4, allow_empty=True), 2, 9) == (0, 0, 1, 1, 2)
    assert kept.units.tolist() == [4]
    assert kept.margins[0, 0].item() == pytest.approx(-0.7 * (parts[1] - parts[3])[0, :2].sum().item())
    both_short = loss_of(batch(((2, 2),)), Adaptive(4, allow_empty=True))
    assert both_short.units.tolist() == [2]
    assert both_short.unit_mask.tolist() == [[False, True, False, True]]


# 6: invariances


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=repr)
def test_padding_and_neighbours_change_nothing(composition):
    parts = batch()
    plain = loss_of(parts, composition).per_pair
    right = [F.pad(part, (0, 3), value=0 if part.dtype == torch.int64 else float("nan")) for part in parts]
    torch.testing.assert_close(loss_of(right, composition).per_pair, plain)
    left = [F.pad(part, (4, 0), value=0 if part.dtype == torch.int64 else float("inf")) for part in parts]
    torch.testing.assert_close(loss_of(left, composition).per_pair, plain)
    for row, (chosen, rejected) in enumerate(((5, 9), (7, 4), (3, 3))):
        widths = (chosen, rejected) * 3
        alone = [part[row : row + 1, :width] for part, width in zip(parts, widths, strict=True)]
        torch.testing.assert_close(loss_of(alone, composition).per_pair, plain[row : row + 1])


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=repr)
def test_exchanged_responses_turn_the_margins_round(composition):
    chosen, rejected, ref_chosen, ref_rejected, chosen_mask, rejected_mask = parts = batch()
    other = loss_of([rejected, chosen, ref_rejected, ref_chosen, rejected_mask, chosen_mask], composition)
    torch.testing.assert_close(other.margins, -loss_of(parts, composition).margins)


def test_reductions():
    each = loss_of(batch(), Static(2), reduction="none").loss
    assert each.shape == (3,)
    torch.testing.assert_close(loss_of(batch(), Static(2), reduction="sum").loss, each.sum())
    torch.testing.assert_close(loss_of(batch(), Static(2)).loss, each.mean())
    halved = loss_of(batch(), Static(2), normalize="units", reduction="none").loss
    torch.testing.assert_close(halved, each / torch.tensor([5, 4, 2]))


# 10: contrastive DPO


def test_token_weights_of_contrastive_dpo():
    parts = batch()
    weights = torch.ones_like(parts[1])
    torch.testing.assert_close(loss_of(parts, Static(2), rejected_weights=weights).loss, loss_of(parts, Static(2)).loss)
    weights[0, 3] = 0.0
    parts[1].requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(parts, Static(2), rejected_weights=weights).loss, [parts[1]])
    assert gradient[0, 3] == 0
    assert (gradient[0, [0, 1, 2, 4]] != 0).all()
    summed = loss_of(parts, Adaptive(1), rejected_weights=weights).margins[0, 0]
    ratios = (parts[0] - parts[2])[0, :5].sum() - ((parts[1] - parts[3])[0] * weights[0]).sum()
    torch.testing.assert_close(summed, 0.7 * ratios)


def test_contrastive_scores_by_hand():
    positive, negative = torch.tensor([[0.0, math.log(2)]]), torch.tensor([[0.0, math.log(3)]])
    # 2 z+ - z- is (0, log 4/3): probabilities 3/7 and 4/7
    assert contrastive_scores(positive, negative, torch.tensor([1])).item() == pytest.approx(4 / 7)
    assert contrastive_scores(positive, negative, torch.tensor([0])).item() == pytest.approx(3 / 7)


# 9: rewards of prefixes


def test_normalised_rewards_are_those_of_the_policy():
    source = torch.Generator().manual_seed(3)
    rewards = torch.randn(4, 5, generator=source, dtype=torch.float64)
    reference = torch.log_softmax(torch.randn(4, 5, generator=source, dtype=torch.float64), -1)
    beta = 0.3
    normal = normalised_rewards(rewards, reference, beta)
    torch.testing.assert_close((reference.exp() * (normal / beta).exp()).sum(-1), torch.ones(4, dtype=torch.float64))
    policy = torch.log_softmax(reference + rewards / beta, -1)
    torch.testing.assert_close(normal, beta * (policy - reference))
    shifted = rewards + torch.randn(4, 1, generator=source, dtype=torch.float64)
    torch.testing.assert_close(normalised_rewards(shifted, reference, beta), normal)


def test_the_loss_is_the_preference_of_normalised_rewards_and_not_of_shifted_ones():
    chosen, rejected, ref_chosen, ref_rejected, *_ = parts = batch(((6, 6),))
    rewards = [0.7 * (chosen - ref_chosen), 0.7 * (rejected - ref_rejected)]
    torch.testing.assert_close(loss_of(parts, Static(1)).loss, -prefix_preference(*rewards).mean())
    # A shift that depends on the prefix leaves the policy as it is, but the two responses have different prefixes.
    shifted = prefix_preference(rewards[0] + torch.linspace(0, 1, 6, dtype=torch.float64), rewards[1])
    assert abs(shifted.item() - prefix_preference(*rewards).item()) > 0.1


# 11: wrong input


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"beta": 0.0}, "beta is 0.0"),
        ({"beta": float("nan")}, "beta is nan"),
        ({4: torch.zeros(3, 7, dtype=torch.long)}, "chosen completion 1 of the batch is empty"),
        ({5: torch.ones(3, 8)}, r"rejected .*\(3, 8\) \(mask\)"),
        ({2: torch.zeros(3, 6)}, r"chosen .*\(3, 6\) \(reference\)"),
        ({"rejected_weights": torch.ones(3, 2)}, "rejected_weights has shape"),
    ],
)
def test_wrong_input_is_told(change, told):
    parts, options = batch(), {"beta": 0.7, "composition": Static(2)}
    for key, value in change.items():
        if isinstance(key, int):
            parts[key] = value
        else:
            options[key] = value
    with pytest.raises(ValueError, match=told):
        adpo_loss(*parts, **options)


def test_different_numbers_of_completions_are_told():
    parts = batch()
    fewer = [part[:2] if place % 2 else part for place, part in enumerate(parts)]
    with pytest.raises(ValueError, match="3 chosen and 2 rejected"):
        loss_of(fewer, Static(1))


def test_wrong_compositions_are_told():
    for call in (lambda: Static(0), lambda: Adaptive(0), lambda: composition_of(0, None)):
        with pytest.raises(ValueError, match="is 0"):
            call()
    for units, window in ((2, 2), (None, None)):
        with pytest.raises(ValueError, match="exactly one"):
            composition_of(units, window)
    with pytest.raises(ValueError, match="lengths are 0"):
        compose(Static(1), 0)
    with pytest.raises(ValueError, match="beta is -1"):
        normalised_rewards(torch.zeros(2), torch.zeros(2), -1.0)
    assert composition_of(None, 3) == Static(3)
    assert composition_of(3, None, allow_empty=True) == Adaptive(3, allow_empty=True)
