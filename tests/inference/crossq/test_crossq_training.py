import numpy as np
import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.inference.crossq import Candidates, CrossQ, maxsim, mine_candidates, pack, pseudo_queries
from workingpapers.inference.crossq.codec import Codec
from workingpapers.inference.crossq.initial import loss_when_dropped, uncoded
from workingpapers.inference.crossq.network import (
    ConditionalQuantiser,
    distillation_loss,
    ranking_loss,
    straight_through,
)
from workingpapers.inference.crossq.planted import planted_collection
from workingpapers.inference.crossq.training import Objective, _Batcher, batch_loss
from workingpapers.inference.crossq.vectors import unit_rows


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def documents_of(seed=0, count=40, dim=12):
    rng = np.random.default_rng(seed)
    return [unit_rows(rng.standard_normal((int(rng.integers(3, 12)), dim))) for _ in range(count)]


def model_of(conditioning="document", dim=12, stages=2, words=32, seed=0):
    rng = np.random.default_rng(seed)
    books = rng.standard_normal((stages, words, dim)).astype(np.float32) * 0.4
    model = ConditionalQuantiser(books, conditioning, 8)
    if conditioning != "none":
        with torch.no_grad():
            model.shift.copy_(torch.tensor(rng.standard_normal(model.shift.shape) * 0.1))
    return model


def test_forward_value_is_hard_and_gradients_reach_every_weight():
    model = model_of()
    rows = torch.tensor(documents_of(count=1)[0])
    owner = torch.zeros(len(rows), dtype=torch.long)
    context = model.context(rows, owner, 1)[owner]
    decoded = model(rows, context)
    assert torch.allclose(decoded, model.hard(rows, context), atol=1e-6)
    (decoded * torch.randn(decoded.shape, generator=torch.Generator().manual_seed(0))).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


def test_straight_through_value_and_gradient_of_the_target():
    rng = torch.Generator().manual_seed(0)
    book = torch.randn(5, 3, generator=rng, dtype=torch.float64)
    target = torch.randn(4, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, generator=rng, dtype=torch.float64)
    tau = torch.tensor(0.7, dtype=torch.float64)
    value = straight_through(target, book, tau)
    assert torch.allclose(value, book[torch.cdist(target, book).argmin(dim=1)])
    (value * weight).sum().backward()
    again = target.detach().requires_grad_()
    soft = torch.softmax(-torch.cdist(again, book).square() / tau, dim=1) @ book
    (soft * weight).sum().backward()
    assert torch.allclose(target.grad, again.grad)


def test_at_low_temperature_soft_is_hard():
    book, target = torch.eye(4), torch.tensor([[0.9, 0.2, 0.0, 0.1]], requires_grad=True)
    value = straight_through(target, book, torch.tensor(1e-4))
    assert torch.equal(value.detach(), book[:1])
    (value[0, 0]).backward()
    assert target.grad.abs().max() < 1e-6


def test_numpy_codec_decodes_as_the_network_does():
    for conditioning in ("document", "token", "none"):
        model = model_of(conditioning, words=256)
        packed = pack(documents_of())
        rows, counts = torch.tensor(packed.rows), np.diff(packed.offsets)
        owner = torch.tensor(np.repeat(np.arange(len(counts)), counts))
        context = model.context(rows, owner, len(counts))
        expected = model.hard(rows, None if context is None else context[owner])
        codec = Codec(
            model.codebooks.detach().numpy(), 12, layers=model.arrays(), use_context=conditioning == "document"
        )
        assert np.allclose(codec.decode(codec.encode(*packed).rows), expected.detach().numpy(), atol=1e-5)


def test_distillation_is_zero_with_zero_gradient_at_the_teacher_and_blind_to_constants():
    teacher = torch.tensor([[3.0, 1.0, 0.5], [0.1, 0.4, 0.2]])
    student = (teacher + torch.tensor([[5.0], [-2.0]])).requires_grad_()
    loss = distillation_loss(teacher, student, 0.7)
    loss.backward()
    assert abs(loss.item()) < 1e-6
    assert student.grad.abs().max() < 1e-6
    other = torch.tensor([[1.0, 3.0, 0.5], [0.1, 0.4, 0.2]])
    expected = (torch.softmax(teacher, 1) * (torch.log_softmax(teacher, 1) - torch.log_softmax(other, 1))).sum() / 2
    assert float(distillation_loss(teacher, other)) == pytest.approx(float(expected), rel=1e-5)
    assert float(distillation_loss(teacher, other + 9)) == pytest.approx(float(expected), rel=1e-4)


