"""The command line, and one small model for all tests here."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from cli_calls import Command, call

TINY = """\
data: {train: PAIRS, hold_out: 0.1, source: {tokens: words}, target: {tokens: words, column: 1}}
model:
  encoder: {kind: gru, embedding: 16, size: 16, dropout: 0.0}
  decoder: {kind: bahdanau, cell: gru, embedding: 16, size: 16, dropout: 0.0}
training: {epochs: 3, batch_tokens: 256, schedule: {warmup: 0}, learning_rate: 3e-2}
decoding: {beam: 3, max_length: 8, batch_size: 4}
"""


@pytest.fixture
def antiphon() -> Command:
    return call


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Strings of one to four letters of abcd, backwards."""
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    words = [word for length in range(1, 5) for word in product("abcd", repeat=length)][:200]
    path.write_text("".join(f"{' '.join(word)}\t{' '.join(word[::-1])}\n" for word in words))
    return path


@pytest.fixture(scope="session")
def few(pairs: Path) -> Path:
    """The first forty of them."""
    path = pairs.with_name("few.tsv")
    path.write_text("".join(f"{line}\n" for line in pairs.read_text().split("\n")[:40]))
    return path


@pytest.fixture(scope="session")
def tiny(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration that trains in a second."""
    path = tmp_path_factory.mktemp("config") / "tiny.yaml"
    path.write_text(TINY.replace("PAIRS", str(pairs)))
    return path


@pytest.fixture(scope="session")
def model(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run folder, trained through the command line."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    ended = call("train", str(tiny), "--out", str(folder))
    assert ended.code == 0, ended.err
    assert ended.out == f"{folder}\n"
    return str(folder)
