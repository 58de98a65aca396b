"""/docs: the API on one page, made from its schema, with nothing from elsewhere."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, select_autoescape

from antiphon.serve.api_schema import json_type

__all__ = ["STYLE", "render"]

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-top: 1px solid #8884; padding-top: 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace }
h3 code { font-weight: 600 } .method { color: #2a6fb0 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0 }
td { border-top: 1px solid #8883 } .type { white-space: nowrap; opacity: .75 }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} API</title><link rel="stylesheet" href="/docs/style.css"></head><body>
<h1>{{ title }} API</h1><p>{{ description }} The schema: <a href="/openapi.json">openapi.json</a>.</p>
{% for tag, operations in groups %}<h2>{{ tag }}</h2>
{% for operation in operations %}
<h3><code><span class="method">{{ operation.method }}</span> {{ operation.path }}</code></h3>
<p>{{ operation.summary }}</p>
{% if operation.fields %}<table><tr><th>field</th><th>type</th><th>meaning</th></tr>
{% for field in operation.fields %}<tr><td><code>{{ field.name }}</code>{% if field.required %} (needed){% endif %}</td>
<td class="type">{{ field.type }}</td><td>{{ field.description }}</td></tr>
{% endfor %}</table>{% endif %}
<p>Answers:
{% for status, meaning in operation.responses %}{{ status }} {{ meaning }}{{ ", " if not loop.last }}{% endfor %}.</p>
{% endfor %}{% endfor %}</body></html>
"""
TEMPLATE = Environment(autoescape=select_autoescape(default=True)).from_string(PAGE)


def render(schema: dict[str, Any]) -> str:
    """The page of an OpenAPI schema."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["antiphon"])[0]
            groups.setdefault(tag, []).append(_operation(path, method, operation, schema))
    info = schema["info"]
    return TEMPLATE.render(title=info["title"], description=info.get("description", ""), groups=groups.items())


def _operation(path: str, method: str, operation: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    first: dict[str, Any] = next(iter(content.values()), {})
    body = _resolved(first.get("schema", {}), schema)
    required = body.get("required", [])
    fields = [
        {
            "name": name,
            "required": name in required,
            "type": json_type(field),
            "description": field.get("description", ""),
        }
        for name, field in body.get("properties", {}).items()
    ]
    responses = [(status, response.get("description", "")) for status, response in operation["responses"].items()]
    return {
        "path": path, "method": method.upper(), "summary": operation.get("summary", ""), "fields": fields,
        "responses": responses,
    }  # fmt: skip


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = part.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = schema["components"]["schemas"][name] if name else part
    return found
