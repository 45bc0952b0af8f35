"""Bases and trains: orthonormality, contraction against the full tensor, derivatives, rank bounds, rounding."""

import itertools
import math

import pytest
import torch

from workingpapers.foundations.errors import InputError
from workingpapers.sampling.tensor_train_sampling.als import als_fit
from workingpapers.sampling.tensor_train_sampling.bases import KINDS, ExtendedFourier, Legendre
from workingpapers.sampling.tensor_train_sampling.train import FunctionalTT


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_train(ranks=3, sizes=(5, 4, 6, 3), kind=Legendre, seed=0):
    return FunctionalTT.random([kind(-1.0 - j / 3, 2.0, size) for j, size in enumerate(sizes)], ranks, generator(seed))


def points_in(train, count, seed=1):
    low = torch.tensor([basis.low for basis in train.bases], dtype=torch.float64)
    high = torch.tensor([basis.high for basis in train.bases], dtype=torch.float64)
    return low + (high - low) * torch.rand(count, train.dim, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize(("low", "high", "size"), [(-1, 1, 1), (-2.3, 2.3, 9), (0.5, 7.0, 13), (-0.2, 0.1, 8)])
def test_bases_are_orthonormal_in_h2_also_after_a_move(kind, low, high, size):
    for basis in (kind(low, high, size), kind(-1, 1, size).moved(low, high)):
        # Simpson's rule on a fine grid: another quadrature than the one that the basis is built with.
        x = torch.linspace(low, high, 20_001, dtype=torch.float64)
        weights = torch.full_like(x, 2.0)
        weights[1::2] = 4.0
        weights[0] = weights[-1] = 1.0
        weights *= (high - low) / 20_000 / 3
        gram = sum(part.T @ (weights[:, None] * part) for part in basis.evaluate(x))
        torch.testing.assert_close(gram, torch.eye(size, dtype=torch.float64), rtol=0, atol=1e-8)
        nodes, weights = basis.quadrature
        gram = sum(part.T @ (weights[:, None] * part) for part in basis.evaluate(nodes))
        torch.testing.assert_close(gram, torch.eye(size, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS.values())
def test_derivatives_of_bases_agree_with_differences_and_the_constant_is_one(kind):
    basis = kind(-1.5, 2.5, 8)
    x = torch.linspace(-1.4, 2.4, 30, dtype=torch.float64)
    h = 1e-5
    value, first, second = basis.evaluate(x)
    ahead, behind = basis.evaluate(x + h), basis.evaluate(x - h)
    torch.testing.assert_close(first, (ahead[0] - behind[0]) / (2 * h), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(second, (ahead[1] - behind[1]) / (2 * h), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(value @ basis.constant, torch.ones(30, dtype=torch.float64), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS.values())
def test_functions_go_on_linearly_beyond_the_interval(kind):
    basis = kind(-1.0, 2.0, 7)
    edge = basis.evaluate(torch.tensor([2.0], dtype=torch.float64))
    far = basis.evaluate(torch.tensor([5.0], dtype=torch.float64))
    torch.testing.assert_close(far[0], edge[0] + 3 * edge[1])
    torch.testing.assert_close(far[1], edge[1])
    assert not far[2].any()


def test_spans_hold_what_their_names_say():
    x = torch.linspace(-1, 3, 200, dtype=torch.float64)
    for basis, function in (
        (Legendre(-1, 3, 5), x**4 - 2 * x),
        (ExtendedFourier(-1, 3, 7), x**2 + torch.sin(math.pi * x) - 3 * torch.cos(math.pi * x / 2)),
    ):
        design = basis.evaluate(x)[0]
        left = function - design @ torch.linalg.lstsq(design, function[:, None]).solution[:, 0]
        assert left.abs().max() < 1e-10


def test_contraction_agrees_with_the_full_tensor():
    train = random_train()
    x = points_in(train, 20)
    jets = [basis.evaluate(x[:, j]) for j, basis in enumerate(train.bases)]
    full = train.full()
    assert full.shape == (5, 4, 6, 3)
    letters = "ijkl"
    for derivative in (None, *range(4)):
        parts = [jet[int(j == derivative)] for j, jet in enumerate(jets)]
        expected = torch.einsum(f"{letters},{','.join('n' + letter for letter in letters)}->n", full, *parts)
        found = train.value(x) if derivative is None else train.grad(x)[:, derivative]
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert train.norm == pytest.approx(float(full.norm()), rel=1e-12)


def test_gradient_and_hessian_product_agree_with_differences():
    train = random_train(kind=ExtendedFourier)
    x = 0.9 * points_in(train, 15)
    direction = torch.randn(15, 4, generator=generator(2), dtype=torch.float64)
    h = 1e-5
    numeric = torch.stack(
        [
            (train.value(x + h * step) - train.value(x - h * step)) / (2 * h)
            for step in torch.eye(4, dtype=torch.float64)
        ],
        dim=1,
    )
    gradient, product = train.hvp(x, direction)
    torch.testing.assert_close(train.grad(x), numeric, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradient, train.grad(x), rtol=1e-12, atol=1e-12)
    change = (train.grad(x + h * direction) - train.grad(x - h * direction)) / (2 * h)
    torch.testing.assert_close(product, change, rtol=1e-5, atol=1e-5)


def test_orthogonal_trains_are_the_same_function():
    train = random_train()
    x = points_in(train, 30)
    for centre in range(4):
        turned = train.orthogonalise(centre)
        torch.testing.assert_close(turned.value(x), train.value(x), rtol=0, atol=1e-12)
        for j, core in enumerate(turned.cores):
            r, m, q = core.shape
            flat = core.reshape(r * m, q).T if j < centre else core.reshape(r, m * q)
            if j != centre:
                torch.testing.assert_close(flat @ flat.T, torch.eye(len(flat), dtype=torch.float64))


def test_rounding_errs_by_no_more_than_what_was_dropped():
    train = random_train(ranks=4, sizes=(6, 6, 6, 6))
    rounded, dropped = train.round(rank=2)
    assert rounded.ranks == (2, 2, 2)
    bound = math.sqrt(sum(float((s**2).sum()) for s in dropped))
    error = float((rounded.full() - train.full()).norm())
    assert 0 < error <= bound * (1 + 1e-12)
    assert error >= max(float(s.norm()) for s in dropped[:1])
    whole, nothing = train.padded(6, generator(3), share=0.0).round(tolerance=1e-12)
    assert whole.ranks == train.ranks
    torch.testing.assert_close(whole.full(), train.full(), rtol=0, atol=1e-12)
    assert all(float(s.norm()) < 1e-12 for s in nothing)


def test_singular_values_are_those_of_the_unfolded_tensor():
    train = random_train()
    full = train.full()
    for j, found in enumerate(train.singular_values(), start=1):
        unfolded = full.reshape(math.prod(full.shape[:j]), -1)
        torch.testing.assert_close(found, torch.linalg.svdvals(unfolded)[: len(found)], rtol=1e-10, atol=1e-12)


def quadratic_train(matrix):
    """Return a train of x' A x over quadratics, by an exact fit with more ranks than are needed."""
    dim = len(matrix)
    bases = [Legendre(-1, 1, 3)] * dim
    x = 2 * torch.rand(700, dim, generator=generator(4), dtype=torch.float64) - 1
    y = torch.einsum("ni,ij,nj->n", x, matrix, x)
    fit = als_fit(FunctionalTT.random(bases, 6, generator(5)), x, y, tolerance=1e-3, max_sweeps=60)
    assert fit.error < 1e-10
    return fit.train


def test_ranks_of_quadratic_forms_are_the_known_ones():
    chain = torch.diag(torch.full((5,), 2.0, dtype=torch.float64))
    chain -= (
        torch.diag(torch.ones(4, dtype=torch.float64), 1) / 2 + torch.diag(torch.ones(4, dtype=torch.float64), -1) / 2
    )
    dense = torch.randn(6, 6, generator=generator(6), dtype=torch.float64)
    for matrix, ranks in ((torch.eye(5, dtype=torch.float64), (2, 2, 2, 2)), (chain, (3, 3, 3, 3)),
                          (dense + dense.T, tuple(2 + min(k, 6 - k) for k in range(1, 6)))):  # fmt: skip
        cut = quadratic_train(matrix).round(tolerance=1e-3)[0]
        # A single coordinate beside the bond spans 1, x, x^2 alone.
        assert cut.ranks == tuple(min(rank, 3) if j in (0, len(ranks) - 1) else rank for j, rank in enumerate(ranks))


def test_additive_trains_have_rank_two_and_the_right_values():
    bases = [Legendre(-2, 2, 4), ExtendedFourier(-1, 1, 5), Legendre(0, 3, 3)]
    functions = [torch.randn(basis.size, generator=generator(7), dtype=torch.float64) for basis in bases]
    train = FunctionalTT.additive(bases, functions, 1.5)
    x = points_in(train, 20)
    expected = 1.5 + sum(
        basis.evaluate(x[:, j])[0] @ f for j, (basis, f) in enumerate(zip(bases, functions, strict=True))
    )
    torch.testing.assert_close(train.value(x), expected)
    assert train.ranks == (2, 2)


@pytest.mark.parametrize("kind", KINDS.values())
def test_change_of_basis_is_exact_in_the_span_and_linear_beyond(kind):
    train = random_train(sizes=(4, 4, 4), kind=Legendre)
    wider = kind is Legendre
    bases = [kind(basis.low / 2, basis.high / 2, 9 if wider else 25) for basis in train.bases]
    moved = train.change_basis(bases)
    x = points_in(moved, 50)
    if wider:
        torch.testing.assert_close(moved.value(x), train.value(x), rtol=1e-9, atol=1e-9)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(random_train(sizes=(4, 4, 4), seed=9).value(x), train.value(x))
    line = FunctionalTT.additive([Legendre(-1, 1, 5)] * 2, [Legendre(-1, 1, 5).express(Legendre(-1, 1, 2))[:, 1]] * 2)
    far = line.change_basis([kind(-4.0, 4.0, 5)] * 2)
    probe = torch.tensor([[3.5, -3.0], [0.2, 3.9]], dtype=torch.float64)
    torch.testing.assert_close(far.value(probe), line.value(probe), rtol=1e-8, atol=1e-8)


def test_padding_with_nothing_changes_nothing():
    train = random_train(ranks=2)
    padded = train.padded((3, 4, 3), generator(1), share=0.0)
    assert padded.ranks == (3, 4, 3)
    torch.testing.assert_close(padded.full(), train.full())


def test_misfits_are_refused_in_one_sentence():
    for wrong, words in (
        (lambda: Legendre(-1, 1, 0), "one function or more, not 0"),
        (lambda: Legendre(1, 1, 3), "no width"),
        (lambda: FunctionalTT.random([Legendre(-1, 1, 3)] * 3, 0, generator()), "1 or more, not 0"),
        (lambda: FunctionalTT.random([Legendre(-1, 1, 3)] * 3, [2], generator()), "3 coordinates have 2 ranks"),
        (lambda: FunctionalTT((Legendre(-1, 1, 3),), (torch.ones(1, 4, 1),)), "do not fit bases"),
        (lambda: random_train().value(torch.zeros(2, 3)), r"shape \(n, 4\)"),
    ):
        with pytest.raises(InputError, match=words):
            wrong()
    assert list(itertools.chain(FunctionalTT.random([Legendre(-1, 1, 3)] * 3, 99, generator()).ranks)) == [3, 3]
