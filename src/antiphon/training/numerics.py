"""Numerical settings of a training process: the kernels of matrix products, and the memory allocator of glibc.

On AMD processors with AVX-512 torch's default kernels (MKL) can be slow. The precision "medium" uses those of oneDNN,
which are faster there and still compute in float32, while on processors with AMX they round to bfloat16. So a
measurement decides, once for each machine; a run keeps the decision it began with, because its last bits depend on it.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.config.schema import TrainingConfig
from antiphon.errors import DiskError
from antiphon.files import cache_folder, to_json, write_text

__all__ = [
    "MatmulProbe", "cpu_name", "cpu_threads", "keep_freed_memory", "matmul_precision", "mixed_precision",
    "numerical_environment", "probe_matmul", "usable_training",
]  # fmt: skip

HIGHEST, MEDIUM = "highest", "medium"
FLOAT32, BFLOAT16 = "float32", "bfloat16"
MIN_SPEEDUP = 1.15  # a smaller one is noise, or not worth another rounding
MAX_ERROR = 1e-5  # relative to the largest value: float32 has about 1e-6 here, bfloat16 about 1e-2
ROWS, INNER, COLUMNS, ROUNDS = 1024, 256, 512, 9  # of the product that is measured
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # options of glibc's mallopt
MMAP_THRESHOLDS = (1 << 30, 1 << 25)  # bytes; older versions of glibc take no more than the second


@dataclass(frozen=True)
class MatmulProbe:
    """A measurement of the precision "medium" on this machine."""

    speedup: float  # time with "highest" / time with "medium"
    error: float  # largest deviation from float64, as a share of the largest value
    bfloat16: float = 0.0  # time of the faster of both / time of a product in bfloat16; 0: it cannot be computed

    @property
    def is_float32(self) -> bool:
        """True if "medium" rounds no worse than float32 does."""
        return self.error <= MAX_ERROR

    def precision_for(self, before: str | None = None) -> str:
        """The setting for a new run, or for one that began with the setting `before`."""
        if before in (HIGHEST, MEDIUM) and (before == HIGHEST or self.is_float32):
            return before
        return MEDIUM if self.is_float32 and self.speedup >= MIN_SPEEDUP else HIGHEST

    def training_precision(self, wanted: str) -> str:
        """`training.precision` as far as this machine is faster with it."""
        return wanted if wanted != BFLOAT16 or self.bfloat16 >= MIN_SPEEDUP else FLOAT32

    def describe(self) -> str:
        """The current setting, with the figures behind it."""
        speed = f"'medium' is {self.speedup:.2f} x as fast here"
        if torch.get_float32_matmul_precision() == MEDIUM:
            return f"matrix products 'medium' (oneDNN, float32): {speed}, error {self.error:.0e}"
        why = speed if self.is_float32 else f"'medium' would round to fewer bits here (error {self.error:.0e})"
        return f"matrix products 'highest': {why}"


def numerical_environment() -> dict[str, Any]:
    """The settings on which the last bits of a result depend: they change the order in which sums are added."""
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "matmul": torch.get_float32_matmul_precision(),
    }


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Multiply matrices with this precision inside the context."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Use this number of CPU threads inside the context; None: as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def probe_matmul() -> MatmulProbe:
    """The measurement of this machine, made once and kept in the cache: so all its runs decide alike."""
    path, machine = cache_folder() / "matmul.json", _machine()
    try:
        stored = json.loads(path.read_bytes())
        if stored["machine"] == machine:
            return MatmulProbe(*(float(stored[name]) for name in ("speedup", "error", "bfloat16")))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not measured yet, or unreadable
    probe = measure_matmul()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, to_json({"machine": machine, **asdict(probe)}))
    except (OSError, DiskError):
        pass  # measured again next time
    return probe


def measure_matmul() -> MatmulProbe:
    """Time both settings in turn, keep the best of each, and compare "medium" with float64.

    The clock counts the work of this process alone: other jobs spoilt one in four measurements.
    """
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(shape, generator=generator) for shape in ((ROWS, INNER), (INNER, COLUMNS)))
    exact = left.double() @ right.double()
    best = dict.fromkeys((HIGHEST, MEDIUM), float("inf"))
    result = exact
    with cpu_threads(1):  # threads that wait for each other on a busy machine would be measured, too
        for _ in range(ROUNDS):
            for precision in best:
                with matmul_precision(precision):
                    seconds, result = _timed_product(left, right)
                best[precision] = min(best[precision], seconds)
        bfloat16 = _bfloat16_seconds(left.bfloat16(), right.bfloat16())
    error = (result.double() - exact).abs().max() / exact.abs().max()
    return MatmulProbe(best[HIGHEST] / best[MEDIUM], float(error), min(best.values()) / bfloat16)


def _bfloat16_seconds(left: Tensor, right: Tensor) -> float:
    """The best time of a product in bfloat16; infinity where the processor has none, and torch refuses."""
    try:
        return min(_timed_product(left, right)[0] for _ in range(ROUNDS))
    except RuntimeError:
        return float("inf")


@contextmanager
def mixed_precision(precision: str) -> Iterator[None]:
    """Compute matrix products with `training.precision` inside the context."""
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == BFLOAT16):
        yield


def usable_training(config: TrainingConfig, say: Callable[[str], None]) -> TrainingConfig:
    """The configuration with a precision that this machine is fast with; says so if that is another one."""
    probe = probe_matmul()
    precision = probe.training_precision(config.precision)
    if precision == config.precision:
        return config
    say(
        f"warning: training.precision: bfloat16 is {probe.bfloat16:.2f} x as fast as float32 on this processor, so it "
        "trains in float32 (a run that began in bfloat16 elsewhere is then not bit-exact)"
    )
    return config.model_copy(update={"precision": precision})


def _timed_product(left: Tensor, right: Tensor) -> tuple[float, Tensor]:
    began = time.process_time()
    product = left @ right
    return time.process_time() - began, product


def _machine() -> str:
    """Everything on which the measurement depends."""
    forced = os.environ.get("ONEDNN_MAX_CPU_ISA", "")
    return f"{cpu_name()} {torch.backends.cpu.get_cpu_capability()} {forced} torch {torch.__version__}".strip()


def cpu_name() -> str:
    """The model of the processor, as its maker calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n")
    except OSError:
        return platform.processor()
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    names = {name.strip(): value.strip() for name, value in fields.items()}
    return " ".join(names[key] for key in ("model name", "cpu family", "model") if key in names)


def keep_freed_memory() -> bool:
    """Let glibc keep and reuse the memory of freed tensors; True if it does.

    By default every large tensor is mapped and unmapped, and each of its pages costs a fault. The process then holds
    its peak memory until it ends.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    kept = any(mallopt(M_MMAP_THRESHOLD, size) for size in MMAP_THRESHOLDS)
    return kept and bool(mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