def test_ranking_loss_by_hand():
    scores = torch.tensor([[2.0, 1.0, 3.0]])
    expected = np.mean([np.log1p(np.exp(0.5 - 1.0)), np.log1p(np.exp(0.5 + 1.0))])
    assert float(ranking_loss(scores, 0.5)) == pytest.approx(expected, rel=1e-6)


def test_gradients_from_winners_are_those_of_the_whole_score():
    documents, queries = pack(documents_of(count=6)), pack([item[:3] for item in documents_of(1, count=4)])
    candidates = mine_candidates(queries, documents, np.array([0, 2, 1, 5]), 4)
    objective = Objective(kl=1.0, rank=0.5, reconstruction=0.0, temperature=0.6, margin=0.2)
    model = model_of(words=256)  # enough that no two tokens share a code, as a tie has no one gradient
    columns = np.tile(np.arange(4), (4, 1))
    batcher = _Batcher(queries, documents, candidates)
    loss = batch_loss(model, batcher, np.arange(4), columns, objective, torch.Generator().manual_seed(0))
    loss.backward()
    found = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    rows, counts = torch.tensor(documents.rows), np.diff(documents.offsets)
    owner = torch.tensor(np.repeat(np.arange(6), counts))
    decoded = model(rows, model.context(rows, owner, 6)[owner])
    student = torch.stack([
        torch.stack([
            (torch.tensor(queries.rows[queries.offsets[q] : queries.offsets[q + 1]])
             @ decoded[documents.offsets[d] : documents.offsets[d + 1]].T).max(dim=1).values.sum()
            for d in candidates.rows[q]
        ])
        for q in range(4)
    ])  # fmt: skip
    whole = distillation_loss(torch.tensor(candidates.scores), student, 0.6) + 0.5 * ranking_loss(student, 0.2)
    whole.backward()
    assert loss.item() == pytest.approx(whole.item(), rel=1e-5)
    for name, weight in model.named_parameters():
        assert torch.allclose(found[name], weight.grad, rtol=1e-3, atol=1e-4), name


def test_candidates_hold_the_positive_first_and_then_the_best():
    documents, queries = pack(documents_of()), pack([item[:2] for item in documents_of(1, count=70)])
    positives = np.random.default_rng(0).integers(40, size=70)
    found = mine_candidates(queries, documents, positives, 5)
    exact = maxsim(queries, documents)
    for number in range(70):
        order = [row for row in np.argsort(-exact[number]) if row != positives[number]]
        assert found.rows[number].tolist() == [positives[number], *order[:4]]
        assert np.allclose(found.scores[number], exact[number, found.rows[number]], atol=1e-6)
    best = mine_candidates(queries, documents, None, 1)
    assert (best.rows[:, 0] == exact.argmax(axis=1)).all()


def test_usefulness_is_the_score_lost_without_a_token():
    rng = np.random.default_rng(0)
    documents = pack([unit_rows(rng.standard_normal((4, 6))) for _ in range(3)])
    queries = pack([unit_rows(rng.standard_normal((5, 6))) for _ in range(2)])
    codes = np.arange(12).astype(np.uint8)
    rows = np.array([[0, 1, 2], [2, 1, 0]])
    found = loss_when_dropped(queries, documents, codes, rows)
    full = maxsim(queries, documents)
    for token in range(12):
        document = token // 4
        rest = [documents.rows[4 * document : 4 * document + 4][np.arange(4) != token % 4]]
        lost = full[:, document] - maxsim(queries, pack(rest))[:, 0]
        assert found[token] == pytest.approx(lost.mean(), abs=1e-5)
    assert (found[12:] == 0).all()


def test_projection_keeps_the_leading_directions():
    rng = np.random.default_rng(0)
    rows = unit_rows(rng.standard_normal((600, 4)) @ rng.standard_normal((4, 20)))
    codec = uncoded(rows, 4, 0)
    assert np.allclose(codec.prepare(rows) @ codec.prepare(rows).T, rows @ rows.T, atol=1e-4)
    assert uncoded(rows, 20, 0).projection is None


def test_training_lowers_the_loss_and_is_repeatable():
    documents, queries, relevant = planted_collection(0, documents=60, tokens=12, queries=80)
    options = {"dim": None, "rank": 0.0, "temperature": 0.2, "learning_rate": 2e-3, "steps": 40}
    runs = [CrossQ(2, **options).fit(*documents, queries=queries, positives=relevant) for _ in range(2)]
    facts = runs[0].codec.facts
    assert facts["validation loss after training"] < facts["validation loss before training"]
    assert facts["best step"] > 0
    assert (runs[0].codec.codebooks == runs[1].codec.codebooks).all()
    assert (runs[0].encode(*documents).rows == runs[1].encode(*documents).rows).all()


