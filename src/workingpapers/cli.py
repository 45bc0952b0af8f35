# PYTHON_ARGCOMPLETE_OK
"""The command ``papers``."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from workingpapers import __version__

DEBUG_VARIABLE = "WORKINGPAPERS_DEBUG"
SIZES = ("smallest", "small", "full")
ENGINES = ("local", "ray", "dask")
SEARCH_ENGINES = ("auto", "bm25", "semantic", "hybrid")
EXPORTS = ("bibtex", "csl-json", "jsonl", "csv")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and leave with 2."""
        message = message.replace("the following arguments are required:", "please give")
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice:
            from workingpapers.foundations.errors import near_match

            known = [item.strip("' ") for item in choice.group(2).split(",")]
            hint = near_match(choice.group(1), known) or f"; choose one of {', '.join(known)}."
            self.exit(2, f"papers: There is no {choice.group(1)!r} here{hint}\n")
        self.exit(2, f"papers: {message[:1].upper()}{message[1:]}; '{self.prog} --help' shows what it takes.\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 (a fault of ours), 2 (input), 130 (interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _interrupt_on_terminate()
    try:
        parser = build_parser(_completed_words() or arguments)
        if "_ARGCOMPLETE" in os.environ:
            import argcomplete

            argcomplete.autocomplete(parser)
        options = parser.parse_args(arguments)
        code: int = options.handler(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("papers: Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has left (``papers list | head``); nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _explain(error)


def build_parser(arguments: Sequence[str] = ()) -> Parser:
    """Return the parser; ``run SLUG`` in `arguments` gives that paper's own options."""
    parser = Parser(
        prog="papers",
        description="Research methods that work: find a paper's method, use it on your data, check its headline claim.",
        epilog="Start with 'papers list', 'papers show residual_augmentation' or 'papers search QUERY'.",
    )
    parser.add_argument("--version", action="version", version=f"papers {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, help: str, handler: str, module: str = "commands") -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help)
        command.set_defaults(handler=_late(handler, module))
        return command

    listing = add("list", "List the papers of this library.", "list_papers")
    _json_option(listing)

    show = add("show", "Show a paper: summary, results, how to use it.", "show_paper")
    _slug_argument(show)
    _json_option(show)

    search = add("search", "Search the catalog.", "search_catalog", "catalog_commands")
    search.add_argument("query", nargs="*", metavar="QUERY", help='words, "a phrase", prefix*, 中文')
    search.add_argument("--topic", default="", metavar="T", help="only topics with these words")
    search.add_argument("--author", default="", metavar="A", help="only papers by this author")
    search.add_argument("--limit", type=_positive, default=10, metavar="N", help="most papers to show (10)")
    search.add_argument(
        "--engine",
        choices=SEARCH_ENGINES,
        default="auto",
        help="bm25 (words), semantic (meaning), hybrid; auto chooses",
    )
    _json_option(search)

    similar = add("similar", "Show papers like one.", "similar_papers", "catalog_commands")
    similar.add_argument("what", nargs="+", metavar="PAPER", help="a paper's short name, or words of its title")
    similar.add_argument("--limit", type=_positive, default=5, metavar="N", help="most papers to show (5)")
    _json_option(similar)

    author = add("author", "Show an author's papers, topics and co-authors.", "author_page", "catalog_commands")
    author.add_argument("name", nargs="+", metavar="NAME", help="the name or a part of it")
    author.add_argument("--limit", type=_positive, default=20, metavar="N", help="most papers to show (20)")
    _json_option(author)

    _json_option(add("topics", "List the catalog's topics.", "list_topics", "catalog_commands"))

    twins = add("duplicates", "List records that are nearly the same paper.", "near_duplicates", "catalog_commands")
    twins.add_argument("--least", type=_share, default=0.6, metavar="X", help="least similarity, 0 to 1 (0.6)")
    _json_option(twins)

    index = add("index", "Prepare the catalog for search by meaning.", "index_catalog", "catalog_commands")
    index.add_argument("--rebuild", action="store_true", help="throw the index away and begin anew")

    imports = add("import", "Import proceedings into the catalog.", "import_files", "catalog_commands")
    imports.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="result pages, BibTeX, CSL-JSON, OpenReview notes, arXiv metadata or CSV; gzip accepted",
    )
    _json_option(imports)

    export = add(
        "export", "Write the catalog's records to standard output or a file.", "export_catalog", "catalog_commands"
    )
    export.add_argument("--format", choices=EXPORTS, default="bibtex", help="bibtex (the default) or another format")
    export.add_argument("--query", default="", metavar="Q", help="only the records that this search finds")
    export.add_argument("--out", metavar="FILE", help="file to write; standard output without it")

    check = add("check", "Check the claims of a paper on this machine.", "check_papers")
    _slug_argument(check, optional=True)
    check.add_argument("--all", action="store_true", help="check every paper")
    check.add_argument("--claim", action="append", default=[], metavar="NAME", help="only this claim (repeatable)")
    check.add_argument("--size", choices=SIZES, default="small", help="how much work: smallest, small (default), full")
    check.add_argument("--seeds", type=_positive, metavar="N", help="number of seeds instead of the claim's own")
    check.add_argument(
        "--engine", choices=ENGINES, default="local", help="where the arms run: local processes, ray, dask"
    )
    check.add_argument("--jobs", type=_positive, metavar="N", help="worker processes (one for each core)")
    check.add_argument(
        "--reuse", action="store_true", help="show a stored result of the same code and size if there is one"
    )
    check.add_argument("--out", metavar="DIR", help="folder for report.html and result.json")
    _json_option(check)

    _add_run(commands, arguments)

    results = add("results", "List stored results, or compare two of them.", "show_results")
    _slug_argument(results, optional=True)
    results.add_argument("--compare", nargs=2, type=_positive, metavar=("A", "B"), help="two run numbers")
    _json_option(results)

    serve = add("serve", "Open the library in the browser, on this machine.", "serve", "web.commands")
    serve.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=_port, default=8765, metavar="N", help="port to listen on (8765; 0: any)")
    serve.add_argument(
        "--token", default="", metavar="T", help="secret that requests must carry; an address for others demands one"
    )
    serve.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a further name of this machine (repeatable)"
    )
    serve.add_argument(
        "--upload-limit", type=_positive, default=256, metavar="MIB", help="largest upload, in mebibytes (256)"
    )
    serve.add_argument("--open", action="store_true", help="open the page in the browser at once")

    add("mcp", "Serve search, show, check and results as tools to an assistant (MCP).", "mcp", "web.commands")

    new = add("new", "Make the skeleton of a paper's folder.", "new_paper")
    new.add_argument("slug", metavar="SLUG", help="short name: lower case letters, digits, underscores")
    new.add_argument("--area", required=True, metavar="AREA", help="one of the library's areas")
    new.add_argument("--root", metavar="DIR", help="root of a checkout (the current folder)")

    completion = add("completion", "Print the shell's completion script.", "print_completion")
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help='for example: eval "$(papers completion bash)"'
    )
    return parser


