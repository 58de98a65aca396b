"""One step of a model, worked out: the textbook's worked figure with the numbers of this model."""
# T decoder inputs, V vocabulary

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.config.networks import AttentionConfig, EncoderDecoderConfig, ModelConfig, StaticContextConfig
from antiphon.config.yaml_text import write_value
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import UserError
from antiphon.inference.engine import TorchEngine
from antiphon.inference.generator import Generator
from antiphon.inference.given_answer import answer_tokens, read_input
from antiphon.inference.inputs import EncodedInput
from antiphon.inference.step_explanation import CandidateToken, StepExplanation
from antiphon.inference.worked_blocks import work_out_blocks
from antiphon.inference.worked_steps import WorkedStep, work_out_labels, work_out_recurrent
from antiphon.models.decoders.decoder import Decoder
from antiphon.models.decoders.labels import LabelDecoder
from antiphon.models.decoders.transformer_decoder import DecoderBlock, TransformerDecoder
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.sequence import MultiSource, Sequence

__all__ = ["explain_step", "explainable_network", "work_out"]

SHOWN_KEYS = (
    "kind", "score", "alignment", "feed", "bridge", "cell", "input_feeding", "layers", "heads", "order",
)  # fmt: skip


def explain_step(
    generator: Generator,
    text: str,
    position: int,
    *,
    answer: str | list[int] | None = None,
    layer: int | None = None,
    head: int | None = None,
    count: int = 10,
) -> StepExplanation:
    """The step that writes the token at a position (from 0) of the answer to a text, or of a given answer.

    `answer` is a text or the ids of its tokens. `layer` and `head` (from 1) choose the attention of a Transformer that
    is worked out: None is the last layer and the first head. `count` is the number of most probable tokens.
    """
    model = explainable_network(generator)
    layer, head = _chosen_head(model, layer, head)
    forced = _forced(generator, text, position, answer)
    if count < 1:
        raise UserError(f"count: must be at least 1, not {count}")
    with torch.inference_mode():
        source, inputs = source_batch([forced.encoded.source]), torch.tensor([forced.inputs])
        worked = work_out(model, source, inputs, forced.step, (layer or 1) - 1, (head or 1) - 1)
        log_probs = torch.log_softmax(model(source, inputs).logits[0, forced.step], dim=-1)
    codec, target = generator.codec, generator.codec.target
    symbols = target.symbols(forced.target)
    return StepExplanation(
        kind=generator.config.model.kind,
        decoder=generator.config.model.decoder.kind,
        position=position,
        step=forced.step,
        token=symbols[position],
        token_id=forced.target[position],
        tokens=symbols,
        inputs=target.symbols(forced.inputs),
        source_tokens=[] if generator.config.data.source is None else codec.source_symbols(forced.encoded),
        config=config_line(generator.config.model),
        notes=notes(generator.config.model),
        parts=worked.parts,
        log_probs=log_probs.numpy(),
        most_probable=_most_probable(target, log_probs, worked, min(count, target.size)),
        layers=worked.layers,
        layer=layer,
        head=head,
        spaces={name: vectors.numpy() for name, vectors in worked.spaces.items()},
    )


def work_out(
    model: SequenceModel, source: Sequence | MultiSource, inputs: Tensor, step: int, layer: int = 0, head: int = 0
) -> WorkedStep:
    """Step `step` of a model that reads inputs [1, T], teacher-forced; layer and head count from 0."""
    memory = model.encode(source) if isinstance(model, EncoderDecoder) else None
    start: Any = model.start(source) if memory is None else model.decoder.start(memory)
    if isinstance(model.decoder, LabelDecoder) and memory is not None:
        return work_out_labels(model.decoder, memory, step)
    if isinstance(model.decoder, TransformerDecoder):
        return work_out_blocks(model.decoder, memory, start, inputs, step, layer, head)
    return work_out_recurrent(model.decoder, memory, start, inputs, step)


@dataclass(frozen=True)
class ForcedAnswer:
    """An input and the answer that the model is made to write."""

    encoded: EncodedInput
    target: list[int]
    inputs: list[int]  # of the decoder
    step: int  # the index of the input that the step reads


