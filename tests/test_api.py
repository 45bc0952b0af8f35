"""The three verbs from Python."""

import pytest

import workingpapers
from workingpapers.foundations.errors import InputError


def test_names():
    assert workingpapers.__version__
    assert {paper.slug for paper in workingpapers.papers()} >= {"residual_augmentation"}
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        workingpapers.other  # noqa: B018


def test_search_finds_a_method_by_what_it_does():
    answer = workingpapers.search("counterfactual data augmentation for regression")
    assert answer.hits[0].record.slug == "residual_augmentation"


def test_check_and_results():
    (record,) = workingpapers.check(
        "residual_augmentation", claims=["refusal"], size="smallest", seeds=2, jobs=1, watch=lambda event: None
    )
    assert record["verdict"] in ("supported", "not supported", "inconclusive")
    assert workingpapers.results("residual_augmentation")[0]["run"] == record["run"]
    assert workingpapers.results()[0]["claim"] == "refusal"


def test_unknown_names_are_input_errors():
    with pytest.raises(InputError, match="There is no paper"):
        workingpapers.check("nothing_like_it")
    with pytest.raises(InputError, match="has no claim"):
        workingpapers.check("residual_augmentation", claims=["nothing_like_it"])
