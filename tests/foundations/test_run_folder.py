"""The folder of a training run: another run is refused with what differs, half a checkpoint is none."""

import json
from dataclasses import dataclass

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.run_folder import PLAN, SUMMARY, check_folder, facts_of, last_checkpoint, write_json


@dataclass(frozen=True)
class Plan:
    seed: int = 0
    template: str = "a long text"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "a"}\n')
    return path


def test_a_folder_is_new_unfinished_finished_or_another_runs(data, tmp_path):
    out = tmp_path / "out"
    assert not check_folder(data, out, Plan(), "method")
    out.mkdir()
    assert not check_folder(data, out, Plan(), "method")
    write_json(out / PLAN, facts_of(data, Plan()))
    assert not check_folder(data, out, Plan(), "method")
    write_json(out / SUMMARY, {})
    assert check_folder(data, out, Plan(), "method")
    with pytest.raises(InputError, match=r"another seed \(0 there, 1 here\)"):
        check_folder(data, out, Plan(seed=1), "method")
    with pytest.raises(InputError, match="another template; name") as told:
        check_folder(data, out, Plan(template="b"), "method", unshown=("template",))
    assert "long" not in str(told.value)
    data.write_text('{"prompt": "b"}\n')
    with pytest.raises(InputError, match="another data; name"):
        check_folder(data, out, Plan(), "method")
    (out / PLAN).unlink()
    with pytest.raises(InputError, match="holds no run of method"):
        check_folder(data, out, Plan(), "method")


def test_the_last_checkpoint_is_the_newest_whole_one_by_number(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for number in (9, 10, 11):
        (tmp_path / f"checkpoint-{number}").mkdir()
    for number in (9, 10):
        (tmp_path / f"checkpoint-{number}" / "trainer_state.json").write_text(json.dumps({}))
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