def _forced(generator: Generator, text: str, position: int, answer: str | list[int] | None) -> ForcedAnswer:
    encoded = read_input(generator, text)
    target = answer_tokens(generator, encoded, answer)
    before, longest = [generator.codec.start, *encoded.prompt], generator.codec.context_length
    steps = len(target) if longest is None else min(len(target), longest - len(before) + 1)
    if steps < 1:
        raise UserError(
            f"{text[:40]!r}: {len(encoded.prompt)} tokens, but this model reads {longest} at a time; shorten it"
        )
    if not 0 <= position < steps:
        at_once = "" if steps == len(target) else f", of which {steps} can be read at once"
        raise UserError(f"position: the answer has {len(target)} tokens{at_once}; choose one of them")
    return ForcedAnswer(encoded, target, [*before, *target[: steps - 1]], len(before) - 1 + position)


def explainable_network(generator: Generator) -> SequenceModel:
    """The network, if its decoder is one of ours; UserError for an export or an ensemble."""
    model = generator.model if isinstance(generator.engine, TorchEngine) else None
    if model is None or not isinstance(getattr(model, "decoder", None), Decoder):
        what = (
            "an ensemble"
            if isinstance(generator.engine, TorchEngine) and generator.engine.name == "torch"
            else "an export"
        )
        raise UserError(f"{what} has no steps that could be worked out; explain a step of the run it was made from")
    return model


def _chosen_head(model: SequenceModel, layer: int | None, head: int | None) -> tuple[int | None, int | None]:
    """The layer and head whose attention is worked out, from 1; None for a decoder that is no Transformer."""
    if not isinstance(model.decoder, TransformerDecoder):
        if layer is not None or head is not None:
            raise UserError("layer, head: the decoder of this model is no Transformer; leave them out")
        return None, None
    [attention] = {block.attention.heads for block in model.decoder.blocks if isinstance(block, DecoderBlock)}
    numbers = {"layer": (layer, len(model.decoder.blocks)), "head": (head, attention)}
    if problems := [
        f"{name}: the decoder has {most}; choose one from 1"
        for name, (chosen, most) in numbers.items()
        if chosen is not None and not 1 <= chosen <= most
    ]:
        raise UserError(problems)
    return layer or len(model.decoder.blocks), head or 1


def _most_probable(target: Tokenizer, log_probs: Tensor, worked: WorkedStep, count: int) -> list[CandidateToken]:
    """The most probable tokens; of a model that copies with the share of their probability that is copied."""
    best = torch.topk(log_probs, count)
    copied: list[float | None] = [None] * count
    if worked.copied is not None:
        shares = worked.copied.of(best.indices[None])[0].sum(dim=-1) / best.values.exp()  # [count]
        copied = shares.clamp(max=1.0).tolist()
    rows = zip(target.symbols(best.indices.tolist()), best.indices.tolist(), best.values.tolist(), copied, strict=True)
    return [CandidateToken(*row) for row in rows]


def config_line(model: ModelConfig) -> str:
    """The keys of the configuration that make the step what it is, as YAML on one line."""
    found: dict[str, Any] = {} if isinstance(model, EncoderDecoderConfig) else {"kind": model.kind}
    for name in ("context", "decoder"):
        if (section := getattr(model, name, None)) is not None:
            values = {key: getattr(section, key, None) for key in SHOWN_KEYS}
            values["alignment"] = getattr(values["alignment"], "kind", None)
            found[name] = {key: value for key, value in values.items() if value not in (None, False)}
    if getattr(model, "copying", False):
        found["copy"] = True
    return f"model: {write_value(found)}"


def notes(model: ModelConfig) -> list[str]:
    """Sentences on what is peculiar to this kind of step."""
    context = getattr(model, "context", None)
    found = []
    if isinstance(context, StaticContextConfig):
        found.append("The decoder sees the source only through c, the same vector for a short and for a long source.")
        found.append(FEEDS[context.feed])
    if isinstance(context, AttentionConfig) and context.alignment.kind == "hard":
        found.append("The position was drawn from the distribution in training; in use it is the most probable one.")
    if model.kind == "concatenated":
        found.append("One network reads the source, then writes the answer; there is no separate encoder.")
    if model.kind == "tagger":
        found.append(
            "A label depends on the state of its token alone, not on other labels; after the last, </s> is certain."
        )
    if getattr(model, "copying", False):
        found.append("g is the share of the vocabulary; what cannot be copied, such as </s>, goes back to it.")
    return found


FEEDS = {
    "start": "c sets the first state s_0; no later step sees it again.",
    "every-step": "c is an input of every step.",
    "both": "c sets the first state s_0 and is an input of every step.",
}
