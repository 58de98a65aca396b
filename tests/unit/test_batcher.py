"""The batcher: what is waiting goes at once, in the right company and order; failures hit nobody else."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tiny_generators import tiny_generator

from antiphon.inference.generator import Generator
from antiphon.serve.attachments import ClientInput
from antiphon.serve.batcher import Batcher, BatchLimits, Part, Request
from antiphon.serve.operations import Operations

ENOUGH = 60.0  # seconds after which an answer counts as lost


class Waiting:
    """A request of a client and what became of it."""

    def __init__(self, count: int) -> None:
        self.done = threading.Event()
        self.results: list[Any] = []
        self.error: Exception | None = None
        self.request = Request(count, self._finish, self._fail)

    def _finish(self, results: list[Any]) -> None:
        self.results = results
        self.done.set()

    def _fail(self, error: Exception) -> None:
        self.error = error
        self.done.set()

    def wait(self) -> list[Any]:
        """The results."""
        assert self.done.wait(ENOUGH)
        if self.error is not None:
            raise self.error
        return self.results


class Lane:
    """Work that notes its batches and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Semaphore(0)

    def __call__(self, payloads: list[Any]) -> Sequence[Any]:
        self.batches.append(payloads)
        self.begun.release()
        assert self.free.wait(ENOUGH)
        return [f"answer to {payload}" for payload in payloads]

    def part(self, payload: object, group: Hashable = "all", length: int = 1, width: int = 1) -> Part:
        """A part of a request that comes here."""
        return Part(payload, self, group, length, width)


@contextmanager
def running(lanes: int = 1, positions: int | None = 1000, inputs: int = 100) -> Iterator[Batcher]:
    """A batcher whose lanes end with the test."""
    batcher = Batcher(lanes, BatchLimits(positions, inputs))
    try:
        yield batcher
    finally:
        batcher.close()
        for lane in batcher._lanes:
            lane.join(ENOUGH)


def submit(batcher: Batcher, parts: Sequence[Part]) -> Waiting:
    """A new request."""
    waiting = Waiting(len(parts))
    batcher.submit(waiting.request, parts)
    return waiting


@contextmanager
def held(batcher: Batcher, lane: Lane) -> Iterator[None]:
    """While the context lasts, the only lane is busy with a request of its own."""
    lane.free.clear()
    busy = submit(batcher, [lane.part("busy", group=None)])
    assert lane.begun.acquire(timeout=ENOUGH)
    yield
    lane.free.set()
    busy.wait()


def test_a_free_lane_takes_one_input_without_waiting_for_more() -> None:
    lane = Lane()
    with running() as batcher:
        assert submit(batcher, [lane.part("a")]).wait() == ["answer to a"]
    assert lane.batches == [["a"]]


def test_requests_that_wait_share_a_batch_and_get_their_own_answers_in_order() -> None:
    lane = Lane()
    with running() as batcher:
        with held(batcher, lane):
            clients = [submit(batcher, [lane.part(f"{client}{n}") for n in range(3)]) for client in "xyz"]
        found = [client.wait() for client in clients]
    assert found == [[f"answer to {client}{n}" for n in range(3)] for client in "xyz"]
    assert [sorted(batch) for batch in lane.batches[1:]] == [sorted(f"{c}{n}" for c in "xyz" for n in range(3))]


