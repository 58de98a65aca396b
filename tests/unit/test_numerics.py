"""The kernels of matrix products are chosen by a measurement that is made once for each machine."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from antiphon.config.schema import TrainingConfig
from antiphon.training import numerics
from antiphon.training.numerics import (
    MatmulProbe,
    cpu_threads,
    keep_freed_memory,
    matmul_precision,
    numerical_environment,
    probe_matmul,
    usable_training,
)

FAST, SLOW, ROUGH = MatmulProbe(1.8, 8e-7), MatmulProbe(1.02, 8e-7), MatmulProbe(4.0, 4e-3)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    return tmp_path / "matmul.json"


@pytest.mark.parametrize(
    ("probe", "before", "setting"),
    [
        (FAST, None, "medium"),
        (SLOW, None, "highest"),
        (ROUGH, None, "highest"),  # bfloat16, however fast
        (FAST, "highest", "highest"),  # a run keeps what it began with
        (SLOW, "medium", "medium"),
        (ROUGH, "medium", "highest"),  # it cannot
        (FAST, "nonsense", "medium"),
    ],
)
def test_a_new_run_takes_the_faster_one_and_an_old_one_keeps_its_own(
    probe: MatmulProbe, before: str | None, setting: str
) -> None:
    assert probe.precision_for(before) == setting


def test_the_measurement_on_this_machine_is_plausible(cache: Path) -> None:
    probe = probe_matmul()
    assert probe.speedup > 0.0
    assert 0.0 < probe.error < 0.1
    assert json.loads(cache.read_text())["error"] == probe.error


def test_a_machine_is_measured_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics, "measure_matmul", lambda: FAST)
    assert probe_matmul() == FAST
    monkeypatch.setattr(numerics, "measure_matmul", lambda: SLOW)
    assert probe_matmul() == FAST
    monkeypatch.setattr(numerics, "_machine", lambda: "another processor")
    assert probe_matmul() == SLOW
    assert json.loads(cache.read_text())["machine"] == "another processor"


def test_only_the_work_of_this_process_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock on which each product takes three seconds with the usual kernels, and one with the others."""
    seconds = itertools.accumulate(itertools.cycle((0.0, 3.0, 0.0, 1.0)))
    monkeypatch.setattr(numerics, "time", SimpleNamespace(process_time=lambda: next(seconds)))
    assert numerics.measure_matmul().speedup == 3.0


@pytest.mark.parametrize("content", ["", "[]", '{"machine": 1}', "\x00", '{"speedup": "fast"}'])
def test_an_unreadable_measurement_is_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    cache.write_text(content)
    monkeypatch.setattr(numerics, "measure_matmul", lambda: FAST)
    assert probe_matmul() == FAST


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(numerics, "measure_matmul", lambda: SLOW)
    assert probe_matmul() == SLOW


def test_settings_hold_inside_their_context_only() -> None:
    before = numerical_environment()
    with matmul_precision("medium"), cpu_threads(1 + before["threads"]):
        inside = numerical_environment()
    assert inside == {**before, "matmul": "medium", "threads": 1 + before["threads"]}
    assert numerical_environment() == before


@pytest.mark.parametrize(
    ("probe", "setting", "words"),
    [(FAST, "medium", "float32): 'medium' is 1.80 x"), (SLOW, "highest", "1.02 x"), (ROUGH, "highest", "fewer bits")],
)
def test_the_reason_is_given(probe: MatmulProbe, setting: str, words: str) -> None:
    with matmul_precision(setting):
        assert f"matrix products '{setting}'" in probe.describe()
        assert words in probe.describe()


def test_an_older_glibc_gets_the_highest_threshold_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def mallopt(option: int, size: int) -> int:
        asked.append((option, size))
        return int(option != numerics.M_MMAP_THRESHOLD or size <= 32 * 2**20)

    monkeypatch.setattr(numerics.platform, "libc_ver", lambda: ("glibc", "2.31"))
    monkeypatch.setattr(numerics.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    assert keep_freed_memory()
    assert asked[1:] == [(-3, 32 * 2**20), (-1, 2**31 - 1)]


def test_freed_memory_is_kept_where_glibc_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_freed_memory() == (numerics.platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(numerics.platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory()
    assert torch.ones(3).sum() == 3.0


@pytest.mark.parametrize(("speedup", "precision"), [(1.9, "bfloat16"), (0.07, "float32"), (0.0, "float32")])
def test_bfloat16_only_where_it_is_faster(speedup: float, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics, "probe_matmul", lambda: MatmulProbe(1.0, 8e-7, speedup))
    said: list[str] = []
    assert usable_training(TrainingConfig(precision="bfloat16"), said.append).precision == precision
    assert [f"bfloat16 is {speedup:.2f} x as fast" in line for line in said] == [True] * (precision == "float32")
    said.clear()
    assert usable_training(TrainingConfig(), said.append) == TrainingConfig()
    assert said == []


def test_a_processor_without_bfloat16_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = numerics._timed_product

    def refusing(left: torch.Tensor, right: torch.Tensor) -> tuple[float, torch.Tensor]:
        if left.dtype == torch.bfloat16:
            raise RuntimeError("bf16 is not supported")
        return timed(left, right)

    monkeypatch.setattr(numerics, "_timed_product", refusing)
    assert numerics.measure_matmul().bfloat16 == 0.0


@pytest.mark.parametrize(("given", "found"), [(None, "3000"), ("77", "77")])
def test_threads_spin_briefly_unless_told_otherwise(given: str | None, found: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    if given is not None:
        environment["GOMP_SPINCOUNT"] = given
    code = "import antiphon, os; print(os.environ['GOMP_SPINCOUNT'])"
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == found
