"""The command `antiphon`: the list of commands, errors and exit codes.

Exit codes: 0 success, 1 a bug in Antiphon, 2 wrong input, 3 trained but learnt nothing beyond the frequency of the
output tokens, 130 interrupted, 143 terminated after saving.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import tempfile
import traceback
import warnings
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from antiphon._version import __version__
from antiphon.cli.bench import bench
from antiphon.cli.cache import cache
from antiphon.cli.chat import chat
from antiphon.cli.check import check
from antiphon.cli.demo import demo
from antiphon.cli.evaluate import evaluate
from antiphon.cli.explain import explain
from antiphon.cli.export import export, import_
from antiphon.cli.generate import generate
from antiphon.cli.init import init
from antiphon.cli.io import say
from antiphon.cli.map import map_
from antiphon.cli.ngrams import joint, shortlist
from antiphon.cli.recipes import recipes
from antiphon.cli.score import score
from antiphon.cli.serve import serve
from antiphon.cli.train import train
from antiphon.errors import Interrupted, UserError

__all__ = ["app", "commands", "main", "run"]


class Commands(TyperGroup):
    """Keeps the order of the commands, and handles Ctrl-C and broken pipes before typer does."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 (typer's signature; its type moved between versions)
        """The commands in the order of their registration."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 (typer's signature)
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted(130, "interrupted") from None
        except BrokenPipeError:
            raise SystemExit(broken_pipe()) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich would double the time of --help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        sys.stdout.write(f"antiphon {__version__}\n")
        raise typer.Exit


@app.callback()
def antiphon(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Train and use models that turn one sequence into another."""


for command in (
    init,
    check,
    train,
    generate,
    chat,
    score,
    evaluate,
    explain,
    map_,
    joint,
    shortlist,
    export,
    import_,
    serve,
    bench,
    recipes,
    cache,
    demo,
):
    app.command(command.__name__.rstrip("_"))(command)


@functools.cache
def commands() -> Any:  # noqa: ANN401 (the type moved between versions of typer)
    """The command line, built once a process."""
    return typer.main.get_command(app)


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    warnings.formatwarning = format_warning
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `antiphon train ... >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (until the end)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = commands().main(arguments, prog_name="antiphon", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report_error(error)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    return code if isinstance(code, int) else 0


def format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning in one line, with its place in the code unless it is meant for users (FutureWarning)."""
    del line  # the source code
    where = "notice" if category is FutureWarning else f"{filename}:{lineno}: {category.__name__}"
    return f"{where}: {message}\n"


def report_error(error: Exception) -> int:
    """Log the error and return the exit code."""
    if isinstance(error, UserError):
        for problem in error.problems:
            say(problem)
        return error.exit_code
    if isinstance(error, Interrupted):
        say(str(error))
        return error.exit_code
    if isinstance(error, typer.Abort):
        return 130
    if isinstance(error, BrokenPipeError):
        return broken_pipe()
    from antiphon.files import REMEDIES

    if isinstance(error, OSError) and error.errno in REMEDIES:
        say(f"{error.filename or 'output'}: {error.strerror}; {REMEDIES[error.errno]}, or choose another folder")
        discard_output()
        return 2
    if hasattr(error, "show") and hasattr(error, "exit_code"):  # typer's: an unknown option, a missing argument
        error.show(sys.stderr)
        return int(error.exit_code)
    return report_bug(error)


def report_bug(error: Exception) -> int:
    """Log one line, write the traceback to a file, and return the exit code."""
    message = " ".join(f"{type(error).__name__}: {error}".split())
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="antiphon-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"antiphon {__version__}, python {sys.version}, {sys.platform}\n{sys.argv}\n\n{text}")
        say(f"this is a bug in Antiphon: {message}; please report it with the file {path}")
    except OSError:
        say(f"this is a bug in Antiphon: {message}; please report it with these lines:\n{text}")
    return 1


def broken_pipe() -> int:
    """The exit code if the reader of the output (`| head`) has closed the pipe; nothing is logged."""
    discard_output()
    return 0


def discard_output() -> None:
    """Send buffered output to the null device, so that Python's flush at exit cannot fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 (the signature of a handler)
    """Exit on SIGTERM, at once on a second one; training has its own handler, which saves first."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    raise SystemExit(143)


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGTERM, terminate)
    sys.exit(run())


if __name__ == "__main__":
    main()
