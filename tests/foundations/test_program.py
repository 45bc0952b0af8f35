"""A user's function is loaded from a file, and what is wrong with the file is told in a sentence."""

import pytest

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.program import load_function
from workingpapers.foundations.signature import ProgramFile, convert, parameters


def write(folder, text):
    path = folder / "mine.py"
    path.write_text(text)
    return path


def test_a_function_is_found_with_what_stands_beside_it(tmp_path):
    (tmp_path / "beside.py").write_text("FACTOR = 3")
    path = write(tmp_path, "from beside import FACTOR\ndef energy(x):\n    return FACTOR * x")
    assert load_function(path, "energy")(2) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def energie(x):\n    return x", "did you mean 'energie'"),
        ("x = 1", "it defines no function"),
        ("energy = 3", "has no function 'energy'"),
        ("def energy(:", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("import nothing_like_it", "ModuleNotFoundError"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, text, words):
    with pytest.raises(InputError) as error:
        load_function(write(tmp_path, text), "energy")
    assert words in str(error.value)


def test_a_parameter_for_programs_takes_python_files_alone(tmp_path):
    def run(program: ProgramFile) -> None:
        """Do nothing.

        Args:
            program: The program.
        """

    (item,) = parameters(run)
    assert convert(item, str(write(tmp_path, "x = 1"))).name == "mine.py"
    for name in ("data.csv", "missing.py"):
        with pytest.raises(InputError):
            convert(item, str(tmp_path / name))
