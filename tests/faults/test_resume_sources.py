"""A run that reads arrays with random masks, in threads: stopped anywhere, it goes on to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from feature_tables import values, write_table

from antiphon.config.schema import Config
from antiphon.training.display import Display
from antiphon.training.run import train_run

pytestmark = pytest.mark.usefixtures("no_pictures")


class Stopped(Exception):  # noqa: N818 (as if by a kill)
    """Nothing is saved."""


class Fuse(Display):
    """Breaks off after so many updates."""

    def __init__(self, updates: int) -> None:
        self.left = updates

    def update(self, row: dict[str, float], total: int) -> None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0:
            raise Stopped


def several(table: Path) -> dict[str, Any]:
    written = values(table, checkpoint_every=3, epochs=3)
    masked = {"kind": "features", "column": "path", "masks": {"time": {"count": 1, "width": 2}, "values": {"count": 1}}}
    text = {"kind": "text", "column": "count", "tokens": "words"}
    return {**written, "data": {**written["data"], "source": [masked, text]}}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return Config.model_validate(several(write_table(tmp_path_factory.mktemp("data"))))


@pytest.fixture(scope="module")
def whole(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing broke."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train_run(config, run, display=Display())
    return run


@pytest.mark.parametrize("broken", [4, 11])
def test_a_broken_run_ends_in_the_same_bytes(broken: int, config: Config, whole: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    with pytest.raises(Stopped):
        train_run(config, again, display=Fuse(broken))
    train_run(config, again, display=Display())
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    last = sorted(path.name for path in (whole / "checkpoints").iterdir())[-1]
    for name in ("model.safetensors", "optimizer.safetensors"):
        left, right = (run / "checkpoints" / last / name for run in (whole, again))
        assert left.read_bytes() == right.read_bytes()
