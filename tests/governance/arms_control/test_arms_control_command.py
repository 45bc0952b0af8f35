"""The commands from files to outcomes, and what they say to unusable input."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.governance.arms_control import command
from workingpapers.governance.arms_control.escalation import CATEGORIES

BALANCE = {
    "actors": ["north", "south"],
    "reaction": [[0, 0.9], [1.0, 0]],
    "fatigue": [1.2, 1.1],
    "grievance": [1.0, 2.0],
}


def write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with keys, a declaration of 30 items and its book."""
    (tmp_path / "weights.bin").write_bytes(b"weights")
    items = [{"id": f"chip-{k}", "kind": "accelerator", "attributes": {"site": "A"}} for k in range(29)]
    items.append({"id": "model", "kind": "model", "files": ["weights.bin"]})  # type: ignore[dict-item]
    write(tmp_path / "items.json", {"origin": "lab.example", "items": items})
    command.run_keys(private=tmp_path / "key", public=tmp_path / "key.pub")
    command.run_declare(
        tmp_path / "items.json", key=(tmp_path / "key",), out=tmp_path / "declaration", book=tmp_path / "book"
    )
    return tmp_path


def draw(lab: Path, subject: str, count: int, key: tuple[Path, ...]) -> Path:
    for party in ("inspector", "lab"):
        command.run_commit(
            lab / subject, party=party, count=count, out=lab / f"{party}.c", opening=lab / f"{party}.o", key=key
        )
    command.run_draw(
        commitment=(lab / "lab.c", lab / "inspector.c"), opening=(lab / "lab.o", lab / "inspector.o"), out=lab / "drawn"
    )
    return lab / "drawn"


def test_from_declaration_to_verified_sample(lab: Path) -> None:
    challenge = draw(lab, "declaration", 10, (lab / "key.pub",))
    command.run_prove(lab / "book", key=(lab / "key",), out=lab / "evidence", challenge=challenge, absent=("ghost",))
    outcome = command.run_verify(
        lab / "declaration", lab / "evidence", key=(lab / "key.pub",), challenge=challenge, ask=("ghost",),
        commitment=(lab / "inspector.c",), files=lab, report=lab / "report.html",
    )  # fmt: skip
    assert outcome.data["accepted"] is True
    assert len(outcome.data["items"]) == 10
    assert outcome.data["absent"] == ["ghost"]
    assert outcome.data["assurance"][0] == [1, pytest.approx(1 / 3)]
    assert "<svg" in (lab / "report.html").read_text()
    json.dumps(outcome.data, allow_nan=False)
    for secret in ("key", "book", "lab.o"):
        assert stat.S_IMODE((lab / secret).stat().st_mode) == 0o600


def test_refusals_end_with_an_error_unless_told_otherwise(lab: Path) -> None:
    keys = (lab / "key.pub",)
    command.run_prove(lab / "book", key=(lab / "key",), out=lab / "evidence", request="17", item=("model",))
    good = command.run_verify(lab / "declaration", lab / "evidence", key=keys, request="17", ask=("model",), files=lab)
    assert ["files", "1 file hashed again and found as declared"] in good.data["checks"]
    with pytest.raises(InputError, match="Refused: the evidence does not answer this challenge"):
        command.run_verify(lab / "declaration", lab / "evidence", key=keys, request="18", report=lab / "r.html")
    assert "REFUSED" in (lab / "r.html").read_text()
    (lab / "weights.bin").write_bytes(b"Weights")
    told = command.run_verify(lab / "declaration", lab / "evidence", key=keys, request="17", files=lab, strict=False)
    assert told.data["accepted"] is False
    assert "weights.bin differs" in told.data["refusal"]
    assert "items" not in told.data
    text = (lab / "declaration").read_bytes()
    (lab / "declaration").write_bytes(text.replace(b"e", b"f", 1))
    assert command.run_verify(lab / "declaration", key=keys, strict=False).summary.startswith("REFUSED")


