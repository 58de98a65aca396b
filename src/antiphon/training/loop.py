"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batches
from antiphon.errors import DivergedError
from antiphon.models.model import SequenceModel
from antiphon.sequence import Carried
from antiphon.training.checkpoints import Checkpoints
from antiphon.training.display import Display
from antiphon.training.optimizers import Optimizer, learning_rate
from antiphon.training.progress import LoopStatus, Progress, best_evaluation, evaluations_without_improvement
from antiphon.training.run_folder import RunFolder
from antiphon.training.scheduled_sampling import sampling_probability
from antiphon.training.step import training_step

__all__ = ["Loop"]

LOG_EVERY = 20


@dataclass
class Window:
    """What happened in the last few updates, for the bar and the log."""

    losses: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=LOG_EVERY))
    times: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=LOG_EVERY))

    def add(self, loss: float, count: int, seconds: float) -> None:
        self.losses.append((loss, count))
        self.times.append((seconds, count))

    @property
    def loss(self) -> float:
        return sum(loss for loss, _ in self.losses) / max(1, sum(count for _, count in self.losses))

    @property
    def tokens_per_second(self) -> float:
        if not self.times:
            return math.nan  # a resumed process that has made no update yet
        return sum(count for _, count in self.times) / max(1e-9, sum(seconds for seconds, _ in self.times))

    @property
    def seconds(self) -> float:
        return sum(seconds for seconds, _ in self.times) / max(1, len(self.times))


