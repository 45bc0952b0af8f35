import faiss
import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.inference.crossq import fit_baseline
from workingpapers.inference.crossq.baselines import KINDS
from workingpapers.inference.crossq.vectors import unit_rows


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return unit_rows(rng.standard_normal((1500, 32)) * np.linspace(2, 0.2, 32))


def error(rows, kind, size):
    return float(np.square(rows - fit_baseline(kind, rows, size).decode(rows)).sum(axis=1).mean())


def distinct(decoded):
    return len(np.unique(np.round(decoded, 5), axis=0))


def test_product_code_is_that_of_faiss(rows):
    quantiser = faiss.ProductQuantizer(32, 4, 8)
    quantiser.train(rows)
    expected = quantiser.decode(quantiser.compute_codes(rows))
    assert np.allclose(fit_baseline("pq", rows, 4).decode(rows), expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_leave_less_error(rows, kind):
    errors = [error(rows, kind, size) for size in (2, 4)]
    assert errors[1] < errors[0] < 1


@pytest.mark.parametrize(("kind", "columns"), [("binary", 16), ("scalar", 4)])
def test_bits_are_those_that_the_bytes_allow(rows, kind, columns):
    decoded = fit_baseline(kind, rows, 2).decode(rows)
    levels = 2 if kind == "binary" else 16
    assert all(len(np.unique(decoded[:, column])) == levels for column in range(columns))
    assert np.ptp(decoded[:, columns:], axis=0).max() < 1e-6
    column = rows[:, 0]
    low = column < np.quantile(column, 1 / levels)
    assert decoded[low, 0] == pytest.approx(column[low].mean(), abs=1e-5)


def test_centroid_code_has_no_more_values_than_its_bits(rows):
    assert distinct(fit_baseline("plaid", rows, 2).decode(rows)) <= 256
    with_residual = fit_baseline("plaid", rows, 3)
    residual = with_residual.decode(rows) - fit_baseline("plaid", rows, 2).decode(rows)
    assert distinct(residual[:, 8:]) == 1
    assert distinct(residual[:, :8]) > 200


def test_rotation_and_additivity_help_where_they_should(rows):
    turned = rows @ np.linalg.qr(np.random.default_rng(1).standard_normal((32, 32)))[0].astype(np.float32)
    assert error(turned, "opq", 4) < error(turned, "pq", 4)
    assert error(turned, "rq", 4) < error(turned, "pq", 4)


def test_wrong_requests_are_told(rows):
    with pytest.raises(InputError, match="'huffman'"):
        fit_baseline("huffman", rows, 4)
    with pytest.raises(InputError, match="32 dimensions"):
        fit_baseline("pq", rows, 3)
    with pytest.raises(InputError, match="at least 256"):
        fit_baseline("pq", rows[:200], 4)
    with pytest.raises(InputError, match="at least 2 bytes"):
        fit_baseline("plaid", rows, 1)