def test_next_declaration_and_its_history(lab: Path) -> None:
    content = json.loads((lab / "items.json").read_text())
    content["items"].append({"id": "more", "kind": "dataset"})
    write(lab / "items2.json", content)
    later = "2099-01-01T00:00:00Z"
    command.run_declare(
        lab / "items2.json",
        key=(lab / "key",),
        out=lab / "second",
        book=lab / "book2",
        previous=lab / "book",
        time=later,
    )
    command.run_prove(
        lab / "book2", key=(lab / "key",), out=lab / "history", previous=lab / "book", directory=True, time=later
    )
    outcome = command.run_verify(
        lab / "second", lab / "history", key=(lab / "key.pub",), previous=lab / "declaration", now=later, directory=True
    )
    names = [name for name, _ in outcome.data["checks"]]
    assert names == ["declaration", "succession", "evidence", "freshness", "history", "directory"]
    with pytest.raises(InputError, match="is shown again"):
        command.run_verify(lab / "declaration", key=(lab / "key.pub",), previous=lab / "second")
    only = command.run_verify(lab / "second", key=(lab / "key.pub",), previous=lab / "declaration", now=later)
    assert "No evidence was given" in only.summary


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"threshold": 2}, "threshold is 2 of 1"),
        ({"request": "1"}, "name the evidence file"),
        ({"now": "today"}, "2026-01-31T12:00:00Z"),
        ({"key": ()}, "threshold is 0 of 0"),
        ({"files": Path("absent")}, "name the evidence file"),
    ],
)
def test_verify_without_sense(lab: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        command.run_verify(lab / "declaration", **{"key": (lab / "key.pub",), **options})


def test_keys_and_books_are_not_mixed_up(lab: Path) -> None:
    with pytest.raises(InputError, match="never overwritten"):
        command.run_keys(private=lab / "key", public=lab / "other.pub")
    with pytest.raises(InputError, match="name two files"):
        command.run_keys(private=lab / "new", public=lab / "new")
    with pytest.raises(InputError, match="is a private key"):
        command.run_verify(lab / "declaration", key=(lab / "key",))
    with pytest.raises(InputError, match="given twice"):
        command.run_verify(lab / "declaration", key=(lab / "key.pub", lab / "key.pub"))
    with pytest.raises(InputError, match="name two files"):
        command.run_declare(lab / "items.json", key=(lab / "key",), out=lab / "x", book=lab / "x")
    command.run_keys(private=lab / "ec", public=lab / "ec.pub", kind="p256")
    with pytest.raises(InputError, match="not Ed25519"):
        command.run_declare(lab / "items.json", key=(lab / "ec",), out=lab / "x", book=lab / "y")
    assert not (lab / "x").exists()
    assert not (lab / "y").exists()
    with pytest.raises(InputError, match="without a public key"):
        command.run_commit(lab / "declaration", party="a", count=1, out=lab / "c", opening=lab / "o")
    with pytest.raises(InputError, match="there are 30 to draw from"):
        draw(lab, "declaration", 31, (lab / "key.pub",))
    with pytest.raises(InputError, match="Nothing was asked for"):
        command.run_prove(lab / "book", key=(lab / "key",), out=lab / "e")
    with pytest.raises(InputError, match="did you mean 'chip-"):
        command.run_prove(lab / "book", key=(lab / "key",), out=lab / "e", item=("chip_3",))
    command.run_sign_model(lab / "book", item="model", key=lab / "ec", out=lab / "model.sig")
    assert json.loads((lab / "model.sig").read_text())["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"


def test_stability_report(tmp_path: Path) -> None:
    content = {
        **BALANCE,
        "cooperation": {"temptation": 5, "reward": 3, "punishment": 1, "sucker": 0, "detection": 0.5, "discount": 0.8},
        "surprise": {"hold": 0, "first": -2, "struck": 10, "both": 8, "prior": 0.01, "hit": 0.9, "false_alarm": 0.05},
        "deterrence": {"gain": 1, "loss": 3},
    }
    outcome = command.run_stability(write(tmp_path / "b.json", content), report=tmp_path / "r.html")
    assert outcome.data["balance"]["stable"] is True
    assert outcome.data["balance"]["critical_reactions"][0][1] == pytest.approx(1.32)
    assert outcome.data["cooperation"]["discount factor from which complying pays"] == pytest.approx(2 / 3)
    assert outcome.data["deterring_detection"] == 0.25
    assert "Complying pays at a discount factor of 0.8." in outcome.summary
    assert (tmp_path / "r.html").read_text().count("<svg") == 2
    json.dumps(outcome.data, allow_nan=False)


def test_unstable_and_larger_balances_and_chains(tmp_path: Path) -> None:
    unstable = {**BALANCE, "reaction": [[0, 1.3], [1.3, 0]], "fatigue": [1.2, 1.2]}
    outcome = command.run_stability(write(tmp_path / "b.json", unstable), report=tmp_path / "r.html")
    assert "unstable (exact test)" in outcome.summary
    json.dumps(outcome.data, allow_nan=False)
    chain = {"reaction": [[0, 0, 0], [0.5, 0, 0], [0, 0.4, 0]], "fatigue": [1, 1, 1], "grievance": [1, 0, 0]}
    outcome = command.run_stability(write(tmp_path / "b.json", chain), report=tmp_path / "r.html")
    assert outcome.data["balance"]["equilibrium"] == pytest.approx([1, 0.5, 0.2])
    assert "no reaction comes back" in outcome.summary


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fatigue": [1.2]}, "need"),
        ({"fatigue": [1.2, -1]}, "fatigue of actor 2 is -1"),
        ({"speed": 1}, r"found \['speed'\]"),
        ({"cooperation": {"temptation": 1}}, "field reward is None"),
        (
            {"cooperation": {"temptation": 1, "reward": 3, "punishment": 1, "sucker": 0, "detection": 0.5}},
            "T > R > P > S",
        ),
        ({"surprise": 3}, "object with numbers"),
        ({"reaction": [[0, "x"], [1, 0]]}, "tables of numbers"),
    ],
)
def test_balances_that_cannot_be_analysed(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    path = write(tmp_path / "b.json", {**BALANCE, **change})
    with pytest.raises(InputError, match=reason):
        command.run_stability(path, report=tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_inspection_plan(tmp_path: Path) -> None:
    outcome = command.run_inspect(
        size=1000, violations=10, wanted=0.95, periods=10, inspections=3, gain=1, loss=4, report=tmp_path / "r.html"
    )
    assert outcome.data["needed"] == 258
    assert outcome.data["detection"] == pytest.approx(0.9502, abs=1e-4)
    assert outcome.data["game"]["value"] == "-21/44"
    assert "Deterrence needs 0.2: reached" in outcome.summary
    given = command.run_inspect(size=1000, violations=10, miss=0.3, count=258)
    assert given.data["detection"] == pytest.approx(0.8644, abs=1e-4)


def test_stratified_plan_and_bad_tables(tmp_path: Path) -> None:
    table = tmp_path / "strata.csv"
    table.write_text("name,size,miss,cost\nchips,300,0,1\nruns,40,0.1,2\n")
    outcome = command.run_inspect(strata=table, violations=5, wanted=0.9)
    assert outcome.data["detection"] >= 0.9
    assert outcome.data["cost"] == outcome.data["plan"]["chips"] + 2 * outcome.data["plan"]["runs"]
    for text, reason in (
        ("name,size\nchips,many\n", "no number"),
        ("name,size\nchips,2.5\n", "whole numbers"),
        ("name,items\nchips,3\n", "no column 'size'"),
        ("name,size,cost\nchips,3,0\n", "more than 0"),
    ):
        table.write_text(text)
        with pytest.raises(InputError, match=reason):
            command.run_inspect(strata=table)
    for options, reason in (
        ({}, "either --size"),
        ({"size": 5, "strata": table}, "either --size"),
        ({"size": 5, "violations": 6}, "from 0 to the 5 items"),
        ({"size": 5, "periods": 3}, "both or neither"),
        ({"size": 5, "gain": 1.0}, "both --gain and --loss"),
        ({"strata": table, "count": 3}, "leave out --count"),
    ):
        with pytest.raises(InputError, match=reason):
            command.run_inspect(**options)  # type: ignore[arg-type]


def test_transcript_from_files(tmp_path: Path) -> None:
    from workingpapers.governance.arms_control.transcript import record
    from workingpapers.governance.arms_control.transcript_files import checkpoint_name, load_step, write_transcript

    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    np.savez(tmp_path / "data.npz", x=x, y=x @ np.ones(3))
    step = tmp_path / "step.py"
    step.write_text(
        "def step(state, batch, seed, settings):\n    x, y = batch\n"
        "    return {'w': state['w'] - settings['rate'] * x.T @ (x @ state['w'] - y) / len(y)}\n"
    )
    plan = [(rng.integers(0, 50, 10), 0) for _ in range(20)]
    transcript, checkpoints, logs = record(
        {"w": np.zeros(3)}, load_step(step), (x, x @ np.ones(3)), plan, {"rate": 0.1}, 2
    )
    path = write_transcript(tmp_path / "run", transcript, checkpoints, logs)
    options: dict[str, Any] = {"data": tmp_path / "data.npz", "step": step}
    good = command.run_transcript(path, root=transcript.root(), **options, report=tmp_path / "r.html")
    assert good.data["accepted"] is True
    assert len(good.data["segments"]) == 10
    challenge = draw(tmp_path, "run/transcript.json", 4, ())
    assert len(command.run_transcript(path, challenge=challenge, **options).data["segments"]) == 4
    with pytest.raises(InputError, match="not the declared"):
        command.run_transcript(path, root="00" * 32, **options)
    with pytest.raises(InputError, match="There is no segment 10"):
        command.run_transcript(path, segment=(10,), **options)
    with pytest.raises(InputError, match="decides alone"):
        command.run_transcript(path, segment=(1,), challenge=challenge, **options)
    with pytest.raises(InputError, match="from 1 to 10"):
        command.run_transcript(path, forged=11, **options)
    np.savez(tmp_path / "run" / checkpoint_name(4), w=checkpoints[4]["w"] + 1e-15)
    with pytest.raises(InputError, match=r"2 of 10 re-run segments were not reproduced, the first being 3"):
        command.run_transcript(path, **options)
    told = command.run_transcript(path, strict=False, segment=(3, 5), **options)
    assert [row[1] for row in told.data["segments"]] == ["not the committed checkpoint", "reproduced"]


def test_compute_account(tmp_path: Path) -> None:
    chip = {"count": 10, "peak": 1e12, "hours": 100, "utilisation": 0.5}
    log = {**chip, "utilisation": 0.4}
    content = {"runs": [{"operations": 1.2e18}], "chips": [chip], "logs": [log]}
    outcome = command.run_compute(write(tmp_path / "c.json", content), report=tmp_path / "r.html")
    assert outcome.data["finding"] == "unexplained compute"
    with pytest.raises(InputError, match="lists runs, chips and logs"):
        command.run_compute(write(tmp_path / "c.json", {"runs": []}))


def test_escalation_from_a_log(write_log: Callable[..., Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        {"run": f"{model}{run}", "day": day, "actor": actor, "model_id": model,
         "category": CATEGORIES[int(rng.integers(0, 3 + bias))],
         "human_override": bool(rng.random() < (0.5 if day <= 10 else 0.05)), "latency_s": 9.0}
        for model, bias in (("calm", 0), ("hot", 2)) for run in range(6) for day in range(1, 21) for actor in "ab"
    ]  # fmt: skip
    outcome = command.run_escalation(write_log(lines), baseline_days=8, review_seconds=5, report=tmp_path / "r.html")
    assert outcome.data["comparisons"][0]["p"] < 0.01
    assert 11 <= outcome.data["cusum"]["alarm"] <= 13
    assert 10 <= outcome.data["break"]["day"] <= 12
    assert outcome.data["influence"]["review_share"] == 1
    assert (tmp_path / "r.html").read_text().count("<svg") == 2
    json.dumps(outcome.data, allow_nan=False)
    alone = command.run_escalation(write_log([{k: v for k, v in lines[0].items() if k != "human_override"}]))
    assert "does not say whether humans looked" in alone.summary
    json.dumps(alone.data, allow_nan=False)


@pytest.mark.parametrize(
    ("function", "name", "text", "reason"),
    [
        (command.run_inspect, "wanted", "1", "over 0 and under 1"),
        (command.run_inspect, "miss", "-0.1", "from 0 to 1"),
        (command.run_inspect, "size", "0", "at least 1"),
        (command.run_keys, "kind", "ed25518", "did you mean 'ed25519'"),
        (command.run_declare, "days", "many", "not a whole number"),
        (command.run_transcript, "tolerance", "-1", "at least 0"),
        (command.run_compute, "tolerance", "1", "from 0 and under 1"),
        (command.run_verify, "declaration", "no-such-file", "There is no file"),
        (command.run_escalation, "baseline", "0", "over 0 and under 1"),
    ],
)
def test_options_are_checked_before_the_call(function: Callable[..., Any], name: str, text: str, reason: str) -> None:
    (parameter,) = [entry for entry in parameters(function) if entry.name == name]
    with pytest.raises(InputError, match=reason):
        convert(parameter, text)


def test_every_parameter_of_every_command_is_described() -> None:
    functions = [value for name, value in vars(command).items() if name.startswith("run_")]
    assert len(functions) == 12
    for function in functions:
        assert all(parameter.help for parameter in parameters(function)), function.__name__
