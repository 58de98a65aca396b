"""Write the pages of docs/reference/ and tests/frozen/openapi.json from the code: `python docs/make_reference.py`.

tests/docs/test_reference.py fails when a page is stale, tests/serve/test_serve_schema.py when the schema is.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from enum import Enum
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

import antiphon

FOLDER = Path(__file__).parent / "reference"
FROZEN = Path(__file__).parents[1] / "tests" / "frozen" / "openapi.json"
NOTE = "<!-- Written by docs/make_reference.py; edit the code, not this page. -->"
WIDTH = 100  # of a signature on one line
YAML_TYPES = {int: "integer", float: "number", str: "text", bool: "boolean", NoneType: "null", dict: "mapping"}
TYPES = {int: "INTEGER", float: "FLOAT", str: "TEXT", Path: "PATH"}


def pages() -> dict[str, str]:
    """File name → content, for every page of the reference."""
    return {
        "cli.md": cli_reference(),
        "config.md": config_reference(),
        "python.md": python_reference(),
        "search-options.md": search_options_reference(),
    }


def page(title: str, introduction: str, sections: list[str]) -> str:
    """A whole page: the note, a title, an introduction and the sections."""
    return "\n\n".join([NOTE, f"# {title}", introduction, *sections]) + "\n"


def prose(text: str) -> str:
    """Markdown in which </s> and the like outside code are shown, not taken for HTML."""
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in re.split(r"(`[^`]*`)", text))


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


# The command line.

EXIT_CODES = """Exit codes: 0 success, 1 a bug in Antiphon, 2 wrong input (with a sentence on standard error), 3 trained
but learnt nothing beyond the frequency of the output tokens, 130 interrupted, 143 terminated after saving. `-h` or
`--help` after any command prints its part of this page."""


def cli_reference() -> str:
    """Every command with its arguments and options, as `--help` prints them."""
    from antiphon.cli.main import app

    commands = {str(each.name): each.callback for each in app.registered_commands}
    contents = [f"- [`antiphon {name}`](#antiphon-{name}): {summary(each.__doc__)}" for name, each in commands.items()]
    sections = [command_section(name, each) for name, each in commands.items()]
    return page("The command line", EXIT_CODES, ["\n".join(contents), *sections])


def command_section(name: str, command: Any) -> str:  # noqa: ANN401 (a function)
    """Usage, description, arguments and options of one command."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    infos = [
        (each, info) for each in parameters for info in get_args(each.annotation) if isinstance(info, ParameterInfo)
    ]
    arguments = [(each, info) for each, info in infos if isinstance(info, ArgumentInfo)]
    options = [(each, info) for each, info in infos if isinstance(info, OptionInfo) and not info.hidden]
    usage = [
        "antiphon",
        name,
        *(argument_usage(each, info) for each, info in arguments),
        "[OPTIONS]" if options else "",
    ]
    parts = [f"## antiphon {name}", f"```text\n{' '.join(usage).rstrip()}\n```", prose(inspect.getdoc(command) or "")]
    if rows := [(f"`{argument_name(each, info)}`", cell(info.help)) for each, info in arguments]:
        parts.append(table(("argument", "meaning"), rows))
    if rows := [(option_name(each, info), default(each), cell(info.help)) for each, info in options]:
        parts.append(table(("option", "default", "meaning"), rows))
    return "\n\n".join(parts)


def argument_name(parameter: Parameter, info: ArgumentInfo) -> str:
    """Its name in the usage line, without brackets."""
    return str(info.metavar or parameter.name.upper()).strip("[].")


def argument_usage(parameter: Parameter, info: ArgumentInfo) -> str:
    """RUN, [FILE] or FILE..."""
    name = argument_name(parameter, info) + ("..." if get_origin(value_type(parameter)) is list else "")
    return name if parameter.default is Parameter.empty else f"[{name}]"


def value_type(parameter: Parameter) -> Any:  # noqa: ANN401 (a type)
    """int for Annotated[int | None, ...]."""
    kinds = [kind for kind in get_args(get_args(parameter.annotation)[0]) if kind is not NoneType]
    whole = get_args(parameter.annotation)[0]
    return kinds[0] if NoneType in get_args(whole) else whole


