"""Callbacks: objects that are told of the updates and evaluations of a run, and those that write them for other tools.

TensorBoard, Weights & Biases and MLflow are imported when a run tracks its figures with them, into RUN/track.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from antiphon.config.schema import Config
from antiphon.config.yaml_text import flat
from antiphon.errors import UserError
from antiphon.training.display import DevSample, Display, Figures
from antiphon.training.loop import is_logged

__all__ = ["Callback", "DisplayWithCallbacks", "missing_trackers", "open_trackers"]

PARAMETER = 500  # characters of a value of the configuration that MLflow stores


class Callback:
    """Is told of a run; override what you need, and give an object to `train(..., callbacks=[...])`.

    A callback that raises an exception is reported once and then left alone, and the training goes on. To stop the
    training, raise KeyboardInterrupt: the run is saved as after Ctrl-C. Random numbers that a callback draws from torch
    do not change the weights.
    """

    def on_update(self, row: dict[str, float]) -> None:
        """Called after every update: update, epoch, loss, learning_rate, tokens_per_second, seconds, remaining, ..."""

    def on_evaluation(self, row: dict[str, float], samples: list[DevSample]) -> None:
        """Called after every evaluation: update, epoch, train_loss, dev_loss and the metrics, and a few answers.

        A sample has `source`, `output` and `references`, and all of them in one `line`.
        """

    def on_end(self, outcome: dict[str, Any]) -> None:
        """Called once, when the training has ended or is interrupted: the content of the run's summary.json."""


class DisplayWithCallbacks(Display):
    """Passes everything on to a display, and tells the callbacks.

    `outcome` returns the content of summary.json; `stop` asks the run to stop, as Ctrl-C does.
    """

    def __init__(
        self,
        display: Display,
        callbacks: Sequence[Callback],
        *,
        outcome: Callable[[], dict[str, Any]],
        stop: Callable[[], None],
    ) -> None:
        self.display = display
        self.callbacks = list(callbacks)
        self.outcome = outcome
        self.stop = stop

    def log(self, message: str) -> None:
        self.display.log(message)

    def evaluating(self) -> None:
        self.display.evaluating()

    def update(self, row: Figures, total: int) -> None:
        self.display.update(row, total)
        self._tell(lambda callback: callback.on_update(dict(row)))

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        self.display.evaluation(row, metrics, best, samples)
        self._tell(lambda callback: callback.on_evaluation(dict(row), list(samples)))

    def close(self) -> None:
        self.display.close()
        self._tell(lambda callback: callback.on_end(self.outcome()))

    def _tell(self, call: Callable[[Callback], None]) -> None:
        """Call each callback; one that fails is named and left out from now on."""
        for callback in list(self.callbacks):
            try:
                with torch.random.fork_rng(devices=[]):
                    call(callback)
            except KeyboardInterrupt:
                self.stop()
            except Exception as error:
                self.callbacks.remove(callback)
                fact = f"the callback {type(callback).__name__} raised {type(error).__name__}: {error}"
                self.display.log(f"warning: {fact}; it is not called again, and the training goes on")


# Callbacks that write the figures of a run for other tools.


class Tracker(Callback):
    """Writes the figures of the updates in log.jsonl, and of each evaluation."""

    def on_update(self, row: dict[str, float]) -> None:
        if is_logged(row["update"]):
            self._write("training", row)

    def on_evaluation(self, row: dict[str, float], samples: list[DevSample]) -> None:
        del samples
        self._write("evaluation", row)

    @abstractmethod
    def _write(self, group: str, row: dict[str, float]) -> None:
        """Write the figures of a row under names that begin with the group."""


