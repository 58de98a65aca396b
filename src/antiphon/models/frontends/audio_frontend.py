"""Front ends for audio and for feature vectors: vectors of any width become vectors of the encoder's size."""
# B batch, S source steps, S' = ⌈S / k⌉ steps after subsampling by k, D width of an input vector, C channels, E size

from __future__ import annotations

from torch import nn
from torch.nn import functional

from antiphon.models.frontends.frontend import FrontEnd, unit_norm_linear
from antiphon.models.layers.dropout import Dropout
from antiphon.sequence import Sequence

__all__ = ["LinearFrontEnd", "SubsampledFrontEnd", "TimedFrontEnd"]


class TimedFrontEnd(FrontEnd):
    """A front end whose vectors stand `factor` steps apart; `seconds` is the duration of a step, None: unknown."""

    factor: int
    seconds: float | None

    def names(self, length: int) -> list[str]:
        """The time at which each vector starts: in seconds, or as the number of the step from 1."""
        steps = range(0, length, self.factor)
        if self.seconds is None:
            return [str(step + 1) for step in steps]
        return [f"{step * self.seconds:.3f}".removesuffix("0") for step in steps]


class SubsampledFrontEnd(TimedFrontEnd):
    """y = W g(g(x)), each g a gated convolution of stride 2 (a ⊙ σ(b)): S' = ⌈S / 4⌉, vector j is centred at step 4 j

    Padding is set to 0 before each convolution, as beyond the ends of a recording.
    """

    factor = 4

    def __init__(
        self, *, inputs: int, size: int, channels: int, kernel: int, dropout: float, seconds: float | None = None
    ) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a kernel of {kernel} has no middle")
        self.size = size
        self.seconds = seconds
        self.convolutions = nn.ModuleList(_strided_convolution(width, channels, kernel) for width in (inputs, channels))
        self.W = unit_norm_linear(channels, size)
        self.dropout = Dropout(dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, D] → [B, S', E]."""
        values, mask = source.values.transpose(1, 2), source.mask  # [B, D, S]
        for convolution in self.convolutions:
            masked = values.masked_fill(~mask.unsqueeze(1), 0.0)
            values = self.dropout(functional.glu(convolution(masked), dim=1))
            mask = mask[:, ::2]
        return Sequence(self.dropout(self.W(values.transpose(1, 2))), mask)


class LinearFrontEnd(TimedFrontEnd):
    """y = W [x_1; ..; x_k] + b for every k neighbours; the last group is padded with 0: S' = ⌈S / k⌉"""

    def __init__(self, *, inputs: int, size: int, stack: int, dropout: float, seconds: float | None = None) -> None:
        super().__init__()
        self.size = size
        self.seconds = seconds
        self.factor = stack  # k
        self.W = unit_norm_linear(inputs * stack, size)
        self.dropout = Dropout(dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, D] → [B, S', E]."""
        values = source.values.masked_fill(~source.mask.unsqueeze(2), 0.0)
        padded = functional.pad(values, (0, 0, 0, -values.size(1) % self.factor))
        stacked = padded.reshape(len(padded), -1, self.factor * padded.size(2))  # [B, S', k D]
        return Sequence(self.dropout(self.W(stacked)), source.mask[:, :: self.factor])


def _strided_convolution(inputs: int, channels: int, kernel: int) -> nn.Conv1d:
    """A convolution of stride 2 from D inputs to 2 C channels, of which a gated linear unit keeps C."""
    convolution = nn.Conv1d(inputs, 2 * channels, kernel, stride=2, padding=kernel // 2)
    # A larger variance makes up for the gate (Gehring et al. 2017).
    nn.init.normal_(convolution.weight, std=(4 / (kernel * inputs)) ** 0.5)
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution
