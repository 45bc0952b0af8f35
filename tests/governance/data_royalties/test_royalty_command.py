"""From files to reports through the commands, and the refusals of each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import convert, parameters
from workingpapers.governance.data_royalties import command

PROVIDERS = """id,name,payout_account,withholding,status
archive,City Archive,DE89370400440532013000,0,active
blogger,Ada,FR1420041010050500013M02606,15%,active
museum,Open Museum,,0,hold
"""
WORKS = """work,provider,share,valid_from
moon,archive,1,2026-01-01
mars,blogger,1/3,
mars,museum,2/3,
"""
POLICY = 'developer_share = "65%"\npool_share = "30%"\nreserve_share = "5%"\ndispute_window_days = 14\n'
EVENTS = """event_id,time,currency,gross_minor,tax_minor,refund_of
q1,2026-05-03T10:15:00Z,EUR,1190,190,
q2,2026-05-09T08:00:30Z,EUR,595,95,
r1,2026-05-28T09:00:00Z,EUR,-595,-95,q1
"""
SCORES = "event_id,work,score\nq1,moon,3\nq1,mars,1\nq2,mars,1\nq2,lost,1\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "providers.csv": PROVIDERS,
        "works.csv": WORKS,
        "policy.toml": POLICY,
        "events.csv": EVENTS,
        "scores.csv": SCORES,
    }.items():
        Path(name).write_text(text)
    return tmp_path


def start():
    return command.run_open(
        "books.db", providers=Path("providers.csv"), works=Path("works.csv"), policy=Path("policy.toml")
    )


def post():
    return command.run_post("books.db", Path("events.csv"), Path("scores.csv"), method="by hand")


def test_from_files_to_payout(place):
    opened = start()
    assert len(opened.data["public_key"]) == 64
    assert post().data == {"new": 3, "repeated": 0, "entries": 1, "unknown": ["lost"]}
    assert post().data["repeated"] == 3

    # Base: q1 1000, refunded by 500, q2 500; pool 30 %. moon 0.3 * 500 * 3/4, mars 0.3 * (500/4 + 250), lost 0.3 * 250.
    closed = command.run_close("books.db", "2026-05", report=Path("may.html"))
    assert closed.data["booked_minor"]["EUR"] == {
        "liability:provider:archive": 112,
        "liability:provider:blogger": 37,
        "liability:provider:museum": 75,
        "liability:escrow:lost": 75,
        "liability:reserve": 50,
        "liability:rounding_suspense": 1,
        "equity:developer": 650,
    }
    assert "<svg" in Path("may.html").read_text()

    written = command.run_statement("books.db", "2026-05", out=Path("statements"))
    assert sorted(path.name for path in written.files) == sorted(
        f"2026-05-{name}.{kind}" for name in ("archive", "blogger", "museum") for kind in ("html", "json")
    )
    page = Path("statements/2026-05-blogger.html").read_text()
    assert "mars" in page
    assert "moon" not in page
    one = Path("statements/2026-05-blogger.json")
    checked = command.run_check(one, public_key=opened.data["public_key"])
    assert checked.data == {"holds": True, "faults": []}
    assert command.run_check(one, public_key="00" * 32).data["holds"] is False

    assert command.run_correct("books.db", reason="wrong customer", event="q2").data == {"entry": 6}
    command.run_correct("books.db", reason="our map was used", provider="museum", dispute_period="2026-05")
    command.run_correct("books.db", reason="recomputed", provider="archive", currency="EUR", amount_minor=20, entry=7)
    command.run_correct(
        "books.db", reason="proof", provider="archive", currency="EUR", amount_minor=75, fund="escrow", work="lost"
    )
    early = command.run_pay("books.db", out=Path("early.csv"), day="2026-06-14")
    assert [payout["net_minor"] for payout in early.data["payouts"]] == [95]  # corrections are not of a young period
    paid = command.run_pay(
        "books.db", out=Path("pay.csv"), xml=Path("pay.xml"), debtor="Maker", account="DE1", day="2026-06-15"
    )
    assert [payout["net_minor"] for payout in paid.data["payouts"]] == [32]
    assert {row[0]: row[3] for row in paid.tables[0].rows} == {
        "archive": "a payout is under way",
        "blogger": "paid",
        "museum": "provider is on hold",
    }
    assert Path("pay.csv").read_text().splitlines()[1].endswith("EUR,0.37,0.05,0.32")
    assert '<InstdAmt Ccy="EUR">0.32</InstdAmt>' in Path("pay.xml").read_text()
    command.run_pay("books.db", settled=("2026-06-15/EUR/blogger",), returned=("2026-06-14/EUR/archive",))

    audit = command.run_verify("books.db", witness=(str(one),), events=Path("events.csv"), scores=Path("scores.csv"))
    assert audit.data == {"holds": True, "violations": []}
    Path("scores.csv").write_text(SCORES.replace("q2,mars,1", "q2,mars,2"))
    assert (
        "booked otherwise"
        in command.run_verify("books.db", events=Path("events.csv"), scores=Path("scores.csv")).summary
    )

    assert command.run_export("books.db", out=Path("b.beancount")).data["lines"] > 20
    assert command.run_export("books.db", out=Path("b.journal"), style="hledger").data["lines"] > 20


def test_register_adds_and_replaces(place):
    start()
    Path("new.csv").write_text("work,provider\nlost,archive\n")
    command.run_register("books.db", works=Path("new.csv"))
    assert post().data["unknown"] == []
    Path("policy.toml").write_text('developer_share = "1/2"\npool_share = "1/2"\n')
    command.run_register("books.db", policy=Path("policy.toml"))
    closed = command.run_close("books.db", "2026-05")
    assert closed.data["booked_minor"]["EUR"]["equity:developer"] == 500
    with pytest.raises(InputError, match="Nothing to register"):
        command.run_register("books.db")


def test_compare_shows_how_much_changes_hands(place):
    start()
    Path("other.csv").write_text("event_id,work,score\nq1,moon,1\nq2,mars,1\n")
    found = command.run_compare(
        "books.db", Path("events.csv"), Path("scores.csv"), Path("other.csv"), report=Path("compare.html")
    )
    (one,) = found.data["comparisons"]
    # q1 counts 500 net: first moon 375, mars 125; q2: mars 250, lost 250. Second: moon 500, mars 500.
    assert one["first"] == pytest.approx({"archive": 0.375, "blogger": 0.125, "museum": 0.25, "(escrow)": 0.25})
    assert one["second"] == pytest.approx({"archive": 0.5, "blogger": 1 / 6, "museum": 1 / 3, "(escrow)": 0.0})
    assert one["moved"] == pytest.approx(0.25)
    assert "<svg" in Path("compare.html").read_text()


def test_retrieve_and_attribute_write_scores_that_post_takes(place):
    start()
    lines = [
        {
            "event_id": name,
            "answer": "phobos will break up",
            "chunks": [{"work": "moon", "text": "phobos will break up soon"}, {"work": "mars", "text": "two moons"}],
        }
        for name in ("q1", "q2")
    ]
    Path("contexts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = command.run_retrieve(Path("contexts.jsonl"), out=Path("retrieved.csv"), report=Path("r.html"))
    assert found.data["shares"]["moon"] > 0.9
    assert command.run_post("books.db", Path("events.csv"), Path("retrieved.csv")).data["new"] == 3
    assert "<svg" in Path("r.html").read_text()


@pytest.fixture
def tables(place):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    features = rng.normal(size=(60, 2)) + 2.0 * (2 * labels[:, None] - 1)
    works = ["moon" if label else "mars" for label in labels]
    rows = [f"{a!r},{b!r},{work},{label}" for (a, b), work, label in zip(features.tolist(), works, labels, strict=True)]
    Path("training.csv").write_text("\n".join(["x,y,work,label", *rows]) + "\n")
    Path("outputs.csv").write_text("event_id,x,y,label\nq1,2.0,2.0,1\nq2,-2.0,-2.0,0\n")


def direct(method, training, outputs):
    """The back ends called by hand."""
    from workingpapers.governance.data_royalties.games import leave_one_out, shapley, tabulate
    from workingpapers.governance.data_royalties.gradients import fit, influence, log_likelihood, tracin
    from workingpapers.governance.data_royalties.neighbours import knn_shapley

    features, works, labels = training[:, :2].astype(float), training[:, 2], training[:, 3].astype(int)
    asked, answers = outputs[:, 1:3].astype(float), outputs[:, 3].astype(int)
    names = ["mars", "moon"]
    if method in ("leave_one_out", "shapley"):

        def game(mask):
            rows = np.isin(works, [name for index, name in enumerate(names) if mask >> index & 1])
            if not rows.any():
                return np.log([0.5, 0.5])
            return log_likelihood(fit(features[rows], labels[rows], 2, 2.0), asked, answers)

        return leave_one_out(game, 2).T if method == "leave_one_out" else shapley(tabulate(game, 2)).T
    if method == "knn_shapley":
        points = knn_shapley(features, labels, asked, answers, 3)
    elif method == "tracin":
        points = tracin(features, labels, 2, asked, answers)
    else:
        points = influence(fit(features, labels, 2, 2.0), features, labels, 2.0, asked, answers)
    return np.stack([points[:, works == name].sum(axis=1) for name in names], axis=1)


@pytest.mark.parametrize("method", ["knn_shapley", "influence", "tracin", "leave_one_out", "shapley"])
def test_every_method_writes_what_its_back_end_gives(tables, method):
    found = command.run_attribute(
        Path("training.csv"),
        Path("outputs.csv"),
        out=Path("out.csv"),
        method=method,
        neighbours=3,
        ridge=2.0,
        report=Path("out.html"),
    )
    training = np.array([line.split(",") for line in Path("training.csv").read_text().split()[1:]])
    outputs = np.array([line.split(",") for line in Path("outputs.csv").read_text().split()[1:]])
    expected = direct(method, training, outputs)
    scores = {tuple(line.split(",")[:2]): float(line.split(",")[2]) for line in Path("out.csv").read_text().split()[1:]}
    for row, name in enumerate(("q1", "q2")):
        for column, work in enumerate(("mars", "moon")):
            assert scores.get((name, work), 0.0) == pytest.approx(expected[row, column], abs=1e-9)
    assert found.data["method"].startswith(method.replace("_shapley", ""))
    assert "<svg" in Path("out.html").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("event_id,x,y,label\nq1,1,1,7\n", "holds '7', a label that no training row has"),
        ("event_id,x,label\nq1,1,1\n", "has no column 'y'"),
        ("event_id,x,y,label\nq1,1,a,1\n", "is not numeric"),
        ("event_id,x,y,label\nq1,1,,1\nq2,1,1,1\n", "missing or infinite value in data row 1"),
        ("event_id,x,y,label\nq1,1,1,1\nq1,1,1,1\n", "gives event 'q1' twice"),
        ("id,x,y,label\nq1,1,1,1\n", "has no column 'event_id'"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(tables, text, message):
    Path("outputs.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        command.run_attribute(Path("training.csv"), Path("outputs.csv"), out=Path("out.csv"))
    assert not Path("out.csv").exists()


def test_too_many_works_for_exact_shapley_are_refused(tables):
    rows = [f"{i},{i % 2},w{i},{i % 2}" for i in range(15)]
    Path("training.csv").write_text("\n".join(["x,y,work,label", *rows]) + "\n")
    with pytest.raises(InputError, match=r"There are 15 works; exact shapley retrains 2\*\*15 times"):
        command.run_attribute(Path("training.csv"), Path("outputs.csv"), out=Path("out.csv"), method="shapley")


def test_one_label_leaves_neighbours_only(tables):
    Path("training.csv").write_text("x,y,work,label\n1,2,a,1\n2,1,b,1\n")
    Path("outputs.csv").write_text("event_id,x,y,label\nq1,2.5,2.5,1\n")
    with pytest.raises(InputError, match="All training rows have one label"):
        command.run_attribute(Path("training.csv"), Path("outputs.csv"), out=Path("out.csv"), method="influence")
    command.run_attribute(Path("training.csv"), Path("outputs.csv"), out=Path("out.csv"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("providers.csv", "id,name\na,A\na,B\n", "gives provider 'a' twice"),
        ("providers.csv", "name\nA\n", "has no column 'id'"),
        ("providers.csv", "id,name\n", "no rows"),
        ("providers.csv", "id,name,withholding\na,A,1.5\n", "withholding of provider 'a' is 3/2"),
        ("providers.csv", "id,name,status\na,A,paused\n", "status of provider 'a' is 'paused'"),
        ("providers.csv", "id,nmae\na,A\n", "no column 'name'; did you mean 'nmae'"),
        (
            "works.csv",
            "work,provider\nw,archiv\n",
            "belongs to provider 'archiv', which is not registered; did you mean",
        ),
        ("works.csv", "work,provider,share\nw,archive,1/2\n", "The shares of work 'w' sum to 1/2"),
        ("works.csv", "work,provider,share\nw,archive,half\n", "is 'half'; write it as text"),
        ("works.csv", "work,provider\nw,archive\nw,archive\n", "of work 'w' twice"),
        ("works.csv", "work,provider,valid_from\nw,archive,May\n", "is 'May'; write it as YYYY-MM-DD"),
        ("works.csv", "work,provider,valdi_to\nw,archive,\n", "unknown column 'valdi_to'; did you mean 'valid_to'"),
        ("policy.toml", "developer_share = 0.7\npool_share = '0.3'\n", "developer_share is '0.7'; write it as text"),
        ("policy.toml", "pool_share = '1'\n", "The policy has no 'developer_share'"),
        ("policy.toml", POLICY + "roundign = 'carry'\n", "'roundign'; did you mean 'rounding'"),
        ("policy.toml", POLICY + "payout_threshold_minor = 1.5\n", "payout_threshold_minor is 1.5"),
        ("policy.toml", "developer_share", "is not TOML"),
    ],
)
def test_books_do_not_open_on_bad_files(place, name, text, message):
    Path(name).write_text(text)
    with pytest.raises(InputError, match=message):
        start()
    assert not Path("books.db").exists()
    assert not Path("ledger-key.pem").exists() or "belongs to" in message


def test_commands_need_books(place):
    with pytest.raises(InputError, match=r"There is no file 'books\.db'"):
        post()
    Path("books.db").write_text("hello")
    with pytest.raises(InputError, match=r"is not a ledger|cannot be opened"):
        post()


def test_close_needs_the_key(place):
    start()
    post()
    with pytest.raises(InputError, match=r"There is no key 'lost\.pem'"):
        command.run_close("books.db", "2026-05", key=Path("lost.pem"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Give one of --event"),
        ({"event": "q1", "amount_minor": 3}, "Give one of --event"),
        ({"amount_minor": 3, "currency": "EUR"}, "Name the provider"),
        ({"amount_minor": 3, "provider": "archive"}, "needs an --amount-minor other than 0 and a --currency"),
        ({"amount_minor": 0, "provider": "archive", "currency": "EUR"}, "other than 0"),
        (
            {"amount_minor": 3, "provider": "archive", "currency": "EUR", "fund": "escrow"},
            "--work goes with --fund escrow",
        ),
        ({"amount_minor": 3, "provider": "archive", "currency": "EURO"}, "not an ISO 4217 currency"),
        ({"event": "q9"}, "no event 'q9'"),
        ({"provider": "archive", "dispute_period": "2026-05"}, "is not sealed"),
    ],
)
def test_corrections_that_say_too_little_or_too_much(place, options, message):
    start()
    post()
    with pytest.raises(InputError, match=message):
        command.run_correct("books.db", reason="x", **options)


def test_a_batch_that_cannot_be_written_is_not_booked(place):
    start()
    post()
    command.run_close("books.db", "2026-05")
    with pytest.raises(InputError, match="Cannot write"):
        command.run_pay("books.db", out=Path("nowhere/pay.csv"), day="2026-07-01")
    with pytest.raises(InputError, match="--xml needs the payer"):
        command.run_pay("books.db", out=Path("pay.csv"), xml=Path("pay.xml"), day="2026-07-01")
    with pytest.raises(InputError, match="--day is 'today'"):
        command.run_pay("books.db", out=Path("pay.csv"), day="today")
    with pytest.raises(InputError, match="Name the file"):
        command.run_pay("books.db")
    with pytest.raises(InputError, match=r"No payout 'x' is under way \(under way: none\)"):
        command.run_pay("books.db", settled=("x",))
    assert len(command.run_pay("books.db", out=Path("pay.csv"), day="2026-07-01").data["payouts"]) == 2


def test_statements_and_audits_refuse_what_they_cannot_read(place):
    start()
    Path("no.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        command.run_check(Path("no.json"))
    Path("no.json").write_text("[]")
    with pytest.raises(InputError, match="holds no JSON object"):
        command.run_check(Path("no.json"))
    with pytest.raises(InputError, match="go together"):
        command.run_verify("books.db", events=Path("events.csv"))
    with pytest.raises(InputError, match="not sealed in this ledger"):
        command.run_statement("books.db", "2026-05", out=Path("statements"))
    assert not Path("statements").exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("{", "Line 1 of 'contexts.jsonl' is not JSON"),
        ("[]", "is not a JSON object"),
        ("\n", "holds no records"),
        ('{"event_id": "a"}', "Record 1 needs event_id, answer and chunks"),
        ('{"event_id": "a", "answer": "x", "chunks": []}\n' * 2, "gives event 'a' twice"),
    ],
)
def test_contexts_that_are_none_are_refused(place, lines, message):
    Path("contexts.jsonl").write_text(lines)
    with pytest.raises(InputError, match=message):
        command.run_retrieve(Path("contexts.jsonl"), out=Path("out.csv"))
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("name", "option", "text", "message"),
    [
        ("attribute", "neighbours", "0", "it must be from 1 to 1000"),
        ("attribute", "ridge", "0", "must be greater than 0"),
        ("attribute", "method", "shaply", "did you mean 'shapley'"),
        ("post", "batch", "many", "not a whole number"),
        ("correct", "fund", "bank", "choose one of|did you mean"),
        ("correct", "amount_minor", "1.5", "not a whole number"),
        ("export", "style", "ledger", "did you mean 'hledger'"),
    ],
)
def test_options_are_converted_with_one_sentence_errors(name, option, text, message):
    found = {item.name: item for item in parameters(getattr(command, f"run_{name}"))}
    with pytest.raises(InputError, match=message):
        convert(found[option], text)


def test_every_option_is_described():
    for name in command.__all__:
        for item in parameters(getattr(command, name)):
            assert item.help, f"{name} {item.name}"
