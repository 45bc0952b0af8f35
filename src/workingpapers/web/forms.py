"""A command's signature as a web form: its fields, what was filled in, and the same as a command line."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from workingpapers.foundations.errors import InputError
from workingpapers.foundations.signature import Parameter, convert, parameters
from workingpapers.web import uploads

FILE_KINDS = ("input_file", "output_file", "output_folder", "path")
EARLIER = "earlier:"
# What in a text would leave the folder of a command: an absolute path, a home, a step up, an address that is no web
# page's. The command reads some texts as paths, and which ones its signature does not tell.
LEAVES = re.compile(r"(?:^|[^\w.)\]])(?:[/\\~](?=\S)|[A-Za-z]:[/\\])|(?:^|[/\\=:\s,])\.\.(?:[/\\]|$)|\0")
ADDRESS = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*):/")


class Upload(Protocol):
    """A file of a request."""

    filename: str | None
    file: Any


@dataclass(frozen=True)
class Filled:
    """A form that was filled in: values for the worker, and the words of the same command line."""

    values: Mapping[str, Any]
    command_line: str


def fields(function: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the fields of a command's form, as JSON types; programs to be run are for the command line alone."""
    return [_field(item) for item in parameters(function) if item.kind != "program_file"]


def fill(
    slug: str,
    command: str,
    function: Callable[..., Any],
    texts: Mapping[str, Sequence[str]],
    files: Mapping[str, Sequence[Upload]],
    folder: Path,
    workspace: Path,
    earlier: Callable[[str], Path],
) -> Filled:
    """Check what was filled in, store the uploads and return the values.

    Args:
        slug: The paper.
        command: Its sub-command, or an empty string.
        function: The function behind it.
        texts: Field -> texts that were filled in.
        files: Field -> files that were chosen.
        folder: The job's folder, with ``inputs`` and ``outputs``.
        workspace: The folder in which the command runs.
        earlier: Gives the path of a file of an earlier job.

    Raises:
        InputError: A value cannot be used; nothing else has happened then.
    """
    values: dict[str, Any] = {}
    positional: list[str] = []
    options: list[str] = []
    for item in parameters(function):
        given = [text.strip() for text in texts.get(item.name, ()) if text.strip()]
        chosen = [file for file in files.get(item.name, ()) if file.filename]
        if item.kind == "program_file":
            if given or chosen:
                raise InputError(f"{item.label} runs a program, which this page does not do; use the command line.")
            continue
        if item.kind == "flag":
            if given and (wanted := _truth(item, given[-1])) != item.default:
                values[item.name] = wanted
                options.append(item.label if wanted else item.label.replace("--", "--no-", 1))
            continue
        if item.many and item.kind not in FILE_KINDS:
            given = [line.strip() for text in given for line in text.splitlines() if line.strip()]
        if not given and not chosen:
            if item.required:
                raise InputError(f"{item.label} is missing; {_asks(item)}.")
            continue
        found, words = _value(item, given, chosen, folder, workspace, earlier)
        convert(item, found if item.many else found[0])
        values[item.name] = found if item.many else found[0]
        if item.positional:
            positional += words
        elif words != [_default_text(item)]:
            options += [item.label, *words]
    line = shlex.join(["papers", "run", slug, *([command] if command else []), *positional, *options])
    return Filled(values, line)


def contained(label: str, text: str) -> str:
    """Return a text that a command may read as a path: it stays in the command's folder.

    Raises:
        InputError: It would leave it.
    """
    schemes = {match.lower() for match in ADDRESS.findall(text)}
    bare = re.sub(r"\bhttps?://", "", text)
    if schemes - {"http", "https"} or LEAVES.search(bare):
        raise InputError(f"{label} is {text!r}, which leads out of this page's folder; use the command line for that.")
    return text


def _value(
    item: Parameter,
    given: Sequence[str],
    chosen: Sequence[Upload],
    folder: Path,
    workspace: Path,
    earlier: Callable[[str], Path],
) -> tuple[list[str], list[str]]:
    """Return the values of one parameter for the worker, and as words of a command line."""
    if item.kind in ("input_file", "path"):
        paths = [uploads.store(file.file, file.filename or "file", folder / "inputs") for file in chosen]
        names = [uploads.safe_name(file.filename or "file") for file in chosen]
        for text in given:
            if text.startswith(EARLIER):
                paths.append(earlier(text.removeprefix(EARLIER)))
                names.append(paths[-1].name)
            elif item.kind == "path":
                paths.append(_in_workspace(item, text, workspace))
                names.append(text)
            else:
                raise InputError(f"{item.label} is {text!r}; choose a file to upload.")
        if len(paths) > 1 and not item.many:
            raise InputError(f"{item.label} takes one file; {len(paths)} were given.")
        return [str(path) for path in paths], names
    if item.kind in ("output_file", "output_folder"):
        names = [_output_name(item, text) for text in given]
        return [str(folder / "outputs" / name) for name in names], names
    texts = [contained(item.label, text) for text in given]
    return list(texts), list(texts)


def _output_name(item: Parameter, text: str) -> str:
    name = uploads.safe_name(text)
    if name != text:
        raise InputError(f"{item.label} is {text!r}; give a plain file name such as {name!r}.")
    return name


def _in_workspace(item: Parameter, text: str, workspace: Path) -> Path:
    target = (workspace / contained(item.label, text)).resolve()
    if not target.is_relative_to(workspace.resolve()):
        raise InputError(f"{item.label} is {text!r}, which leads out of this page's folder; give a plain name.")
    return target


def _truth(item: Parameter, text: str) -> bool:
    if text.lower() not in ("true", "false", "on", "off", "1", "0", "yes", "no"):
        raise InputError(f"{item.label} is {text!r}; give true or false.")
    return text.lower() in ("true", "on", "1", "yes")


def _asks(item: Parameter) -> str:
    if item.kind == "input_file":
        return "choose a file"
    if item.kind in ("output_file", "output_folder"):
        return "give a name"
    return "choose one" if item.kind == "choice" else "give a value"


def _field(item: Parameter) -> dict[str, Any]:
    bounds = item.bounds
    return {
        "name": item.name,
        "label": item.label,
        "kind": item.kind,
        "help": item.help,
        "required": item.required,
        "many": item.many,
        "positional": item.positional,
        "default": _default(item),
        "choices": list(item.choices),
        "low": bounds.low if bounds and math.isfinite(bounds.low) else None,
        "high": bounds.high if bounds and math.isfinite(bounds.high) else None,
        "bounds": str(bounds) if bounds else "",
        "suggestion": _suggested_name(item),
    }


def _default(item: Parameter) -> Any:
    if item.required or item.default is None:
        return None
    if isinstance(item.default, bool | int | float | str):
        return item.default
    if isinstance(item.default, list | tuple):
        return [str(value) for value in item.default]
    return str(item.default)


def _default_text(item: Parameter) -> str:
    return "" if item.required or item.default is None else str(item.default)


def _suggested_name(item: Parameter) -> str:
    """Return a file name for what the command writes: asked for on a command line, offered on a page."""
    if item.kind == "output_folder":
        return item.name
    if item.kind != "output_file":
        return ""
    kinds = {"html": "html", "csv": "csv", "json": "json", "parquet": "parquet", "pem": "pem", "xml": "xml"}
    if item.name == "report":
        return "report.html"
    words = re.findall(r"[a-z]+", item.help.lower())
    suffix = next((kinds[word] for word in words if word in kinds), "tex" if "latex" in words else "txt")
    return f"{item.name}.{suffix}"