def test_other_options_are_another_batch() -> None:
    lane = Lane()
    with running() as batcher:
        with held(batcher, lane):
            clients = [submit(batcher, [lane.part(n, group=n % 2)]) for n in range(6)]
            clients.append(submit(batcher, [lane.part("alone", group=None)]))
            clients.append(submit(batcher, [lane.part("alone too", group=None)]))
        for client in clients:
            client.wait()
    assert [sorted(map(str, batch)) for batch in lane.batches[1:]] == [
        ["0", "2", "4"], ["1", "3", "5"], ["alone"], ["alone too"]
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "size"), [(1, 10), (2, 5), (7, 1)])
def test_a_batch_has_as_many_positions_as_fit(width: int, size: int) -> None:
    lane = Lane()
    with running(positions=100) as batcher:
        with held(batcher, lane):
            clients = [submit(batcher, [lane.part(n, length=10, width=width)]) for n in range(20)]
        for client in clients:
            client.wait()
    assert [len(batch) for batch in lane.batches[1:]] == [size] * (20 // size)


def test_a_batch_has_as_many_inputs_as_are_allowed_and_those_of_like_length() -> None:
    lane = Lane()
    with running(inputs=3) as batcher:
        with held(batcher, lane):
            parts = [lane.part(length, length=length) for length in (9, 1, 8, 2, 7, 1)]
            request = submit(batcher, parts)
        request.wait()
    assert [sorted(batch) for batch in lane.batches[1:]] == [[7, 8, 9], [1, 1, 2]]


def test_a_long_input_is_not_overtaken_for_ever() -> None:
    """Short ones come without end; the long one goes when it is the oldest."""
    lane = Lane()
    with running(positions=100) as batcher:
        with held(batcher, lane):
            early = [submit(batcher, [lane.part(f"early {n}", length=10)]) for n in range(10)]
            long = submit(batcher, [lane.part("long", length=90)])
            late = [submit(batcher, [lane.part(f"late {n}", length=10)]) for n in range(50)]
        for client in (*early, long, *late):
            client.wait()
    order = [payload for batch in lane.batches for payload in batch]
    assert order.index("long") <= 11 < order.index("late 0")


def test_free_lanes_share_what_is_waiting() -> None:
    lane = Lane()
    lane.free.clear()
    with running(lanes=2) as batcher:
        busy = [submit(batcher, [lane.part(f"busy {n}", group=None)]) for n in range(2)]
        for _ in busy:
            assert lane.begun.acquire(timeout=ENOUGH)
        request = submit(batcher, [lane.part(n) for n in range(8)])
        lane.free.set()
        request.wait()
    assert sorted(payload for batch in lane.batches[2:] for payload in batch) == list(range(8))


def test_a_failing_input_fails_alone() -> None:
    def work(payloads: list[int]) -> list[int]:
        if 3 in payloads:
            raise ValueError("three")
        return [10 * payload for payload in payloads]

    lane = Lane()
    with running() as batcher:
        with held(batcher, lane):
            clients = [submit(batcher, [Part(n, work, "all")]) for n in range(6)]
        found = [client.wait() for n, client in enumerate(clients) if n != 3]
        with pytest.raises(ValueError, match="three"):
            clients[3].wait()
    assert found == [[0], [10], [20], [40], [50]]


def test_a_request_with_a_failing_input_fails_once_and_the_rest_of_it_is_not_computed() -> None:
    lane = Lane()

    def fail(_: list[Any]) -> list[Any]:
        raise ValueError("first")

    with running() as batcher:
        with held(batcher, lane):
            request = submit(batcher, [Part(0, fail), *(lane.part(n, group=None) for n in range(5))])
        with pytest.raises(ValueError, match="first"):
            request.wait()
        submit(batcher, [lane.part("next")]).wait()
    assert lane.batches == [["busy"], ["next"]]


@pytest.mark.parametrize("wrong", [lambda _: [], lambda payloads: [*payloads, 1]])
def test_a_wrong_number_of_results_is_an_error_of_the_request(wrong: Callable[[list[Any]], list[Any]]) -> None:
    lane = Lane()
    with running() as batcher:
        with pytest.raises(ValueError, match="zip"):
            submit(batcher, [Part(0, wrong)]).wait()
        submit(batcher, [lane.part("next")]).wait()  # the lane lives


def test_an_answer_that_cannot_be_handed_over_fails_and_its_neighbours_do_not() -> None:
    lane, error, failed = Lane(), ValueError("no JSON"), threading.Event()

    def finish(_: list[Any]) -> None:
        raise error

    def fail(found: Exception) -> None:
        assert found is error
        failed.set()

    with running() as batcher:
        with held(batcher, lane):
            batcher.submit(Request(1, finish, fail), [lane.part("bad")])
            good = submit(batcher, [lane.part("good")])
        assert good.wait() == ["answer to good"]
        assert failed.wait(ENOUGH)


def test_a_client_that_leaves_is_taken_out_of_the_queue() -> None:
    lane = Lane()
    with running() as batcher:
        with held(batcher, lane):
            leaving, staying = (submit(batcher, [lane.part(name), lane.part(name)]) for name in ("leaves", "stays"))
            batcher.cancel(leaving.request)
            assert [job.part.payload for job in batcher._waiting] == ["stays", "stays"]
        assert staying.wait() == ["answer to stays"] * 2
    assert lane.batches == [["busy"], ["stays", "stays"]]
    assert not leaving.done.is_set()


def test_a_client_that_leaves_in_the_middle_stops_its_search_and_no_other() -> None:
    steps = threading.Semaphore(0)
    go_on = threading.Event()

    def search(payloads: list[str]) -> list[str]:
        for _ in range(1000):
            batcher.check()
            steps.release()
            assert go_on.wait(ENOUGH)
        return payloads

    with running() as batcher:
        leaving = submit(batcher, [Part("leaves", search, "all")])
        assert steps.acquire(timeout=ENOUGH)  # in the middle of the search
        staying = submit(batcher, [Part("stays", search, "all")])
        batcher.cancel(leaving.request)
        go_on.set()
        assert staying.wait() == ["stays"]
        assert not leaving.done.is_set()
        assert steps._value == 1000  # the search that was left made one step in all


def test_a_batch_goes_on_while_anyone_waits_for_it() -> None:
    lane = Lane()
    seen: list[str] = []

    def search(payloads: list[str]) -> list[str]:
        batcher.cancel(leaving.request)
        batcher.check()
        seen.extend(payloads)
        return payloads

    with running() as batcher:
        with held(batcher, lane):
            leaving, staying = (submit(batcher, [Part(name, search, "all")]) for name in ("leaves", "stays"))
        assert staying.wait() == ["stays"]
    assert seen == ["leaves", "stays"]
    assert not leaving.done.is_set()


@pytest.fixture(scope="module")
def generator() -> Generator:
    """A model that attends."""
    return tiny_generator("bahdanau")


def test_answers_under_concurrency_are_those_of_generate(generator: Generator) -> None:
    """Many clients with mixed lengths and options: the texts are equal, the scores to rounding."""
    operations, random_numbers = Operations(generator, 1_000_000, 1000), random.Random(7)
    options: list[dict[str, Any]] = [{}, {"beam": 3, "n_best": 2}, {"sample": True, "seed": 5}, {"max_length": 3}]
    requests: list[tuple[list[ClientInput], dict[str, Any]]] = []
    for _ in range(40):
        lengths = [random_numbers.randrange(12) for _ in range(random_numbers.randint(1, 5))]
        texts: list[ClientInput] = [" ".join(random_numbers.choices("abcdefgh", k=length)) for length in lengths]
        requests.append((texts, random_numbers.choice(options)))
    found: list[list[Any]] = [[] for _ in requests]

    def client(number: int) -> None:
        texts, chosen = requests[number]
        plan = operations.plan("generate", {"inputs": texts, "options": chosen}, lambda _event, _data: None)
        found[number] = submit(batcher, plan.parts).wait()

    sizes: list[int] = []
    batcher = Batcher(
        2, BatchLimits(200, 16), prepare=lambda: torch.set_num_threads(1), report=lambda size, _: sizes.append(size)
    )
    clients = [threading.Thread(target=client, args=(number,)) for number in range(len(requests))]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join(ENOUGH)
    batcher.close()
    for (texts, chosen), outputs in zip(requests, found, strict=True):
        wanted = generator.generate([str(text) for text in texts], **chosen)
        assert [output["text"] for output in outputs] == [one.text for one in wanted]
        assert [output["score"] for output in outputs] == pytest.approx([one.score for one in wanted], abs=1e-5)
    assert max(sizes) > 1