class TensorBoardTracker(Tracker):
    """Event files in RUN/track/tensorboard; what a killed process wrote after its last checkpoint is not shown."""

    def __init__(self, folder: Path, config: Config, update: int) -> None:
        del config
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=update + 1)

    def on_evaluation(self, row: dict[str, float], samples: list[DevSample]) -> None:
        super().on_evaluation(row, samples)
        self.writer.add_text("samples", "\n".join(f"    {sample.line}" for sample in samples), int(row["update"]))
        self.writer.flush()

    def on_end(self, outcome: dict[str, Any]) -> None:
        del outcome
        self.writer.close()

    def _write(self, group: str, row: dict[str, float]) -> None:
        for name, value in _figures(row):
            self.writer.add_scalar(f"{group}/{name}", value, int(row["update"]))


class WandbTracker(Tracker):
    """An offline run in RUN/track/wandb, which `wandb sync` uploads; WANDB_MODE=online sends it at once."""

    def __init__(self, folder: Path, config: Config, update: int) -> None:
        del update
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        self.run = wandb.init(
            project="antiphon",
            name=folder.parent.name,
            group=folder.parent.name,
            dir=folder,
            config=config.model_dump(mode="json", by_alias=True),
            mode="online" if os.environ.get("WANDB_MODE") == "online" else "offline",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def on_end(self, outcome: dict[str, Any]) -> None:
        self.run.summary.update({name: value for name, value in outcome.items() if value is not None})
        self.run.finish()

    def _write(self, group: str, row: dict[str, float]) -> None:
        self.run.log({f"{group}/{name}": value for name, value in _figures(row)}, step=int(row["update"]))


class MLflowTracker(Tracker):
    """A file store in RUN/track/mlflow, or the store that MLFLOW_TRACKING_URI names."""

    def __init__(self, folder: Path, config: Config, update: int) -> None:
        del update
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 refuses folders otherwise
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self.metric: Callable[..., Any] = Metric
        self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlflow").resolve().as_uri())
        known = self.client.get_experiment_by_name("antiphon")
        experiment = known.experiment_id if known else self.client.create_experiment("antiphon")
        self.run = self.client.create_run(experiment, run_name=folder.parent.name).info.run_id
        values = flat(config.model_dump(mode="json", by_alias=True))
        parameters = [
            Param(name.replace("[", ".").replace("]", ""), str(value)[:PARAMETER]) for name, value in values.items()
        ]
        for first in range(0, len(parameters), 100):  # the most that one call takes
            self.client.log_batch(self.run, params=parameters[first : first + 100])

    def on_end(self, outcome: dict[str, Any]) -> None:
        for name, value in outcome.items():
            self.client.set_tag(self.run, name, str(value))
        self.client.set_terminated(self.run, "KILLED" if outcome.get("stopped") == "interrupted" else "FINISHED")

    def _write(self, group: str, row: dict[str, float]) -> None:
        step, time = int(row["update"]), round(1000 * row["seconds"])
        metrics = [self.metric(f"{group}/{name}", value, time, step) for name, value in _figures(row)]
        self.client.log_batch(self.run, metrics=metrics)


TRACKERS: dict[str, tuple[str, Callable[[Path, Config, int], Callback]]] = {
    "tensorboard": ("tensorboard", TensorBoardTracker),
    "wandb": ("wandb", WandbTracker),
    "mlflow": ("mlflow", MLflowTracker),
}


def open_trackers(config: Config, folder: Path, update: int) -> list[Callback]:
    """The callbacks of training.track, which write into a folder; training goes on from this update."""
    opened = []
    for name in config.training.track:
        try:
            opened.append(TRACKERS[name][1](folder, config, update))
        except Exception as error:
            fact = f"training.track: {name} cannot be opened ({type(error).__name__}: {error})"
            raise UserError(f"{fact}; repair it, or take {name} out of training.track") from error
    return opened


def missing_trackers(names: Sequence[str]) -> list[str]:
    """A sentence for each tracker whose package is not installed."""
    return [
        f"training.track: {name} is not installed; pip install 'antiphon[{name}]' installs it"
        for name in names
        if find_spec(TRACKERS[name][0]) is None
    ]


def _figures(row: dict[str, float]) -> Iterator[tuple[str, float]]:
    return ((name, float(value)) for name, value in row.items() if name not in ("update", "remaining"))
