"""Runs `antiphon` command lines, each in a process of its own that can be killed, and lets one fault happen in it.

Started as a script it is a server: torch is imported once, every order is forked from there. A line of JSON comes in,
the process id goes out, and when the process has ended its exit code. A fault is {"where", "number", "action"}:
at that number of disk operations, evaluations, batches, ... send a signal or fill the disk. Nothing here waits for
the disk: what a process wrote outlives it without a sync, and only a machine that stops would show the difference.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}
DISK_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "open")
WRITING = os.O_WRONLY | os.O_RDWR


class Fault:
    """Counts how often a place is passed, and acts at the number given."""

    def __init__(self, number: int, action: str) -> None:
        self.number = number
        self.action = action
        self.count = 0

    def passed(self, takes_room: bool = False) -> None:
        self.count += 1
        if self.action == "full":
            if takes_room and self.count >= self.number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return
        if self.count == self.number:
            for name in self.action.split():
                os.kill(os.getpid(), SIGNALS[name])


def watch_disk(fault: Fault, folder: str) -> None:
    """Every change of a file under `folder`, just before it happens, and every sync of one."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in DISK_EVENTS or not str(arguments[0]).startswith(folder):
            return
        if event != "open" or arguments[2] & WRITING:
            fault.passed(takes_room=event in ("open", "os.mkdir"))

    def fsync(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").startswith(os.path.realpath(folder)):  # not that of the cache
            fault.passed(takes_room=True)

    os.fsync = fsync
    sys.addaudithook(hook)


def watch_room(room: int, folder: str) -> None:
    """A sync fails once the files under `folder` hold more bytes than this, as a disk that allocates late does."""

    def held() -> int:
        paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
        return sum(os.stat(path).st_size for path in paths)

    def fsync(handle: int) -> None:  # noqa: ARG001 (its signature)
        if held() > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.fsync = fsync


def before(module: Any, name: str, fault: Fault) -> None:  # noqa: ANN401 - modules have no better type here
    """The fault happens when `module.name` is called."""
    really = getattr(module, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - passes on what it gets
        fault.passed()
        return really(*arguments, **named)

    setattr(module, name, wrapped)


def spoil_losses(first: int, last: int) -> None:
    """The losses of these batches are NaN."""
    from antiphon.training import loop
    from antiphon.training.step import StepResult

    count = 0
    really = loop.training_step

    def spoilt(*arguments: Any, **named: Any) -> StepResult:  # noqa: ANN401 - passes on what it gets
        nonlocal count
        count += 1
        result = really(*arguments, **named)
        factor = math.nan if first <= count <= last else 1.0
        loss = replace(result.loss, total=result.loss.total * factor, plain=result.loss.plain * factor)
        return replace(result, loss=loss)

    loop.training_step = spoilt


def install(order: dict[str, Any]) -> Callable[[], None]:
    """Puts the fault of an order in place; returns what to do at the end."""
    from antiphon.training import checkpoints, endings, evaluator, loop, run_folder
    from antiphon.training import run as train

    train.unigram_loss = lambda *_: 99.0  # which every run is below: in 14 updates none learns much
    if not order["pictures"]:
        endings._draw_plots = lambda _: None
    if order["spoilt"]:
        spoil_losses(*order["spoilt"])
    wanted = order["fault"] or {"where": "disk", "number": 0, "action": "kill"}
    fault = Fault(wanted["number"], wanted["action"])
    if order["second"]:
        before(endings, "draw_curves", Fault(1, order["second"]))
    if wanted["where"] == "disk":
        watch_disk(fault, order["run"])
    elif wanted["where"] == "room":
        watch_room(wanted["number"], order["run"])
    else:
        places = {
            "evaluation": (evaluator, "evaluate_examples"),
            "batch": (loop, "training_step"),
            "preparation": (train, "prepare"),
            "metrics": (run_folder.RunFolder, "write_metrics"),
            "report": (endings, "write_report"),
            "pruning": (checkpoints.Checkpoints, "prune"),
        }
        before(*places[wanted["where"]], fault)
    return lambda: write_count(order["log"] + ".passed", fault.count)


def write_count(path: str, count: int) -> None:
    with open(path, "w") as file:
        file.write(str(count))


def child(order: dict[str, Any]) -> None:
    """Becomes `antiphon ARGUMENTS`; ends the process."""
    from antiphon.cli.main import main

    os.chdir(order["folder"])
    with open(order["log"], "ab", buffering=0) as log, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
    sys.argv = ["antiphon", *order["arguments"]]
    # A shell starts what runs in its background with SIGINT ignored; the child is to be one of the foreground.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ended = install(order)
    code: Any = 1
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code
    ended()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


def warm_up() -> None:
    """All that a training would import and put together once, so that a fork has it."""
    for module in ("torch._dynamo", "antiphon.api", "antiphon.training.display"):
        importlib.import_module(module)
    from antiphon.cli.main import commands

    commands()
    os.fsync = lambda _: None  # type: ignore[assignment]
    gc.freeze()


def serve() -> None:
    warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            child(json.loads(line))
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
