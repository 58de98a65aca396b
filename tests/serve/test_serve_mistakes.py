"""Bad input: the right code and a sentence with the remedy, in one shape; afterwards the server goes on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from running_server import RunningServer
from served_models import npy_bytes, png_bytes, wav_bytes

JSON = {"content-type": "application/json"}
FORM = {"content-type": "multipart/form-data; boundary=x"}
EMPTY = {"text": "", "score": 0.0, "flags": ["empty source"], "tokens": []}
BODIES = (
    "generate", "generate/stream", "search", "score", "alternatives", "explain/step", "explain/occlusion",
    "explain/source", "map",
)  # fmt: skip


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture(autouse=True)
def goes_on(server: RunningServer) -> Iterator[None]:
    """After each mistake the server answers, by the process that it has had from the beginning."""
    workers = server.workers
    yield
    assert server.client.post("/v1/generate", json={"inputs": "a b c"}).json()["outputs"]["text"]
    assert server.workers == workers
    assert "Traceback" not in server.log
    assert " 500 " not in server.log


def refused(answer: httpx.Response, status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """The error of an answer: code, message and the id of the request are always there."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, Any] = answer.json()["error"]
    assert message in error["message"]
    assert error["code"] == code or code is None
    assert error["request_id"] == answer.headers["x-request-id"]
    assert error["message"] == "\n".join(error["problems"])
    assert error["type"] == "invalid_request_error"
    return error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b'{"inputs": ',
            "the body is not JSON: EOF while parsing a value at line 1 column 11; send an object in UTF-8",
        ),
        (b'{"inputs": "\xff\xfe"}', "invalid unicode code point at line 1 column 13"),
        (b'{"inputs": "\xed\xa0\x80"}', "invalid unicode code point"),  # a surrogate in UTF-8
        (b'{"inputs": "\\ud800"}', "the body is not JSON"),
        (b'{"inputs": "\\udc00\\ud800"}', "the body is not JSON"),
        (b'{"inputs": "a\x00b"}', "control character"),
        (b'["a"]', 'the body is not a JSON object; send one, such as {"inputs": "hello"}'),
        (b'"a"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "recursion limit exceeded"),
        (b'{"inputs": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}", "recursion limit exceeded"),
        (b'{"inputs": "a", "beam": ' + b"9" * 5_000 + b"}", "number out of range"),
        (b'{"inputs": "a"}'.decode().encode("utf-16"), "the body is not JSON"),
        (b'{"inputs": "a"} {"inputs": "b"}', "trailing characters"),
    ],
)
def test_bodies_that_are_no_json(server: RunningServer, content: bytes, message: str) -> None:
    for path in BODIES:
        refused(server.client.post(f"/v1/{path}", content=content, headers=JSON), 400, message, "invalid_json")


@pytest.mark.parametrize(
    ("headers", "content", "status", "message"),
    [
        (
            {"content-type": "application/xml"},
            b"<a/>",
            415,
            "'application/xml' is not read here; send application/json",
        ),
        ({"content-type": "image/png"}, png_bytes(), 415, "'image/png' is not read here"),
        ({"content-type": "x" * 1000}, b"{}", 415, f"'{'x' * 80}' is not read here"),
        ({"content-type": "multipart/form-data"}, b"abc", 400, "the form cannot be read"),
        (FORM, b"--y\r\nabc\r\n", 400, "the form cannot be read"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="inputs"\r\n\r\nhalf a', 422, "inputs: is missing"),
        (FORM, b"--x\r\n\r\nno name\r\n--x--\r\n", 400, "the form cannot be read"),
        ({"content-type": "application/json"}, b"", 422, "inputs: is missing; give it"),
        ({}, b"inputs=a", 400, "the body is not JSON"),
    ],
)
def test_content_types(
    server: RunningServer, headers: dict[str, str], content: bytes, status: int, message: str
) -> None:
    refused(server.client.post("/v1/generate", content=content, headers=headers), status, message)


@pytest.mark.parametrize(
    "content",
    [
        b'\xef\xbb\xbf{"inputs": "a b c"}',
        b' \n{"inputs": "a b c"}\n',
        b'{"inputs": "x", "inputs": "a b c"}',
        b'{"inputs": "a\\u0020b c"}',
    ],
)
def test_what_is_json_nevertheless(server: RunningServer, content: bytes) -> None:
    wanted = server.client.post("/v1/generate", json={"inputs": "a b c"}).json()
    assert server.client.post("/v1/generate", content=content, headers=JSON).json() == wanted
    as_form = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d says
    assert server.client.post("/v1/generate", content=content.lstrip(b"\xef\xbb\xbf"), headers=as_form).json() == wanted


def test_odd_texts_are_answered_in_their_places(server: RunningServer) -> None:
    texts = [
        "",
        "a b c",
        " ",
        "\x00",
        "a\x00b",
        "\ufffe\u2028\u0085",
        "💩" * 500,
        "\x1b[31m",
        "</s> <unk> <pad>",
        "\t\n",
    ]
    outputs = server.client.post("/v1/generate", json={"inputs": texts}).json()["outputs"]
    assert len(outputs) == len(texts)
    assert [one["flags"][:1] == ["empty source"] for one in outputs] == [text.strip(" \t\n") == "" for text in texts]
    alone = server.client.post("/v1/generate", json={"inputs": "a b c"}).json()["outputs"]
    assert (outputs[1]["text"], outputs[1]["flags"]) == (alone["text"], alone["flags"])


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("generate", {"inputs": []}, {"outputs": [], "model": "bahdanau", "update": None}),
        ("score", {"inputs": [], "targets": []}, {"outputs": [], "model": "bahdanau", "update": None}),
        ("generate", {"inputs": "", "return": ["tokens"]}, {"outputs": EMPTY, "model": "bahdanau", "update": None}),
    ],
)
def test_empty_lists_and_texts(
    server: RunningServer, path: str, body: dict[str, object], answer: dict[str, object]
) -> None:
    assert server.client.post(f"/v1/{path}", json=body).json() == answer


