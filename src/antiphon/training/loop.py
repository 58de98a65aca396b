"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batches
from antiphon.errors import DivergedError
from antiphon.models.model import SequenceModel
from antiphon.sequence import Carried
from antiphon.training.checkpoints import Checkpoints, LoopStatus, Progress
from antiphon.training.display import Display
from antiphon.training.optimizers import Optimizer
from antiphon.training.run_folder import RunFolder
from antiphon.training.schedule import best_evaluation, learning_rate, patience_used
from antiphon.training.scheduled_sampling import sampling_probability
from antiphon.training.step import training_step

__all__ = ["Loop", "is_logged"]

LOG_EVERY = 20


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
        unigram_loss: float,
        checkpoints: Checkpoints,
        folder: RunFolder,
        display: Display,
        evaluate: Callable[[Progress, LoopStatus], None],
        check_signals: Callable[[], None],
    ) -> None:
        self.config = config
        self.model = model
        self.frozen = frozen
        self.optimizer = optimizer
        self.batches = batches
        self.carried = carried  # the state after the last window of a stream
        self.progress = progress
        self.unigram_loss = unigram_loss
        self.checkpoints = checkpoints
        self.folder = folder
        self.display = display
        self.evaluate = evaluate
        self.check_signals = check_signals
        self.recent = RecentUpdates()
        self.plan = batches.plan(progress.epoch)
        self.padding = batches.padding(self.plan)
        self.updates_per_epoch = math.ceil(len(self.plan) / config.accumulate)
        total = config.epochs * self.updates_per_epoch
        self.updates = total if config.max_updates is None else min(total, config.max_updates)

    def run(self) -> str:
        """Train; return the reason for stopping."""
        self._prune_checkpoints()  # the process may have been killed before it could
        while True:
            if self._evaluation_due():
                self._evaluate()
            if reason := self.reason_to_stop():
                return reason
            self._update()
            if self.config.checkpoint_every and self.progress.update % self.config.checkpoint_every == 0:
                self._save_checkpoint()
            self.check_signals()

    def _evaluation_due(self) -> bool:
        progress = self.progress
        if progress.update == 0 or progress.evaluated:
            return False
        every = self.config.evaluate_every or self.updates_per_epoch
        return progress.update % every == 0 or progress.update >= self.updates or self._seconds_left() <= 0

    def _evaluate(self) -> None:
        began = time.perf_counter()
        self.evaluate(self.progress, self._status())
        self.progress.seconds += time.perf_counter() - began
        self._save_checkpoint()

    def _seconds_left(self) -> float:
        minutes = self.config.max_minutes
        return math.inf if minutes is None else 60.0 * minutes - self.progress.seconds

    def reason_to_stop(self) -> str | None:
        """All updates are done, the time is over, or early stopping; None: training goes on."""
        if self._evaluation_due():
            return None
        training, progress = self.config, self.progress
        if progress.update >= self.updates:
            return f"all {progress.update} updates done"
        if progress.update and self._seconds_left() <= 0:
            return "1 minute is over" if training.max_minutes == 1 else f"{training.max_minutes:g} minutes are over"
        patience = training.patience
        if patience and patience_used(training, progress.history, self.unigram_loss) >= patience:
            return f"no better {training.metric} in {patience} evaluations"
        return None

    def _update(self) -> None:
        """Accumulate gradients over a few batches, step the optimizer, advance in the plan."""
        began, progress = time.perf_counter(), self.progress
        batches = self.plan[progress.batch : progress.batch + self.config.accumulate]
        tokens = sum(self.batches.tokens(rows) for rows in batches)
        epoch, rate = progress.epoch, self._learning_rate(progress.update + 1)
        loss, finite = self._backward(batches, tokens)
        if finite:
            self.optimizer.step(rate)
        self._advance(len(batches))
        seconds = time.perf_counter() - began
        progress.seconds += seconds
        if finite:
            self.recent.add(loss, tokens, seconds)
            self._log_update(loss, tokens, rate, epoch)
        else:
            self._skip_update()

    def _backward(self, batches: list[np.ndarray], tokens: int) -> tuple[float, bool]:
        """Compute the gradient of the mean loss over all tokens; return the summed loss and whether all is finite."""
        self.model.train()
        for part in self.frozen:
            part.eval()  # no dropout, no new statistics
        self.model.zero_grad()
        total, sampling = 0.0, 0.0
        if self.config.scheduled_sampling:
            sampling = sampling_probability(self.config, number=self.progress.update + 1, updates=self.updates)
        for rows in batches:
            batch = self.batches.collate(rows, self.progress.epoch)
            result = training_step(
                self.model,
                batch,
                self.config,
                sampling=sampling,
                forbidden=self.batches.forbidden,
                state=self.carried,
            )
            result.loss.backward(scale=1.0 / tokens)
            total += float(result.loss.plain)
            if self.batches.carries:
                self.carried = result.state.detach()  # truncated backpropagation through time
        norm = clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        return total, math.isfinite(total) and bool(torch.isfinite(norm))

    def _learning_rate(self, update: int) -> float:
        return learning_rate(self.config, self.progress.history, number=update, updates=self.updates)

    def _advance(self, batches: int) -> None:
        progress = self.progress
        progress.update += 1
        progress.batch += batches
        if progress.batch >= len(self.plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
            self.plan = self.batches.plan(progress.epoch)
            self.carried = None

    def _log_update(self, loss: float, tokens: int, rate: float, epoch: int) -> None:
        progress = self.progress
        progress.skipped_in_a_row = 0
        progress.loss_sum, progress.loss_count = progress.loss_sum + loss, progress.loss_count + tokens
        row = {
            "update": progress.update,
            "epoch": epoch,
            "loss": self.recent.loss,
            "learning_rate": rate,
            "tokens_per_second": self.recent.tokens_per_second,
            "padding": self.padding,
            "seconds": progress.seconds,
        }
        remaining = min((self.updates - progress.update) * self.recent.seconds_per_update, self._seconds_left())
        remaining = max(0.0, remaining)
        self.display.update({**row, "remaining": remaining}, self.updates)
        if is_logged(progress.update):
            self.folder.append(self.folder.log, [row])

    def _skip_update(self) -> None:
        """Count an update whose loss or gradient is not finite; raise DivergedError after too many in a row."""
        progress = self.progress
        self.carried = None  # it may hold NaN, which would never leave it
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        self.display.log(f"update {progress.update}: the loss or its gradient is not finite; skipped")
        if progress.skipped_in_a_row >= self.config.bad_updates:
            raise DivergedError(
                f"{self.folder.path}: the loss was not finite in {progress.skipped_in_a_row} updates in a row, "
                f"up to update {progress.update}; lower training.learning_rate (now {self.config.learning_rate}) "
                f"or training.clip (now {self.config.clip}) and start again with --fresh or another --out. "
                "The folder keeps usable weights from before"
            )

    @property
    def epochs(self) -> float:
        """Passes over the data so far."""
        return self.progress.epoch + self.progress.batch / len(self.plan)

    def _status(self) -> LoopStatus:
        return LoopStatus(
            epochs=self.epochs,
            learning_rate=self._learning_rate(self.progress.update),
            tokens_per_second=self.recent.tokens_per_second,
            padding=self.padding,
        )

    def save(self) -> None:
        """Save a checkpoint of the current update, unless there is one."""
        if not any(checkpoint.update == self.progress.update for checkpoint in self.checkpoints.all()):
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        self.checkpoints.save(self.model, self.optimizer, self.progress, self.carried)
        self._prune_checkpoints()

    def _prune_checkpoints(self) -> None:
        """Keep the newest checkpoints, the best, and those that will be averaged."""
        history = self.progress.history
        best = best_evaluation(history, self.config.metric)
        evaluated = [int(row["update"]) for row in history[-self.config.average :]]
        keep = {*evaluated, int(best["update"])} if best else {*evaluated}
        self.checkpoints.prune(keep, self.config.keep)


def is_logged(update: float) -> bool:
    """True for the updates that log.jsonl has: all of the first few, then every twentieth."""
    return update % LOG_EVERY == 0 or update < LOG_EVERY


class RecentUpdates:
    """Averages over the last few updates, for the progress bar and the log."""

    def __init__(self) -> None:
        self.updates: deque[tuple[float, int, float]] = deque(maxlen=LOG_EVERY)  # loss, tokens, seconds

    def add(self, loss: float, tokens: int, seconds: float) -> None:
        self.updates.append((loss, tokens, seconds))

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens, _ in self.updates)

    @property
    def seconds(self) -> float:
        return sum(seconds for _, _, seconds in self.updates)

    @property
    def loss(self) -> float:
        """The training loss per token."""
        return sum(loss for loss, _, _ in self.updates) / max(1, self.tokens)

    @property
    def tokens_per_second(self) -> float:
        """NaN before the first update of a resumed process."""
        return self.tokens / max(1e-9, self.seconds) if self.updates else math.nan

    @property
    def seconds_per_update(self) -> float:
        return self.seconds / max(1, len(self.updates))
