"""The steps of a recurrent decoder and of a tagger, worked out in the order of the formulas.

A plain loop over the layers of the model itself, beside the networks' own `forward`; a test binds them.
"""
# B = 1 sentence, T decoder inputs, S source steps, L layers, H encoder state, D decoder state, E embedding

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from antiphon.data.tokenizers import EOS
from antiphon.inference.step_explanation import StepPart, Sublayer
from antiphon.models.attention import AttentionContext, HardAlignment, ProjectedMemory
from antiphon.models.decoders.copying import CopyMechanism, CopyProbabilities
from antiphon.models.decoders.decoder import AttentionDecoder, BahdanauDecoder, LuongDecoder
from antiphon.models.decoders.labels import LabelDecoder
from antiphon.models.decoders.plain import PlainDecoder
from antiphon.models.decoders.static_context import StaticContext
from antiphon.sequence import Memory, State

__all__ = ["WorkedStep", "formula_of", "part_of", "work_out_copying", "work_out_labels", "work_out_recurrent"]

START, END = "s_{i-1}", "s_i"
# Of a formula in a docstring: the next formula, or words.
CLAUSE_END = r"[;,]  |,?\s+with |, \w+ = |[:;] (?=\S+ [a-z]+ )|\. [A-Z]|\n|$"


@dataclass
class WorkedStep:
    """The parts of one step, and the vectors of all steps in each space."""

    parts: list[StepPart] = field(default_factory=list)
    layers: list[Sublayer] = field(default_factory=list)
    spaces: dict[str, Tensor] = field(default_factory=dict)
    copied: CopyProbabilities | None = None

    def add(self, name: str, symbol: str, formula: str, axes: tuple[str, ...], values: Tensor) -> None:
        """Append a part."""
        self.parts.append(part_of(name, symbol, formula, axes, values))


def part_of(name: str, symbol: str, formula: str, axes: tuple[str, ...], values: Tensor) -> StepPart:
    """A part of a step."""
    assert values.dim() == len(axes)
    return StepPart(name, symbol, formula, axes, values.detach().cpu().numpy())


def formula_of(owner: object, left: str = "", *, sign: str = " =", last: bool = False) -> str:
    """The formula in the docstring of a class or function: the clause `left = ...`, or the beginning without `left`.

    `last` chooses the last of several such clauses. Empty where there is none.
    """
    start = rf"{re.escape(left + sign)} " if left else r"\A"
    clauses = re.findall(rf"(?<![\w(]){start}.+?(?={CLAUSE_END})", inspect.getdoc(owner) or "")
    return clauses[-1 if last else 0].strip() if clauses else ""


@dataclass(frozen=True)
class RecurrentStep:
    """The values of one step of a recurrent decoder; each is that of one sentence, without its batch axis."""

    before: tuple[Tensor, ...]  # each [L, D]
    after: tuple[Tensor, ...]  # each [L, D]
    word: Tensor  # [E]
    looked: dict[str, Tensor]  # scores, distribution, weights [S], context [H]
    output: Tensor  # o_i, from which the logits come [D]
    fed: Tensor  # the attentional state that enters the step [D or 0]