def test_a_word_of_a_million_letters(server: RunningServer) -> None:
    error = refused(
        server.client.post("/v1/generate", json={"inputs": ["a", "x" * 10**6]}), 413,
        "inputs[1] in characters: 1,000,000 is more than this server takes at once, 20,000; send less", "too_large",
    )  # fmt: skip
    assert (error["limit"], error["given"]) == (20_000, 1_000_000)
    output = server.client.post("/v1/generate", json={"inputs": "x" * 20_000}).json()["outputs"]
    assert output["flags"][0] == f"unknown symbols in the source: '{'x' * 80}'… x 1"


def test_too_many_inputs(server: RunningServer) -> None:
    for path, body, field in (
        ("generate", {"inputs": ["a"] * 129}, "inputs"),
        ("score", {"inputs": ["a"] * 129, "targets": ["K"] * 129}, "inputs"),
        ("map", {"inputs": ["a"] * 129}, "inputs"),
    ):
        answer = server.client.post(f"/v1/{path}", json=body)
        error = refused(answer, 413, f"{field}: 129 is more than this server takes at once, 128", "too_large")
        assert (error["param"], error["limit"], error["given"]) == (field, 128, 129)


@pytest.mark.parametrize(
    ("fields", "message", "limit", "given"),
    [
        ({"beam": 0}, "beam: must be at least 1, not 0", 1, 0),
        ({"beam": -(10**30)}, "beam: must be at least 1, not -1e+30", 1, -(10**30)),
        ({"beam": 2.5}, "beam: must be a valid integer, got a number with a fractional part", None, 2.5),
        ({"beam": "many"}, "beam: must be a valid integer, unable to parse string as an integer", None, None),
        ({"beam": 10}, "beam: 10 is more than the 9 tokens that the model knows; give at most 9", None, None),
        ({"n_best": 3}, "n_best: 3 answers need a beam of at least 3, not 1", None, None),
        ({"length_penalty": 10.5}, "length_penalty: must be at least 0 and at most 10, not 10.5", 10, 10.5),
        ({"length_penalty": -1}, "length_penalty: must be at least 0 and at most 10, not -1", 0, -1),
        ({"beam": 4, "patience": 1e308}, "patience: must be above 0 and at most 1000, not 1e+308", 1000, 1e308),
        ({"beam": 4, "diversity": 1e308}, "diversity: must be above 0 and at most 1000, not 1e+308", 1000, 1e308),
        ({"min_length": 10**30}, f"min_length: {10**30} is more than max_length 6", None, None),
        ({"temperature": 0.5}, "temperature: only with sample; add sample, or leave temperature out", None, None),
        ({"sample": True, "temperature": 0}, "temperature: must be above 0, not 0", 0, 0),
        ({"sample": True, "top_p": 1.5}, "top_p: must be above 0 and at most 1, not 1.5", 1, 1.5),
        ({"sample": True, "mbr": "rouge"}, "mbr: must be 'chrf' or 'bleu'", None, None),
        ({"require": [""]}, "require: an empty phrase; leave it out", None, None),
        ({"require": ["Haus"]}, "require 'Haus': the model does not know 'Haus'; change it", None, None),
        ({"prefix": [10**30]}, "prefix: token 1000000000000000000000000000000 cannot stand in an answer", None, None),
        ({"prefix": [2]}, "prefix: token 2 cannot stand in an answer; give ids from 0 to 8", None, None),
        ({"prefix": "Haus"}, "prefix 'Haus': the model does not know 'Haus'; change it", None, None),
        ({"prefix": {"a": 1}}, "prefix: must be string or list of integer", None, None),
        ({"timeout": 0}, "timeout: must be greater than 0", 0, 0),
        ({"return": ["tokenz"]}, "return.0: must be 'tokens', 'token_ids', 'log_probs', ", None, None),
        ({"return": {}}, "return: must be a valid list", None, None),
        ({"inputs": None}, "inputs: must be string or object or list of string or object", None, None),
        ({"inputs": [["a"]]}, "inputs: must be string or object or list of string or object", None, None),
        ({"inputs": {"picture": "a"}}, "inputs[0]: this model reads one text; give it as a string", None, None),
        ({"model": 3}, "model: must be a valid string", None, 3),
    ],
)  # fmt: skip
def test_wrong_values(
    server: RunningServer, fields: dict[str, object], message: str, limit: object, given: object
) -> None:
    error = refused(server.client.post("/v1/generate", json={"inputs": "a", **fields}), 422, message, "invalid_value")
    assert (error.get("limit"), error.get("given")) == (limit, given)
    assert list(fields)[-1] in (error.get("param"), "require", "prefix", "min_length")


