from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from workingpapers.inference.crossq import maxsim, pack, ranking_measures
from workingpapers.inference.crossq.measures import pessimistic_run
from workingpapers.inference.crossq.scoring import largest, pooled_scores, query_tables, score_rows
from workingpapers.inference.crossq.segment import pooled_steps
from workingpapers.inference.crossq.vectors import unit_rows


def by_hand(query, document):
    return sum(max(float(q @ e) for e in document) for q in query)


def coded(seed=0, documents=30, stages=3, dim=16, low=1, high=9):
    rng = np.random.default_rng(seed)
    codebooks = rng.standard_normal((stages, 256, dim)).astype(np.float32)
    counts = rng.integers(low, high, documents)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    codes = rng.integers(0, 256, (offsets[-1], stages), dtype=np.uint8)
    decoded = sum(codebooks[stage][codes[:, stage]] for stage in range(stages))
    return codebooks, codes, offsets, decoded


@pytest.mark.parametrize("tokens", [1, 7, 8, 9, 32])
@pytest.mark.parametrize("stages", [1, 2, 5])
def test_scan_equals_maxsim_of_decoded_vectors(tokens, stages):
    codebooks, codes, offsets, decoded = coded(stages=stages)
    query = np.random.default_rng(1).standard_normal((tokens, 16)).astype(np.float32)
    rows = np.arange(30)[::-1].copy()
    scores = score_rows(codes, offsets, rows, query_tables(query, codebooks))
    expected = [by_hand(query, decoded[offsets[row] : offsets[row + 1]]) for row in rows]
    assert np.allclose(scores, expected, rtol=1e-5, atol=1e-4)


def test_scores_below_zero_are_not_lifted_by_padding():
    codebooks = -np.ones((1, 256, 4), np.float32)
    tables = query_tables(np.ones((3, 4), np.float32), codebooks)
    scores = score_rows(np.zeros((2, 1), np.uint8), np.array([0, 2]), np.array([0]), tables)
    assert scores.tolist() == [-12.0]


def test_threads_give_the_same_scores_also_from_several_callers():
    codebooks, codes, offsets, _ = coded(documents=2000)
    rows = np.arange(2000)
    queries = [np.random.default_rng(seed).standard_normal((12, 16)).astype(np.float32) for seed in range(8)]
    alone = [score_rows(codes, offsets, rows, query_tables(query, codebooks), 1) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(lambda q: score_rows(codes, offsets, rows, query_tables(q, codebooks), 3), queries))
    assert all((a == b).all() for a, b in zip(alone, many, strict=True))


@pytest.mark.parametrize("block", [1, 5, 10_000])
def test_exact_scores_by_hand(block):
    rng = np.random.default_rng(0)
    documents = [rng.standard_normal((n, 5)) for n in (1, 4, 2, 6)]
    queries = [rng.standard_normal((n, 5)) for n in (3, 1)]
    scores = maxsim(pack(queries), pack(documents), block)
    expected = [[by_hand(query, document) for document in documents] for query in queries]
    assert np.allclose(scores, expected, atol=1e-5)


def test_bounds_of_score_error_and_of_flipped_winners_hold():
    rng = np.random.default_rng(2)
    flips = kept = 0
    for _ in range(200):
        document = unit_rows(rng.standard_normal((6, 8)))
        query = unit_rows(rng.standard_normal((4, 8)))
        delta = 0.12 * unit_rows(rng.standard_normal((6, 8)))
        exact, noisy = query @ document.T, query @ (document - delta).T
        reach = np.abs(query @ delta.T).max(axis=1)
        error = abs(exact.max(axis=1).sum() - noisy.max(axis=1).sum())
        assert error <= reach.sum() + 1e-6
        assert reach.sum() <= 4 * np.linalg.norm(delta, axis=1).max() + 1e-6
        two = np.sort(exact, axis=1)[:, -2:]
        safe = two[:, 1] - two[:, 0] > 2 * reach
        same = exact.argmax(axis=1) == noisy.argmax(axis=1)
        assert same[safe].all()
        flips, kept = flips + int((~same).sum()), kept + int(safe.sum())
    assert flips > 0
    assert kept > 0


def test_pooled_scores_are_products_up_to_eight_bits():
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng.standard_normal((9000, 32)))
    query = unit_rows(rng.standard_normal((1, 32)))[0]
    steps, scales = pooled_steps(3 * vectors)
    assert steps.dtype == np.int8
    scores = pooled_scores(steps, scales, query)
    reach = scales.max() / 2 * np.abs(query).sum()
    assert np.abs(scores - vectors @ query).max() <= reach + 1e-4
    assert np.array_equal(scores, pooled_scores(steps, scales, query, 1))


@pytest.mark.parametrize("size", [10, 5000, 150_000])
def test_largest_is_a_stable_sort(size):
    rng = np.random.default_rng(size)
    for scores in (rng.standard_normal(size), rng.integers(0, 5, size), np.zeros(size), -np.arange(size)):
        expected = np.argsort(-scores.astype(np.float32), kind="stable")
        for count in (1, 7, 900, size + 1):
            assert (largest(scores.astype(np.float32), count) == expected[:count]).all()


def test_measures_by_hand():
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.6], [0.1, 0.2, 0.3]])
    found = ranking_measures(scores, np.array([0, 0, 1]))
    assert found["mrr10"] == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)
    assert found["ndcg10"] == pytest.approx((1 + 1 / np.log2(4) + 1 / np.log2(3)) / 3)


def test_ties_count_against_the_relevant_document():
    assert ranking_measures(np.zeros((1, 4)), np.array([0]))["mrr10"] == pytest.approx(1 / 4)
    assert ranking_measures(np.zeros((2, 50)), np.array([0, 49])) == {"mrr10": 0.0, "ndcg10": 0.0}
    run = pessimistic_run(np.array([[1.0, 2.0, 1.0, 1.0]]), np.array([0]))["q0"]
    assert sorted(run, key=run.get, reverse=True) == ["d1", "d2", "d3", "d0"]


def test_codes_that_collapse_do_not_look_perfect():
    codebooks, _, _, _ = coded()
    offsets = np.arange(0, 41, 2)
    codes = np.zeros((40, 3), np.uint8)
    query = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
    scores = score_rows(codes, offsets, np.arange(20), query_tables(query, codebooks))
    assert ranking_measures(scores[None], np.array([3]))["mrr10"] == 0