def work_out_recurrent(decoder: Any, memory: Memory | None, start: State, inputs: Tensor, number: int) -> WorkedStep:  # noqa: ANN401 (one of three decoders)
    """Step `number` of inputs [1, T] from the state in which the decoder starts."""
    run: Callable[[Any, Any, Tensor], list[RecurrentStep]] = STEPS[type(decoder)]
    steps = run(decoder, start, decoder.embedding(inputs)[0])
    step, worked = steps[number], WorkedStep()
    if memory is not None:
        worked.add("states", "h_j", "x_1..x_n → h_1..h_n", ("source", "h"), memory.states[0])
        worked.spaces["h"] = memory.states[0]
    worked.add("word", "e(y_{i-1})", formula_of(type(decoder.embedding)), ("e",), step.word)
    if isinstance(decoder, PlainDecoder):
        _add_static(worked, decoder, memory, steps[0])
    _add_state(worked, "before", START, "", step.before)
    if isinstance(decoder, BahdanauDecoder):
        _add_look(worked, decoder.context, step, START)
    if step.fed.numel():
        worked.add("fed", "o_{i-1}", "", ("o",), step.fed)
    formula = formula_of(type(decoder), END, last=_has_second_formula(decoder, step))
    _add_state(worked, "after", END, formula, step.after)
    if isinstance(decoder, LuongDecoder):
        _add_look(worked, decoder.context, step, END)
    if isinstance(decoder, AttentionDecoder):
        worked.add("output", "o_i", formula_of(type(decoder), "o_i"), ("o",), step.output)
    logits = decoder.output(step.output[None, None])[0, 0]
    worked.add("logits", "W s_i + b", formula_of(type(decoder.output)), ("vocabulary",), logits)
    if isinstance(decoder, AttentionDecoder) and decoder.copying is not None:
        query = torch.cat([step.after[0][-1], step.looked["context"], step.word])
        copies = start.source.copies  # type: ignore[attr-defined] # a RecurrentState
        work_out_copying(worked, decoder.copying, logits, query, step.looked["weights"], copies)
    _add_spaces(worked, steps)
    return worked


def _has_second_formula(decoder: Any, step: RecurrentStep) -> bool:  # noqa: ANN401 (one of three decoders)
    """True with input feeding (Luong), and without a context in the steps (plain): the last formula of the class."""
    if isinstance(decoder, PlainDecoder):
        return decoder.context is None or not decoder.context.every_step
    return step.fed.numel() > 0


def work_out_labels(decoder: LabelDecoder, memory: Memory, number: int) -> WorkedStep:
    """Step `number` of a tagger: an output layer on one state."""
    worked = WorkedStep(spaces={"h": memory.states[0]})
    worked.add("states", "h_j", "x_1..x_n → h_1..h_n", ("source", "h"), memory.states[0])
    over = number >= memory.states.size(1) - 1  # the state of the source's </s> is not labelled
    logits = decoder.output(memory.states[:, number : number + 1])[0, 0]
    if over:
        logits = torch.zeros_like(logits)
    else:
        worked.add("state", "h_t", "", ("h",), memory.states[0, number])
    labels = torch.arange(len(logits), device=logits.device)
    logits = logits.masked_fill((labels == EOS) != over, -torch.inf)
    worked.add("logits", "W h_t + b", formula_of(type(decoder), "p(y_t | x)"), ("vocabulary",), logits)
    return worked


def work_out_copying(
    worked: WorkedStep,
    copying: CopyMechanism,
    logits: Tensor,
    query: Tensor,
    weights: Tensor,
    copies: Tensor | None,
) -> None:
    """Add the gate g and the probability of copying from each position, by a query q [D] and weights a [S]."""
    log_p, worked.copied = copying(logits[None, None], query[None, None], weights[None, None], copies)
    worked.add("gate", "g", formula_of(type(copying), "g"), (), torch.sigmoid(copying.gate(query))[0])
    worked.add("copied", "(1 - g) a_j", "", ("source",), worked.copied.shares[0, 0])
    worked.add("mixture", "log p", formula_of(type(copying), "p(y)"), ("vocabulary",), log_p[0, 0])


def _look(context: AttentionContext, query: Tensor, source: ProjectedMemory) -> dict[str, Tensor]:
    """The attention of a query [D]: scores, weights and context, and the distribution behind a hard choice."""
    scores = context.score(query[None, None], source.keys)  # [1, 1, S]
    weights = context.alignment(scores, source.mask).weights[0, 0]
    found = {"scores": scores[0, 0], "weights": weights, "context": weights @ source.values[0]}
    if isinstance(context.alignment, HardAlignment):
        found["distribution"] = torch.softmax(scores[0, 0], dim=-1)
    return found


