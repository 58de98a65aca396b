"""The whole network: three factorisations of p(y | x)."""
# B batch, R rows, S source steps, T target steps, V vocabulary

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, cast

from torch import Tensor, nn

from antiphon.models.decoders.decoder import AttentionWeights, Decoder, PrefixDecoder, Step
from antiphon.models.encoders.ctc import CTCHead
from antiphon.models.encoders.encoder import Encoder
from antiphon.models.encoders.multi_source import ConcatenatedFrontEnds, SeparateFrontEnds
from antiphon.models.frontends.frontend import FrontEnd, SourceEmbedding
from antiphon.sequence import Memory, MultiSource, Sequence, State

__all__ = ["Concatenated", "EncoderDecoder", "LanguageModel", "SequenceModel"]


class SequenceModel(nn.Module, ABC):
    """p(y | x) = Π p(y_t | y_<t, x)"""

    engine = "torch"  # the library that runs it
    decoder: Decoder[Any]

    @abstractmethod
    def start(self, source: Sequence | MultiSource) -> State:
        """Read the source and return the state in which decoding starts."""

    def step(self, tokens: Tensor, state: State) -> Step[Any]:
        """Continue from a state with tokens [R, T]."""
        step: Step[Any] = self.decoder(tokens, state)
        return step

    def forward(self, source: Sequence | MultiSource, inputs: Tensor) -> Step[Any]:
        """Teacher forcing: logits for every position of inputs [B, T]."""
        return self.step(inputs, self.start(source))

    def attention_weights(self, source: Sequence | MultiSource, inputs: Tensor) -> AttentionWeights:
        """The weights of every layer and head, teacher-forced."""
        return self.decoder.attention_weights(inputs, self.start(source))

    @property
    def front_ends(self) -> list[FrontEnd]:
        """One for each source; none for a model without front ends, such as an export."""
        return []

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


class EncoderDecoder(SequenceModel):
    """source → front end → encoder → Memory → decoder, trained with an optional CTC loss on the encoder's states"""

    def __init__(
        self, *, source: nn.Module, encoder: Encoder, decoder: Decoder[Any], spelling: CTCHead | None = None
    ) -> None:
        super().__init__()
        self.source = source  # a FrontEnd, or those of several sources
        self.encoder = encoder
        self.decoder = decoder
        self.spelling = spelling

    @property
    def front_ends(self) -> list[FrontEnd]:
        if isinstance(self.source, ConcatenatedFrontEnds | SeparateFrontEnds):
            return cast("list[FrontEnd]", list(self.source.fronts))
        return [cast("FrontEnd", self.source)]

    def encode(self, source: Sequence | MultiSource) -> Memory:
        vectors: Sequence | MultiSource = self.source(source)
        memory: Memory = self.encoder(vectors)
        return replace(memory, copies=vectors.copies)

    def start(self, source: Sequence | MultiSource) -> State:
        state: State = self.decoder.start(self.encode(source))
        return state

    def attention_weights(self, source: Sequence | MultiSource, inputs: Tensor) -> AttentionWeights:
        weights = super().attention_weights(source, inputs)
        return replace(weights, source=self.encoder.attention_weights(self.source(source)))


class LanguageModel(SequenceModel):
    """p(y) = Π p(y_t | y_<t): a decoder without a memory. Only the number of rows of the source is used."""

    def __init__(self, *, decoder: Decoder[Any]) -> None:
        super().__init__()
        self.decoder = decoder

    def start(self, source: Sequence | MultiSource) -> State:
        state: State = self.decoder.start(Memory.nothing(source.mask.size(0)))
        return state


class Concatenated(SequenceModel):
    """One network reads "source <sep> target"; the source's </s> is the separator, and only the target has a loss."""

    decoder: PrefixDecoder[Any]

    def __init__(self, *, source: SourceEmbedding, decoder: PrefixDecoder[Any]) -> None:
        super().__init__()
        self.source = source
        self.decoder = decoder

    def start(self, source: Sequence | MultiSource) -> State:
        assert isinstance(source, Sequence)  # the configuration allows one source only
        empty = self.decoder.start(Memory.nothing(source.mask.size(0)))
        state: State = self.decoder.read_prefix(self.source(source), empty)
        return state