class Loop:
    """Updates, evaluations and checkpoints until there is a reason to stop."""

    def __init__(
        self,
        *,
        config: TrainingConfig,
        model: SequenceModel,
        frozen: list[nn.Module],
        optimizer: Optimizer,
        batches: Batches,
        carried: Carried | None = None,
        progress: Progress,
        checkpoints: Checkpoints,
        folder: RunFolder,
        display: Display,
        evaluate: Callable[[Progress, LoopStatus], None],
        check: Callable[[], None],
    ) -> None:
        self.config = config
        self.model = model
        self.frozen = frozen
        self.optimizer = optimizer
        self.batches = batches
        self.carried = carried
        self.progress = progress
        self.checkpoints = checkpoints
        self.folder = folder
        self.display = display
        self.evaluate = evaluate
        self.check = check
        self.window = Window()
        self.plan = batches.plan(progress.epoch)
        self.padding = batches.padding(self.plan)
        self.updates_per_epoch = math.ceil(len(self.plan) / config.accumulate)
        total = config.epochs * self.updates_per_epoch
        self.updates = total if config.max_updates is None else min(total, config.max_updates)

    def run(self) -> str:
        """Trains; returns the reason it stopped."""
        self._prune()  # a kill may have come between the last checkpoint and this
        while True:
            if self._evaluation_due():
                self.evaluate(self.progress, self._moment())
                self._save()
            reason = self.reason_to_stop()
            if reason:
                return reason
            self._update()
            if self.config.checkpoint_every and self.progress.update % self.config.checkpoint_every == 0:
                self._save()
            self.check()

    def save(self) -> None:
        """A checkpoint of this moment, unless there is one."""
        if not any(one.update == self.progress.update for one in self.checkpoints.all()):
            self._save()

    @property
    def epochs(self) -> float:
        """Passes over the data so far."""
        return self.progress.epoch + self.progress.batch / len(self.plan)

    def _moment(self) -> LoopStatus:
        return LoopStatus(
            epochs=self.epochs,
            learning_rate=self._rate(self.progress.update),
            tokens_per_second=self.window.tokens_per_second,
            padding=self.padding,
        )

    def _rate(self, number: int) -> float:
        return learning_rate(self.config, self.progress.history, number=number, updates=self.updates)

    def _evaluation_due(self) -> bool:
        progress = self.progress
        if progress.update == 0 or progress.evaluated:
            return False
        every = self.config.evaluate_every or self.updates_per_epoch
        return progress.update % every == 0 or progress.update >= self.updates

    def reason_to_stop(self) -> str | None:
        """Why no further update is made, if so."""
        if self._evaluation_due():
            return None
        if self.progress.update >= self.updates:
            return f"all {self.updates} updates done"
        patience = self.config.patience
        waits = evaluations_without_improvement(self.progress.history, self.config.metric)
        if patience and waits and waits[-1] >= patience:
            return f"no better {self.config.metric} in {patience} evaluations"
        return None

    def _update(self) -> None:
        began = time.perf_counter()
        rows = self.plan[self.progress.batch : self.progress.batch + self.config.accumulate]
        count = sum(self.batches.tokens(batch) for batch in rows)
        rate = self._rate(self.progress.update + 1)
        epoch = self.progress.epoch
        loss, finite = self._backward(rows, count)
        if finite:
            self.optimizer.step(rate)
        self._advance(len(rows))
        seconds = time.perf_counter() - began
        self.progress.seconds += seconds
        self._note(loss, count, seconds, rate, finite, epoch)

    def _backward(self, rows: list[np.ndarray], count: int) -> tuple[float, bool]:
        """Gradients of the mean loss over all the batches of an update; whether all is a number."""
        self.model.train()
        for part in self.frozen:
            part.eval()  # no dropout, no new statistics: it stays as it is
        share = sampling_probability(self.config, number=self.progress.update + 1, updates=self.updates)
        self.model.zero_grad()
        total = 0.0
        for batch_rows in rows:
            batch = self.batches.collate(batch_rows, self.progress.epoch)
            taught = training_step(
                self.model,
                batch,
                self.config,
                share=share,
                forbidden=self.batches.forbidden,
                state=self.carried,
            )
            taught.loss.backward(scale=1.0 / count)
            total += float(taught.loss.plain)
            if self.batches.carries:
                self.carried = taught.state.detach()  # truncated backpropagation through time
        norm = clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        return total, math.isfinite(total) and bool(torch.isfinite(norm))

    def _advance(self, batches: int) -> None:
        progress = self.progress
        progress.update += 1
        progress.batch += batches
        if progress.batch >= len(self.plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
            self.plan = self.batches.plan(progress.epoch)
            self.carried = None

    def _note(self, loss: float, count: int, seconds: float, rate: float, finite: bool, epoch: int) -> None:
        progress = self.progress
        if not finite:
            self.carried = None  # what is not a number would go on for ever
            self._skipped()
            return
        progress.skipped_in_a_row = 0
        progress.loss_sum, progress.loss_count = progress.loss_sum + loss, progress.loss_count + count
        self.window.add(loss, count, seconds)
        row = {
            "update": progress.update,
            "epoch": epoch,
            "loss": self.window.loss,
            "learning_rate": rate,
            "tokens_per_second": self.window.tokens_per_second,
            "padding": self.padding,
            "seconds": progress.seconds,
        }
        remaining = (self.updates - progress.update) * self.window.seconds
        self.display.update({**row, "remaining": remaining}, self.updates)
        if progress.update % LOG_EVERY == 0 or progress.update == 1:
            self.folder.append(self.folder.log, [row])

    def _skipped(self) -> None:
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        self.display.say(f"update {progress.update}: the loss or its gradient is not a number; skipped")
        if progress.skipped_in_a_row >= self.config.bad_updates:
            raise DivergedError(
                f"{self.folder.path}: the loss was not a number {progress.skipped_in_a_row} updates in a row, "
                f"up to update {progress.update}; lower training.learning_rate (now {self.config.learning_rate}) "
                f"or training.clip (now {self.config.clip}) and begin again with --fresh or another --out. "
                "The weights of before are in the folder and can be used"
            )

    def _save(self) -> None:
        self.checkpoints.save(self.model, self.optimizer, self.progress, self.carried)
        self._prune()

    def _prune(self) -> None:
        """The newest stay, the best, and those that will be averaged."""
        history = self.progress.history
        best = best_evaluation(history, self.config.metric)
        evaluated = [int(row["update"]) for row in history[-self.config.average :]]
        keep = {*evaluated, int(best["update"])} if best else {*evaluated}
        self.checkpoints.prune(keep, self.config.keep)
