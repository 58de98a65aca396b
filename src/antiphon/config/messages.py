"""What is wrong with the values of a configuration, as sentences: path, fact, remedy.

pydantic decides whether a value is right; the words come from the configuration's JSON schema, so that every key
of every kind is described from the one place that defines it.
"""

from __future__ import annotations

import copy
import difflib
import functools
from typing import Any

from pydantic import ValidationError

from antiphon.config.schema import Config
from antiphon.config.yaml_text import parse_value, write_value

__all__ = ["nearest", "value_problems"]

Node = dict[str, Any]
Place = tuple[str | int, ...]

# What other toolkits call it.
SYNONYMS = {
    "batch_size": "batch_tokens",
    "beam_size": "beam",
    "beam_width": "beam",
    "bidir": "bidirectional",
    "cell": "kind",
    "d_model": "size",
    "dim": "size",
    "early_stopping": "patience",
    "emb_size": "embedding",
    "embed_dim": "embedding",
    "grad_clip": "clip",
    "hidden": "size",
    "hidden_size": "size",
    "lr": "learning_rate",
    "max_epochs": "epochs",
    "max_len": "max_length",
    "max_steps": "max_updates",
    "num_layers": "layers",
    "optim": "optimizer",
    "optimiser": "optimizer",
    "tokenizer": "tokens",
    "type": "kind",
    "units": "size",
    "validation": "dev",
    "vocab_size": "vocabulary",
}


@functools.cache
def schema() -> Node:
    """The configuration's JSON schema."""
    return Config.model_json_schema()


def resolve(node: Node) -> Node:
    """The node itself, with a reference followed."""
    reference = node.get("$ref")
    return schema()["$defs"][reference.rsplit("/", 1)[1]] if reference else node


def members(node: Node) -> list[Node]:
    """The members of a union, and of unions in it, or the node alone."""
    union = node.get("anyOf") or node.get("oneOf")
    return [one for member in union for one in members(resolve(member))] if union else [resolve(node)]


def choice(node: Node) -> Node | None:
    """The choice between kinds that a node is or can be: as itself, or in a union with a list or null."""
    return next((one for one in [node, *node.get("anyOf", [])] if "discriminator" in one), None)


def items(node: Node) -> Node:
    """What the items of a list must be, where a node is a list or can be one."""
    return next((member["items"] for member in members(resolve(node)) if "items" in member), {})


def value_problems(data: Any) -> list[str]:  # noqa: ANN401 (whatever stood in the file)
    """A sentence for every key that is unknown or missing and every value that is wrong."""
    if not isinstance(data, dict):
        return [f"the configuration: expected the sections {', '.join(schema()['properties'])}, got {shown(data)}"]
    data, problems = mend_kinds(copy.deepcopy(data))
    try:
        Config.model_validate(data, by_name=False)  # `from_run` is Python's word for `from`
    except ValidationError as error:
        found: dict[Place, tuple[Node, Node, str, Any]] = {}
        for item in error.errors(include_url=False):
            place, parent, node = locate(item["loc"])
            found.setdefault(place, (parent, node, item["type"], item["input"]))
        for place, (parent, node, kind, value) in found.items():
            # A list that is wrong in one item is also "not a number, not text": only the item is news.
            if not any(other != place and other[: len(place)] == place for other in found):
                problems.append(f"{dotted(place)}: {sentence(place, parent, node, kind, value, data)}")
    return problems


def locate(location: Place) -> tuple[Place, Node, Node]:
    """pydantic's location without the tags of unions, the section it is in, and its own schema (empty: no such key)."""
    place: list[str | int] = []
    parent, node = schema(), schema()
    for part in location:
        node = resolve(node)
        if "properties" in node:
            place.append(part)
            parent, node = node, node["properties"].get(part, {})
        elif "discriminator" in node:
            node = {"$ref": node["discriminator"]["mapping"][part]}
        elif "items" in node and isinstance(part, int):
            place.append(part)
            node = node["items"]
        elif str(part).startswith("tagged-union"):
            node = choice(node) or node
        else:
            lists = [member for member in members(node) if "items" in member]
            node = lists[0] if lists and str(part).startswith("list") else node
    return tuple(place), parent, node


def dotted(place: Place) -> str:
    """a.b[0]"""
    rest = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[1:]]
    return "".join([str(part) for part in place[:1]] + rest)


def sentence(place: Place, parent: Node, node: Node, kind: str, value: Any, data: Any) -> str:  # noqa: ANN401
    """The fact and the remedy for one place."""
    if kind == "missing":
        return f"missing; add it: {node.get('description', expected(node))}"
    if not node:
        return unknown_key(place, parent, data)
    choices = resolve(node).get("enum") or ([resolve(node)["const"]] if "const" in resolve(node) else [])
    close = nearest(value, choices) if isinstance(value, str) else None
    hint = f"; did you mean '{close}'?" if close else ""
    if isinstance(value, str) and not choices and fits(node, parsed := parse_value(value)):
        hint = f"; write {write_value(parsed)} without quotes"
    return f"expected {expected(node)}, got {shown(value)}{hint}"


def fits(node: Node, value: Any) -> bool:  # noqa: ANN401
    """Whether a value is of a type that the node takes."""
    types = {"integer": (int,), "number": (int, float), "boolean": (bool,)}
    taken = [types[member["type"]] for member in members(resolve(node)) if member.get("type") in types]
    return any(type(value) in kinds for kinds in taken)


