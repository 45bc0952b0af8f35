"""The runner: determinism on any number of workers, resuming, errors, and engines."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import arms

from workingpapers.foundations.errors import InputError
from workingpapers.replication.report import write_claim_report
from workingpapers.replication.runner import ArmError, run_claim
from workingpapers.replication.store import Outcome, Store, result_record


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "method.py").write_text("x = 1\n")
    return tmp_path / "paper"


def test_same_seed_same_number_on_one_and_on_many_workers(store, folder):
    claim = arms.claim(rows=5000)
    one = run_claim("p", folder, claim, store, size="smallest", jobs=1)
    many = run_claim("p", folder, claim, store, size="smallest", jobs=3)
    assert one.id != many.id
    assert one.result["arms"] == many.result["arms"]
    assert one.result["verdict"] == many.result["verdict"] == "supported"


def test_size_and_seeds_decide_how_many_outcomes(store, folder):
    run = run_claim("p", folder, arms.claim(), store, size="small", seeds=3, jobs=1)
    assert run.seeds == 3
    assert [len(values["loss"]) for values in run.result["arms"].values()] == [3, 3]
    assert len(run_claim("p", folder, arms.claim(), store, size="small", jobs=1).result["arms"]["method"]["loss"]) == 8


def test_interrupted_run_goes_on_with_what_is_missing(store, folder, tmp_path):
    claim = arms.claim(log=str(tmp_path / "log"))
    seen = []

    def stop(event):
        seen.append(event)
        if event.kind == "outcome" and event.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_claim("p", folder, claim, store, size="smallest", jobs=1, watch=stop)
    assert len((tmp_path / "log").read_text().splitlines()) == 3
    run = run_claim("p", folder, claim, store, size="smallest", jobs=1)
    assert len((tmp_path / "log").read_text().splitlines()) == 8
    assert run.id == 1
    assert seen[0].kind == "start"
    assert seen[0].total == 8
    assert {event.message for event in seen if event.kind == "progress"} == {"half way"}


def test_unfinished_run_takes_up_more_seeds(store, folder, tmp_path):
    claim = arms.claim(log=str(tmp_path / "log"))

    def stop(event):
        if event.kind == "outcome" and event.done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_claim("p", folder, claim, store, size="smallest", jobs=1, watch=stop)
    run = run_claim("p", folder, claim, store, size="smallest", seeds=5, jobs=1)
    assert run.id == 1
    assert len((tmp_path / "log").read_text().splitlines()) == 10
    assert len(run.result["arms"]["method"]["loss"]) == 5


def test_changed_code_starts_afresh(store, folder):
    claim = arms.claim()
    first = run_claim("p", folder, claim, store, size="smallest", jobs=1)
    assert run_claim("p", folder, claim, store, size="smallest", jobs=1, reuse=True).id == first.id
    (folder / "method.py").write_text("x = 2\n")
    again = run_claim("p", folder, claim, store, size="smallest", jobs=1, reuse=True)
    assert again.id != first.id
    assert again.fingerprint != first.fingerprint


def test_failing_arm_is_named_and_the_others_are_kept(store, folder, tmp_path):
    log = str(tmp_path / "log")
    broken = arms.claim(arms={"method": arms.breaking, "baseline": arms.draw}, log=log)
    with pytest.raises(ArmError, match=r"1 of 8 arms .*'method' with seed 1: RuntimeError: the arm broke \(arms.py:"):
        run_claim("p", folder, broken, store, size="smallest", jobs=1)
    assert len((tmp_path / "log").read_text().splitlines()) == 7
    mended = arms.claim(arms={"method": arms.mended, "baseline": arms.draw}, log=log)
    run = run_claim("p", folder, mended, store, size="smallest", jobs=1)
    assert len((tmp_path / "log").read_text().splitlines()) == 8
    assert run.result["verdict"] == "inconclusive"


def test_arm_that_fails_in_a_worker(store, folder):
    broken = arms.claim(arms={"method": arms.breaking, "baseline": arms.draw})
    with pytest.raises(ArmError, match="the arm broke"):
        run_claim("p", folder, broken, store, size="smallest", jobs=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": "huge"}, "The size is 'huge'"),
        ({"seeds": 0}, "number of seeds is 0"),
        ({"engine": "slurm", "jobs": 2}, "The engine is 'slurm'"),
    ],
)
def test_bad_options_are_one_sentence(store, folder, options, words):
    with pytest.raises(InputError, match=words):
        run_claim("p", folder, arms.claim(), store, **{"size": "smallest", **options})


def test_two_processes_do_not_run_one_claim(store, folder):
    import filelock

    (store.path.parent / "locks").mkdir()
    with (
        filelock.FileLock(store.path.parent / "locks" / "p.headline.smallest.lock"),
        pytest.raises(InputError, match="by another process"),
    ):
        run_claim("p", folder, arms.claim(), store, size="smallest", jobs=1)


def test_killed_process_loses_nothing_that_was_finished(store, folder, tmp_path, data_folder):
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import arms
from pathlib import Path
from workingpapers.replication.runner import run_claim
from workingpapers.replication.store import Store
claim = arms.claim(arms={{"method": arms.slow, "baseline": arms.draw}}, log={str(tmp_path / "log")!r})
run_claim("p", Path({str(folder)!r}), claim, Store(), size="smallest", jobs=1)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "WORKINGPAPERS_DATA": str(data_folder)}
    )
    while not store.runs() or len(store.outcomes(1)) < 2:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(store.outcomes(1))
    assert 2 <= kept < 8
    claim = arms.claim(arms={"method": arms.slow, "baseline": arms.draw}, log=str(tmp_path / "log"))
    starts = []
    run = run_claim("p", folder, claim, store, size="smallest", jobs=1, watch=lambda event: starts.append(event.done))
    assert starts[0] == kept
    assert run.id == 1


def test_progress_of_worker_processes_reaches_the_watcher(store, folder):
    claim = arms.claim(arms={"method": arms.slow, "baseline": arms.slow}, seeds=2)
    events = []
    run_claim("p", folder, claim, store, size="smallest", jobs=2, watch=events.append)
    assert [event.done for event in events if event.kind == "outcome"] == [1, 2, 3, 4]
    assert events[-1].remaining == 0


@pytest.mark.engine
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_cluster_engines_give_the_same_numbers(store, folder, engine, monkeypatch):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    claim = arms.claim(seeds=2)
    here = run_claim("p", folder, claim, store, size="smallest", jobs=1)
    there = run_claim("p", folder, claim, store, size="smallest", jobs=2, engine=engine)
    assert there.environment["engine"] == engine
    assert there.result["arms"] == here.result["arms"]


def test_report_is_self_contained_and_whole(store, folder, tmp_path):
    run = run_claim("p", folder, arms.claim(), store, size="smallest", jobs=1)
    page, data = write_claim_report(tmp_path / "out", "A title & more", [result_record(run)])
    text = page.read_text()
    assert "A title &amp; more" in text
    assert "supported" in text
    assert text.count("<svg") == 1
    assert "currentColor" in text
    assert "src=" not in text
    assert 'href="http' not in text
    assert '"verdict": "supported"' in data.read_text()
    first = write_claim_report(tmp_path / "again", "A title & more", [result_record(run)])[0].read_text()
    assert first == text


def test_store_keeps_errors_apart_from_metrics(store):
    number = store.begin("p", "c", "small", 2, {}, "code", {})
    store.record(number, Outcome(0, "method", {"loss": 0.1 + 0.2}, None, 1.0))
    store.record(number, Outcome(1, "method", None, "RuntimeError: x", 1.0))
    first, second = store.outcomes(number)
    assert first.metrics == {"loss": 0.1 + 0.2}
    assert second.error == "RuntimeError: x"
    assert second.metrics is None
    with pytest.raises(InputError, match="no stored run 99"):
        store.run(99)


def test_damaged_results_file_is_one_sentence(data_folder):
    (data_folder / "results.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(InputError, match="cannot be used"):
        Store()
