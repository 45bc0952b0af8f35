"""One typed signature, three faces: the Python function, the command line's options and the web form.

``parameters(function)`` reads annotations, defaults and the docstring's ``Args:``; a command line and a form are built
from what it returns, and ``convert`` turns text into values with one-sentence errors.
"""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from workingpapers.foundations.errors import InputError, near_match
from workingpapers.foundations.files import check_readable, check_writable


@dataclass(frozen=True)
class Between:
    """Bounds of a number, inclusive unless said; used as ``Annotated[float, Between(0, 1)]``."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def check(self, value: float) -> bool:
        """Whether `value` lies within the bounds."""
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{'greater than' if self.open_low else 'at least'} {self.low:g}"
        if math.isinf(self.low):
            return f"{'less than' if self.open_high else 'at most'} {self.high:g}"
        start = "over" if self.open_low else "from"
        return f"{start} {self.low:g} {'and under' if self.open_high else 'to'} {self.high:g}"


@dataclass(frozen=True)
class Marker:
    """Role of a path: what the command line completes, what the web form uploads or offers for download."""

    role: str


InputFile = Annotated[Path, Marker("input_file")]
"""A file that must exist, be readable and not empty."""
ProgramFile = Annotated[Path, Marker("program_file")]
"""A Python file of the user's whose code will run; the web page never offers it."""
OutputFile = Annotated[Path, Marker("output_file")]
"""A file that will be written; its folder must exist and be writable."""
OutputFolder = Annotated[Path, Marker("output_folder")]
"""A folder that will be made where it does not exist."""

RESERVED = frozenset({"progress"})


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command.

    Args:
        name: Python name; the option is ``--`` and the name with dashes.
        kind: ``text``, ``integer``, ``number``, ``flag``, ``choice``, ``input_file``, ``program_file``,
            ``output_file``, ``output_folder`` or ``path``.
        default: The default, or ``inspect.Parameter.empty`` where a value must be given.
        help: The docstring's sentence.
        positional: Whether it stands without a dash.
        many: Whether several values may be given.
        optional: Whether None is a value.
        choices: The values of a ``choice``.
        bounds: The bounds of a number.
    """

    name: str
    kind: str
    default: Any
    help: str
    positional: bool
    many: bool = False
    optional: bool = False
    choices: tuple[str, ...] = ()
    bounds: Between | None = None

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def label(self) -> str:
        """How messages name it: ``--option`` or the bare name of a positional one."""
        return self.name.upper() if self.positional else "--" + self.name.replace("_", "-")


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the parameters of `function` in order, without the reserved ``progress``.

    Parameters before ``*`` are positional on the command line, keyword-only ones are options.

    Raises:
        TypeError: An annotation is missing or of a kind that has no face.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    described = describe_arguments(inspect.getdoc(function) or "")
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in RESERVED:
            continue
        if name not in hints:
            raise TypeError(f"{function.__qualname__}: parameter {name!r} has no annotation")
        fields = _read(hints[name], f"{function.__qualname__}: parameter {name!r}")
        found.append(
            Parameter(
                name=name,
                default=parameter.default,
                help=described.get(name, ""),
                positional=parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
                **fields,
            )
        )
    return tuple(found)


def summary_line(function: Callable[..., Any]) -> str:
    """Return the first line of the docstring of `function`."""
    return (inspect.getdoc(function) or "").split("\n", 1)[0]


def describe_arguments(docstring: str) -> dict[str, str]:
    """Return argument -> description of the ``Args:`` section of a docstring."""
    match = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if not match:
        return {}
    found: dict[str, str] = {}
    name = ""
    for line in match.group(1).splitlines():
        start = re.match(r" {4}\*{0,2}(\w+)(?: \([^)]*\))?: (.*)", line)
        if start:
            name = start.group(1)
            found[name] = start.group(2).strip()
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def convert(parameter: Parameter, value: Any) -> Any:
    """Turn text (or a list of texts where `many`) into the value that the function takes.

    Raises:
        InputError: The text is not such a value; the sentence names the parameter, the text and what is allowed.
    """
    if value is None and parameter.optional:
        return None
    if parameter.many:
        items = value if isinstance(value, list | tuple) else [value]
        flat = [piece.strip() for item in items for piece in str(item).split(",") if piece.strip()]
        return tuple(_convert_one(parameter, item) for item in flat)
    return _convert_one(parameter, value)


def _convert_one(parameter: Parameter, value: Any) -> Any:
    label, kind = parameter.label, parameter.kind
    if kind == "flag":
        return value if isinstance(value, bool) else str(value).lower() in ("1", "true", "yes", "on")
    text = str(value)
    if kind in ("integer", "number"):
        try:
            number: float = int(text) if kind == "integer" else float(text)
        except ValueError:
            noun = "a whole number" if kind == "integer" else "a number"
            raise InputError(f"{label} is {text!r}, which is not {noun}; give {noun}{_within(parameter)}.") from None
        if math.isnan(number) or (parameter.bounds and not parameter.bounds.check(number)):
            raise InputError(f"{label} is {text}; it must be {parameter.bounds or 'a number'}.")
        return number
    if kind == "choice":
        if text not in parameter.choices:
            hint = near_match(text, parameter.choices) or f"; choose one of {', '.join(parameter.choices)}."
            raise InputError(f"{label} is {text!r}{hint}")
        return text
    if kind == "input_file":
        return check_readable(text)
    if kind == "program_file":
        if not text.endswith(".py"):
            raise InputError(f"{label} is {text!r}, which is no Python file; name one that ends in .py.")
        return check_readable(text)
    if kind == "output_file":
        return check_writable(text)
    if kind == "output_folder":
        folder = Path(text)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{label} is {text!r}, which is a file; name a folder.")
        return folder
    return Path(text) if kind == "path" else text


def _within(parameter: Parameter) -> str:
    return f" ({parameter.bounds})" if parameter.bounds else ""


def _read(hint: Any, where: str) -> dict[str, Any]:
    bounds: Between | None = None
    origin = get_origin(hint)
    if origin is Annotated:
        base, *extras = get_args(hint)
        for extra in extras:
            if isinstance(extra, Marker):
                return {"kind": extra.role}
            if isinstance(extra, Between):
                bounds = extra
        return {**_read(base, where), "bounds": bounds}
    if origin in (typing.Union, types.UnionType):
        rest = [arm for arm in get_args(hint) if arm is not type(None)]
        if len(rest) != 1:
            raise TypeError(f"{where}: a union of {hint} has no face; use one type or None")
        return {**_read(rest[0], where), "optional": True}
    if origin is Literal:
        return {"kind": "choice", "choices": tuple(str(choice) for choice in get_args(hint))}
    if origin in (list, tuple):
        inner = next(argument for argument in get_args(hint) if argument is not Ellipsis)
        return {**_read(inner, where), "many": True}
    kinds = {str: "text", int: "integer", float: "number", bool: "flag", Path: "path"}
    if hint not in kinds:
        raise TypeError(f"{where}: the annotation {hint} has no face")
    return {"kind": kinds[hint]}
