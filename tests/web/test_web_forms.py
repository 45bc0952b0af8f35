"""The form of a command, what is filled in, and the command line that does the same."""

import io
import shlex
from types import SimpleNamespace

import pytest

from workingpapers.catalog.papers import all_papers, get
from workingpapers.cli import build_parser
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import ProgramFile, convert, parameters
from workingpapers.web import forms

COMMANDS = [
    pytest.param(paper.slug, name, id=f"{paper.slug} {name}".strip())
    for paper in all_papers()
    if paper.has_command
    for name in paper.commands()
]
FILE_KINDS = {"input_file", "output_file", "output_folder", "path"}


def upload(name, content=b"a,b\n1,2\n"):
    return SimpleNamespace(filename=name, file=io.BytesIO(content))


@pytest.fixture
def folder(tmp_path):
    for name in ("inputs", "outputs", "work"):
        (tmp_path / name).mkdir()
    return tmp_path


def fill(folder, slug, command, texts=None, files=None, earlier=None):
    function = get(slug).commands()[command]
    return forms.fill(slug, command, function, texts or {}, files or {}, folder, folder / "work", earlier)


def sample(item):
    """Return a text that the parameter takes."""
    if item.kind == "integer":
        low = item.bounds.low if item.bounds and item.bounds.low > -1e9 else 1
        return str(int(low) + bool(item.bounds and item.bounds.open_low))
    if item.kind == "number":
        if not item.bounds:
            return "0.5"
        low = item.bounds.low if item.bounds.low > -1e9 else 0.0
        high = item.bounds.high if item.bounds.high < 1e9 else low + 2
        return str((low + high) / 2)
    if item.kind == "choice":
        return item.choices[-1]
    return "word" if item.kind == "text" else item.name


def shown_on_the_page(function):
    return [item for item in parameters(function) if item.kind != "program_file"]


@pytest.mark.parametrize(("slug", "command"), COMMANDS)
def test_every_command_has_a_page_with_a_field_for_each_parameter(client, slug, command):
    page = client.get(f"/papers/{slug}/run", params={"command": command}).text
    described = client.get(f"/api/papers/{slug}/commands").json()[command]
    function = get(slug).commands()[command]
    assert [field["name"] for field in described] == [item.name for item in shown_on_the_page(function)]
    for item in shown_on_the_page(function):
        assert f'name="{item.name}"' in page, item.name
        assert f'for="f-{item.name}"' in page


@pytest.mark.parametrize(("slug", "command"), COMMANDS)
def test_the_command_line_shown_gives_the_same_values(folder, slug, command):
    function = get(slug).commands()[command]
    texts, files = {}, {}
    for item in shown_on_the_page(function):
        if item.kind in ("input_file", "path"):
            files[item.name] = [upload(f"{item.name}.csv")]
        elif item.kind == "flag":
            texts[item.name] = [str(not item.default).lower()]
        else:
            texts[item.name] = [sample(item)]
    filled = fill(folder, slug, command, texts, files)
    words = shlex.split(filled.command_line)
    assert words[:3] == ["papers", "run", slug]
    options = build_parser(words[1:]).parse_args(words[1:])
    for item in parameters(function):
        typed = getattr(options, item.name)
        if item.name not in filled.values:
            assert typed in (None, item.default)
        elif item.kind in FILE_KINDS:
            shown = typed if isinstance(typed, list) else [typed]
            held = filled.values[item.name]
            held = held if isinstance(held, list) else [held]
            assert [text.rsplit("/", 1)[-1] for text in held] == shown
        elif typed is None:
            assert convert(item, filled.values[item.name]) == item.default  # the default is left out of the line
        else:
            assert convert(item, filled.values[item.name]) == convert(item, typed)


def run_a_program(*, program: ProgramFile | None = None, count: int = 1) -> None:
    """Run a program.

    Args:
        program: The program.
        count: How often.
    """


def test_a_program_is_never_taken_from_the_page(folder):
    assert [field["name"] for field in forms.fields(run_a_program)] == ["count"]
    for texts, files in (({"program": ["mine.py"]}, {}), ({}, {"program": [upload("mine.py", b"import os")]})):
        with pytest.raises(InputError, match="use the command line"):
            forms.fill("any", "", run_a_program, texts, files, folder, folder / "work", None)
    assert not list((folder / "inputs").iterdir())
    assert forms.fill("any", "", run_a_program, {"count": ["2"]}, {}, folder, folder / "work", None).values == {
        "count": "2"
    }


def test_what_is_left_empty_keeps_its_default(folder):
    filled = fill(folder, "condorcet_nash", "", {"seed": [""], "pool": ["false"]}, {"preferences": [upload("p.csv")]})
    assert set(filled.values) == {"preferences"}
    assert filled.command_line == "papers run condorcet_nash p.csv"