def _add_run(commands: Any, arguments: Sequence[str]) -> None:
    text = "Run a paper's method on your own data."
    run = commands.add_parser("run", help=text, description=text, epilog="'papers run SLUG --help' shows its options.")
    if len(arguments) < 2 or arguments[0] != "run" or arguments[1].startswith("-"):
        _slug_argument(run)
        run.set_defaults(handler=_late("list_commands"))
        return
    from workingpapers.catalog.papers import get

    paper = get(arguments[1])
    functions = paper.commands()
    papers = run.add_subparsers(metavar="SLUG", required=True, parser_class=Parser)
    one = papers.add_parser(paper.slug, aliases=[arguments[1]] if arguments[1] != paper.slug else [])
    one.description = paper.title
    if set(functions) == {""}:
        _add_function(one, paper.slug, functions[""])
        return
    parts = one.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for name, function in functions.items():
        from workingpapers.foundations.signature import summary_line

        part = parts.add_parser(name or "run", help=summary_line(function))
        _add_function(part, paper.slug, function)


def _add_function(parser: argparse.ArgumentParser, slug: str, function: Callable[..., Any]) -> None:
    from workingpapers.foundations.signature import parameters, summary_line

    described = parameters(function)
    parser.description = summary_line(function)
    for item in described:
        text = item.help.replace("%", "%%")
        if not item.required and item.default not in (None, False, ()) and not item.many:
            text += f" (default {item.default})"
        options: dict[str, Any] = {"help": text}
        if item.kind == "flag":
            parser.add_argument(
                item.label, dest=item.name, action=argparse.BooleanOptionalAction, default=item.default, help=text
            )
            continue
        if item.choices:
            options["metavar"] = "{" + ",".join(item.choices) + "}"
        else:
            options["metavar"] = _METAVARS.get(item.kind, item.name.upper())
        if item.many:
            options["nargs"] = "+" if item.required else "*"
        elif item.positional and not item.required:
            options["nargs"] = "?"
        if not item.required:
            options["default"] = None
        if item.positional:
            action = parser.add_argument(item.name, **options)
        else:
            action = parser.add_argument(item.label, dest=item.name, required=item.required, **options)
        if item.choices:
            action.completer = lambda item=item, **_: item.choices  # type: ignore[attr-defined]
    names = {item.name for item in described}
    if "json" not in names:
        _json_option(parser)
    # Names that no parameter of a command can have.
    parser.set_defaults(handler=_late("run_command"), _function=function, _parameters=described, _slug=slug)