def test_numbers_that_json_has_not(server: RunningServer) -> None:
    """Python writes NaN and Infinity, and reads 1e999 as infinity."""
    for name in ("length_penalty", "min_ratio", "coverage", "timeout"):
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            body = f'{{"inputs": "a b c", "beam": 2, "{name}": {number}}}'.encode()
            answer = server.client.post("/v1/generate", content=body, headers=JSON)
            if name == "timeout" and number in ("Infinity", "1e999"):
                assert answer.status_code == 200
            else:
                refused(answer, 422, f"{name}: must be", "invalid_value")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_ratio": 1e308}, True),
        ({"min_ratio": 1e308}, True),
        ({"no_repeat": 10**30}, True),
        ({"sample": True, "seed": 10**30}, True),
        ({"sample": True, "top_k": 10**30}, True),
        ({"sample": True, "temperature": 1e308}, True),
        ({"sample": True, "temperature": 1e-308}, True),
        ({"sample": True, "top_p": 1e-300}, True),
        ({"beam": 4, "coverage": 1e308}, True),
    ],
)
def test_extreme_values_that_mean_something(server: RunningServer, fields: dict[str, object], text: bool) -> None:
    answer = server.client.post("/v1/generate", json={"inputs": "a b c", **fields})
    assert answer.status_code == 200
    assert bool(answer.json()["outputs"]["text"]) == text