def test_several_values_stand_on_lines_or_between_commas(folder):
    function = get("dr_submodular").commands()[""]
    item = next(item for item in parameters(function) if item.many)
    texts = {"budget": ["5"], item.name: ["a\nb, c\n\n"]}
    filled = fill(folder, "dr_submodular", "", texts, {"influence": [upload("i.csv")]})
    assert convert(item, filled.values[item.name]) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"seed": ["x"]}, "--seed is 'x'"),
        ({"alpha": ["7"]}, "--alpha is 7"),
        ({"format": ["pairz"]}, "--format is 'pairz'"),
        ({"pool": ["maybe"]}, "--pool is 'maybe'"),
        ({"report": ["a/b.html"]}, "--report is 'a/b.html'"),
        ({"preferences": ["/etc/passwd"]}, "choose a file"),
    ],
)
def test_a_wrong_value_is_named(folder, texts, named):
    files = {} if "preferences" in texts else {"preferences": [upload("p.csv")]}
    with pytest.raises(InputError, match=named.replace("/", "/")):
        fill(folder, "condorcet_nash", "", texts, files)


def test_a_missing_file_is_asked_for(folder):
    with pytest.raises(InputError, match=r"PREFERENCES is missing; choose a file\."):
        fill(folder, "condorcet_nash", "")


def test_two_files_of_one_name_both_stay(folder):
    from workingpapers.web.uploads import store

    first = store(io.BytesIO(b"one"), "x.csv", folder)
    second = store(io.BytesIO(b"two"), "x.csv", folder)
    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")


def test_a_command_runs_from_the_form_to_report_files_and_command_line(client, ended, wins):
    page = client.get("/papers/condorcet_nash/run").text
    assert 'enctype="multipart/form-data"' in page
    answer = client.post(
        "/papers/condorcet_nash/run",
        data={"report": "report.html", "out": "policy.json", "seed": "3", "pool": "false", "comparisons": ""},
        files={"preferences": ("wins.csv", wins.read_bytes())},
        follow_redirects=False,
    )
    assert answer.status_code == 303
    number = answer.headers["location"].rsplit("/", 1)[1]
    job = ended(client, number)
    assert job["state"] == "done", job
    outcome = client.get(f"/api/jobs/{number}/outcome").json()
    assert outcome["files"] == ["policy.json", "report.html"]
    assert "cycle" in outcome["summary"]
    page = client.get(f"/jobs/{number}").text
    assert "papers run condorcet_nash wins.csv --seed 3 --out policy.json --report report.html" in page
    assert f'src="/jobs/{number}/report/report.html"' in page
    assert "cycle" in page
    saved = client.get(f"/jobs/{number}/files/policy.json")
    assert saved.headers["content-disposition"] == 'attachment; filename="policy.json"'
    # The next form offers the files of this run.
    form = client.get("/papers/condorcet_nash/run").text
    assert f'value="earlier:{number}/policy.json"' in form


def test_an_earlier_file_is_used_without_an_upload(client, ended):
    first = client.post("/api/papers/arms_control/runs?command=keys", data={"private": "a.pem", "public": "b.pub"})
    number = first.json()["id"]
    assert ended(client, number)["state"] == "done"
    answer = client.post(
        "/api/papers/arms_control/runs?command=declare",
        data={"key.earlier": f"earlier:{number}/a.pem", "out": "d.json", "book": "book.json"},
        files={
            "items": ("items.json", b'{"origin": "lab", "items": [{"id": "x", "kind": "model", "attributes": {}}]}')
        },
    )
    assert answer.status_code == 202, answer.text
    job = ended(client, answer.json()["id"])
    assert job["state"] == "done", job
    for stranger in (f"earlier:{number}/../job.json", "earlier:../x", f"earlier:{'0' * 16}/a.pem"):
        answer = client.post(
            "/api/papers/arms_control/runs?command=declare",
            data={"key.earlier": stranger, "out": "d.json", "book": "book.json"},
            files={"items": ("items.json", b"{}")},
        )
        assert answer.status_code in (400, 404)


def test_what_was_wrong_stands_beside_what_was_filled_in(client, wins):
    answer = client.post(
        "/papers/condorcet_nash/run",
        data={"seed": "abc", "tau": "0.25"},
        files={"preferences": ("wins.csv", wins.read_bytes())},
    )
    assert answer.status_code == 400
    assert "--seed is &#39;abc&#39;" in answer.text
    assert 'value="abc"' in answer.text
    assert 'value="0.25"' in answer.text
    assert 'role="alert"' in answer.text


def test_input_that_the_command_refuses_is_told_by_the_job(client, ended, data_folder):
    answer = client.post("/api/papers/condorcet_nash/runs", files={"preferences": ("x.csv", b"colour\nred\n")})
    job = ended(client, answer.json()["id"])
    assert job["state"] == "failed"
    assert "'x.csv'" in job["error"]
    assert str(data_folder) not in job["error"]
    assert "Traceback" not in client.get(f"/jobs/{job['id']}").text


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/papers/nope/runs", 404),
        ("/api/papers/condorcet_nash/runs?command=nope", 404),
        ("/api/papers/arms_control/runs", 404),
    ],
)
def test_an_unknown_command_is_missing(client, address, status):
    assert client.post(address, data={"x": "y"}).status_code == status


def test_an_unknown_field_is_named(client, wins):
    answer = client.post(
        "/api/papers/condorcet_nash/runs", data={"sead": "1"}, files={"preferences": ("w.csv", wins.read_bytes())}
    )
    assert answer.status_code == 400
    assert "did you mean 'seed'" in answer.json()["detail"]