def option_name(parameter: Parameter, info: OptionInfo) -> str:
    """`--beam INTEGER`, or `--copy / --no-copy` for a switch."""
    kind, dashed = value_type(parameter), parameter.name.rstrip("_").replace("_", "-")
    declared = [
        name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)
    ]  # as typer reads them
    names = ", ".join(declared) or (f"--{dashed} / --no-{dashed}" if kind is bool else f"--{dashed}")
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if kind is bool:
        return f"`{names}`"
    choices = [each.value for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []
    value = "|".join(choices) or TYPES.get(kind, "TEXT")
    return f"`{names} {info.metavar or value}`"


def default(parameter: Parameter) -> str:
    """The default as one would type it; `required`, or nothing."""
    value = getattr(parameter.default, "value", parameter.default)
    if value is Parameter.empty:
        return "required"
    if value is None or value is False or value in ([], ""):
        return ""
    return f"`{' '.join(map(str, value)) if isinstance(value, list | tuple) else value}`"


def cell(text: str | None) -> str:
    """A help text on one line."""
    return prose(" ".join((text or "").split()))


def summary(text: str | None) -> str:
    """The first paragraph of a help text."""
    return cell((text or "").split("\n\n")[0])


# Python.

INTRODUCTION = """`import antiphon` is light: a name below is imported when it is first used. Functions raise
`antiphon.UserError`, whose `problems` are sentences, for anything that the caller can mend. Every function corresponds
to a [command](cli.md)."""
METHODS = ("Callback", "Conversation", "Display", "Generator", "Generation")


def python_reference() -> str:
    """Every public name with its signature and docstring."""
    names = [name for name in antiphon.__all__ if not name.startswith("_")]
    functions = [name for name in names if inspect.isfunction(getattr(antiphon, name))]
    classes = [name for name in names if inspect.isclass(getattr(antiphon, name))]
    sections = [function_section(f"antiphon.{name}", getattr(antiphon, name)) for name in functions]
    sections += [class_section(name, getattr(antiphon, name)) for name in classes]
    contents = "\n".join(f"- [`antiphon.{name}`](#antiphon{name.lower()})" for name in (*functions, *classes))
    return page("Python", INTRODUCTION, [contents, *sections])


def function_section(name: str, function: Any, level: int = 2) -> str:  # noqa: ANN401
    """Heading, signature and docstring of a function or method."""
    signed = f"```python\n{signature(name.split('.')[-1], function)}\n```"
    return "\n\n".join([f"{'#' * level} {name}", signed, prose(inspect.getdoc(function) or "")]).rstrip()


def class_section(name: str, kind: type) -> str:
    """Docstring, fields, properties and methods of a class; of an exception only the docstring."""
    parts = [f"## antiphon.{name}", prose(inspect.getdoc(kind) or "")]
    if dataclasses.is_dataclass(kind):
        parts.append(table(("field", "type", "meaning"), fields(kind)))
    if name in METHODS:
        members = {key: value for key, value in vars(kind).items() if not key.startswith("_")}
        if rows := [(f"`{key}`", cell(value.__doc__)) for key, value in members.items() if isinstance(value, property)]:
            parts.append(table(("property", "meaning"), rows))
        methods = {key: value for key, value in members.items() if inspect.isfunction(value)}
        parts += [function_section(f"{name}.{key}", value, level=3) for key, value in methods.items()]
    return "\n\n".join(parts)


def fields(kind: type) -> list[tuple[str, ...]]:
    """Name, type and comment of each field of a dataclass."""
    source = inspect.getsource(kind)
    rows = []
    for each in dataclasses.fields(kind):
        line = re.search(rf"^    {each.name}: .*?(?:  # (.*))?$", source, re.MULTILINE)
        rows.append((f"`{each.name}`", f"`{each.type}`", cell(line[1] if line else "")))
    return rows


def parameter_text(parameter: Parameter) -> str:
    """A parameter as it stands in the code; `...` for a default that is a function."""
    plain = parameter.replace(annotation=Parameter.empty, default=Parameter.empty)
    text = str(plain) if parameter.annotation is Parameter.empty else f"{plain}: {parameter.annotation}"
    if parameter.default is Parameter.empty:
        return text
    return f"{text} = {'...' if callable(parameter.default) else repr(parameter.default)}"


def signature(name: str, function: Any) -> str:  # noqa: ANN401
    """One line, or one parameter a line if that is too long."""
    signed = inspect.signature(function)
    parameters = [parameter_text(each) for each in signed.parameters.values()]
    kinds = [each.kind for each in signed.parameters.values()]
    if Parameter.KEYWORD_ONLY in kinds and Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(Parameter.KEYWORD_ONLY), "*")
    parameters = [each for each in parameters if each != "self"]
    returns = "" if signed.return_annotation is signed.empty else f" -> {signed.return_annotation}"
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){returns}"])


# The options of a search.

SEARCH_OPTIONS = """The options of `generate`, `evaluate`, `explain`, `bench`: flags of the [command line](cli.md) and
keywords of [Python](python.md). A default named `decoding.…` is a key of the model's [configuration](config.md). An
option that has no effect on a search is refused."""
SEARCHES = {"any": "any", "beam": "beam of 2 and more", "sampling": "sampling"}


