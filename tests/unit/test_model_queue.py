"""The queue before a model, in order and without leaks; and the pauses between the lives of its process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from antiphon.errors import UserError
from antiphon.serve import models
from antiphon.serve.frames import Message
from antiphon.serve.models import Call, Model, Queue
from antiphon.serve.serve_settings import ServedModel, ServeSettings

LONG = 60.0  # seconds that no test waits


async def settle() -> None:
    """Let the tasks run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_inputs_are_admitted_up_to_the_limit_and_the_rest_is_refused_after_its_wait() -> None:
    async def main() -> None:
        queue = Queue(3)
        assert await queue.enter(2, LONG)
        assert await queue.enter(1, LONG)
        assert not await queue.enter(1, 0.01)
        queue.leave(2)
        assert await queue.enter(2, LONG)
        assert queue.used == 3

    asyncio.run(main())


def test_who_waits_gets_the_room_that_becomes_free() -> None:
    async def main() -> None:
        queue = Queue(1)
        assert await queue.enter(1, LONG)
        waiting = asyncio.create_task(queue.enter(1, LONG))
        await settle()
        assert not waiting.done()
        queue.leave(1)
        assert await waiting
        assert queue.used == 1

    asyncio.run(main())


def test_a_large_request_is_not_starved_by_small_ones_behind_it() -> None:
    async def main() -> None:
        queue, order = Queue(4), list[str]()

        async def enter(name: str, inputs: int) -> None:
            assert await queue.enter(inputs, LONG)
            order.append(name)

        await enter("first", 3)
        tasks = [asyncio.create_task(enter("large", 4))]
        await settle()
        tasks += [asyncio.create_task(enter(f"small {n}", 1)) for n in range(4)]
        await settle()
        assert order == ["first"]  # there is room for a small one, but the large one came before
        queue.leave(3)
        await settle()
        assert order == ["first", "large"]
        queue.leave(4)
        await asyncio.gather(*tasks)
        assert order[2:] == [f"small {n}" for n in range(4)]

    asyncio.run(main())


def test_a_request_that_is_larger_than_the_queue_goes_alone() -> None:
    async def main() -> None:
        queue = Queue(2)
        assert await queue.enter(5, LONG)
        assert not await queue.enter(1, 0.01)
        queue.leave(5)
        assert await queue.enter(1, LONG)

    asyncio.run(main())


def test_a_client_that_leaves_while_it_waits_takes_no_room() -> None:
    async def main() -> None:
        queue = Queue(1)
        assert await queue.enter(1, LONG)
        leaving, staying = (asyncio.create_task(queue.enter(1, LONG)) for _ in range(2))
        await settle()
        leaving.cancel()
        await settle()
        queue.leave(1)
        assert await staying
        queue.leave(1)
        assert queue.used == 0

    asyncio.run(main())


def test_room_that_comes_in_the_moment_of_giving_up_is_not_lost() -> None:
    """The time is over and the room is free in the same turn of the event loop."""

    async def main() -> None:
        queue = Queue(1)
        assert await queue.enter(1, LONG)
        waiting = asyncio.create_task(queue.enter(1, 0.01))
        await settle()
        time.sleep(0.05)  # the loop must not see the end of the time before the room
        asyncio.get_running_loop().call_soon(queue.leave, 1)
        admitted = await waiting
        assert queue.used == int(admitted)

    asyncio.run(main())


def test_a_cancellation_in_the_moment_of_admission_gives_the_room_back() -> None:
    async def main() -> None:
        queue = Queue(1)
        assert await queue.enter(1, LONG)
        waiting = asyncio.create_task(queue.enter(1, LONG))
        await settle()
        queue.leave(1)  # admits it
        waiting.cancel()  # before it knows
        await settle()
        assert queue.used == 0

    asyncio.run(main())


