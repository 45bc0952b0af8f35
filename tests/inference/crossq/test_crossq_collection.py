from workingpapers.inference.crossq import experiments
from workingpapers.inference.crossq.collection import _split, docstring_collection

TEXT = """frobnicate(a, b)

Apply frobnicate to both arguments in turn.

Parameters
----------
a : int
    The first one. frobnicate needs it. {filler}

Examples
--------
>>> frobnicate(1, 2)
"""


def test_a_docstring_is_cut_into_query_and_document_without_its_name():
    query, document = _split(TEXT.format(filler="word " * 50), "frobnicate")
    assert query == "Apply it to both arguments in turn."
    assert document.startswith("Parameters ---------- a : int The first one. it needs it. word")
    assert "frobnicate" not in query + document
    assert "Examples" not in document
    assert _split(TEXT.format(filler="word"), "frobnicate") is None


def test_the_collection_is_the_same_every_time_and_queries_are_distinct():
    first, again = docstring_collection(50), docstring_collection(50)
    assert first == again
    assert len(set(first.queries)) == len(first.queries) == 50
    assert all(len(text.split()) >= 40 for text in first.documents)


def test_training_and_held_out_queries_are_apart_and_differ_by_seed():
    splits = [experiments._split(seed, 100, 60, 40) for seed in (0, 1)]
    for training, held_out in splits:
        assert len(training) == 60
        assert not set(training) & set(held_out)
    assert set(splits[0][1]) != set(splits[1][1])


def test_options_of_the_learned_arm_do_what_they_say():
    size = {"documents": 60, "training": 30, "held_out": 30, "steps": 20}
    untrained = experiments.learned(0, bytes_per_token=4, untrained=True, **size)
    assert untrained["best_step"] == 0
    assert untrained["stored_bytes"] == 4
    useful = experiments.learned(0, bytes_per_token=2, untrained=True, stages=3, **size)
    chance = experiments.learned(0, bytes_per_token=2, untrained=True, stages=3, random_drop=True, **size)
    assert useful["stored_bytes"] == chance["stored_bytes"]
    assert useful["mse"] == chance["mse"]  # the codes are the same, what is left out is not
    assert useful["mrr10"] != chance["mrr10"]
    later = experiments.learned(0, bytes_per_token=4, untrained=True, first_draw=1000, **size)
    assert later == {
        **experiments.learned(1000, bytes_per_token=4, untrained=True, **size),
        "fit_seconds": later["fit_seconds"],
    }
