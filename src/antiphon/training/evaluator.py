"""What happens at an evaluation: real decoding of dev, figures, samples, the best weights kept."""

from __future__ import annotations

from antiphon.config.schema import Config
from antiphon.data.noise import as_read
from antiphon.data.pairs import Example
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.evaluation.likelihood import LIKELIHOOD_METRICS, likelihood, likelihood_value
from antiphon.inference.generator import Generator
from antiphon.model_folder import save_weights
from antiphon.training.display import DevSample, Display
from antiphon.training.progress import LoopStatus, Progress, best_evaluation
from antiphon.training.run_folder import RunFolder

__all__ = ["Evaluator", "evenly_spaced"]

SAMPLES = 3
PROMPT, CHARACTERS = 4, 12  # tokens of a text that a language model is given, to see how it goes on
WRITTEN = 60  # and so many it may write


def evenly_spaced(examples: list[Example], count: int) -> list[Example]:
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
        self.decoded = evenly_spaced(dev, config.training.dev_examples)
        self.folder = folder
        self.display = display
        wanted = dict.fromkeys([config.training.metric, *config.evaluation.metrics])
        self.metrics: list[str] = [name for name in wanted if name != "loss"]  # which is always there
        self.compared: list[str] = [name for name in wanted if name not in LIKELIHOOD_METRICS]

    def __call__(self, progress: Progress, moment: LoopStatus) -> None:
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

    def figures(self) -> tuple[dict[str, float], list[DevSample]]:
        """dev_loss, perplexity and the chosen metrics of the weights as they are; a few answers."""
        self.generator.model.eval()
        found = likelihood(self.generator, self.dev, self.config.decoding.batch_size)
        of_loss = dict.fromkeys(["perplexity", *(name for name in self.metrics if name in LIKELIHOOD_METRICS)])
        figures = {name: likelihood_value(found, name) for name in of_loss}
        figures = {"dev_loss": likelihood_value(found, "loss"), **figures}
        if self.config.data.source is None:
            return figures, self._continuations()
        if not self.compared:
            return figures, self._samples([])
        decoded = evaluate_examples(self.generator, self.decoded, metrics=self.compared, beam=1, samples=0)
        return {**figures, **{name: one.value for name, one in decoded.values.items()}}, self._samples(decoded.outputs)

    def _samples(self, outputs: list[str]) -> list[DevSample]:
        """The first few with their answers, also when no metric asked for answers."""
        shown = self.decoded[:SAMPLES]
        if not outputs:
            answers = self.generator.generate([example.source for example in shown], beam=1, weights=False)
            outputs = [answer.text for answer in answers]
        return [
            DevSample(as_read(self.generator.source, example.source), output, example.references)
            for example, output in zip(shown, outputs[:SAMPLES], strict=True)
        ]

    def _continuations(self) -> list[DevSample]:
        """The beginnings of a few texts, and how a language model goes on."""
        tokenizer = self.generator.target_tokenizer
        texts = evenly_spaced([example for example in self.dev if example.references[0].strip()], SAMPLES)
        length = CHARACTERS if tokenizer.spells else PROMPT
        prompts = [tokenizer.decode(tokenizer.encode(example.references[0])[:length]) for example in texts]
        longest = min(WRITTEN, self.config.decoding.max_length)
        answers = self.generator.generate(prompts, beam=1, max_length=longest, weights=False)
        return [DevSample(prompt, answer.text) for prompt, answer in zip(prompts, answers, strict=True)]

    def _keep(self, progress: Progress, row: dict[str, float], samples: list[DevSample]) -> None:
        best = best_evaluation(progress.history, self.config.training.metric)
        if best is row:
            save_weights(self.folder.path, self.generator.model.state_dict())
        self.folder.append(
            self.folder.samples,
            [
                {
                    "update": progress.update,
                    "source": sample.source,
                    "references": list(sample.references),
                    "output": sample.output,
                }
                for sample in samples
            ],
        )
        self.folder.write_metrics(progress.history, int(best["update"]) if best else None)
        self.display.evaluation(row, self.metrics, best is row, samples)
