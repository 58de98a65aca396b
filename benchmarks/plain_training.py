"""A plain training loop of torch, as one would write it first: a Transformer, or an LSTM with attention.

    python benchmarks/plain_training.py transformer|lstm BATCHES.json FIRST THREADS

BATCHES.json is written by training.py: the size of the vocabulary, and batches of sources and targets as ids. Prints
the target tokens, the seconds and the number of the updates after the first FIRST.
"""
# B batch, S source steps, T target steps, D size, V vocabulary

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

Batch = tuple[list[list[int]], list[list[int]]]  # sources and targets
PAD, SOS, EOS = 0, 1, 2  # of the ids in BATCHES.json
LAYERS, HEADS, SIZE, FEEDFORWARD, LONGEST = 3, 4, 256, 1024, 256
LSTM_LAYERS, LSTM_SIZE = 2, 512


class Transformer(nn.Module):
    """nn.Transformer with one embedding table for source, target and output."""

    dropout, label_smoothing = 0.1, 0.1

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, SIZE, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=SIZE**-0.5)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.drop = nn.Dropout(self.dropout)
        self.network = nn.Transformer(
            SIZE, HEADS, LAYERS, LAYERS, FEEDFORWARD, self.dropout, batch_first=True, norm_first=True
        )
        self.positions: Tensor
        self.register_buffer("positions", sinusoids())

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.drop(self.table(ids) * math.sqrt(SIZE) + self.positions[: ids.size(1)])
        return embedded

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """The states [B, T, D] before the output layer."""
        steps = inputs.size(1)
        future = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        padding = source == PAD
        states: Tensor = self.network(
            self.embed(source), self.embed(inputs), tgt_mask=future, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return states

    def logits(self, states: Tensor) -> Tensor:
        return linear(states, self.table.weight, self.bias)


class RecurrentNetwork(nn.Module):
    """A bidirectional LSTM, and an LSTM with bilinear attention and input feeding."""

    dropout, label_smoothing = 0.2, 0.0

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        size = LSTM_SIZE
        self.source, self.target = (nn.Embedding(vocabulary, size, padding_idx=PAD) for _ in range(2))
        self.drop = nn.Dropout(self.dropout)
        self.encoder = nn.LSTM(size, size // 2, LSTM_LAYERS, dropout=self.dropout, bidirectional=True, batch_first=True)
        self.bridge = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.decoder = nn.LSTM(2 * size, size, LSTM_LAYERS, dropout=self.dropout, batch_first=True)
        self.score = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(2 * size, size)
        self.output = nn.Linear(size, vocabulary)

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """The attentional states [B, T, D] before the output layer."""
        real = source != PAD
        packed = pack_padded_sequence(
            self.drop(self.source(source)), real.sum(1), batch_first=True, enforce_sorted=False
        )
        written, ends = self.encoder(packed)
        memory, _ = pad_packed_sequence(written, batch_first=True, total_length=source.size(1))  # [B, S, D]
        batch = len(source)
        hidden, cell = (
            torch.tanh(dense(end.view(LSTM_LAYERS, 2, batch, -1).transpose(1, 2).reshape(LSTM_LAYERS, batch, -1)))
            for dense, end in zip(self.bridge, ends, strict=True)
        )
        keys = self.score(memory)
        embedded = self.drop(self.target(inputs))
        attentional = embedded.new_zeros(batch, 1, LSTM_SIZE)
        states = []
        for step in range(inputs.size(1)):
            fed = torch.cat([embedded[:, step : step + 1], attentional], dim=-1)
            query, (hidden, cell) = self.decoder(fed, (hidden, cell))  # [B, 1, D]
            scores = torch.bmm(query, keys.transpose(1, 2)).masked_fill(~real.unsqueeze(1), -math.inf)
            context = torch.bmm(scores.softmax(-1), memory)
            attentional = self.drop(torch.tanh(self.combine(torch.cat([context, query], dim=-1))))
            states.append(attentional)
        return torch.cat(states, dim=1)

    def logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.output(states)
        return logits


def sinusoids() -> Tensor:
    """Sinusoidal positions [LONGEST, SIZE]"""
    angles = torch.arange(LONGEST)[:, None] * torch.exp(torch.arange(0, SIZE, 2) * (-math.log(1e4) / SIZE))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def update(model: Transformer | RecurrentNetwork, optimizer: torch.optim.Optimizer, batch: Batch) -> int:
    """One update on a batch; return its target tokens, </s> counted."""
    sources, targets = batch
    source = padded([[*row, EOS] for row in sources])
    inputs, outputs = padded([[SOS, *row] for row in targets]), padded([[*row, EOS] for row in targets])
    real = outputs != PAD
    optimizer.zero_grad()
    logits = model.logits(model(source, inputs)[real])
    loss = cross_entropy(logits, outputs[real], label_smoothing=model.label_smoothing)
    torch.autograd.backward(loss)
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return int(real.sum())


def main(kind: str, batches: str, first: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    data = json.loads(Path(batches).read_text("utf-8"))
    size = data["vocabulary"]
    model = Transformer(size) if kind == "transformer" else RecurrentNetwork(size)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for batch in data["batches"][: int(first)]:
        update(model, optimizer, batch)
    measured = data["batches"][int(first) :]
    began = time.perf_counter()
    tokens = sum(update(model, optimizer, batch) for batch in measured)
    print(json.dumps({"tokens": tokens, "seconds": time.perf_counter() - began, "updates": len(measured)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
