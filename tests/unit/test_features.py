"""Arrays from files: whatever numpy writes, sets, norms, masks, lengths from headers."""
# T vectors, D width of a vector

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.config.sources import FeaturesConfig
from antiphon.data import arrays
from antiphon.data.arrays import FeaturesReader
from antiphon.data.source import Array

T, D = 12, 4
VECTORS = np.random.default_rng(1).normal(size=(T, D)).astype(np.float32)


def saved(path: Path, vectors: Array = VECTORS) -> str:
    np.save(path, vectors)
    return str(path)


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f8", "<i2", "|u1", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_all_real_numbers_become_float32(tmp_path: Path, kind: str, order: str) -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 1]], dtype=kind, order=order)  # type: ignore[call-overload]
    cell = saved(tmp_path / "a.npy", vectors)
    assert FeaturesReader.first_width(cell) == 2
    found = FeaturesReader(FeaturesConfig(), 2).read(cell)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1, 0], [0, 1], [1, 1]])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_has_one_array_or_one_called_features(tmp_path: Path, save: object) -> None:
    assert callable(save)
    save(tmp_path / "one.npz", anything=VECTORS)
    save(tmp_path / "two.npz", features=VECTORS, other=np.zeros((3, 3)))
    reader = FeaturesReader(FeaturesConfig(), D)
    for name in ("one", "two"):
        cell = str(tmp_path / f"{name}.npz")
        assert (FeaturesReader.first_width(cell), reader.length(cell)) == (D, T)
        np.testing.assert_array_equal(reader.read(cell), VECTORS)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 40), st.integers(1, 5), st.sampled_from(["npy", "npz"]), st.booleans(), st.booleans())
def test_the_header_tells_the_length(
    tmp_path_factory: pytest.TempPathFactory, length: int, width: int, suffix: str, ordered: bool, normalise: bool
) -> None:
    path = tmp_path_factory.mktemp("arrays") / f"a.{suffix}"
    vectors = np.random.default_rng(length).normal(size=(length, width))
    if suffix == "npy":
        np.save(path, vectors)
    else:
        np.savez(path, vectors)
    config = FeaturesConfig(ordered=ordered, normalise=normalise, masks={"time": {"count": 2}, "values": {"count": 2}})
    reader = FeaturesReader(config, width)
    for chance in (None, np.random.default_rng(1)):
        assert reader.read(str(path), chance).shape == (reader.length(str(path)), reader.size)


def test_the_order_of_a_set_changes_nothing(tmp_path: Path) -> None:
    vectors = np.round(VECTORS)  # many equal values, so that the second and third decide too
    one = saved(tmp_path / "one.npy", vectors)
    two = saved(tmp_path / "two.npy", vectors[np.random.default_rng(3).permutation(T)])
    as_set, as_row = FeaturesReader(FeaturesConfig(ordered=False), D), FeaturesReader(FeaturesConfig(), D)
    np.testing.assert_array_equal(as_set.read(one), as_set.read(two))
    assert as_set.read(one).tolist() == sorted(vectors.tolist())
    np.testing.assert_array_equal(as_row.read(one), vectors)
    assert (as_row.read(two) != vectors).any()


def test_each_value_to_mean_0_and_variance_1(tmp_path: Path) -> None:
    cell = saved(tmp_path / "a.npy", VECTORS * [1, 10, 100, 0] + [5, 6, 7, 8])
    found = FeaturesReader(FeaturesConfig(normalise=True), D).read(cell)
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-5)
    np.testing.assert_allclose(found.std(0), [1, 1, 1, 0], atol=1e-4)


@pytest.mark.parametrize(("axis", "most"), [("time", 2), ("values", 2)])
def test_masks_are_for_training(tmp_path: Path, axis: str, most: int) -> None:
    """Masked values become the mean; the masked span is as wide as allowed."""
    cell = saved(tmp_path / "a.npy")
    for widest in (1, most):
        reader = FeaturesReader(FeaturesConfig.model_validate({"masks": {axis: {"count": 1, "width": widest}}}), D)
        np.testing.assert_array_equal(reader.read(cell), VECTORS)
        counts = set()
        for seed in range(30):
            found, again = (reader.read(cell, np.random.default_rng(seed)) for _ in range(2))
            np.testing.assert_array_equal(found, again)
            changed = found != VECTORS
            np.testing.assert_allclose(found[changed], np.broadcast_to(VECTORS.mean(0), (T, D))[changed], rtol=1e-5)
            counts.add(int(changed.any(1 if axis == "time" else 0).sum()))
        assert counts == set(range(widest + 1))
    plain = FeaturesReader(FeaturesConfig(), D)
    np.testing.assert_array_equal(plain.read(cell, np.random.default_rng(1)), VECTORS)


def test_what_a_model_folder_keeps() -> None:
    kept = FeaturesReader(FeaturesConfig(ordered=False), 7).json()
    assert json.loads(kept) == {"kind": "features", "width": 7, "ordered": False, "normalise": False}


def test_one_thread_at_a_time_parses_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ast.literal_eval, by which numpy parses headers, may fail in several threads, and a good file would look bad."""
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    parsing, overlaps = threading.Lock(), []

    def slow(read_header: Callable[..., object]) -> Callable[..., object]:
        def read(file: object) -> object:
            free = parsing.acquire(blocking=False)
            overlaps.append(not free)
            time.sleep(0.002)
            header = read_header(file)
            if free:
                parsing.release()
            return header

        return read

    monkeypatch.setattr(arrays, "VERSIONS", {version: slow(read) for version, read in arrays.VERSIONS.items()})
    reader = FeaturesReader(FeaturesConfig(), 2)
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(reader.read, [str(tmp_path / "a.npy")] * 16))
    assert len(read) == 16
    assert not any(overlaps)