@pytest.mark.parametrize(
    "fields",
    [
        {"beam": 10**30},
        {"max_length": 10**30},
        {"sample": True, "mbr": "bleu", "samples": 10**12},
        {"beam": 1000, "n_best": 900},
    ],
)
def test_searches_that_are_too_large(server: RunningServer, fields: dict[str, object]) -> None:
    for path in ("generate", "search", "generate/stream"):
        answer = server.client.post(f"/v1/{path}", json={"inputs": "a", **fields})
        error = refused(answer, 413, "x n_best x max_length is ", "too_large")
        assert error["limit"] == 1_000_000
        assert error["given"] > 1_000_000


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("generate", {"inputs": "a", "beams": 3}, "beams: there is no such field; did you mean 'beam'?"),
        (
            "generate",
            {"inputs": "a", "temprature": 3},
            "temprature: there is no such field; did you mean 'temperature'?",
        ),
        ("generate", {"input": "a"}, "input: there is no such field; did you mean 'inputs'?"),
        ("generate", {"inputs": "a", "batch_size": 3}, "batch_size: there is no such field"),
        ("generate/stream", {"inputs": "a", "serch": 3}, "serch: there is no such field; did you mean 'search'?"),
        ("generate/stream", {"inputs": ["a"]}, "inputs: must be string or object"),
        ("search", {"inputs": "a", "prune": 3}, "prune: there is no such field; did you mean 'pruned'?"),
        ("search", {"inputs": "a", "pruned": 51}, "pruned: must be less than or equal to 50"),
        ("score", {"inputs": "a"}, "targets: is missing; give it"),
        ("score", {"inputs": ["a"], "targets": ["K", "L"]}, "targets: 2 for 1 inputs; give one for each"),
        ("alternatives", {"inputs": "a b c"}, "position: is missing; give it"),
        ("alternatives", {"inputs": "a b c", "position": 10**30}, "position: the answer has 6 tokens; choose one"),
        ("alternatives", {"inputs": "a b c", "position": 0, "count": 50}, "count: must be from 1 to the 9 tokens"),
        ("alternatives", {"inputs": "", "position": 0}, "empty source; there is nothing to search for"),
        ("explain/step", {"inputs": "", "position": 0}, "empty source; there is nothing to explain"),
        ("explain/step", {"inputs": "a b c", "position": -1}, "position: must be greater than or equal to 0"),
        ("explain/occlusion", {"inputs": ""}, "empty source; there is nothing to explain"),
        ("explain/occlusion", {"inputs": "a b", "by": "line"}, "by: must be 'token' or 'word'"),
        ("map", {"inputs": ["a"]}, "inputs: list should have at least 2 items, not 1"),
        ("map", {"inputs": ["", ""]}, "inputs: a map needs at least two sentences that differ, got 0; give more"),
        ("map", {"inputs": ["a", "b"], "pool": "median"}, "pool: must be 'last', 'mean' or 'max'"),
    ],
)
def test_mistakes_in_the_fields_of_each_route(
    server: RunningServer, path: str, body: dict[str, object], message: str
) -> None:
    refused(server.client.post(f"/v1/{path}", json=body), 422, message, "invalid_value")


def test_all_that_is_wrong_is_said_at_once(server: RunningServer) -> None:
    body = {"input": "a", "beam": "x", "model": 1}
    error = refused(server.client.post("/v1/generate", json=body), 422, "beam: must be a valid integer")
    assert [problem.split(":")[0] for problem in error["problems"]] == ["model", "beam", "inputs", "input"]


def test_unknown_models_and_paths(server: RunningServer, assorted: RunningServer) -> None:
    for path in BODIES:
        body = {"model": "gpt", "inputs": "a", "position": 0, "targets": "K"}
        fields = {"score": {"targets"}, "alternatives": {"position"}, "explain/step": {"position"}}.get(path, set())
        known = {name: value for name, value in body.items() if name in {"model", "inputs", *fields}}
        known["inputs"] = ["a", "b"] if path == "map" else "a"
        error = refused(server.client.post(f"/v1/{path}", json=known), 404, "this server has bahdanau", "unknown_model")
        assert error["param"] == "model"
    everything = "static, rnn-lm, image, several, tagger"
    refused(assorted.client.get("/v1/models/gpt"), 404, f"there is no 'gpt'; this server has {everything}")
    answer = assorted.client.post("/v1/generate", json={"inputs": "a"})
    refused(answer, 422, f"model: this server has several; give one of {everything}")
    for path in ("/v1", "/v1/", "/v1/generate/", "/v1/models/", "/nothing?q=secret", "/v1/%00"):
        refused(server.client.get(path), 404, "here; /docs lists what there is", "unknown_path")
    assert "secret" not in server.log


def test_wrong_methods(server: RunningServer) -> None:
    for method, path, allowed in (
        ("GET", "/v1/generate", "POST"),
        ("DELETE", "/v1/models", "GET"),
        ("PUT", "/info", "GET"),
    ):
        answer = server.client.request(method, path)
        refused(answer, 405, f"{method} is not for this path; /docs says what is", "wrong_method")
        assert answer.headers["allow"] == allowed


NOT_A_PICTURE = "inputs[0]: not a picture (PNG, JPEG, GIF, BMP, TIFF, WEBP, PPM)"


