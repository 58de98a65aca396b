"""Evaluation while training: decode dev, compute metrics, keep the best weights."""

from __future__ import annotations

from typing import TypeVar

from antiphon.config.schema import Config
from antiphon.data.pairs import Example
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.evaluation.likelihood import LIKELIHOOD_METRICS, likelihood, likelihood_value
from antiphon.inference.generator import Generator
from antiphon.model_folder import save_weights
from antiphon.training.checkpoints import LoopStatus, Progress
from antiphon.training.display import DevSample, Display
from antiphon.training.run_folder import RunFolder
from antiphon.training.schedule import best_evaluation

__all__ = ["Evaluator", "evenly_spaced"]

SAMPLES = 3
PROMPT_TOKENS, PROMPT_CHARACTERS = 4, 12  # of a text that a language model continues
CONTINUATION = 60  # tokens it may write


Item = TypeVar("Item")


def evenly_spaced(items: list[Item], count: int) -> list[Item]:
    """Up to `count` items at even distances: dev may be sorted."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


class Evaluator:
    """Called by the loop; adds one row to the history."""

    def __init__(
        self, *, config: Config, generator: Generator, dev: list[Example], folder: RunFolder, display: Display
    ) -> None:
        self.config = config
        self.generator = generator
        self.dev = dev
        self.decoded = evenly_spaced(dev, config.training.dev_examples)
        self.folder = folder
        self.display = display
        wanted = dict.fromkeys([config.training.metric, *config.evaluation.metrics])
        self.metrics: list[str] = [name for name in wanted if name != "loss"]  # which is always there
        self.compared: list[str] = [name for name in wanted if name not in LIKELIHOOD_METRICS]

    def __call__(self, progress: Progress, status: LoopStatus) -> None:
        values, samples = self.evaluate()
        row = {
            "update": progress.update,
            "epoch": round(status.epochs, 4),
            "train_loss": progress.mean_loss,
            **values,
            "learning_rate": status.learning_rate,
            "tokens_per_second": status.tokens_per_second,
            "padding": status.padding,
            "seconds": progress.seconds,
        }
        progress.history.append(row)
        progress.loss_sum, progress.loss_count = 0.0, 0
        self._record(progress, row, samples)

    def evaluate(self) -> tuple[dict[str, float], list[DevSample]]:
        """dev_loss, perplexity and the configured metrics of the current weights, and a few outputs."""
        self.display.evaluating()
        self.generator.model.eval()
        statistics = likelihood(self.generator, self.dev, self.config.decoding.batch_size)
        names = dict.fromkeys(["perplexity", *(name for name in self.metrics if name in LIKELIHOOD_METRICS)])
        values = {"dev_loss": likelihood_value(statistics, "loss")}
        values |= {name: likelihood_value(statistics, name) for name in names}
        if self.config.data.source is None:
            return values, self._continuations()
        if not self.compared:
            return values, self._samples([])
        decoded = evaluate_examples(self.generator, self.decoded, metrics=self.compared, beam=1, resamples=0)
        values |= {name: estimate.value for name, estimate in decoded.values.items()}
        return values, self._samples(decoded.outputs)

    def _samples(self, outputs: list[str]) -> list[DevSample]:
        """A few examples from all of dev with their outputs, which are decoded if no metric needed them."""
        shown = evenly_spaced(self.decoded, SAMPLES)
        if outputs:
            outputs = evenly_spaced(outputs, SAMPLES)
        else:
            answers = self.generator.generate([example.source for example in shown], beam=1, weights=False)
            outputs = [answer.text for answer in answers]
        normalize = self.generator.target_tokenizer.normalize
        return [
            DevSample(self.generator.source.shown(example.source), output, tuple(map(normalize, example.references)))
            for example, output in zip(shown, outputs, strict=True)
        ]

    def _continuations(self) -> list[DevSample]:
        """The beginnings of a few texts, continued by a language model."""
        tokenizer = self.generator.target_tokenizer
        texts = evenly_spaced([example for example in self.dev if example.references[0].strip()], SAMPLES)
        length = PROMPT_CHARACTERS if tokenizer.spells else PROMPT_TOKENS
        prompts = [tokenizer.decode(tokenizer.encode(example.references[0])[:length]) for example in texts]
        longest = min(CONTINUATION, self.config.decoding.max_length)
        answers = self.generator.generate(prompts, beam=1, max_length=longest, weights=False)
        return [DevSample(prompt, answer.text) for prompt, answer in zip(prompts, answers, strict=True)]

    def _record(self, progress: Progress, row: dict[str, float], samples: list[DevSample]) -> None:
        """Write samples and metrics, save the weights if they are the best so far, and show the evaluation."""
        best = best_evaluation(progress.history, self.config.training.metric)
        if best is row:
            save_weights(self.folder.path, self.generator.model.state_dict(), progress.update)
        lines = [
            {"update": progress.update, "source": source, "references": list(references), "output": output}
            for source, output, references in samples
        ]
        self.folder.append(self.folder.samples, lines)
        self.folder.write_metrics(progress.history, int(best["update"]) if best else None)
        self.display.evaluation(row, self.metrics, best is row, samples)
