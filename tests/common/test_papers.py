"""What every paper folder passes by existing."""

import ast
import importlib
import inspect
import json
import pickle
import subprocess
import sys

import pytest

from workingpapers.catalog.papers import AREAS, all_papers
from workingpapers.cli import main
from workingpapers.foundations.progress import silent
from workingpapers.foundations.signature import parameters, summary_line
from workingpapers.replication.evidence import shipped
from workingpapers.replication.runner import run_claim
from workingpapers.replication.store import Store

PAPERS = all_papers()
EACH = pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.slug)
CLAIMS = [(paper, claim) for paper in PAPERS if paper.has_claim for claim in paper.claims()]
EACH_CLAIM = pytest.mark.parametrize(
    ("paper", "claim"), CLAIMS, ids=[f"{paper.slug}-{claim.name}" for paper, claim in CLAIMS]
)
COMMANDS = [
    (paper, name, function) for paper in PAPERS if paper.has_command for name, function in paper.commands().items()
]
EACH_COMMAND = pytest.mark.parametrize(
    ("paper", "name", "function"), COMMANDS, ids=[f"{paper.slug}-{name or 'run'}" for paper, name, _ in COMMANDS]
)
HEAVY = ("torch", "transformers", "sklearn", "pandas", "jax", "xgboost", "inspect_ai")


def test_there_are_papers():
    assert PAPERS
    assert len({paper.slug for paper in PAPERS}) == len(PAPERS)


@EACH
def test_record_is_complete(paper):
    assert paper.area in AREAS
    assert 60 <= len(paper.summary.split()) <= 200
    assert len(paper.keywords) >= 3
    assert paper.headline
    assert all(result and setting for result, setting in paper.headline)
    assert paper.arxiv or paper.code or paper.authors
    assert not paper.abstract_sha256 or len(paper.abstract_sha256) == 64


@EACH
def test_folder_imports_foundations_and_claim_types_only(paper):
    for file in paper.folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                continue
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                if name == "workingpapers" or name.startswith("workingpapers."):
                    allowed = ("workingpapers.foundations", "workingpapers.replication.claim", paper.module)
                    assert name.startswith(allowed), f"{file.name} imports {name}"


@EACH
def test_command_imports_nothing_heavy(paper):
    if not paper.has_command:
        return
    code = f"import sys, {paper.module}.command; print([name for name in {HEAVY!r} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


@EACH
def test_public_names_are_documented(paper):
    module = importlib.import_module(paper.module)
    text = inspect.getdoc(module) or ""
    assert "arXiv" in text or "References" in text
    assert module.__all__
    everything = text
    for name in module.__all__:
        value = getattr(module, name)
        documentation = inspect.getdoc(value) or ""
        everything += documentation
        assert documentation or not callable(value), f"{name} has no docstring"
        if inspect.isfunction(value) and inspect.signature(value).parameters:
            assert "Args:" in documentation, f"{name} does not describe its arguments"
    assert "shape" in everything or "(n" in everything


@EACH_CLAIM
def test_claim_is_well_formed(paper, claim):
    module = importlib.import_module(f"{paper.module}.claim")
    assert paper.claims()[0] is module.CLAIM
    names = [item.name for item in paper.claims()]
    assert len(set(names)) == len(names)
    assert claim.statement.endswith(".")
    assert len(claim.arms) >= 1
    for arm in claim.arms.values():
        assert pickle.loads(pickle.dumps(arm)) is not None
    sizes = [claim.size(name).seeds for name in ("smallest", "small", "full")]
    assert sizes == sorted(sizes)


@EACH_CLAIM
def test_claim_runs_at_its_smallest_size_and_repeats_itself(paper, claim):
    run = run_claim(paper.slug, paper.folder, claim, Store(), size="smallest", jobs=1)
    assert run.result["verdict"] in ("supported", "not supported", "inconclusive")
    assert run.result["reason"]
    settings = claim.size("smallest").settings
    for name, arm in claim.arms.items():
        again = arm(0, silent, **settings)
        for metric, value in again.items():
            if "seconds" not in metric:
                first = run.result["arms"][name][metric][0]
                assert first is None or first == float(value), f"{name}: {metric} differs between two runs of seed 0"


@EACH_CLAIM
def test_shipped_evidence_is_about_this_claim(paper, claim):
    found = {item["claim"]: item for item in shipped(paper.folder)}
    assert claim.name in found, "make evidence"
    item = found[claim.name]
    assert item["statement"] == claim.statement
    assert item["size"] == "small"
    assert item["seeds"] == claim.size("small").seeds
    assert item["settings"] == json.loads(json.dumps(dict(claim.size("small").settings)))
    assert set(item["arms"]) == set(claim.arms)


@EACH_COMMAND
def test_command_is_described(paper, name, function):
    assert summary_line(function).endswith(".")
    for item in parameters(function):
        assert item.help, f"--{item.name} has no description"


def arguments_of(function, folder, changed, value):
    """Return words that fill every required parameter with something harmless, but `changed` with `value`."""
    table = folder / "good.csv"
    table.write_text("a,b\n1,2\n3,4\n5,6\n")
    words = []
    for item in parameters(function):
        if not item.required and item.name != changed:
            continue
        fill = {
            "input_file": str(table),
            "output_file": str(folder / "result.out"),
            "output_folder": str(folder / "result"),
            "path": str(table),
            "integer": "1",
            "number": "1",
            "choice": item.choices[0] if item.choices else "",
            "flag": "",
        }.get(item.kind, "a")
        given = value if item.name == changed else fill
        words += [given] if item.positional else [item.label, given]
    return words


@EACH_COMMAND
@pytest.mark.parametrize("wrong", ["missing", "empty", "binary", "folder"])
def test_bad_files_are_one_sentence(paper, name, function, wrong, tmp_path, capsys):
    bad = tmp_path / "bad.csv"
    if wrong == "empty":
        bad.touch()
    elif wrong == "binary":
        bad.write_bytes(b"\x7fELF\0\1\2\3" * 100)
    elif wrong == "folder":
        bad.mkdir()
    inputs = [item.name for item in parameters(function) if item.kind == "input_file"]
    for parameter in inputs:
        words = ["run", paper.slug, *([name] if len(paper.commands()) > 1 else [])]
        before = set(tmp_path.iterdir()) | {tmp_path / "good.csv"}
        code = main([*words, *arguments_of(function, tmp_path, parameter, str(bad))])
        told = capsys.readouterr().err
        assert code == 2, told
        assert told.startswith("papers: ")
        assert told.count("\n") == 1, told
        assert set(tmp_path.iterdir()) <= before, "a bad input left a file behind"


@EACH_COMMAND
def test_bad_numbers_and_choices_are_one_sentence(paper, name, function, tmp_path, capsys):
    for item in parameters(function):
        if item.kind not in ("integer", "number", "choice"):
            continue
        words = ["run", paper.slug, *([name] if len(paper.commands()) > 1 else [])]
        code = main([*words, *arguments_of(function, tmp_path, item.name, "no-such-value")])
        told = capsys.readouterr().err
        assert code == 2, told
        assert "'no-such-value'" in told
        assert told.count("\n") == 1, told
