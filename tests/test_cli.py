"""The command as its users meet it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workingpapers.cli import build_parser, main

PAGE = """论文检索

Social Aspects · Privacy

Ada Lovelace, Charles Babbage

We propose a private method that does a great many things, and we show on several data sets that it does them very well.
"""


def run(*words, capsys):
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.txt"
    path.write_text(PAGE, encoding="utf-8")
    return path


def loaded_by(*words):
    """Return the modules that a command loads in a fresh interpreter."""
    code = (
        "import sys\nfrom workingpapers.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        "print('MODULES', *sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(output.rsplit("MODULES", 1)[1].split())


@pytest.mark.parametrize("words", [["--help"], ["list"], ["search", "x", "--engine", "bm25"], ["--version"]])
def test_light_commands_load_nothing_heavy(words):
    modules = loaded_by(*words)
    assert not modules & {"torch", "sklearn", "pandas", "scipy", "matplotlib", "joblib", "numpy"}
    if words[0].startswith("--"):
        assert not modules & {"rich", "sqlite3", "platformdirs"}


def test_search_by_meaning_loads_no_torch():
    assert not loaded_by("search", "x") & {"torch", "transformers", "sklearn", "pandas", "matplotlib", "joblib"}


def test_importing_the_package_loads_nothing():
    code = "import sys, workingpapers; print(len([n for n in sys.modules if n.startswith('workingpapers')]))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_list_and_show_agree(capsys):
    code, out, _ = run("list", "--json", capsys=capsys)
    assert code == 0
    for paper in json.loads(out):
        code, out, _ = run("show", paper["slug"], "--json", capsys=capsys)
        shown = json.loads(out)
        assert code == 0
        assert shown["title"] == paper["title"]
        assert paper["verdict"] == (shown["measured"][0]["verdict"] if shown["measured"] else None)
        assert run("show", paper["slug"], capsys=capsys)[0] == 0


def test_slug_with_dashes_is_understood(capsys):
    assert run("show", "residual-augmentation", capsys=capsys)[0] == 0


def test_import_search_export(page, tmp_path, capsys):
    code, out, _ = run("import", str(page), "--json", capsys=capsys)
    first = json.loads(out)
    assert (code, first["read"], first["new"], first["rejected"]) == (0, 1, 1, [])
    again = json.loads(run("import", str(page), "--json", capsys=capsys)[1])
    assert (again["new"], again["merged"], again["unchanged"]) == (0, 0, 1)
    code, out, _ = run("search", "lovelace", "--json", capsys=capsys)
    answer = json.loads(out)
    assert answer["hits"][0]["topic"] == "Social Aspects · Privacy"
    assert answer["authors"]["Ada Lovelace"] == 1
    code, out, _ = run("search", "lovelace", capsys=capsys)
    assert "Ada Lovelace, Charles Babbage" in out
    for form in ("bibtex", "csl-json", "jsonl", "csv"):
        code, out, _ = run("export", "--format", form, "--query", "lovelace", capsys=capsys)
        assert code == 0
        assert "Lovelace" in out
    target = tmp_path / "out.csv"
    assert run("export", "--format", "csv", "--out", str(target), capsys=capsys)[0] == 0
    assert target.read_text(encoding="utf-8").startswith("title,authors,")


def test_rejected_blocks_are_told_with_line_and_reason(page, capsys):
    page.write_text(PAGE + "\nJust one odd line.\n", encoding="utf-8")
    out = run("import", str(page), capsys=capsys)[1]
    assert "1 rejected" in out
    assert "line 9: neither topic, authors nor abstract" in out.replace("\n", " ")


BAD = [
    (["show", "residual_augmentatoin"], "did you mean 'residual_augmentation'?"),
    (["check", "nothing_like_it"], "There is no paper 'nothing_like_it'"),
    (["check"], "Name one paper"),
    (["check", "residual_augmentation", "--claim", "headlin"], "did you mean"),
    (["import", "no_such_file.txt"], "There is no file 'no_such_file.txt'"),
    (["import", "."], "is a folder"),
    (["export", "--out", "no/such/folder/x"], "does not exist; create it"),
    (["results", "--compare", "1", "2"], "There is no stored run 1"),
    (["run", "no_such_paper", "x"], "There is no paper 'no_such_paper'"),
    (["new", "Bad Slug", "--area", "sampling"], "The slug is 'Bad Slug'"),
    (["new", "fine", "--area", "samplin"], "did you mean 'sampling'?"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_is_one_sentence_and_two(words, sentence, capsys):
    code, out, err = run(*words, capsys=capsys)
    assert code == 2
    assert out == ""
    assert err.startswith("papers: ")
    assert err.count("\n") == 1
    assert sentence in err


PARSED = [
    (["serch"], "did you mean 'search'?"),
    (["check", "x", "--seeds", "many"], "'many' is not a whole number"),
    (["check", "x", "--seeds", "0"], "0 is too small"),
    (["search", "x", "--limt", "3"], "Unrecognized arguments: --limt"),
    (["check", "x", "--size", "huge"], "There is no 'huge' here"),
    (["import"], "Please give FILE"),
]


@pytest.mark.parametrize(("words", "sentence"), PARSED, ids=[" ".join(words) for words, _ in PARSED])
def test_wrong_options_are_one_sentence_and_two(words, sentence, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    err = capsys.readouterr().err
    assert left.value.code == 2
    assert err.count("\n") == 1
    assert sentence in err


def test_file_without_permission_is_one_sentence(page, capsys, monkeypatch):
    # A test that runs as root may read everything, so the refusal is made by hand.
    opened = Path.open

    def refuse(self, *arguments, **options):
        if self == page:
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    code, _, err = run("import", str(page), capsys=capsys)
    assert code == 2
    assert "permission denied" in err
    assert err.count("\n") == 1


def test_data_folder_that_cannot_be_made(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(tmp_path / "file" / "below"))
    code, _, err = run("search", "x", capsys=capsys)
    assert code == 2
    assert "name another one in WORKINGPAPERS_DATA" in err


def test_fault_of_ours_is_one_line_and_one(monkeypatch, capsys):
    monkeypatch.setattr("workingpapers.commands.list_papers", lambda options: 1 / 0)
    code, _, err = run("list", capsys=capsys)
    assert code == 1
    assert err.count("\n") == 1
    assert "ZeroDivisionError" in err
    monkeypatch.setenv("WORKINGPAPERS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["list"])


def test_interrupt_is_told_and_130(monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("workingpapers.commands.list_papers", interrupt)
    code, _, err = run("list", capsys=capsys)
    assert (code, err) == (130, "papers: Interrupted.\n")


def test_closed_pipe_is_no_error():
    code = f"{sys.executable} -m workingpapers.cli export --format jsonl | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_check_stores_reports_and_compares(tmp_path, capsys, monkeypatch):
    paper = "residual_augmentation"
    words = ["check", paper, "--claim", "refusal", "--size", "smallest", "--seeds", "2", "--jobs", "1"]
    code, out, _ = run(*words, "--json", "--out", str(tmp_path / "one"), capsys=capsys)
    (record,) = json.loads(out)
    assert code == 0
    assert record["paper"] == paper
    assert record["seeds"] == 2
    assert (tmp_path / "one" / "report.html").stat().st_size > 5000
    assert json.loads((tmp_path / "one" / "result.json").read_text())[0]["verdict"] == record["verdict"]
    code, out, _ = run(*words, "--reuse", capsys=capsys)
    assert code == 0
    assert record["verdict"] in out
    assert len(json.loads(run("results", "--json", capsys=capsys)[1])) == 1
    assert run(*words, capsys=capsys)[0] == 0
    code, out, _ = run("results", paper, "--compare", "1", "2", capsys=capsys)
    assert code == 0
    assert "mean" in out
    assert run("results", capsys=capsys)[0] == 0


def test_new_paper_is_a_paper(tmp_path, capsys):
    (tmp_path / "src" / "workingpapers").mkdir(parents=True)
    code, _, _ = run("new", "my_method", "--area", "sampling", "--root", str(tmp_path), capsys=capsys)
    assert code == 0
    from workingpapers.catalog.papers import load

    paper = load(tmp_path / "src/workingpapers/sampling/my_method/paper.toml")
    assert (paper.slug, paper.area) == ("my_method", "sampling")
    for file in (tmp_path / "src").rglob("*.py"):
        compile(file.read_text(), str(file), "exec")
    assert run("new", "my_method", "--area", "sampling", "--root", str(tmp_path), capsys=capsys)[0] == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, capsys):
    code, out, _ = run("completion", shell, capsys=capsys)
    assert code == 0
    assert "papers" in out


def completions(line):
    """Return what the shell is offered at the end of `line`."""
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SHELL": "bash",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": os.devnull,
    }
    read, write = os.pipe()
    code = f"import os, sys; os.dup2({write}, 8); from workingpapers.cli import main; main([])"
    environment.pop("_ARGCOMPLETE_STDOUT_FILENAME")
    subprocess.run([sys.executable, "-c", code], env=environment, pass_fds=[write], check=False, capture_output=True)
    os.close(write)
    with os.fdopen(read) as stream:
        return stream.read().split("\n")


def test_completion_knows_commands_slugs_and_a_papers_own_options():
    assert any(word.startswith("search") for word in completions("papers sea"))
    assert any(word.startswith("residual_augmentation") for word in completions("papers show resid"))
    assert any(word.startswith("--target") for word in completions("papers run residual_augmentation --ta"))


def test_help_of_every_command(capsys):
    for name in ("list", "show", "search", "import", "export", "check", "run", "results", "new", "completion"):
        with pytest.raises(SystemExit) as left:
            build_parser([name]).parse_args([name, "--help"])
        assert left.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: papers {name}")


def test_finding_aids_agree_on_the_terminal_and_as_json(page, capsys):
    run("import", str(page), capsys=capsys)
    code, out, _ = run("author", "lovelace", "--json", capsys=capsys)
    found = json.loads(out)
    assert (code, found["names"], found["total"]) == (0, ["Ada Lovelace"], 1)
    assert found["coauthors"] == {"Charles Babbage": 1}
    assert "With: Charles Babbage (1)" in run("author", "lovelace", capsys=capsys)[1]
    topics = json.loads(run("topics", "--json", capsys=capsys)[1])
    assert topics["Social Aspects · Privacy"] >= 1
    assert "Social Aspects · Privacy" in run("topics", capsys=capsys)[1]
    assert json.loads(run("duplicates", "--json", capsys=capsys)[1]) == []
    code, out, _ = run("similar", "condorcet_nash", "--limit", "2", "--json", capsys=capsys)
    assert code == 0
    assert len(json.loads(out)["hits"]) == 2
    assert "Ranked by" in run("similar", "condorcet_nash", capsys=capsys)[1]


def test_suggestions_and_translations_are_shown(capsys):
    out = run("search", "condorcett", "--engine", "bm25", capsys=capsys)[1]
    assert "Did you mean condorcet?" in out
    answer = json.loads(run("search", "差分隐私", "--engine", "bm25", "--json", capsys=capsys)[1])
    assert answer["translated"] == "differential privacy"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["author", "?"], "'?' holds no name"),
        (["similar", "zzzzqqq"], "is like 'zzzzqqq'"),
        (["duplicates", "--least", "2"], "outside 0 to 1"),
        (["search", "x", "--engine", "wolf"], "There is no 'wolf' here"),
    ],
)
def test_wrong_words_to_the_finding_aids(words, message, capsys):
    try:
        code, _, err = run(*words, capsys=capsys)
    except SystemExit as stop:
        code, err = stop.code, capsys.readouterr().err
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
