"""Copy, reverse, sort: one model learns all of them from strings drawn at random, and is asked about others.

The first token of a source says which is meant.
"""
# B batch

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from collections.abc import Sequence as Items
from itertools import product

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from antiphon.config.networks import ModelConfig
from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batch, source_batch
from antiphon.data.tokenizers import EOS, PAD, SOS, SPECIALS
from antiphon.models.build import build_model
from antiphon.models.model import SequenceModel
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import SearchRequest
from antiphon.sequence import Sequence, State
from antiphon.training.optimizers import build_optimizer
from antiphon.training.step import training_step

Word = tuple[int, ...]
Question = tuple[str, Word]
TASKS: dict[str, Callable[[Word], Items[int]]] = {"copy": tuple, "reverse": lambda word: word[::-1], "sort": sorted}
SIGNS = {task: len(SPECIALS) + number for number, task in enumerate(TASKS)}
LETTERS = range(len(SPECIALS) + len(TASKS), len(SPECIALS) + len(TASKS) + 6)
B, WARMUP, COOLING, LOOK_EVERY, PATIENCE = 192, 20, 30, 25, 3000
ASKED = 100  # words of each length
NEARLY, ENOUGH = 93.0, 98.0  # per cent


def answer_to(question: Question) -> list[int]:
    task, word = question
    return [*TASKS[task](word)]


def sources(questions: list[Question]) -> Sequence:
    return source_batch([[SIGNS[task], *word] for task, word in questions])


def batch_of(questions: list[Question]) -> Batch:
    answers = [answer_to(question) for question in questions]
    return Batch(
        source=sources(questions),
        inputs=Sequence.of_ids([[SOS, *answer] for answer in answers], PAD).values,
        outputs=Sequence.of_ids([[*answer, EOS] for answer in answers], PAD),
    )


def worst(model: SequenceModel, questions: list[Question]) -> float:
    """Per cent of the questions that are answered without a fault, in the task that goes worst."""

    def step(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        step = model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state

    model.eval()
    with torch.no_grad():
        start = model.start(sources(questions))
    found = greedy_search(step, start, SearchRequest(sentences=len(questions), start=SOS, end=EOS, max_length=10))
    model.train()
    right: dict[str, list[bool]] = {task: [] for task, _ in questions}
    for question, answer in zip(questions, found, strict=True):
        right[question[0]].append(answer.tokens == (*answer_to(question), EOS))
    return min(100.0 * sum(good) / len(good) for good in right.values())


class Pupil:
    """A fresh model, what it may learn from, and what it is asked: words kept away from it before, in all tasks."""

    def __init__(self, config: ModelConfig, *, tasks: Items[str], rate: float, longest: int, unseen: bool) -> None:
        seed = secrets.randbelow(2**31)
        print(f"seed {seed}")
        torch.manual_seed(seed)
        self.draw, self.tasks, self.rate = random.Random(seed), tasks, rate
        self.model = build_model(config, source_tokens=LETTERS.stop, target_tokens=LETTERS.stop).train()
        self.training = TrainingConfig(learning_rate=rate)
        self.optimizer = build_optimizer(self.training, self.model)
        self.words = [list(product(LETTERS, repeat=length)) for length in range(1, longest + 1)]
        asked = [word for words in self.words for word in self.draw.sample(words, min(len(words), ASKED))]
        self.asked = [(task, word) for task in tasks for word in asked]
        self.kept_away = {word for word in asked if len(word) > 2} if unseen else set()

    def questions(self) -> list[Question]:
        """A batch to learn from: as many short words as long ones, less those kept away."""
        words = [self.draw.choice(words) for words in self.draw.choices(self.words, k=B)]
        drawn = zip(self.draw.choices(self.tasks, k=B), words, strict=True)
        return [(task, word) for task, word in drawn if word not in self.kept_away]

    def update(self, share: float) -> None:
        """One batch, at this share of the rate."""
        loss = training_step(self.model, batch_of(self.questions()), self.training).loss
        self.model.zero_grad()
        loss.backward(scale=1.0 / loss.count)
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step(share * self.rate)

    def learn(self) -> float:
        """Its accuracy, as soon as that is enough, at the latest after `PATIENCE` updates.

        A model that nearly knows cools down: the rate falls to 0.
        """
        for done in range(1, PATIENCE + 1):
            self.update(min(1.0, done / WARMUP))
            if done % LOOK_EVERY or (right := worst(self.model, self.asked)) < NEARLY:
                continue
            if right < ENOUGH:
                for step in range(COOLING):
                    self.update(1.0 - step / COOLING)
                right = worst(self.model, self.asked)
            print(f"{right:.1f} % after {done} updates")
            if right >= ENOUGH:
                return right
        return worst(self.model, self.asked)


def learnt(
    config: ModelConfig,
    *,
    tasks: Items[str] = tuple(TASKS),
    rate: float = 0.008,
    longest: int = 4,
    unseen: bool = True,
) -> float:
    """The accuracy of a fresh model after learning, in its worst task; the seed is drawn and printed.

    Strings have 1 to `longest` of six letters. With `unseen`, those of three and more that it is asked about are kept
    away from it before, in all tasks: their answers can be known only by the rule.
    """
    return Pupil(config, tasks=tasks, rate=rate, longest=longest, unseen=unseen).learn()
