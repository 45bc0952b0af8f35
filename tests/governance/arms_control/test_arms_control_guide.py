"""The worked example of the guide runs as it stands and prints what the guide shows."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from workingpapers.cli import main

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "arms_control.md"


def essence(text: str) -> str:
    """What must agree: no hashes, times or layout."""
    text = re.sub(r"\b[0-9a-f]{16,}\b", "HASH", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return " ".join(re.sub(r"[─]+", " ", text).split())


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"(?:File `([^`]+)`:\n\n)?```(\w+)\n(.*?)\n```", text, re.DOTALL)
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
            assert program == "papers"
            refused = "papers: Refused" in expected
            assert main(arguments) == (2 if refused else 0)
            shown = capsys.readouterr()
            assert essence(shown.out + shown.err) == essence(expected)
            ran += 1
    assert ran == 15


def test_the_guide_says_what_cannot_be_established() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for sentence in ("it cannot establish", "undeclared", "not behaviour", "imperfect", "withhold"):
        assert sentence in text
