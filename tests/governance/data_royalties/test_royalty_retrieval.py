"""Attribution of an answer to the texts in its context."""

from __future__ import annotations

import math

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.governance.data_royalties.retrieval import (
    MAX_CHUNKS,
    MixtureUtility,
    attribute_context,
    attribute_contexts,
)


def test_mixture_log_likelihood_by_hand():
    utility = MixtureUtility(pair=0.5, single=0.3, vocabulary=100)
    # words: a b a; pairs: a->b, b->a; answer "a b".
    expected = math.log(0.5 * 2 / 3 + 0.3 * 2 / 3 + 0.2 / 100) + math.log(0.5 * 1.0 + 0.3 * 1 / 3 + 0.2 / 100)
    assert utility(["a b a"], "A, b!") == pytest.approx(expected, abs=1e-12)
    assert utility([], "a b") == pytest.approx(2 * math.log(0.2 / 100), abs=1e-12)


def test_the_source_of_the_answer_is_paid_and_the_sum_is_the_gain():
    chunks = [
        ("source", "the moon of mars called phobos will break up in fifty million years"),
        ("same topic", "mars is the fourth planet and has two moons"),
        ("nothing", "whisk eggs with sugar until pale"),
    ]
    answer = "phobos will break up in fifty million years"
    scores, base = attribute_context(chunks, answer)
    utility = MixtureUtility()
    assert sum(scores.values()) == pytest.approx(utility([text for _, text in chunks], answer) - base, abs=1e-9)
    assert scores["source"] > 10 * max(abs(scores["same topic"]), abs(scores["nothing"]))


def test_copies_of_a_chunk_share_and_chunks_of_a_work_add_up():
    text = "phobos will break up in fifty million years"
    scores, _ = attribute_context([("a", text), ("b", text), ("c", "eggs and sugar")], text)
    assert scores["a"] == pytest.approx(scores["b"], abs=1e-12)
    merged, _ = attribute_context([("a", text), ("a", text), ("c", "eggs and sugar")], text)
    assert merged["a"] == pytest.approx(scores["a"] + scores["b"], abs=1e-12)


def test_any_callable_is_a_utility():
    scores, base = attribute_context([("a", "x"), ("b", "y")], "z", lambda texts, answer: -1.0 + 2.0 * ("x" in texts))
    assert scores == {"a": 2.0, "b": 0.0}
    assert base == -1.0


def test_an_answer_without_context_owes_nobody():
    assert attribute_context([], "anything")[0] == {}


def test_bad_contexts_are_refused():
    with pytest.raises(InputError, match=f"There are {MAX_CHUNKS + 1} chunks"):
        attribute_context([("a", "x")] * (MAX_CHUNKS + 1), "x")
    with pytest.raises(InputError, match="not a finite number"):
        attribute_context([("a", "x")], "x", lambda texts, answer: float("-inf"))
    with pytest.raises(InputError, match="Record 2 needs"):
        attribute_contexts(
            [{"event_id": "1", "answer": "a", "chunks": []}, {"event_id": "2", "answer": "a", "chunks": "b"}]
        )
