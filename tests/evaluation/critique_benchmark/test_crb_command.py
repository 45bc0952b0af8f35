"""The command: tables in, reports out, and one sentence for everything that cannot be used."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workingpapers.cli import main
from workingpapers.evaluation.critique_benchmark.command import run
from workingpapers.evaluation.critique_benchmark.rating import ItemizedBT
from workingpapers.evaluation.critique_benchmark.simulation import simulate
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "critique_benchmark.md"
MODELS = ("scripted/1", "scripted/0.2", "scripted/-0.4", "scripted/-1")


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "games.csv"
    simulate(np.random.default_rng(0), models=5, items=10).frame().to_csv(path, index=False)
    return path


@pytest.fixture
def topics(tmp_path) -> Path:
    path = tmp_path / "topics.txt"
    path.write_text("# subjects\nprimes\n\ngroups\n")
    return path


def test_a_table_gives_ratings_intervals_and_a_picture(table, tmp_path) -> None:
    outcome = run(table, out=tmp_path / "r.csv", report=tmp_path / "r.html", draws=20)
    right = ItemizedBT().fit(pd.read_csv(table)).ratings_
    written = pd.read_csv(tmp_path / "r.csv")
    np.testing.assert_allclose(written["beta"], right["beta"])
    np.testing.assert_allclose(written["alpha_high"], right["alpha"] + 1.96 * right["alpha_se"])
    assert outcome.data["ratings"][0]["model"] == right["model"][0]
    assert repr(right["model"][0]) in outcome.summary
    assert json.loads(json.dumps(dict(outcome.data)))["games"] == len(pd.read_csv(table))
    report = (tmp_path / "r.html").read_text()
    assert "<svg" in report
    assert all(name in report for name in right["model"])
    assert [str(file) for file in outcome.files] == [str(tmp_path / "r.csv"), str(tmp_path / "r.html")]


def test_scales_can_be_given(table) -> None:
    outcome = run(table, answerer_scale=2.0, author_scale=0.0, item_scale=1.0, draws=0)
    assert outcome.data["scales"] == {"answerer": 2.0, "author": 0.0, "item": 1.0}
    assert all(row["alpha"] is None for row in outcome.data["ratings"])
    assert "hardest" not in outcome.summary


def test_groups_without_a_link_are_named(tmp_path) -> None:
    rows = [("a", "x", "1", 1), ("b", "x", "1", 0), ("c", "y", "2", 1), ("d", "y", "2", 0)]
    path = tmp_path / "g.csv"
    pd.DataFrame(rows, columns=["answerer", "author", "item", "outcome"]).to_csv(path, index=False)
    assert "2 groups without common authors" in run(path, draws=0).summary


def test_the_protocol_runs_resumes_and_accounts(topics, tmp_path) -> None:
    files = {"store": tmp_path / "e.jsonl", "queue": tmp_path / "q.csv", "games_out": tmp_path / "g.csv"}
    first = run(topics=topics, models=MODELS, report=tmp_path / "r.html", draws=0, **files)
    assert first.data["games"] + first.data["dropped"] == 2 * 4 * 3
    assert len(pd.read_csv(tmp_path / "g.csv")) == first.data["games"]
    assert first.data["open_claims"] == len(pd.read_csv(tmp_path / "q.csv"))
    second = run(topics=topics, models=MODELS, draws=0, **files)
    assert second.data["calls"] == 0
    assert second.data["ratings"] == first.data["ratings"]
    limited = run(topics=topics, models=MODELS, draws=0, limit=1, **files)
    assert limited.data["calls"] == 0
    assert limited.data["games"] + limited.data["dropped"] == 4 * 3


def test_a_dry_run_asks_nobody_and_writes_nothing(topics, tmp_path, data_folder) -> None:
    before = set(tmp_path.iterdir())
    outcome = run(topics=topics, models=("openai/a", "openai/b", "anthropic/c"), dry_run=True)
    assert outcome.data["calls"] > 50
    assert set(tmp_path.iterdir()) == before
    assert not (data_folder / "critique_benchmark").exists()


def test_a_budget_of_nothing_rates_nothing_and_says_so(topics, tmp_path) -> None:
    outcome = run(topics=topics, models=MODELS, budget=0, store=tmp_path / "e.jsonl")
    assert "nothing to rate yet" in outcome.summary
    assert "run it again to go on" in outcome.summary
    assert not run(topics=topics, models=MODELS, budget=20_000, store=tmp_path / "e.jsonl", draws=0).data.get(
        "finished"
    )


def test_the_default_store_stands_in_the_data_folder(topics, data_folder) -> None:
    run(topics=topics, models=MODELS, limit=1, draws=0)
    assert (data_folder / "critique_benchmark" / "events.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Give either a table of games, or --topics"),
        ({"games": "g", "topics": "t"}, "Give either"),
        ({"games": "g", "models": MODELS}, "leave out the options of the protocol"),
        ({"topics": "t"}, "There are no models"),
        ({"topics": "t", "models": MODELS[:2]}, "There are 2 judges"),
        ({"topics": "t", "models": (*MODELS, MODELS[0])}, "'scripted/1' is listed twice"),
        ({"topics": "t", "models": ("nonsense/a", "nonsense/b", "nonsense/c")}, "'nonsense/a' cannot be used"),
        ({"topics": "t", "models": MODELS, "store": "g"}, "is not an event store"),
        ({"topics": "t", "models": MODELS, "rubrics": "g"}, "is not TOML"),
        ({"topics": "t", "models": MODELS, "labels": "g"}, "has no column 'claim_id'"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(arguments, said, table, topics, tmp_path) -> None:
    places = {"g": table, "t": topics}
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=said):
        run(
            **{name: places.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()}
        )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("temperature", "3", "--temperature is 3; it must be from 0 to 2"),
        ("budget", "-1", "--budget is -1; it must be at least 0"),
        ("attempts", "0", "--attempts is 0"),
        ("answerer_scale", "0", "--answerer-scale is 0; it must be over 0"),
        ("panel", "unanimus", "did you mean 'unanimous'"),
        ("limit", "many", "'many', which is not a whole number"),
    ],
)
def test_options_are_converted_and_checked(option, value, said) -> None:
    found = next(item for item in parameters(run) if item.name == option)
    with pytest.raises(InputError, match=re.escape(said)):
        convert(found, value)


def test_models_may_be_listed_with_commas() -> None:
    found = next(item for item in parameters(run) if item.name == "models")
    assert convert(found, ["a/b,c", "d"]) == ("a/b", "c", "d")


def essence(text: str) -> str:
    """What must agree: words and numbers, not layout."""
    return " ".join(text.replace("─", " ").split())


def test_the_guide_runs(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    blocks = re.findall(r"(?:File `([^`]+)`:\n\n)?```(\w+)\n(.*?)\n```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    ran = 0
    for name, language, body in blocks:
        if name:
            Path(name).write_text(body + "\n", encoding="utf-8")
        elif language == "python":
            exec(compile(body, "guide", "exec"), {})
        if language != "console":
            continue
        for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            program, *arguments = shlex.split(command)
            if program == "python":
                runpy.run_path(arguments[0])
                continue
            assert main(arguments) == 0, capsys.readouterr().err
            shown = capsys.readouterr().out
            if expected:
                assert essence(shown) == essence(expected)
            ran += 1
    assert ran == 4
    written = {"ratings.csv", "ratings.html", "events.jsonl", "open.csv", "played.csv", "benchmark.html"}
    assert written <= set(os.listdir())
    ratings = pd.read_csv("ratings.csv").set_index("model")
    assert ratings["beta"].idxmax() == "ada"
    assert ratings["alpha"].idxmax() == "ada"
