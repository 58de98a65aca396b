"""The whole network: three ways to write p(y | x)."""
# B batch, S source steps, T target steps, V vocabulary

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, cast

from torch import Tensor, nn

from antiphon.models.decoders.decoder import Decoder, Looks, Reader, Step
from antiphon.models.encoders.ctc import Spelling
from antiphon.models.encoders.encoder import Encoder, Front
from antiphon.models.encoders.multi_source import ApartFronts, JoinedFronts
from antiphon.models.layers.embedding import SourceEmbedding
from antiphon.sequence import Memory, Sequence, Several, State

__all__ = ["Concatenated", "EncoderDecoder", "LanguageModel", "SequenceModel"]


class SequenceModel(nn.Module, ABC):
    """p(y | x) = Π p(y_t | y_<t, x)"""

    engine = "torch"  # what computes it
    decoder: Decoder[Any]

    @abstractmethod
    def start(self, source: Sequence | Several) -> State:
        """Reads the source; the state from which decoding begins."""

    def step(self, tokens: Tensor, state: State) -> Step[Any]:
        """Goes on from a state with tokens [R, T]."""
        step: Step[Any] = self.decoder(tokens, state)
        return step

    def forward(self, source: Sequence | Several, inputs: Tensor) -> Step[Any]:
        """Teacher forcing: logits for every position of inputs [B, T]."""
        return self.step(inputs, self.start(source))

    def look(self, source: Sequence | Several, inputs: Tensor) -> Looks:
        """Where the model looks at every position, layer and head."""
        return self.decoder.look(inputs, self.start(source))

    @property
    def fronts(self) -> list[Front]:
        """The front of each source; none where a network reads tokens itself, or is not ours to look into."""
        return []

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


class EncoderDecoder(SequenceModel):
    """source → front → encoder → Memory → decoder; `source` is the front, or those of several sources"""

    def __init__(
        self, *, source: nn.Module, encoder: Encoder, decoder: Decoder[Any], spelling: Spelling | None = None
    ) -> None:
        super().__init__()
        self.source = source
        self.encoder = encoder
        self.decoder = decoder
        self.spelling = spelling

    @property
    def fronts(self) -> list[Front]:
        """The front of each source."""
        parts = list(self.source.fronts) if isinstance(self.source, JoinedFronts | ApartFronts) else [self.source]
        return cast("list[Front]", parts)

    def remember(self, source: Sequence | Several) -> Memory:
        """What the encoder knows of a source."""
        vectors: Sequence | Several = self.source(source)
        memory: Memory = self.encoder(vectors)
        return replace(memory, copies=vectors.copies)

    def start(self, source: Sequence | Several) -> State:
        state: State = self.decoder.start(self.remember(source))
        return state

    def look(self, source: Sequence | Several, inputs: Tensor) -> Looks:
        return replace(super().look(source, inputs), source=self.encoder.look(self.source(source)))


class LanguageModel(SequenceModel):
    """p(y) = Π p(y_t | y_<t): a decoder that is told nothing. Of the source only the number of rows counts."""

    def __init__(self, *, decoder: Decoder[Any]) -> None:
        super().__init__()
        self.decoder = decoder

    def start(self, source: Sequence | Several) -> State:
        state: State = self.decoder.start(Memory.nothing(source.mask.size(0)))
        return state


class Concatenated(SequenceModel):
    """One network reads "source <sep> target"; the source's </s> is the separator, and only the target has a loss."""

    decoder: Reader[Any]

    def __init__(self, *, source: SourceEmbedding, decoder: Reader[Any]) -> None:
        super().__init__()
        self.source = source
        self.decoder = decoder

    def start(self, source: Sequence | Several) -> State:
        assert isinstance(source, Sequence)  # several are refused before
        state: State = self.decoder.read(self.source(source), self.decoder.start(Memory.nothing(source.mask.size(0))))
        return state
