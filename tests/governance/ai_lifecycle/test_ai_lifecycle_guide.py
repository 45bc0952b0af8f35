"""The worked example of the guide runs as it stands and prints what the guide shows."""

import csv
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from workingpapers.cli import main

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "ai_lifecycle.md"
BLOCK = re.compile(r"(?:File `([^`]+)`:\n\n)?```(\w+)\n(.*?)\n```", re.DOTALL)


def essence(text):
    """What must agree: no layout, and not which optional sources of factors happen to be installed."""
    text = " ".join(re.sub(r"[─]+", " ", text).split())
    return re.sub(r" Not installed: [\w, ]+\.", "", text)


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    ran = 0
    for name, language, body in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if name:
            (tmp_path / name).write_text(body + "\n", encoding="utf-8")
        elif language == "python":
            exec(compile(body, "guide", "exec"), {})
            assert capsys.readouterr().out.count("\n") == 3
        if language != "console":
            continue
        for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            program, *arguments = shlex.split(command)
            if program == "python":
                runpy.run_path(arguments[0])
                continue
            assert program == "papers"
            assert main(arguments) == 0
            shown = capsys.readouterr()
            assert essence(shown.out + shown.err) == essence(expected)
            ran += 1
    assert ran == 4
    data = json.loads((tmp_path / "chat.json").read_text())
    rows = list(csv.DictReader((tmp_path / "chat.csv").open()))
    for category, impact in data["impacts"].items():
        total = sum(float(row["impact"]) for row in rows if row["category"] == category)
        assert total == pytest.approx(impact["central"], rel=1e-12)
    report = (tmp_path / "chat.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 5
    for said in ("1 Goal", "2 Scope", "Critical review".lower(), "Rebound", "6 Limits", "zeus log zeus.csv, 2 runs"):
        assert said in report, said


def test_the_guide_says_what_cannot_be_established():
    text = GUIDE.read_text(encoding="utf-8")
    for said in (
        "it cannot establish",
        "that is a forecast",
        "leaves no trace",
        "does not model markets",
        "critical review",
    ):
        assert said in text