def unknown_key(place: Place, parent: Node, data: Any) -> str:  # noqa: ANN401
    """Who has no such key, and which one was meant."""
    section: Any = data
    for part in place[:-1]:
        section = section[part]
    kind = section.get("kind", parent["properties"]["kind"]["default"]) if "kind" in parent["properties"] else None
    choices = expected(parent["properties"]["kind"]) if kind else ""
    who = f"'{dotted(place[:-1])}'" if place[:-1] else "a configuration"
    who = f"'{kind}'" if isinstance(kind, str) and kind in choices else who
    return f"{who} has no such key; {suggestion(place, parent, data)}"


def suggestion(place: Place, parent: Node, data: Any) -> str:  # noqa: ANN401
    """The key that was meant: here by its letters, elsewhere by its name, or the list of what there is."""
    key, keys = str(place[-1]), list(parent["properties"])
    others = [other for other in leaves(schema()) if other.rsplit(".", 1)[-1] == key]
    meant = SYNONYMS.get(key.lower())
    if meant in keys:
        return f"did you mean '{meant}'?"
    close = nearest(key, keys)
    if close and not others:
        return f"did you mean '{close}'?"
    if kinds := kinds_with(place, data):
        have, kind = "have" if len(kinds) > 1 else "has", dotted((*place[:-1], "kind"))
        return f"only {listed(kinds, 'and')} {have} it: set {kind} to {listed(kinds, 'or')}, or leave it out"
    if others and dotted(place) not in others:
        return f"did you mean '{others[0]}'?"
    return f"its keys are {', '.join(keys)}"


def listed(words: list[str], last: str) -> str:
    """a, b and c"""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if words[1:] else words[0]


def kinds_with(place: Place, data: Any) -> list[str]:  # noqa: ANN401
    """The kinds that a section could be of and that have the key."""
    node = schema()
    for part in place[:-1]:
        node = items(node) if isinstance(part, int) else chosen(node, data)["properties"][part]
        data = data[part]
    with_key = [member for member in members(resolve(node)) if place[-1] in member.get("properties", {})]
    return [kind for member in with_key for kind in kinds_of(member)]


def leaves(node: Node, path: str = "") -> list[str]:
    """The dotted path of every key below a node."""
    found = []
    inside = [one for member in members(resolve(node)) for one in members(member.get("items", member))]
    for section in inside:
        for key, child in resolve(section).get("properties", {}).items():
            found += [f"{path}{key}", *leaves(child, f"{path}{key}.")]
    return list(dict.fromkeys(found))


def nearest(word: str, words: list[str]) -> str | None:
    """The word that was probably meant: by its letters, or one that stands inside it."""
    close = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.6)
    inside = [other for other in words if len(other) > 3 and other in word.lower()]
    return close[0] if close else max(inside, key=len, default=None)


def expected(node: Node) -> str:
    """What a value must be, in words."""
    node = resolve(node)
    if "discriminator" in node or "properties" in node:
        return "a section of keys"
    if "enum" in node:
        return f"one of {', '.join(node['enum'])}"
    if "const" in node:
        return f"'{node['const']}'"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(expected(member) for member in node["anyOf"]))
    if node["type"] == "array":
        count = f" of {node['minItems']}" if node.get("minItems") == node.get("maxItems") else ""
        return f"a list{count} (each {expected(node['items'])})"
    words = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}
    return words.get(node["type"], "null") + bounds(node)


def bounds(node: Node) -> str:
    """The limits of a number, in words."""
    words = [("exclusiveMinimum", "above"), ("minimum", "of at least")]
    words += [("exclusiveMaximum", "below"), ("maximum", "of at most")]
    limits = [f"{word} {node[key]:g}" for key, word in words if key in node]
    return " " + " and ".join(limits) if limits else ""


def shown(value: Any) -> str:  # noqa: ANN401
    """A value as the user wrote it, short."""
    if isinstance(value, dict):
        return "a section of keys"
    text = f"'{value}'" if isinstance(value, str) else write_value(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} (nothing)" if value is None else text


def kinds_of(section: Node) -> list[str]:
    """The words for which a section stands."""
    kind = section["properties"]["kind"]
    return kind.get("enum") or [kind["const"]]


def mend_kinds(data: Any, node: Node | None = None, place: Place = ()) -> tuple[Any, list[str]]:  # noqa: ANN401
    """Replace kinds that do not exist by the likeliest one, so that the rest of the section is looked at as well."""
    problems: list[str] = []
    if isinstance(data, list):
        for number, one in enumerate(data):
            problems += mend_kinds(one, items(node or schema()), (*place, number))[1]
    if not isinstance(data, dict):
        return data, problems
    node = node or schema()
    if found := choice(resolve(node)):
        problems += mend_kind(data, [kind for member in members(found) for kind in kinds_of(member)], place)
    for key, child in chosen(node, data).get("properties", {}).items():
        problems += mend_kinds(data.get(key), child, (*place, key))[1]
    return data, problems


def mend_kind(section: Node, kinds: list[str], place: Place) -> list[str]:
    """Put the likeliest of these kinds in place of one that does not exist."""
    if (kind := section.get("kind", kinds[0])) in kinds:
        return []
    close = nearest(kind, kinds) if isinstance(kind, str) else None
    hint = f"{shown(kind)}; did you mean '{close}'?" if close else shown(kind)
    section["kind"] = close or kinds[0]
    return [f"{dotted((*place, 'kind'))}: expected one of {', '.join(kinds)}, got {hint}"]


def chosen(node: Node, data: Any) -> Node:  # noqa: ANN401 (whatever stood in the file)
    """The node itself; of a section that chooses between kinds, the node of the kind that stands in the data.

    Where none stands there it is the first, which is the usual one of all that have choices inside.
    """
    node = resolve(node)
    found = choice(node)
    if found is None or not isinstance(data, dict):
        return node
    first, *_ = sections = members(found)
    kind = data.get("kind", kinds_of(first)[0])
    return next((section for section in sections if kind in kinds_of(section)), node)