def test_those_who_wait_are_bounded() -> None:
    async def main() -> None:
        queue = Queue(1)
        assert await queue.enter(1, LONG)
        waiting = [asyncio.create_task(queue.enter(1, LONG)) for _ in range(models.MOST_WAITING)]
        await settle()
        assert not await queue.enter(1, LONG)  # at once
        for task in waiting:
            task.cancel()

    asyncio.run(main())


class Mortal(Model):
    """A model whose process lives as long as a test says, on a clock of the test's own."""

    def __init__(self, lives: list[tuple[bool, float]]) -> None:
        """`lives`: was it loaded, and how many seconds did it live."""
        self.logged: list[str] = []
        run = ServedModel("mortal", (Path("nowhere"),))
        super().__init__(run, ServeSettings(models=(run,)), log=self.logged.append)
        self.lives, self.now, self.pauses = lives, 0.0, list[float]()

    async def _run_process(self) -> tuple[bool, str]:
        if not self.lives:
            self._stopping = True
            return True, "exit code 0"
        loaded, seconds = self.lives.pop(0)
        self.now += seconds
        return loaded, "signal 9"


def run_lives(lives: list[tuple[bool, float]], monkeypatch: pytest.MonkeyPatch) -> Mortal:
    """Let a model live and die; the pauses between take no time."""
    mortal = Mortal(lives)

    async def sleep(seconds: float) -> None:
        mortal.pauses.append(seconds)

    monkeypatch.setattr(models.asyncio, "sleep", sleep)
    monkeypatch.setattr(models.time, "monotonic", lambda: mortal.now)
    asyncio.run(mortal._keep_alive())
    return mortal


def test_a_process_that_dies_again_and_again_is_started_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    mortal = run_lives([(True, 1.0)] * 12, monkeypatch)
    assert mortal.pauses[:4] == [0.2, 0.4, 0.8, 1.6]
    assert max(mortal.pauses) == mortal.pauses[-1] == models.LONGEST_PAUSE / 2
    assert mortal.restarts == 12
    assert mortal.logged == ["mortal: its process has ended (signal 9); it is started again"] * 12


def test_a_long_life_makes_the_next_pause_short(monkeypatch: pytest.MonkeyPatch) -> None:
    mortal = run_lives([(True, 1.0), (True, 1.0), (True, 2 * models.GOOD_LIFE), (False, 1.0)], monkeypatch)
    assert mortal.pauses == [0.2, 0.4, 0.1, 0.2]


def test_a_process_that_dies_while_it_loads_for_the_first_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mortal = run_lives([(False, 1.0)], monkeypatch)
    assert mortal.problems == ["mortal: its process has ended (signal 9) while it was loading; is there memory for it?"]
    with pytest.raises(UserError, match="signal 9"):
        asyncio.run(Mortal([(False, 1.0)]).start())


def test_a_stream_that_nobody_reads_is_ended_before_it_fills_the_memory() -> None:
    mortal, written = Mortal([]), list[Message]()
    mortal._write = written.append  # type: ignore[method-assign]
    call = Call("stream", {})
    mortal._calls[5] = call
    for number in range(models.MOST_EVENTS + 10):
        mortal._receive({"id": 5, "event": "text", "data": {"text": str(number)}})
    assert call.events.qsize() == models.MOST_EVENTS + 1
    events = [call.events.get_nowait() for _ in range(models.MOST_EVENTS + 1)]
    assert events[-1]["error"].code == "slow_reader"
    assert written == [{"id": 5, "operation": "cancel"}]


def test_the_pid_is_known_only_while_the_process_runs() -> None:
    """A number that was given to another process must never get a signal."""

    async def main() -> None:
        mortal = Mortal([])
        assert mortal.pid is None
        mortal._process = await asyncio.create_subprocess_exec("sleep", "60")
        assert mortal.pid == mortal._process.pid
        mortal._kill()
        await mortal._process.wait()
        assert mortal.pid is None

    asyncio.run(main())