def _bahdanau(decoder: BahdanauDecoder, state: Any, words: Tensor) -> list[RecurrentStep]:  # noqa: ANN401
    layers, steps = state.layers, []
    for word in words:
        looked = _look(decoder.context, layers[0][0, -1], state.source)
        before, (top, layers) = layers, decoder.stack.step(torch.cat([word, looked["context"]])[None], layers)
        output = torch.tanh(decoder.combine(torch.cat([top[0], looked["context"], word])))
        steps.append(RecurrentStep(_alone(before), _alone(layers), word, looked, output, word[:0]))
    return steps


def _luong(decoder: LuongDecoder, state: Any, words: Tensor) -> list[RecurrentStep]:  # noqa: ANN401
    layers, fed, steps = state.layers, state.attended[0], []
    for word in words:
        before, (top, layers) = layers, decoder.stack.step(torch.cat([word, fed])[None], layers)
        looked = _look(decoder.context, top[0], state.source)
        output = torch.tanh(decoder.combine(torch.cat([top[0], looked["context"]])))
        steps.append(RecurrentStep(_alone(before), _alone(layers), word, looked, output, fed))
        fed = output if decoder.input_feeding else fed
    return steps


def _plain(decoder: PlainDecoder, state: Any, words: Tensor) -> list[RecurrentStep]:  # noqa: ANN401
    layers, steps = state.layers, []
    for word in words:
        before, (top, layers) = layers, decoder.stack.step(torch.cat([word, state.context[0]])[None], layers)
        steps.append(RecurrentStep(_alone(before), _alone(layers), word, {}, top[0], word[:0]))
    return steps


STEPS: dict[type, Callable[..., list[RecurrentStep]]] = {
    BahdanauDecoder: _bahdanau,
    LuongDecoder: _luong,
    PlainDecoder: _plain,
}


def _alone(layers: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The state of the only sentence."""
    return tuple(part[0] for part in layers)


def _add_state(worked: WorkedStep, name: str, symbol: str, formula: str, state: tuple[Tensor, ...]) -> None:
    worked.add(name, symbol, formula, ("layer", "s"), state[0])
    if len(state) > 1:  # an LSTM
        worked.add(f"cells_{name}", f"cell of {symbol}", "", ("layer", "cell"), state[1])


def _add_look(worked: WorkedStep, context: AttentionContext, step: RecurrentStep, query: str) -> None:
    looked, source = step.looked, ("source",)
    worked.add(
        "scores", f"score({query}, h_j)", formula_of(type(context.score), "score(s, h)"), source, looked["scores"]
    )
    if "distribution" in looked:
        formula = "softmax_j(score_ij)"
        worked.add("distribution", "p(a_i = j)", formula, source, looked["distribution"])
    worked.add("weights", "α_ij", formula_of(type(context.alignment), "α_ij"), source, looked["weights"])
    worked.add("context", "c_i", formula_of(type(context), "c_i"), ("h",), looked["context"])


def _add_static(worked: WorkedStep, decoder: PlainDecoder, memory: Memory | None, first: RecurrentStep) -> None:
    """The context of the whole answer: how it is made, where it enters."""
    static = decoder.context
    if memory is None or not isinstance(static, StaticContext):
        return
    pooled = static.pool(memory)[0]  # [L, H]
    worked.add("pooled", "c", formula_of(static.pool), ("layer", "h"), pooled)
    if static.bridge is not None:
        formula = formula_of(type(static.bridge), "s_0")
        worked.add("first", "s_0", formula, ("layer", "s"), first.before[0])
    if static.every_step:
        worked.add("context", "c", "", ("h",), pooled[-1])


def _add_spaces(worked: WorkedStep, steps: list[RecurrentStep]) -> None:
    states = [steps[0].before, *(step.after for step in steps)]
    worked.spaces["e"] = torch.stack([step.word for step in steps])
    worked.spaces["s"] = torch.cat([state[0] for state in states])
    if len(states[0]) > 1:
        worked.spaces["cell"] = torch.cat([state[1] for state in states])
    if any(part.space == "o" for part in worked.parts):
        worked.spaces["o"] = torch.stack([step.output for step in steps])