def search_options_reference() -> str:
    """Every option of the table in inference/options.py."""
    from antiphon.inference.options import OPTIONS, SearchKeywords

    hints = get_type_hints(SearchKeywords)
    rows = [
        (
            f"`{name}`",
            f"`--{name.replace('_', '-')}`" if option.flag else "",
            f"`{type_text(hints[name]).removesuffix(' | null')}`",
            limits(option),
            f"`decoding.{name}`" if option.configured else shown(option.default),
            f"with `{option.needs}`" if option.needs else SEARCHES[option.search],
            ", ".join(option.engines),
            cell(option.help),
        )
        for name, option in OPTIONS.items()
    ]
    head = ("keyword", "flag", "type", "range", "default", "search", "engines", "meaning")
    return page("Options of a search", SEARCH_OPTIONS, [table(head, rows)])


def limits(option: Any) -> str:  # noqa: ANN401 (an Option)
    """`≥ 1`, `> 0, ≤ 1`, or nothing."""
    bounds = {"≥": option.least, ">": option.above, "≤": option.most}
    return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)


# The configuration.

CONFIGURATION = """Every key of a configuration, from the schema. `antiphon init` writes a configuration with these
explanations; any key can be set on the command line: `antiphon train config.yaml model.encoder.layers=2`. A section
with a `kind` may be written as the kind alone: `schedule: plateau`. Unknown keys are errors."""


def config_reference() -> str:
    """Every section of the schema with its keys."""
    from antiphon.config.schema import Config

    sections: dict[type[BaseModel], list[str]] = {}
    collect_sections(Config, "", sections)
    return page("The configuration", CONFIGURATION, [config_section(kind, at) for kind, at in sections.items()])


def collect_sections(section: type[BaseModel], path: str, sections: dict[type[BaseModel], list[str]]) -> None:
    """Add a section and those below it, each with the paths at which it may stand."""
    known = section in sections
    paths = sections.setdefault(section, [])
    if path not in paths:
        paths.append(path)
    if known:
        return
    for name, field in section.model_fields.items():
        for below in sections_in(field.annotation):
            collect_sections(below, f"{path}.{field.alias or name}".lstrip("."), sections)


def sections_in(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401 (a type)
    """The sections that a type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_in(part)]


def config_section(section: type[BaseModel], paths: list[str]) -> str:
    """Heading, description and keys of one section."""
    kind = section.model_fields.get("kind")
    names = get_args(kind.annotation) if kind else ()
    title = ", ".join(f"`{path}`" for path in paths if path) or "The whole"
    title += f" of kind {', '.join(f'`{name}`' for name in names)}" if names else ""
    rows = [
        (f"`{field.alias or name}`", key_type(field), key_default(field), cell(field.description))
        for name, field in section.model_fields.items()
    ]
    text = prose(inspect.getdoc(section) or "")
    return "\n\n".join([f"## {title}", text, table(("key", "type", "default", "meaning"), rows)])


def key_type(field: Any) -> str:  # noqa: ANN401 (a FieldInfo)
    """A type as one would say it: `integer`, `a | b`, `section`."""
    return f"`{type_text(field.annotation)}`"


def type_text(kind: Any) -> str:  # noqa: ANN401 (a type)
    """A type in the words of YAML."""
    if get_origin(kind) is Annotated:
        return type_text(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "section"
    if get_origin(kind) in (list, tuple):
        return f"list of {type_text(get_args(kind)[0])}"
    if get_origin(kind) is dict:
        return YAML_TYPES[dict]
    if parts := get_args(kind):
        return " | ".join(dict.fromkeys(type_text(part) for part in parts))
    return YAML_TYPES.get(kind, getattr(kind, "__name__", str(kind)))


def key_default(field: Any) -> str:  # noqa: ANN401 (a FieldInfo)
    """The default as YAML; `required`, or nothing for a section."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if isinstance(value, BaseModel) else shown(value)


def shown(value: object) -> str:
    """A value as YAML writes it."""
    if isinstance(value, bool | NoneType):
        return f"`{'null' if value is None else str(value).lower()}`"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


# The HTTP API.


def openapi() -> str:
    """The OpenAPI schema of a server."""
    from antiphon.serve.app import create_app
    from antiphon.serve.serve_settings import ServedModel, ServeSettings

    settings = ServeSettings(models=(ServedModel("model", (Path("run"),)),))  # it is loaded by no one
    return json.dumps(create_app(settings, print).openapi(), ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write all pages and the schema."""
    FROZEN.write_text(openapi(), "utf-8")
    FOLDER.mkdir(exist_ok=True)
    for name, content in pages().items():
        (FOLDER / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
