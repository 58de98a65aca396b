"""antiphon serve"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.io import say
from antiphon.errors import MissingExtraError, UserError

__all__ = ["serve"]


class ServingEngine(StrEnum):
    """The process, or the cluster, that has the models."""

    local = "local"
    ray = "ray"


def serve(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, model folders, exports; or a folder of runs.")
    ],
    host: Annotated[str, typer.Option(help="The address; others than those of this machine need --api-key.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = 8080,
    api_key: Annotated[
        list[str] | None,
        typer.Option("--api-key", help="A key that clients must send; repeatable. Also ANTIPHON_API_KEY."),
    ] = None,
    engine: Annotated[
        ServingEngine, typer.Option(help="local: this process; ray: replicas on a Ray cluster, or on one of its own.")
    ] = ServingEngine.local,
    replicas: Annotated[int, typer.Option(min=1, help="Copies of all models; more than 1 with --engine ray.")] = 1,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let every machine use the server without a key.")
    ] = False,
    languages: Annotated[
        list[str] | None,
        typer.Option(metavar="PAIR", help="The languages of a model, such as en-de; once for each RUN, in order."),
    ] = None,
    ensemble: Annotated[bool, typer.Option("--ensemble", help="All runs answer together, as one model.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that the Host header may have; repeatable.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="A page elsewhere that may call the server; repeatable.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of each model. Default: the cores of the machine, shared out.")
    ] = None,
    loaded: Annotated[
        int, typer.Option(help="Runs of a folder that are kept in memory; others are loaded when asked.")
    ] = 4,
    queue: Annotated[int, typer.Option(help="Inputs of a model that may wait or be computed.")] = 256,
    wait: Annotated[float, typer.Option(help="Seconds that a request waits for room before it is refused.")] = 5.0,
    timeout: Annotated[float, typer.Option(help="Seconds that a request may take.")] = 60.0,
    drain: Annotated[float, typer.Option(help="Seconds for what was accepted when the server is stopped.")] = 30.0,
    max_bytes: Annotated[int, typer.Option(help="Largest request.")] = 16 * 2**20,
    max_inputs: Annotated[int, typer.Option(help="Most inputs of a request.")] = 128,
    max_characters: Annotated[int, typer.Option(help="Longest text.")] = 20_000,
    max_positions: Annotated[int, typer.Option(help="Largest product of beam, n_best and max_length.")] = 1_000_000,
) -> None:
    """Answer over HTTP, and show the search on a page.

    Besides the page and its own API it speaks those of OpenAI, DeepL and LibreTranslate. A folder of runs is listed,
    its trainings are followed, and a run is loaded when it is asked. Only this machine can reach the server, unless
    --host says otherwise. SIGTERM lets it answer what it has accepted.
    """
    if engine is ServingEngine.local and replicas > 1:
        raise UserError("--replicas: one process has one copy of each model; add --engine ray")
    try:
        from antiphon.serve import ray_engine, runner
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"antiphon serve: the package {error.name} is missing; run: pip install 'antiphon[serve]'"
        ) from None
    from antiphon.serve.run_listing import is_model
    from antiphon.serve.serve_settings import ServeSettings, served_models

    folders = [run for run in runs if run.is_dir() and not is_model(run)]
    models = served_models([run for run in runs if run not in folders], ensemble=ensemble, languages=languages or [])
    keys = [*(api_key or []), *filter(None, [os.environ.get("ANTIPHON_API_KEY")])]
    settings = ServeSettings(
        models=models, folders=tuple(folders), loaded=loaded,
        host=host, port=port, api_keys=tuple(keys), insecure=insecure,
        allowed_hosts=tuple(name.lower() for name in allow_host or ()), cors=tuple(cors or ()),
        threads=threads or max(1, (os.cpu_count() or 1) // max(1, len(models)) // replicas),
        queue=queue, wait=wait, timeout=timeout, drain=drain, max_bytes=max_bytes, max_inputs=max_inputs,
        max_characters=max_characters, max_positions=max_positions,
    )  # fmt: skip
    if engine is ServingEngine.ray:
        ray_engine.serve(settings, replicas, say)
    else:
        runner.serve(settings, say)
