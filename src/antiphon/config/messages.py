"""Errors of a configuration as sentences: path, fact, remedy.

pydantic finds the errors; this module names the place in the file and guesses what was meant. It is imported only for
a configuration that is wrong.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, cast, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from antiphon.config.schema import Config
from antiphon.config.sections import REGISTERED, Section
from antiphon.config.yaml_text import parse_value, write_value
from antiphon.text import nearest

__all__ = ["keys_of", "kinds_of", "sections_in", "value_problems"]

Place = tuple[str | int, ...]
LIST_LENGTH = re.compile("List should have (.*) items? after validation.*")

# The names of other toolkits for a key.
SYNONYMS = {
    "batch_tokens": "batch_size",
    "beam": "beam_size beam_width",
    "bidirectional": "bidir",
    "clip": "grad_clip",
    "dev": "validation",
    "embedding": "emb_size embed_dim",
    "epochs": "max_epochs",
    "kind": "cell type",
    "layers": "num_layers",
    "learning_rate": "lr",
    "max_length": "max_len",
    "max_updates": "max_steps",
    "optimizer": "optim optimiser",
    "patience": "early_stopping",
    "size": "d_model dim hidden hidden_size units",
    "tokens": "tokenizer",
    "vocabulary": "vocab_size",
}


def value_problems(data: Any) -> list[str]:  # noqa: ANN401 (any YAML value)
    """A sentence for every key that is unknown or missing and every value that is wrong.

    A kind that does not exist hides the other errors of its section, so it is replaced by the most similar one and the
    values are validated again.
    """
    if not isinstance(data, dict):
        return [f"the configuration: expected the sections {', '.join(keys_of(Config))}, got {shown(data)}"]
    data, problems, wrong_kinds = copy.deepcopy(data), dict[str, str](), True
    while wrong_kinds:
        try:
            Config.model_validate(data, by_name=False)
        except ValidationError as error:
            wrong_kinds = report(data, error.errors(include_url=False), problems)
        else:
            break
    return [f"{path}: {words}" for path, words in problems.items()]


def report(data: Any, errors: list[ErrorDetails], problems: dict[str, str]) -> bool:  # noqa: ANN401
    """Add a sentence for each place to the problems, and replace wrong kinds; False if there are none."""
    grouped: dict[Place, list[ErrorDetails]] = {}
    wrong_kinds = [error for error in errors if error["type"] == "union_tag_invalid"]
    for error in wrong_kinds or errors:
        grouped.setdefault(locate(data, error), []).append(error)
    for place, found in grouped.items():
        # A list with one wrong item is also not a number and not text: only the item is reported.
        if any(other != place and other[: len(place)] == place for other in grouped):
            continue
        choices = choices_of(found[0])
        problems.setdefault(dotted(place), sentence(dotted(place), found, choices))
        if wrong_kinds:
            section = data
            for part in place[:-1]:
                section = section[part]
            section[place[-1]] = nearest(str(section[place[-1]]), choices) or choices[0]
    return bool(wrong_kinds)


def locate(data: Any, error: ErrorDetails) -> Place:  # noqa: ANN401
    """pydantic's location without the labels of unions; that of a wrong kind is the kind."""
    place: list[str | int] = []
    for number, part in enumerate(error["loc"]):
        last = number == len(error["loc"]) - 1
        is_key = isinstance(data, dict) and part in data and (last or part != data.get("kind"))
        if is_key or (isinstance(data, list) and isinstance(part, int)):
            data = data[part]
        elif not (last and error["type"] in ("extra_forbidden", "invalid_key", "missing")):
            continue  # a label
        place.append(part)
    is_kind = error["type"].startswith("union_tag") and isinstance(data, dict)
    return (*place, "kind") if is_kind else tuple(place)


def dotted(place: Place) -> str:
    """a.b[0]"""
    rest = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[1:]]
    return "".join([str(part) for part in place[:1]] + rest)


def choices_of(error: ErrorDetails) -> list[str]:
    """The words that are allowed where a word is wrong."""
    context = error.get("ctx", {})
    return re.findall("'(.*?)'", str(context.get("expected_tags") or context.get("expected") or ""))


