"""The OpenAPI schema: requests made from it are answered as it says, and a change to it is seen."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from running_server import RunningServer
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from antiphon.serve.app import create_app
from antiphon.serve.serve_settings import ServedModel, ServeSettings

# Not among them: that every request which fits the schema is accepted (the model refuses some), and that none is which
# does not (numbers in strings are read, as forms send them).
CHECKS = [
    not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance,
]  # fmt: skip
FROZEN = Path(__file__).parents[1] / "frozen" / "openapi.json"
SCHEMA = create_app(ServeSettings(models=(ServedModel("model", (Path("run"),)),)), print).openapi()
API = schemathesis.openapi.from_dict(SCHEMA)
OPERATIONS = [result.ok() for result in API.get_all_operations()]
MODELS = ["static", "rnn-lm", "image", "several", "tagger", "none of these"]
EXAMPLES = 10  # of each operation, from its schema and against it
KINDS = [
    (operation, mode)
    for operation in OPERATIONS
    for mode in schemathesis.GenerationMode
    if operation.body or mode is schemathesis.GenerationMode.POSITIVE
]


def prepare(case: schemathesis.Case) -> None:
    """Without a deadline that nothing can meet or answers of 100,000 tokens; most models exist."""
    body = case.body
    if isinstance(body, dict):
        body.pop("timeout", None)
        if isinstance(longest := body.get("max_length"), int | float):
            body["max_length"] = min(longest, 50)
        if not {"inputs", "prompt", "messages", "targets"}.isdisjoint(body):
            body["model"] = MODELS[len(str(body)) % len(MODELS)]
        if isinstance(messages := body.get("messages"), list):
            messages.append({"role": "user", "content": "a b c"})


@pytest.mark.parametrize(
    ("operation", "mode"), KINDS, ids=[f"{operation.label} {mode.value}" for operation, mode in KINDS]
)
def test_requests_made_from_the_schema(
    assorted: RunningServer, operation: schemathesis.APIOperation, mode: schemathesis.GenerationMode
) -> None:
    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(operation.as_strategy(mode))
    def check(case: schemathesis.Case) -> None:
        prepare(case)
        case.call_and_validate(base_url=assorted.url, checks=CHECKS)

    check()


def test_the_schema_is_the_frozen_one() -> None:
    """What clients rely on changes only with a diff that somebody has read."""
    frozen, made = json.loads(FROZEN.read_text("utf-8")), json.loads(json.dumps(SCHEMA))
    if made != frozen:
        lines = [json.dumps(one, ensure_ascii=False, indent=1, sort_keys=True).splitlines() for one in (frozen, made)]
        diff = "\n".join(difflib.unified_diff(*lines, "frozen", "made", lineterm="", n=4))
        pytest.fail(
            f"the OpenAPI schema has changed; if it should: python docs/make_reference.py\n{diff}", pytrace=False
        )


def test_every_route_is_explained() -> None:
    """Each has a sentence, each field of a body of ours a description, and each answer that is not 200 its shape."""
    for path, methods in SCHEMA["paths"].items():
        for operation in methods.values():
            assert operation["summary"].endswith("."), path
            assert operation["responses"]["200"]["description"]
