"""antiphon chat"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from antiphon.cli.io import input_lines, print_line, say
from antiphon.cli.options import CombineOption, RunArgument, WithOption, load_generator, with_search_flags
from antiphon.errors import UserError
from antiphon.inference.options import SearchKeywords
from antiphon.text import nearest, plural

if TYPE_CHECKING:
    from antiphon.inference.conversation import Conversation

__all__ = ["chat"]

PROMPT = "> "
COMMANDS = {
    "/alternatives": "the n best answers to the last line, each after its score",
    "/history": "what was said so far; > stands before the lines that you wrote",
    "/undo": "take back the last line and its answer",
    "/reset": "forget everything that was said",
    "/help": "this list; Ctrl-D ends",
}


@with_search_flags
def chat(
    run: RunArgument, also: WithOption = None, combine: CombineOption = None, **options: Unpack[SearchKeywords]
) -> None:
    """Talk to a model, which remembers the latest turns.

    Each answer takes into account as many of them as the model was trained with (data.turns).

    In a terminal > asks for a line; from a pipe each line gets one line of answer, and an empty one an empty answer. A
    line that begins with / is a command: /alternatives, /history, /undo, /reset, /help.
    """
    from antiphon.inference.conversation import Conversation

    conversation = Conversation(load_generator(run, also, combine, options, []), **options)
    say(describe(conversation))
    if sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        say("type a line and press Enter; /help lists the commands, Ctrl-D ends")
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            converse(conversation, typed_lines(), typed=True)
        sys.stdout.write("\n")
    else:
        converse(conversation, input_lines(None), typed=False)


def describe(conversation: Conversation) -> str:
    """The number of turns that the model reads."""
    most = conversation.generator.turns.most
    if most == 1:
        return "the training sources of this model have one turn each (data.turns), so each line is answered by itself"
    return f"the model reads the last {plural(most, 'turns')} of the conversation, your line included"


def converse(conversation: Conversation, lines: Iterator[str], *, typed: bool) -> None:
    """Answer lines and obey commands until there are no more."""
    for number, line in enumerate(lines, start=1):
        if line.startswith("/"):
            obey(conversation, line.strip())
        elif line.strip() or not typed:
            answer(conversation, line, "" if typed else f"line {number}: ")
        sys.stdout.flush()


def answer(conversation: Conversation, line: str, place: str) -> None:
    """Print the answer and its flags; a line that cannot be answered does not end what is typed."""
    try:
        said = conversation.say(line, weights=False)
    except UserError as error:
        if place:
            raise
        for problem in error.problems:
            say(problem)
        return
    print_line(said.text)
    if said.flags:
        say(f"{place}{'; '.join(said.flags)}")


def typed_lines() -> Iterator[str]:
    """The lines that are typed at a prompt, until Ctrl-D; bytes that are no UTF-8 become unknown symbols."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 (arrow keys and earlier lines at the prompt; Windows has them without it)
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    while True:
        yield input(PROMPT)


def obey(conversation: Conversation, command: str) -> None:
    """Do what a command says; a sentence for one that there is not."""
    if command == "/alternatives":
        show_alternatives(conversation)
    elif command == "/history":
        for exchange in conversation.exchanges:
            print_line(f"{PROMPT}{exchange.text}")
            print_line(exchange.answer.text)
    elif command == "/undo":
        taken = conversation.undo()
        say("nothing was said yet" if taken is None else f"taken back: {taken.text}")
    elif command == "/reset":
        conversation.reset()
        say("everything that was said is forgotten")
    elif command == "/help":
        for name, meaning in COMMANDS.items():
            print_line(f"{name:<15}{meaning}")
    else:
        close = nearest(command, COMMANDS)
        say(f"{command}: there is no such command" + (f"; did you mean {close}?" if close else "; /help lists them"))


def show_alternatives(conversation: Conversation) -> None:
    """Print the n best answers to the last line with their scores."""
    if not conversation.exchanges:
        say("nothing was said yet, so there is no answer")
        return
    alternatives = conversation.exchanges[-1].answer.alternatives
    for alternative in alternatives:
        print_line(f"{alternative.score:.4f}", alternative.text)
    if len(alternatives) == 1:
        say("this was the only answer; start with --beam 5, or with --n-best 5 of samples, for more")
