"""docs/serving.md: its requests and clients run against the servers that it starts, and its tables are complete."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from running_server import RunningServer, serving
from tiny_generators import tiny_folder

from antiphon.cli.main import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "serving.md").read_text("utf-8")
DEPLOY = ROOT / "deploy"
SERVE = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
URL = "http://127.0.0.1:8080"
BLOCKS = re.findall(r"^```(sh|json|python)\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
STARTS = [shlex.split(line)[2:] for kind, block in BLOCKS for line in block.split("\n") if "antiphon serve" in line]
REQUESTS = [
    (block, shown if kind == "json" else None)
    for (_, block), (kind, shown) in zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True)
    if block.startswith("curl ")
]
PROGRAMS = [block for kind, block in BLOCKS if kind == "python"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The runs that the page names."""
    folder = tmp_path_factory.mktemp("page")
    tiny_folder("bahdanau", folder / "runs" / "en-de")
    tiny_folder("transformer", folder / "runs" / "en-fr")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


@pytest.fixture(scope="module")
def first(runs: None) -> Iterator[RunningServer]:  # noqa: ARG001
    """The first server of the page."""
    with serving(*STARTS[0]) as running:
        yield running


@pytest.fixture(scope="module")
def second(runs: None) -> Iterator[RunningServer]:  # noqa: ARG001
    """The one for translators."""
    with serving(*STARTS[1]) as running:
        yield running


def shape(value: Any) -> Any:  # noqa: ANN401 (of JSON)
    """The keys of objects and the kinds of values; of a list those of its first item."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return "number" if isinstance(value, int | float) else type(value).__name__


def test_the_page_has_what_is_tested_here() -> None:
    assert [words[0] for words in STARTS] == ["runs/en-de"] * 3
    assert len(STARTS[1]) > 2
    assert "ray" in STARTS[2]
    assert (len(REQUESTS), len(PROGRAMS)) == (4, 4)


@pytest.mark.parametrize(("command", "shown"), REQUESTS, ids=range(len(REQUESTS)))
def test_requests(command: str, shown: str | None, first: RunningServer) -> None:
    done = subprocess.run(
        ["sh", "-c", command.replace(URL, first.url)], capture_output=True, text=True, check=True, timeout=60
    )
    if "/stream" in command:
        assert re.findall(r"^event: (\w+)$", done.stdout, re.MULTILINE)[-1] == "done"
        return
    answer = json.loads(done.stdout)
    if shown is None:
        assert [sorted(output) for output in answer["outputs"]] == [
            ["alternatives", "flags", "log_probs", "score", "text", "tokens"]
        ] * 2
        return
    said = json.loads(shown)
    if "update" in answer:  # these models are untrained
        answer["update"] = answer["update"] or 0
    assert {name: shape(one) for name, one in said.items()} == {
        name: shape({**one, "flags": []} if isinstance(one, dict) and "flags" in one else one)
        for name, one in answer.items()
    }
    if "error" in said:
        assert {**answer["error"], "request_id": "4c0f"} == said["error"]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_clients(program: str, first: RunningServer, second: RunningServer) -> None:
    server = first if "httpx" in program else second
    done = subprocess.run(
        [sys.executable, "-c", program.replace(URL, server.url)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def rows(title: str) -> list[list[str]]:
    """The rows of the first table below a title, as lists of cells without backticks."""
    section = TEXT.split(f"# {title}\n")[1]
    [table] = re.findall(r"^\|[ -|]*\|\n((?:\|.*\n)+)", section, flags=re.MULTILINE)[:1]
    return [[cell.strip(" `") for cell in row.strip("|").split(" | ")] for row in table.splitlines()[1:]]


def test_the_table_of_limits() -> None:
    known = {parameter.opts[0]: str(parameter.default) for parameter in SERVE.params}
    found = {option.replace("`", ""): default for option, default, *_ in rows("Limits and errors")}
    assert found == {option: known[option] for option in found}
    assert len(found) == 8


def test_every_code_of_an_error_is_there() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "antiphon" / "serve").rglob("*.py"))
    codes = set(re.findall(r'Refusal\(\s*\d+, "(\w+)"', sources)) | set(re.findall(r'code="(\w+)"', sources))
    section = TEXT.split("| status | codes | meaning |")[1].split("\n\n")[0]
    told = {code for row in section.splitlines()[2:] for code in re.findall(r"`([a-z_]+)`", row.split("|")[2])}
    assert told == codes | {"invalid_value"}


def test_the_table_of_routes(first: RunningServer) -> None:
    paths = {*first.client.get("/openapi.json").json()["paths"]}
    told = {path for row in rows("Asking") for path in re.findall(r"/[a-z/1]+", row[0])} | {"/health"}
    others = {"/v1/models/{name}", "/v1/completions", "/v1/chat/completions"}
    protocols = {path for path in paths if path.startswith("/v2/")} | {"/translate", "/languages", "/detect"}
    assert told == paths - others - protocols


def test_the_table_of_metrics(first: RunningServer) -> None:
    told = {name for row in rows("Running it") for name in re.findall(r"antiphon_[a-z_]+", row[0])}
    text = first.client.get("/metrics").text
    known = {f"antiphon_{name}" for name in re.findall(r"^# TYPE antiphon_(\w+)", text, re.MULTILINE)}
    assert told == {name for name in known if not name.endswith("_created")}


def test_the_files_for_docker_and_systemd_call_the_command_as_it_is() -> None:
    """They cannot be built here."""
    recipe, unit = ((DEPLOY / name).read_text("utf-8") for name in ("Dockerfile", "antiphon.service"))
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["antiphon"]
    [default] = re.findall(r"^CMD (\[.*\])$", recipe, re.MULTILINE)
    [started] = re.findall(r"^ExecStart=\S+/antiphon serve (.*)$", unit, re.MULTILINE)
    for words in (json.loads(default), service["command"], shlex.split(started)):
        SERVE.make_context("serve", list(words))
    [drain] = [parameter.default for parameter in SERVE.params if parameter.name == "drain"]
    assert int(service["stop_grace_period"].removesuffix("s")) > drain
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0]) > drain
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", recipe, re.MULTILINE) for name in line.split()]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    let = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert sorted(let) == sorted(["*", *(f"!{name}" for name in copied)])
    assert service["read_only"]
    assert service["volumes"] == ["${MODELS:-../runs}:/models:ro"]
    assert re.search(r"^USER (?!0)\d+", recipe, re.MULTILINE)