@pytest.mark.parametrize("path", BODIES)
def test_bytes_that_are_no_picture(assorted: RunningServer, path: str) -> None:
    """No path of the server's own stands in the sentence."""
    body: dict[str, object] = {"model": "image", "inputs": encoded(b"hello")}
    body |= {"score": {"targets": "K"}, "alternatives": {"position": 0}, "explain/step": {"position": 0}}.get(path, {})
    body |= {"map": {"inputs": [encoded(b"hello"), encoded(b"there")]}}.get(path, {})
    answer = assorted.client.post(f"/v1/{path}", json=body)
    error = refused(answer, 422, NOT_A_PICTURE, "unreadable_input")
    assert error["param"] == "inputs"
    assert "/tmp" not in answer.text  # noqa: S108 (it is looked for)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (encoded(png_bytes()[:100]), "inputs[1]: a damaged picture"),
        (encoded(npy_bytes()), "inputs[1]: not a picture"),
        (encoded(wav_bytes()), "inputs[1]: not a picture"),
        (encoded(b""), "inputs[1]: an empty file; give one with content"),
        ("", "inputs[1]: an empty file"),
        ("data:image/png;base64,", "inputs[1]: an empty file"),
        ("/etc/passwd", "inputs[1]: not base64; encode the bytes of the file"),
        ("../../model.safetensors", "inputs[1]: not base64"),
        ("ä", "inputs[1]: not base64"),
        ("data:image/png,abc!", "inputs[1]: not base64"),
        ("file:///etc/passwd", "inputs[1]: not base64"),
        ({"image": encoded(b"x")}, "inputs[1]: not a picture"),
        ({"picture": encoded(b"x")}, "inputs[1]: this model reads one image; give it as a string"),
    ],
)
def test_files_that_are_none(assorted: RunningServer, given: object, message: str) -> None:
    body = {"model": "image", "inputs": [encoded(png_bytes()), given]}
    refused(assorted.client.post("/v1/generate", json=body), 422, message)


def test_sources_that_are_missing_or_wrong(assorted: RunningServer) -> None:
    whole = {
        "question": "a",
        "picture": encoded(png_bytes()),
        "sound": encoded(wav_bytes()),
        "array": encoded(npy_bytes()),
    }
    wanted = "this model reads several sources; give an object with question, picture, sound, array"
    changes: list[tuple[object, str]] = [
        ("a", f"inputs[0]: {wanted}"),
        ({}, f"inputs[0]: {wanted}"),
        ({name: value for name, value in whole.items() if name != "sound"}, f"inputs[0]: {wanted}"),
        ({**whole, "video": "a"}, f"inputs[0]: {wanted}"),
        ({**whole, "sound": ""}, "inputs[0].sound: an empty file"),
        ({**whole, "sound": "?"}, "inputs[0].sound: not base64"),
        ({**whole, "sound": encoded(b"RIFF")}, "inputs[0]: "),
        ({**whole, "array": encoded(b"\x93NUMPY")}, "inputs[0]: "),
        ({**whole, "picture": whole["array"]}, "inputs[0]: not a picture"),
    ]
    for model in ("rnn-lm", "tagger"):
        answer = assorted.client.post("/v1/generate", json={"model": model, "inputs": {}})
        refused(answer, 422, "inputs[0]: this model reads one text; give it as a string")
    for given, message in changes:
        answer = assorted.client.post("/v1/generate", json={"model": "several", "inputs": given})
        error = refused(answer, 422, message)
        assert "/tmp" not in json.dumps(error)  # noqa: S108 (it is looked for)
    assert assorted.client.post("/v1/generate", json={"model": "several", "inputs": whole}).status_code == 200


def test_a_file_that_is_no_text_for_a_model_of_texts(server: RunningServer) -> None:
    answer = server.client.post("/v1/generate", files={"inputs": ("a.txt", b"\xff\xfea", "text/plain")})
    refused(answer, 400, "a file of the form is no text in UTF-8; send it as such", "invalid_form")


def test_the_id_of_a_request_is_that_of_its_client(server: RunningServer) -> None:
    answer = server.client.get("/nothing", headers={"X-Request-ID": "my-id.1"})
    assert refused(answer, 404, "/nothing")["request_id"] == "my-id.1"
    answer = server.client.get("/nothing", headers={"X-Request-ID": "x" * 65})
    assert len(refused(answer, 404, "/nothing")["request_id"]) == 32


def test_an_error_within_a_stream_is_an_event(server: RunningServer) -> None:
    """The first event comes at once, so a request that is wrong has its status; later there is only the event."""
    answer = server.client.post("/v1/generate/stream", json={"inputs": "a b c", "timeout": 1e-6})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (504, "deadline", "server_error")
    assert "no answer within 1e-06 seconds" in error["message"]
