"""A language model on a stream: the state that goes on from window to window survives SIGKILL, to the last bit."""

from __future__ import annotations

import json
import random
import secrets
import signal
import time
from pathlib import Path

import pytest
from fault_runs import Baseline, ForkServer, checkpoints
from safetensors.torch import load_file, save

from antiphon.files import sha256

KILLED = -signal.SIGKILL
CARRIED = "carried/"
# What the config of all fault runs says of training (accumulation, dropout, two epochs, a schedule) holds here, too.
STREAM = (
    "data={train: play.txt, dev: play.dev.txt, window: 6}",
    "model={kind: language-model, decoder: {kind: plain, cell: lstm, embedding: 8, size: 12, layers: 2, dropout: 0.2}}",
    "evaluation={metrics: [perplexity]}",
    "training.metric=loss",
    "training.learning_rate=0.06",
)


@pytest.fixture(scope="module")
def undisturbed(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    draw = random.Random(11)
    words = [draw.choice("abcd") * draw.randint(1, 4) for _ in range(300)]
    lines = [" ".join(words[first : first + 4]) for first in range(0, 300, 4)]
    (fork_server.folder / "play.txt").write_text("\n\n".join(lines[:65]) + "\n")
    (fork_server.folder / "play.dev.txt").write_text("\n".join(lines[65:]))
    run = tmp_path_factory.mktemp("stream") / "run"
    began = time.perf_counter()
    ended = fork_server.train(run, *STREAM)
    assert ended.code == 0, ended.said
    assert ended.passed is not None
    return Baseline(run, time.perf_counter() - began, ended.passed, ended.said)


def carried(run: Path) -> dict[str, set[str]]:
    """The names of the carried tensors in each checkpoint."""
    found = {}
    for name in checkpoints(run):
        tensors = load_file(run / "checkpoints" / name / "optimizer.safetensors")
        found[name] = {key.removeprefix(CARRIED) for key in tensors if key.startswith(CARRIED)}
    return found


def test_the_state_between_two_windows_is_in_the_checkpoint(
    fork_server: ForkServer, undisturbed: Baseline, run: Path
) -> None:
    assert fork_server.train(run, *STREAM, fault=("batch", 16, "kill")).code == KILLED  # two windows make an update
    [*_, newest] = checkpoints(run)
    assert newest == "00000006"
    assert carried(run)[newest] == {"fed", "layer.0", "layer.1"}
    last = checkpoints(undisturbed.run)[-1]
    assert carried(undisturbed.run)[last] == set(), "at the start of an epoch nothing is carried"


def test_killed_between_windows_it_ends_in_the_same_bytes(
    fork_server: ForkServer, undisturbed: Baseline, run: Path
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # shown when the test fails
    draw = random.Random(seed)
    codes = []
    for _ in range(3):
        number = draw.randrange(8, 14)
        print(f"batch {number}")
        codes.append(fork_server.train(run, *STREAM, fault=("batch", number, "kill")).code)
    assert codes[:2] == [KILLED, KILLED]
    number = draw.randrange(1, undisturbed.disk_operations // 3)
    print(f"disk operation {number}")
    assert fork_server.train(run, *STREAM, fault=("disk", number, "kill")).code in (0, KILLED)
    ended = fork_server.train(run, *STREAM)
    assert ended.code == 0, ended.said
    undisturbed.assert_same_end(run)


def test_without_the_carried_state_the_end_would_be_another(
    fork_server: ForkServer, undisturbed: Baseline, run: Path
) -> None:
    """Else the test above could not fail."""
    assert fork_server.train(run, *STREAM, fault=("batch", 16, "kill")).code == KILLED
    folder = run / "checkpoints" / checkpoints(run)[-1]
    file, manifest = folder / "optimizer.safetensors", folder / "manifest.json"
    content = json.loads(manifest.read_text())
    file.write_bytes(save({name: part for name, part in load_file(file).items() if not name.startswith(CARRIED)}))
    content["files"][file.name] = sha256(file)
    manifest.write_text(json.dumps(content))
    ended = fork_server.train(run, *STREAM)
    assert ended.code == 0, ended.said
    assert (run / "model.safetensors").read_bytes() != undisturbed.weights


def test_a_transformer_carries_nothing(fork_server: ForkServer, run: Path) -> None:
    transformer = "model={kind: language-model, decoder: {kind: transformer, size: 8, layers: 1, heads: 2}}"
    assert fork_server.train(run, *STREAM, transformer, fault=("batch", 16, "kill")).code == KILLED
    assert carried(run) == {name: set() for name in checkpoints(run)}


def test_training_goes_on_after_a_skipped_window(fork_server: ForkServer, run: Path) -> None:
    """The carried state is reset, so that one window cannot spoil all others."""
    ended = fork_server.train(run, *STREAM, spoilt=(3, 3))
    assert ended.code == 0, ended.said
    assert "update 2: the loss or its gradient is not finite; skipped" in ended.said
    assert ended.said.count("skipped") == 1
