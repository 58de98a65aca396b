"""`antiphon serve --engine ray`: the same application in several processes or on several machines, with Ray Serve.

The driver talks HTTP and hands each request to a replica, which has the application and its models. Ray Serve never
repeats a request whose replica dies after taking it; the driver does, unless a part of the answer was sent. An answer
depends on nothing but its request, so the second is as good as the first; the client gets one of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from prometheus_client import Metric
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message as ASGIMessage
from starlette.types import Receive, Scope, Send

from antiphon.errors import MissingExtraError, UserError
from antiphon.serve.app import create_app
from antiphon.serve.models import TOO_OFTEN, Log
from antiphon.serve.native import json_response
from antiphon.serve.reader import ClientGone, read_body
from antiphon.serve.refusals import Refusal
from antiphon.serve.runner import bind, serve_app
from antiphon.serve.serve_settings import ServeSettings
from antiphon.serve.server import Server, unless_gone
from antiphon.serve.server_metrics import CONTENT_TYPE, MetricsOfReplicas

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

__all__ = ["AppReplica", "problems_of", "serve"]

OWN_CLUSTER = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen on loopback only, as on systems for which Ray has no clusters
    "RAY_AUTH_MODE": "token",  # each replica listens on every interface nevertheless
    "RAY_SERVE_LOG_TO_STDERR": "0",  # the driver says what is wrong
    "GRPC_VERBOSITY": "ERROR",
}
STORE_BYTES = 128 * 2**20  # of shared memory; only requests and answers of more than 100 kB go through it
START_RAY = "run `ray start` on this machine and set RAY_ADDRESS=auto, or unset it for a cluster of its own"
ASKING = 5.0  # seconds for a question to all replicas
PAUSE = 0.2  # seconds before an accepted request is tried again
LEAST_WAIT = 1.0  # seconds that Ray has to find a replica
SENT_ON = ("type", "asgi", "http_version", "scheme", "method", "root_path", "path", "raw_path", "query_string")
FULL = 429  # status of a replica whose queue has no room


class AppReplica:
    """A replica: the application and its models, without a port."""

    async def __init__(self, settings: ServeSettings) -> None:  # type: ignore[misc]  # Ray awaits it
        self.name = f"{platform.node()}-{os.getpid()}"
        self.app = create_app(settings, _log_to_stderr)
        self.server: Server = self.app.state.server
        self.server.log = _ignore  # the driver logs requests; the models keep their log
        self._models = AsyncExitStack()
        await self._models.enter_async_context(self.server.running())

    async def answer(self, scope: Scope, body: bytes) -> AsyncGenerator[tuple[str, list[ASGIMessage]], None]:
        """The route and the ASGI messages of an answer, the head with the first part; before them a sign of life."""
        yield "", []
        messages: asyncio.Queue[ASGIMessage | None] = asyncio.Queue()
        given: list[ASGIMessage] = [{"type": "http.request", "body": body, "more_body": False}]
        never: asyncio.Future[ASGIMessage] = asyncio.get_running_loop().create_future()

        async def receive() -> ASGIMessage:
            # A client that leaves ends the whole task. Whoever gives up waiting must not cancel what others wait for.
            return given.pop() if given else await asyncio.shield(never)

        task = asyncio.create_task(self.app(scope, receive, messages.put))
        task.add_done_callback(lambda _: messages.put_nowait(None))
        held: list[ASGIMessage] = []
        try:
            while (message := await messages.get()) is not None:
                held.append(message)
                if message["type"] == "http.response.body":
                    yield getattr(scope.get("route"), "path", "unknown"), held
                    held = []
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def states(self) -> dict[str, bool]:
        """True for each model that is ready."""
        return {model.name: model.ready for model in self.server.models}

    async def metrics(self) -> tuple[str, list[Metric]]:
        """The name of this replica, and the numbers of its models."""
        return self.name, self.server.metrics.of_models()


class Dispatcher:
    """An ASGI application that hands requests to replicas, and asks them for their state."""

    def __init__(self, replicas: DeploymentHandle[Any], server: Server) -> None:
        from ray.exceptions import ObjectLostError, RayActorError
        from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

        self.replicas, self.server = replicas, server
        self._answers = replicas.options(method_name="answer", stream=True)
        self._dead: tuple[type[Exception], ...] = (RayActorError, ObjectLostError)
        self._full, self._none = BackPressureError, DeploymentUnavailableError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        request = Request(scope, receive)
        body = await read_body(request, self.server.settings.max_bytes, self.server.settings.timeout)
        try:
            await unless_gone(request, self._answer(scope, body, send))
        except ClientGone:
            if not scope["state"]["begun"]:
                raise

    async def _answer(self, scope: Scope, body: bytes, send: Send) -> None:
        settings, state = self.server.settings, scope["state"]
        state["begun"] = False  # nothing of the answer was sent
        try:
            async with asyncio.timeout(settings.wait + settings.timeout + 1.0):  # replicas are quicker to refuse
                await self._ask_until_one_lives(scope, body, send)
        except TimeoutError:
            if not state["begun"]:  # else the connection is closed, as the client reads too slowly
                problem = f"no answer within {settings.timeout:g} seconds; send less at once"
                raise Refusal(504, "deadline", problem, param="timeout", limit=settings.timeout) from None

    async def _ask_until_one_lives(self, scope: Scope, body: bytes, send: Send) -> None:
        """Begin the request again if its replica dies before it has sent something; then it is not refused any more."""
        state, deaths = scope["state"], 0
        died = Refusal(503, "replica_died", "the replica of this request has died; try again", retry_after=2)
        while True:
            try:
                await self._ask_one(scope, body, send, accepted=deaths > 0)
                return
            except self._dead:
                deaths += 1
                what = "its stream ends" if state["begun"] else "it begins again, but only once"
                self.server.log(f"the replica of request {state['request_id']} has died; {what}")
            except Refusal:
                if not deaths:
                    raise
                await asyncio.sleep(PAUSE)
            if state["begun"]:  # only streams have several parts
                event = b"event: error\ndata: " + to_json(died.envelope(state["request_id"])) + b"\n\n"
                await send({"type": "http.response.body", "body": event, "more_body": False})
                return
            if deaths == TOO_OFTEN:
                raise died

    async def _ask_one(self, scope: Scope, body: bytes, send: Send, *, accepted: bool) -> None:
        """Send the answer of the replica that Ray chooses; Refusal if none takes the request.

        A request that a replica had `accepted` before is not told that another has no room: this is a Refusal, too.
        """
        headers = [(name, value) for name, value in scope["headers"] if name != b"x-request-id"]
        number = (b"x-request-id", scope["state"]["request_id"].encode())
        sent_on = {name: scope[name] for name in SENT_ON if name in scope} | {"headers": [number, *headers]}
        answer: Any = self._answers.remote(sent_on, body)  # a DeploymentResponseGenerator
        try:
            await self._taken(answer)
            async for route, messages in answer:
                if accepted and messages[0].get("status") == FULL:
                    raise refusal(busy=True)
                scope["route"] = SimpleNamespace(path=route)  # for the metrics and the log
                scope["state"]["begun"] = True
                for message in messages:
                    await send(message)
                if not messages[-1].get("more_body"):
                    return
        except BaseException:
            with suppress(Exception):  # what was raised already
                answer.cancel()
            raise

    async def _taken(self, answer: Any) -> None:  # noqa: ANN401 (as above)
        """Wait until a replica has taken the request; Refusal if none does."""
        try:
            async with asyncio.timeout(max(LEAST_WAIT, self.server.settings.wait)):
                await anext(answer)
            return
        except self._full:
            busy = True
        except (self._none, TimeoutError):
            busy = bool(await self._ask_all("states"))
        raise refusal(busy=busy)

    async def _ask_all(self, method: str) -> list[Any]:
        """The results of a method of the replicas that answer."""
        with suppress(self._none, TimeoutError):
            asked = self.replicas.broadcast(method)
            results: list[Any] = await asked.results_async(timeout_s=ASKING, return_exceptions=True)
            return [result for result in results if not isinstance(result, BaseException)]
        return []

    async def readyz(self) -> Response:
        """Ready if each model is, in one replica or another."""
        found: list[dict[str, bool]] = await self._ask_all("states")
        names = {name for states in found for name in states}
        models = {name: any(states.get(name) for states in found) for name in sorted(names)}
        state = "draining" if self.server.draining else "ready" if found and all(models.values()) else "loading"
        shown = {name: "ready" if ready else "loading" for name, ready in models.items()}
        return json_response(
            {"status": state, "models": shown, "replicas": len(found)}, 200 if state == "ready" else 503
        )

    async def metrics(self, request: Request) -> Response:
        """The numbers of the driver and of all replicas."""
        await self.server.read(request)
        replicas = MetricsOfReplicas(await self._ask_all("metrics"))
        return Response(self.server.metrics.text(replicas), media_type=CONTENT_TYPE)


def serve(settings: ServeSettings, replicas: int, log: Log) -> None:
    """Serve with this many replicas until a signal comes; UserError if a model or the address cannot be used."""
    with bind(settings.host, settings.port) as listening:
        name = f"antiphon-{platform.node()}-{listening.getsockname()[1]}"
        with cluster(cores_of(settings) * replicas), deployed(settings, replicas, name) as handle:
            serve_app(front(settings, handle, log), settings.models, listening)


def front(settings: ServeSettings, replicas: DeploymentHandle[Any], log: Log) -> FastAPI:
    """The application without models, whose routes lead to the replicas."""
    app = create_app(replace(settings, models=()), log)
    dispatcher = Dispatcher(replicas, app.state.server)
    app.router.routes[:] = [route for route in app.routes if getattr(route, "path", "") == "/livez"]
    for path, handler in (
        ("/readyz", dispatcher.readyz),
        ("/health", dispatcher.readyz),
        ("/metrics", dispatcher.metrics),
    ):
        app.add_api_route(path, handler, response_model=None)
    app.mount("", dispatcher)
    return app


@contextmanager
def cluster(cores: int) -> Generator[None, None, None]:
    """Ray in the cluster of RAY_ADDRESS, or else one of its own with this number of cores; it ends with the context."""
    address = os.environ.get("RAY_ADDRESS", "")
    check_address(address)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if not address:
        os.environ.update(OWN_CLUSTER, RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        import ray.serve  # not before its environment is set
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"--engine ray: the package {error.name} is missing; run: pip install 'antiphon[ray]'"
        ) from None
    logging.getLogger("ray.serve").setLevel(logging.CRITICAL)
    own: Any = {"num_cpus": cores, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    try:
        ray.init(address or "local", logging_level=logging.WARNING, **({} if address else own))
    except ConnectionError as error:
        raise UserError(f"RAY_ADDRESS={address}: {str(error).rstrip('.')}; {START_RAY}") from None
    except Exception as error:  # of its processes, which have 30 seconds to start: Ray has no type of its own for this
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"--engine ray: Ray could not be started ({reason}); try again on a less busy machine"
        ) from None
    signal.signal(signal.SIGTERM, _leave)  # Ray's handler has an exit code of its own
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def deployed(settings: ServeSettings, replicas: int, name: str) -> Generator[DeploymentHandle[Any], None, None]:
    """Replicas in the cluster, under this name; they end with the context."""
    from ray import serve as ray_serve
    from ray.serve.schema import LoggingConfig

    plain = LoggingConfig(log_level="WARNING", enable_access_log=False)
    deployment: Any = ray_serve.deployment(
        AppReplica, num_replicas=replicas, ray_actor_options={"num_cpus": cores_of(settings)},
        max_ongoing_requests=2 * settings.queue, max_queued_requests=settings.queue, max_constructor_retry_count=1,
    )  # fmt: skip
    models = tuple(replace(model, runs=tuple(run.resolve() for run in model.runs)) for model in settings.models)
    # The driver has checked the Host header, and sends the headers of CORS.
    folders = tuple(folder.resolve() for folder in settings.folders)
    inside = replace(settings, models=models, folders=folders, host="0.0.0.0", insecure=True, cors=())  # noqa: S104
    ray_serve.start(proxy_location="Disabled", logging_config=plain)
    try:
        try:
            handle = ray_serve.run(deployment.bind(inside), name=name, route_prefix=None, logging_config=plain)
        except RuntimeError as error:
            states = ray_serve.status().applications[name].deployments.values()
            raise UserError(problems_of([state.message for state in states] or [str(error)])) from None
        yield handle
    finally:
        ray_serve.delete(name, _blocking=False)


def refusal(*, busy: bool) -> Refusal:
    """The reason why no replica takes a request."""
    if busy:
        return Refusal(FULL, "queue_full", "all replicas are busy; try again soon", retry_after=1)
    return Refusal(503, "loading", "no replica takes requests; try again soon", retry_after=2)


def check_address(address: str) -> None:
    """UserError if no cluster is there; Ray itself would try for minutes."""
    if address.startswith("ray://"):
        raise UserError(f"RAY_ADDRESS={address}: an address of Ray's client, which cannot stream; {START_RAY}")
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ASKING).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"RAY_ADDRESS={address}: cannot be reached ({error}); {START_RAY}") from None


def cores_of(settings: ServeSettings) -> int:
    """The cores that a replica keeps busy."""
    return settings.threads * max(1, len(settings.models))


def problems_of(messages: Iterable[str]) -> list[str]:
    """The problems of the models, from the messages of deployments that could not be started, or else these."""
    return [line for message in messages for line in message.rpartition("UserError: ")[2].splitlines()]


def _log_to_stderr(line: str) -> None:
    """Ray brings it to the driver."""
    sys.stderr.write(f"{line}\n")


def _leave(number: int, _: FrameType | None) -> None:
    """Exit as after a signal, but clean up."""
    sys.exit(128 + number)


def _ignore(_: str) -> None:
    """Log nothing."""
