"""Causal models as chains: exact log-probabilities, batches, nuclei, and generate."""

import numpy as np
import pytest
import torch

pytest.importorskip("trl")

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model
from workingpapers.posttraining.ets import CausalChain, EnergyGuidedSampler, SelfConsistency, Verifier, custom_generate
from workingpapers.posttraining.ets.rivals import draws
from workingpapers.posttraining.ets.states import Streams

PROMPTS = ["31=", "2075=", "9="]


@pytest.fixture(scope="module")
def model():
    return new_model(Recipe(Sorting(), width=32, heads=2, seed=1)).eval()


def chain_of(model, **options):
    return CausalChain(model, character_tokenizer(), **{"longest": 6, **options})


@pytest.mark.parametrize("options", [{}, {"temperature": 0.6}, {"top_p": 0.7, "temperature": 1.3}], ids=str)
def test_log_probs_are_those_of_the_law_that_is_drawn_from(model, options):
    chain = chain_of(model, **options)
    streams = Streams([1, 2, 3])
    begin = chain.extend(PROMPTS, chain.start(PROMPTS, streams), 2, streams)
    ended = chain.extend(PROMPTS, begin, 6, streams)
    found = chain.log_probs(PROMPTS, ended, begin.lengths)
    for row, prompt in enumerate(PROMPTS):
        ids = chain._ids(prompt) + ended.tokens[row, : ended.lengths[row]].tolist()
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0]
        total = 0.0
        for place in range(len(chain._ids(prompt)) + begin.lengths[row], len(ids)):
            total += np.log(chain.probabilities(logits[place - 1 : place])[0, ids[place]])
        assert found[row] == pytest.approx(total, abs=1e-4)
        assert np.isfinite(total)


def test_a_nucleus_keeps_the_smallest_mass(model):
    chain = chain_of(model, top_p=0.6)
    logits = torch.log(torch.tensor([[0.1, 0.5, 0.05, 0.3, 0.05]]))
    assert chain.probabilities(logits)[0].tolist() == pytest.approx([0, 0.625, 0, 0.375, 0])


def test_batches_and_company_change_nothing(model):
    whole, _ = draws(chain_of(model), PROMPTS, 3, seeds=[7, 8, 9])
    cut, _ = draws(chain_of(model, batch=2), PROMPTS, 3, seeds=[7, 8, 9])
    assert np.array_equal(whole.tokens, cut.tokens)
    alone, _ = draws(chain_of(model), PROMPTS[1:2], 3, seeds=[8])
    assert np.array_equal(whole.tokens[3:6], alone.tokens)


def test_the_first_token_follows_the_models_law(model):
    chain = chain_of(model, longest=1)
    ended, _ = draws(chain, ["31="], 4000)
    with torch.no_grad():
        law = torch.softmax(model(input_ids=torch.tensor([chain._ids("31=")])).logits[0, -1], -1).numpy()
    counts = np.bincount(ended.tokens[:, 0], minlength=len(law)) / 4000
    assert 0.5 * np.abs(counts - law).sum() < np.sqrt(len(law) / (2 * np.pi * 4000))


def test_answers_stop_at_the_end_mark_and_finished_candidates_cost_nothing(model):
    chain = chain_of(model)
    forced = new_model(Recipe(Sorting(), width=32, heads=2, seed=1)).eval()
    hook = forced.lm_head.register_forward_hook(
        lambda module, inputs, out: out.index_fill(-1, torch.tensor([chain.end]), 50.0)
    )
    sampler = EnergyGuidedSampler(
        chain_of(forced), Verifier(lambda prompts, completions: [0.0] * len(prompts)), candidates=3, rollouts=5, block=2
    )
    found = sampler.sample(PROMPTS)
    hook.remove()
    assert list(found.completions) == ["", "", ""]
    assert (found.tokens.candidates, found.tokens.rollouts) == (9, 0)


def test_a_reward_draws_the_answers_towards_it(model):
    chain = chain_of(model)
    reward = Verifier(lambda prompts, completions: [float("7" in text) for text in completions])
    plain, _ = draws(chain, PROMPTS, 50)
    before = np.mean(["7" in text for text in chain.read(PROMPTS, plain)])
    sampler = EnergyGuidedSampler(chain, reward, temperature=0.1, candidates=24, rollouts=3, block=3)
    after = np.mean(["7" in text for text in sampler.sample(PROMPTS * 10).completions])
    assert after > before + 0.3


def test_generate_takes_it_as_a_strategy(model):
    tokenizer = character_tokenizer()
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    seen = []

    def judge(prompts, completions):
        seen.extend(prompts)
        return [float(len(text)) for text in completions]

    strategy = custom_generate(tokenizer, Verifier(judge), temperature=0.1, candidates=8, rollouts=1, block=2, seed=4)
    out = model.generate(
        input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=5, do_sample=True,
        custom_generate=strategy,
    )  # fmt: skip
    assert out.shape[0] == 3
    assert torch.equal(out[:, : inputs["input_ids"].shape[1]], inputs["input_ids"])
    assert out.shape[1] <= inputs["input_ids"].shape[1] + 5
    assert set(seen) <= set(PROMPTS)
    chain = CausalChain(model, tokenizer, longest=5)
    direct = EnergyGuidedSampler(chain, Verifier(judge), temperature=0.1, candidates=8, rollouts=1, block=2)
    texts = direct.sample(PROMPTS, seeds=4).completions
    assert [tokenizer.decode(row[inputs["input_ids"].shape[1] :], skip_special_tokens=True) for row in out] == list(
        texts
    )


def test_agreement_needs_no_checker(model):
    sampler = EnergyGuidedSampler(
        chain_of(model), SelfConsistency(lambda text: text[:1]), candidates=4, rollouts=2, block=3
    )
    found = sampler.sample(PROMPTS)
    assert len(found.completions) == 3
    assert all(1 <= step.effective <= 4 for steps in found.trace for step in steps)


@pytest.mark.parametrize(
    ("options", "prompts", "words"),
    [
        ({"longest": 0}, PROMPTS, "longest=0"),
        ({"temperature": 0.0}, PROMPTS, "temperature=0.0"),
        ({"top_p": 1.5}, PROMPTS, "top_p=1.5"),
        ({}, [[]], "Prompt 1 is empty"),
        ({"longest": 127}, ["31="], "more than the 128 that the model reads"),
    ],
)
def test_what_cannot_be_used_is_named(model, options, prompts, words):
    with pytest.raises(InputError) as error:
        chain_of(model, **options).start(prompts, Streams([0] * len(prompts)))
    assert words in str(error.value)