_METAVARS = {
    "integer": "N",
    "number": "X",
    "input_file": "FILE",
    "program_file": "FILE.py",
    "output_file": "FILE",
    "output_folder": "DIR",
    "path": "PATH",
    "text": "TEXT",
}


def _late(name: str, module: str = "commands") -> Callable[[argparse.Namespace], int]:
    """Return the handler `name` of `module`, imported when it is called: ``--help`` must not wait for it."""

    def handler(options: argparse.Namespace) -> int:
        import importlib

        code: int = getattr(importlib.import_module(f"workingpapers.{module}"), name)(options)
        return code

    return handler


def _slug_argument(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    action = parser.add_argument("slug", metavar="SLUG", nargs="?" if optional else None, help="the paper's short name")
    action.completer = _complete_slugs  # type: ignore[attr-defined]


def _complete_slugs(**_: object) -> list[str]:
    from workingpapers.catalog.papers import all_papers

    return [paper.slug for paper in all_papers()]


def _json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too small, at least 1 is needed")
    return number


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return int(text)


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is outside 0 to 1")
    return number


def _completed_words() -> list[str]:
    """Return the words that the shell is completing, without the program's name."""
    if "_ARGCOMPLETE" not in os.environ:
        return []
    return os.environ.get("COMP_LINE", "").split()[1:]


def _interrupt_on_terminate() -> None:
    """Let a polite kill end the work as Ctrl-C does: workers stopped, what is done stored."""
    import signal
    import threading

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def _explain(error: Exception) -> int:
    from workingpapers.foundations.errors import InputError

    if os.environ.get(DEBUG_VARIABLE):
        raise error
    if isinstance(error, InputError):
        print(f"papers: {error}", file=sys.stderr)
        return 2
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        print(f"papers: {error.strerror}{where}; mend that and try again.", file=sys.stderr)
        return 2
    text = " ".join(str(error).split())
    print(
        f"papers: {type(error).__name__}: {text} This is a fault of papers; {DEBUG_VARIABLE}=1 shows where.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