def sentence(path: str, errors: list[ErrorDetails], choices: list[str]) -> str:
    """The fact and the remedy for the errors of one place."""
    first, value = errors[0], errors[0]["input"]
    if first["type"] == "missing":
        _, [section] = sections_along(first["loc"])
        return f"missing; add it: {keys_of(section)[str(first['loc'][-1])].description}"
    if first["type"] in ("extra_forbidden", "invalid_key"):
        return unknown_key(path, first["loc"])
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    if choices:
        value = value.get("kind") if isinstance(value, dict) else value
        close = nearest(value, choices) if isinstance(value, str) else None
        hint = f"; did you mean '{close}'?" if close else ""
        return f"should be one of {', '.join(choices)}, got {shown(value)}{hint}"
    facts = ["a section of keys" if "dictionary" in error["msg"] else error["msg"] for error in errors]
    facts = [LIST_LENGTH.sub(r"a list of \1", fact).removeprefix("Input should be ") for fact in dict.fromkeys(facts)]
    parsed = parse_value(value) if isinstance(value, str) else value
    is_quoted = isinstance(value, str) and {f"{type(parsed).__name__}_type"} & {error["type"] for error in errors}
    hint = f"; write {write_value(parsed)} without quotes" if is_quoted else ""
    return f"should be {' or '.join(facts)}, got {shown(value)}{hint}"


# Unknown keys: the classes of the configuration know which there are.


def sections_in(annotation: Any) -> list[type[Section]]:  # noqa: ANN401 (a type)
    """The classes of the sections that a value of this type can be, or be a list of."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return list(dict.fromkeys(section for part in get_args(annotation) for section in sections_in(part)))


def keys_of(section: type[Section]) -> dict[str, FieldInfo]:
    """The keys of a section as they are written in a file."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def kinds_of(section: type[Section]) -> list[str]:
    """The kinds that a section stands for; none if it has no such key, and that of registered parts is any name."""
    kind = section.model_fields.get("kind")
    return [] if kind is None else list(get_args(kind.annotation)) or [REGISTERED]


def sections_along(location: Place) -> tuple[list[type[Section]], list[type[Section]]]:
    """The sections that could stand around the last key of pydantic's location, and the one that does."""
    around = chosen = [cast(type[Section], Config)]
    for part in location[:-1]:
        of_kind = [section for section in around if part in kinds_of(section)]
        if len(chosen) > 1 and of_kind:
            chosen = of_kind
        elif part in keys_of(chosen[0]):
            around = chosen = sections_in(keys_of(chosen[0])[str(part)].annotation)
    return around, chosen[:1]


def unknown_key(path: str, location: Place) -> str:
    """The section without such a key, and the key that was meant: here, in another kind, in another section."""
    around, [section] = sections_along(location)
    key, keys = str(location[-1]), list(keys_of(section))
    who = f"'{location[-2]}'" if location[1:] else "a configuration"
    who = REGISTERED if location[-2:-1] == (REGISTERED,) else who
    others = [other for other in all_keys(Config) if other.rsplit(".", 1)[-1] == key and other != path]
    kinds = [kind for other in around if key in keys_of(other) for kind in kinds_of(other)]
    synonym = next((name for name, words in SYNONYMS.items() if key.lower() in words.split() and name in keys), None)
    close = synonym or (None if others or kinds else nearest(key, keys))
    if close:
        return f"{who} has no such key; did you mean '{close}'?"
    if kinds:
        return f"{who} has no such key; leave it out, or set the kind to {' or '.join(kinds)}"
    if others:
        return f"{who} has no such key; did you mean '{others[0]}'?"
    return f"{who} has no such key; its keys are {', '.join(keys)}"


def all_keys(section: type[Section], path: str = "") -> Iterator[str]:
    """The dotted path of every key of a section and the sections inside it."""
    for key, field in keys_of(section).items():
        yield f"{path}{key}"
        for inner in sections_in(field.annotation):
            yield from all_keys(inner, f"{path}{key}.")


def shown(value: Any) -> str:  # noqa: ANN401
    """A value as the user wrote it, shortened."""
    if isinstance(value, dict):
        return "a section of keys"
    text = f"'{value}'" if isinstance(value, str) else write_value(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} (nothing)" if value is None else text