def test_training_that_does_not_help_leaves_greedy_codes():
    documents, queries, relevant = planted_collection(0, documents=60, tokens=12, queries=80)
    start = CrossQ(2, dim=None, steps=0).fit(*documents, queries=queries, positives=relevant)
    spoilt = CrossQ(2, dim=None, steps=5, learning_rate=30.0).fit(*documents, queries=queries, positives=relevant)
    assert spoilt.codec.facts["best step"] == 0
    assert (spoilt.encode(*documents).rows == start.encode(*documents).rows).all()


def test_adapting_moves_the_projection_alone_from_where_it_was():
    documents, queries, relevant = planted_collection(0, documents=60, tokens=12, queries=80)
    options = {"dim": 8, "rank": 0.0, "temperature": 0.2, "steps": 20}
    plain = CrossQ(2, **options).fit(*documents, queries=queries, positives=relevant)
    adapted = CrossQ(2, adapt=True, **options).fit(*documents, queries=queries, positives=relevant)
    start = uncoded(documents.rows, 8, 0).projection
    assert np.allclose(plain.codec.projection, start)
    assert adapted.codec.facts["best step"] > 0
    assert 1e-4 < np.abs(adapted.codec.projection - start).max() < 0.5


def test_queries_may_be_drawn_from_documents():
    documents = pack(documents_of(count=50))
    queries, sources = pseudo_queries(documents, 200, 3)
    for number, source in enumerate(sources):
        query = queries.rows[queries.offsets[number] : queries.offsets[number + 1]]
        document = documents.rows[documents.offsets[source] : documents.offsets[source + 1]]
        assert min(6, len(document)) <= len(query) <= 12
        starts = [at for at in range(len(document)) if (document[at] == query[0]).all()]
        assert any((document[at : at + len(query)] == query).all() for at in starts)
    fitted = CrossQ(1, dim=None, steps=2).fit(documents.rows, documents.offsets)
    assert fitted.codec.facts["codewords in use"] > 0.9


def test_a_teacher_of_ones_own_is_taken():
    documents, queries, _ = planted_collection(0, documents=40, tokens=12, queries=30)
    rows = np.tile(np.arange(6), (30, 1))
    teacher = Candidates(rows, np.tile(np.arange(6, 0, -1.0).astype(np.float32), (30, 1)))
    fitted = CrossQ(1, dim=None, steps=3).fit(*documents, queries=queries, candidates=teacher)
    assert fitted.codec.stages == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bytes_per_token": 0}, "bytes_per_token is 0"),
        ({"bytes_per_token": 4, "stages": 3}, "stages is 3"),
        ({"conditioning": "query"}, "'query'"),
    ],
)
def test_wrong_settings_are_told(arguments, words):
    with pytest.raises(InputError, match=words):
        CrossQ(**arguments)


def test_wrong_training_data_are_told():
    few = documents_of(count=3)
    with pytest.raises(InputError, match="at least 256"):
        CrossQ(1).fit(few)
    many = documents_of(count=60)
    with pytest.raises(InputError, match="59"):
        CrossQ(1).fit(many, queries=few, positives=[0, 1, 60])
    with pytest.raises(InputError, match="positives of shape"):
        CrossQ(1).fit(many, queries=few, positives=[0, 1])
    with pytest.raises(InputError, match="queries"):
        CrossQ(1).fit(many, positives=[0])
    with pytest.raises(InputError, match="offsets"):
        CrossQ(1).fit(pack(many).rows)
    with pytest.raises(InputError, match="12"):
        CrossQ(1).fit(many, queries=documents_of(dim=13))
    with pytest.raises(InputError, match="not fitted"):
        CrossQ(1).encode(many)


def agreement():
    """Return how often mean and first token of the relevant document tell which half a query has."""
    documents, queries, relevant = planted_collection(1, documents=400, tokens=20, queries=400)
    last = documents.rows[:, -1].reshape(400, 20)[relevant]
    second = np.abs(queries.rows[:, :8]).reshape(400, -1).sum(axis=1) == 0
    return np.mean((last.mean(axis=1) < 0) == second), np.mean((last[:, 0] < 0) == second)


def test_planted_class_is_told_by_documents_and_hardly_by_tokens():
    document, token = agreement()
    assert document > 0.95
    assert 0.65 < token < 0.85
