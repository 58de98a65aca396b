"""The worker of a model over pipes: frames that come whole, bugs that say nothing of the text, lanes that live on."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tiny_generators import tiny_folder

import antiphon
from antiphon.inference.generator import Generator
from antiphon.serve.frames import Message, pack, read_frame
from antiphon.serve.worker import ModelWorker

SECRET = "a b c d e f g h"


class Trickle(io.FileIO):
    """A pipe that takes seven bytes at a time, as one may when its process is stopped and continued."""

    def write(self, data: Any, /) -> int:  # noqa: ANN401 (a buffer)
        """Write the beginning of the data; the number of bytes."""
        return super().write(bytes(data)[:7])


class Wire:
    """The other ends of a worker's pipes."""

    def __init__(self, generator: Generator, run: Path) -> None:
        (requests, self._to_worker), (from_worker, frames) = os.pipe(), os.pipe()
        self._frames, own = os.fdopen(from_worker, "rb"), (os.fdopen(requests, "rb"), Trickle(frames, "wb"))
        settings = {"most_positions": 1_000_000, "most_characters": 1000}
        self.worker = ModelWorker(generator, [run], cast("Any", own[1]), settings, 1)
        self._files = (*own, self._frames)
        self._thread = threading.Thread(target=self.worker.run, args=(own[0],))
        self._thread.start()
        assert "ready" in self.read()

    def ask(self, number: int, operation: str = "generate", **payload: Any) -> None:  # noqa: ANN401 (any JSON)
        """Send a request."""
        os.write(
            self._to_worker,
            pack({"id": number, "operation": operation, "request": f"request-{number}", "payload": payload}),
        )

    def read(self) -> Message:
        """The next frame that is no count of a batch."""
        while True:
            frame = read_frame(self._frames)
            assert frame is not None
            if "batch" not in frame:
                return frame

    def close(self) -> None:
        """The server has gone."""
        os.close(self._to_worker)
        for thread in (self._thread, *self.worker.batcher._lanes):
            thread.join(60)
            assert not thread.is_alive()
        for file in self._files:
            file.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    return Path(tiny_folder("bahdanau", tmp_path_factory.mktemp("worker") / "bahdanau"))


@contextmanager
def wired(run: Path, broken: Callable[..., Any] | None = None) -> Iterator[Wire]:
    """A worker of this model, which has lost its way if `broken` replaces what answers."""
    generator = antiphon.load(str(run))
    if broken is not None:
        generator.answer = broken  # type: ignore[method-assign]
    wire = Wire(generator, run)
    try:
        yield wire
    finally:
        wire.close()


def test_frames_are_whole_when_the_pipe_takes_a_few_bytes_at_a_time(run: Path) -> None:
    texts = [SECRET, "", "a"] * 20
    with wired(run) as wire:
        wire.ask(1, inputs=texts, **{"return": ["attention", "tokens"]})
        frame = wire.read()
    wanted = antiphon.load(str(run)).generate(texts)
    assert [output["text"] for output in frame["result"]["outputs"]] == [one.text for one in wanted]


def test_a_bug_is_reported_by_its_place_and_the_request_without_the_text(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(texts: list[Any], _: object) -> list[Any]:
        raise ValueError(f"cannot answer {texts[0].parts[0].text}")

    with wired(run, broken) as wire:
        wire.ask(7, inputs=[SECRET])
        frame = wire.read()
        assert (frame["id"], frame["error"]["status"], frame["error"]["code"]) == (7, 500, "internal_error")
        assert SECRET not in str(frame)
        wire.ask(8, operation="score", inputs=["a"], targets=["K"])  # the lane lives
        assert "result" in wire.read()
    log = capsys.readouterr().err
    assert SECRET not in log
    assert "in broken" in log
    assert "ValueError, request request-7" in log


def test_an_answer_that_is_no_json_is_a_bug_and_not_the_end(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = antiphon.load(str(run))

    def broken(texts: list[Any], pipeline: Any) -> list[Any]:  # noqa: ANN401 (of the search)
        found = generator.answer(texts, pipeline)
        found[0].flags.append("\ud800")
        return found

    with wired(run, broken) as wire:
        for number in range(3):
            wire.ask(number, inputs=[SECRET])
            assert wire.read()["error"]["status"] == 500
    assert SECRET not in capsys.readouterr().err


def test_a_bug_in_one_input_does_not_reach_the_other_clients(run: Path) -> None:
    generator = antiphon.load(str(run))
    free = threading.Event()

    def broken(texts: list[Any], pipeline: Any) -> list[Any]:  # noqa: ANN401 (of the search)
        assert free.wait(60)
        if any(part.text == SECRET for text in texts for part in text.parts):
            raise ValueError(SECRET)
        return generator.answer(texts, pipeline)

    with wired(run, broken) as wire:
        for number, text in enumerate(["a", "b", SECRET, "c d"]):
            wire.ask(number, inputs=[text])
        free.set()
        frames = {frame["id"]: frame for frame in (wire.read() for _ in range(4))}
    assert [("result" in frames[number], "error" in frames[number]) for number in range(4)] == [
        (True, False), (True, False), (False, True), (True, False)
    ]  # fmt: skip
