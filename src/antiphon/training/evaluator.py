"""What happens at an evaluation: real decoding of dev, figures, samples, the best weights kept."""

from __future__ import annotations

from antiphon.config.schema import Config
from antiphon.decoding.generator import Generator
from antiphon.evaluation.evaluate import evaluate_examples, loss_estimate, perplexity
from antiphon.folder import save_weights
from antiphon.sources.pairs import Example
from antiphon.training.display import Display
from antiphon.training.progress import Moment, Progress, best_row
from antiphon.training.run_folder import RunFolder

__all__ = ["Evaluator", "spread"]

SAMPLES = 3


def spread(examples: list[Example], count: int) -> list[Example]:
    """So many examples at even distances: dev may be sorted."""
    count = min(count, len(examples))
    return [examples[number * len(examples) // count] for number in range(count)]


class Evaluator:
    """Called by the loop; adds one row to the history."""

    def __init__(
        self, *, config: Config, generator: Generator, dev: list[Example], folder: RunFolder, display: Display
    ) -> None:
        self.config = config
        self.generator = generator
        self.dev = dev
        self.decoded = spread(dev, config.training.dev_examples)
        self.folder = folder
        self.display = display
        wanted = dict.fromkeys([config.training.metric, *config.evaluation.metrics])
        self.metrics: list[str] = [name for name in wanted if name not in ("loss", "perplexity")]

    def __call__(self, progress: Progress, moment: Moment) -> None:
        figures, samples = self.figures()
        row = {
            "update": progress.update,
            "epoch": round(moment.epochs, 4),
            "train_loss": progress.mean_loss,
            **figures,
            "learning_rate": moment.learning_rate,
            "tokens_per_second": moment.tokens_per_second,
            "padding": moment.padding,
            "seconds": progress.seconds,
        }
        progress.history.append(row)
        progress.loss_sum, progress.loss_count = 0.0, 0
        self._keep(progress, row, samples)

    def figures(self) -> tuple[dict[str, float], list[tuple[Example, str]]]:
        """dev_loss, perplexity and the chosen metrics of the weights as they are; a few answers."""
        self.generator.model.eval()
        loss = loss_estimate(self.generator, self.dev, self.config.decoding.batch_size, samples=0)
        decoded = evaluate_examples(self.generator, self.decoded, metrics=self.metrics, beam=1, samples=0)
        figures = {
            "dev_loss": loss.value,
            "perplexity": perplexity(loss.value),
            **{name: one.value for name, one in decoded.values.items()},
        }
        return figures, self._samples(decoded.outputs)

    def _samples(self, outputs: list[str]) -> list[tuple[Example, str]]:
        """The first few with their answers, also when no metric asked for answers."""
        shown = self.decoded[:SAMPLES]
        if not outputs:
            answers = self.generator.generate([example.source for example in shown], beam=1, weights=False)
            outputs = [answer.text for answer in answers]
        return list(zip(shown, outputs[:SAMPLES], strict=True))

    def _keep(self, progress: Progress, row: dict[str, float], samples: list[tuple[Example, str]]) -> None:
        best = best_row(progress.history, self.config.training.metric)
        if best is row:
            save_weights(self.folder.path, self.generator.model.state_dict())
        self.folder.append(
            self.folder.samples,
            [
                {
                    "update": progress.update,
                    "source": example.source,
                    "references": list(example.references),
                    "output": output,
                }
                for example, output in samples
            ],
        )
        self.folder.write_metrics(progress.history, int(best["update"]) if best else None)
        shown = [(example.source, output, output in example.references) for example, output in samples]
        self.display.evaluation(row, self.metrics, best is row, shown)
