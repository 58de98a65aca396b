"""Fronts for sounds and for vectors from files: vectors of any width become vectors of the encoder's."""
# B batch, S source steps, S' steps that are left, D width of a vector, C channels, E size

from __future__ import annotations

from torch import nn
from torch.nn import functional

from antiphon.config.sources import LinearConfig, SubsampledConfig
from antiphon.models.layers.blocks import unit_linear
from antiphon.sequence import Sequence

__all__ = ["LinearFront", "SubsampledFront"]


class SubsampledFront(nn.Module):
    """y = W g(g(x)), each g a gated convolution of stride 2 (a ⊙ σ(b)): S' = ⌈S / 4⌉, the vector j stands at step 4 j

    Padding is 0 before each convolution, as beyond the ends of a sound.
    """

    factor = 4  # steps from one vector to the next

    def __init__(self, *, config: SubsampledConfig, inputs: int, size: int, seconds: float | None = None) -> None:
        super().__init__()
        if config.kernel % 2 == 0:
            raise ValueError(f"a kernel of {config.kernel} has no middle")
        self.size = size
        self.seconds = seconds
        self.convolutions = nn.ModuleList(
            _halving(width, config.channels, config.kernel) for width in (inputs, config.channels)
        )
        self.W = unit_linear(config.channels, size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, D] become [B, S', E]."""
        values, mask = source.values.transpose(1, 2), source.mask  # [B, D, S]
        for convolution in self.convolutions:
            seen = values.masked_fill(~mask.unsqueeze(1), 0.0)
            values = self.dropout(functional.glu(convolution(seen), dim=1))
            mask = mask[:, ::2]
        return Sequence(self.dropout(self.W(values.transpose(1, 2))), mask)

    def names(self, length: int) -> list[str]:
        """Where each of the S' vectors of so many steps S stands: in seconds, or the number of the step from 1."""
        return [_place(step, self.seconds) for step in range(0, length, self.factor)]

    def grid(self, length: int) -> None:  # noqa: ARG002 (pictures have one)
        """There are no rows and columns here."""
        return


class LinearFront(nn.Module):
    """y = W [x_1; ..; x_k] + b for every k neighbours; the last group is filled up with 0: S' = ⌈S / k⌉"""

    def __init__(self, *, config: LinearConfig, inputs: int, size: int, seconds: float | None = None) -> None:
        super().__init__()
        self.size = size
        self.seconds = seconds
        self.factor = config.stack  # steps from one vector to the next
        self.W = unit_linear(inputs * config.stack, size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source: Sequence) -> Sequence:
        """Values [B, S, D] become [B, S', E]."""
        values = source.values.masked_fill(~source.mask.unsqueeze(2), 0.0)
        filled = functional.pad(values, (0, 0, 0, -values.size(1) % self.factor))
        stacked = filled.reshape(len(filled), -1, self.factor * filled.size(2))  # [B, S', k D]
        return Sequence(self.dropout(self.W(stacked)), source.mask[:, :: self.factor])

    def names(self, length: int) -> list[str]:
        """Where each of the S' vectors of so many steps S begins: in seconds, or the number of the step from 1."""
        return [_place(step, self.seconds) for step in range(0, length, self.factor)]

    def grid(self, length: int) -> None:  # noqa: ARG002 (pictures have one)
        """There are no rows and columns here."""
        return


def _halving(inputs: int, channels: int, kernel: int) -> nn.Conv1d:
    """A convolution of stride 2 with twice the channels, for a gate takes half of them."""
    convolution = nn.Conv1d(inputs, 2 * channels, kernel, stride=2, padding=kernel // 2)
    # The gate halves what it lets through (Gehring et al. 2017).
    nn.init.normal_(convolution.weight, std=(4 / (kernel * inputs)) ** 0.5)
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution


def _place(step: int, seconds: float | None) -> str:
    return str(step + 1) if seconds is None else f"{step * seconds:.3f}".removesuffix("0")
