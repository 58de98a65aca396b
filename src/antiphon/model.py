"""The whole network."""
# B batch, S source steps, T target steps, V vocabulary

from __future__ import annotations

from torch import Tensor, nn

from antiphon.decoders.state import Decoder, RecurrentState, Step
from antiphon.sequence import Sequence

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module):
    """p(y | x) = Π p(y_t | y_<t, x):  source → encoder → Memory → decoder"""

    def __init__(self, *, source: nn.Module, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.source = source
        self.encoder = encoder
        self.decoder = decoder

    def start(self, source: Sequence) -> RecurrentState:
        """Reads the source; the state from which decoding begins."""
        return self.decoder.start(self.encoder(self.source(source)))

    def step(self, tokens: Tensor, state: RecurrentState) -> Step:
        """Goes on from a state with tokens [R, T]."""
        step: Step = self.decoder(tokens, state)
        return step

    def forward(self, source: Sequence, inputs: Tensor) -> Step:
        """Teacher forcing: logits for every position of inputs [B, T]."""
        return self.step(inputs, self.start(source))

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())
