"""A function out of a user's Python file, for commands that take code: a density, a model, a decoder."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workingpapers.foundations.errors import InputError, near_match


def load_function(path: Path, name: str) -> Callable[..., Any]:
    """Return the function `name` of a Python file, whose code is run for it.

    Args:
        path: The file.
        name: The function.

    Raises:
        InputError: The file cannot be run, or has no such function; the sentence tells where it failed.
    """
    spec = importlib.util.spec_from_file_location(f"_program_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{str(path)!r} is no Python file; name one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{str(path)!r} cannot be run ({type(error).__name__}: {error}); mend it first.") from None
    finally:
        sys.path.remove(folder)
    found = getattr(module, name, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        hint = near_match(name, known) or f"; it defines {', '.join(known) or 'no function'}"
        raise InputError(f"{str(path)!r} has no function {name!r}{hint}.")
    return found  # type: ignore[no-any-return]
