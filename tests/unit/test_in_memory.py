"""Examples in memory: lists, DataFrames and Datasets are stored as the file that they would be."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

import antiphon
from antiphon.config.schema import DataConfig
from antiphon.data.in_memory import is_in_memory, kind_problem, store_examples
from antiphon.errors import UserError

PAIRS = [("a b", "K"), ("c", "L\tM\nN")]
FRAME = pd.DataFrame(PAIRS, columns=["word", "answer"])
CLASSES = datasets.Dataset.from_dict(
    {"text": ["a", "b", "c"], "label": [1, 0, -1]},
    datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}),
)
NESTED = datasets.Dataset.from_list([{"id": 1, "translation": {"de": left, "en": right}} for left, right in PAIRS])


def data(source: int | str | list[int | str] | None = 0, target: Any = 1) -> DataConfig:  # noqa: ANN401
    columns = source if isinstance(source, list) else [source]
    sources = [{"column": column} for column in columns]
    section = None if source is None else sources if isinstance(source, list) else sources[0]
    return DataConfig.model_validate({"train": "x.jsonl", "source": section, "target": {"column": target}})


def rows(examples: Any, config: DataConfig) -> list[dict[str, Any]]:  # noqa: ANN401
    """The objects in the stored file."""
    return [json.loads(line) for line in Path(store_examples(examples, config)).read_text("utf-8").split("\n")[:-1]]


@pytest.mark.parametrize(
    ("examples", "config", "expected"),
    [
        (PAIRS, data(), {"0": "c", "1": "L\tM\nN"}),
        (PAIRS, data("word", "answer"), {"word": "c", "answer": "L\tM\nN"}),
        ([["x", "y", ["K", "L"]]], data([0, 1], 2), {"0": "x", "1": "y", "2": ["K", "L"]}),
        ([("K",), ("L",)], data(None, 0), {"0": "L"}),
        (FRAME, data("word", "answer"), {"word": "c", "answer": "L\tM\nN"}),
        (FRAME, data(), {"0": "c", "1": "L\tM\nN"}),
        (FRAME.set_index("word", drop=False), data(), {"0": "c", "1": "L\tM\nN"}),
        (datasets.Dataset.from_pandas(FRAME), data("word", "answer"), {"word": "c", "answer": "L\tM\nN"}),
        (NESTED, data("translation.de", "translation.en"), {"translation": {"de": "c", "en": "L\tM\nN"}}),
        (CLASSES, data("text", "label"), {"text": "c", "label": None}),
        (CLASSES.select([0, 1]), data("text", "label"), {"text": "b", "label": "bad"}),
        (pd.DataFrame({"a": [1.5, math.nan], "b": [True, None]}), data("a", "b"), {"a": None, "b": None}),
        ([(np.int64(3), Path("a/b"))], data(), {"0": 3, "1": "a/b"}),
        ([("\ud800", "x")], data(), {"0": "\ud800", "1": "x"}),
    ],
)
def test_the_file_has_the_columns_that_the_configuration_reads(
    examples: Any,  # noqa: ANN401
    config: DataConfig,
    expected: dict[str, Any],
) -> None:
    assert rows(examples, config)[-1] == expected


def test_equal_examples_are_one_file() -> None:
    assert store_examples(PAIRS, data()) == store_examples([list(pair) for pair in PAIRS], data())
    assert store_examples(PAIRS, data()) == store_examples(FRAME, data())
    assert store_examples(PAIRS, data()) != store_examples(PAIRS[::-1], data())


@pytest.mark.parametrize(
    ("examples", "config", "problems"),
    [
        ([("a",), ("b", "c"), "d"], data(), ["row 1: 1 item", "row 3: a value of type str", "each row needs 2 items"]),
        (FRAME, data("wort", "answr"), ["no column 'wort'; did you mean 'word'?", "no column 'answr'; did you mean"]),
        (FRAME, data(0, 2), ["no column 2; it has 'word', 'answer'; rename it, or set data.source.column"]),
        ([("a", object())], data(), ["row 1, column '1': a value of type object is no text", "for example with str"]),
        (
            [(object(), "a")] * 9,
            data(),
            ["row 1,", "row 2,", "row 3,", "row 4,", "row 5,", "and 4 more", "write texts"],
        ),
        (pd.DataFrame([["a", "b"]], columns=["x", "x"]), data(), ["several columns called 'x'; rename them"]),
    ],
)
def test_every_problem_is_a_sentence(examples: Any, config: DataConfig, problems: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(UserError) as caught:
        store_examples(examples, config)
    assert [expected in said for expected, said in zip(problems, caught.value.problems, strict=True)] == [True] * len(
        problems
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("pairs.tsv", None),
        (Path("pairs.tsv"), None),
        (["a.de", "a.en"], None),
        (PAIRS, None),
        (FRAME, None),
        (["a", "b", "c"], "a list of 3 texts, not of pairs"),
        ([], "the list is empty"),
        (7, "a value of type int is given; give a file, [a source file, a target file], a list of pairs"),
        (FRAME["word"], "a value of type Series is given"),
        (datasets.DatasetDict({"train": NESTED}), "a DatasetDict has several splits; give one of them"),
    ],
)
def test_kinds_of_examples(value: object, problem: str | None) -> None:
    said = kind_problem("data", value)
    assert (said is None) if problem is None else str(said).startswith(f"data: {problem}")


def test_names_of_files_are_not_examples() -> None:
    assert [is_in_memory(value) for value in ("a", ["a", "b"], PAIRS, FRAME, NESTED)] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_init_takes_pairs_tables_and_files(tmp_path: Path) -> None:
    pairs = [(f"word {number}", f"{number} drow") for number in range(40)]
    from_list = antiphon.init(pairs)
    assert (from_list.config.data.source.column, from_list.config.data.target.column) == ("source", "target")
    frame = pd.DataFrame([(number, *pair) for number, pair in enumerate(pairs)], columns=["id", "phrase", "answer"])
    table = antiphon.init(frame, source="answer", target="phrase")
    assert (table.config.data.source.column, table.config.data.target.column) == ("answer", "phrase")
    assert table.warnings == ["column 'id' is not used; --source and --target choose others"]
    assert any(reason.startswith("JSONL: answer is the source, phrase the target") for reason in table.reasons)
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{left}\t{right}\n" for left, right in pairs), "utf-8")
    assert antiphon.init(file).config.data.train == str(file)
    assert Path(str(from_list.config.data.train)).parent.name == "examples"


def test_init_of_texts_names_the_recipe() -> None:
    with pytest.raises(UserError, match=r"antiphon\.train\('lm-lstm', data="):
        antiphon.init([("a",), ("b",)])


CALLS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "train": (
        lambda: antiphon.train(  # type: ignore[call-overload]
            5, out=6, overrides="a.b=1", data=7, dev=[], display="bar", callbacks=[print]
        ),
        ["display: 'bar' is none of auto, plain", "callbacks: a value of type", "out: a value of type int",
         "config: a value of type int", "overrides: a value of type str", "data: a value of type int",
         "dev: the list is empty"],
    ),
    "load": (lambda: antiphon.load(None), ["run: a value of type NoneType"]),  # type: ignore[arg-type]
    "load several": (lambda: antiphon.load(["a", 5]), ["run: a value of type int"]),  # type: ignore[list-item]
    "export": (lambda: antiphon.export_model(1, "onnx", 2), ["run: a value", "out: a value"]),  # type: ignore[arg-type]
    "import": (lambda: antiphon.import_model(1, 2), ["folder: a value", "out: a value"]),  # type: ignore[arg-type]
    "joint": (lambda: antiphon.joint(1), ["run: a value of type int"]),  # type: ignore[arg-type]
    "shortlist": (
        lambda: antiphon.shortlist(1, per_token=1.5),  # type: ignore[arg-type]
        ["run: a value of type int", "per_token: a value of type float"],
    ),
    "evaluate": (
        lambda: antiphon.evaluate(None, {}, metrics="cer"),  # type: ignore[arg-type]
        ["run: a value of type NoneType", "examples: a value of type dict", "metrics: a value of type str"],
    ),
    "score": (lambda: antiphon.score(3, 4), ["run: a value of type int", "examples: a value"]),  # type: ignore[arg-type]
    "explain": (
        lambda: antiphon.explain(3, ["a"], 5, layer="1", beside=7),  # type: ignore[arg-type]
        ["run: a value of type int", "text: a value of type list", "out: a value of type int",
         "beside: a value of type int", "layer: a value of type str"],
    ),
    "tree": (lambda: antiphon.tree(3, 4, 5), ["run: a value", "text: a value", "out: a value"]),  # type: ignore[arg-type]
    "init": (
        lambda: antiphon.init(3, source=1.5, target=[None]),  # type: ignore[arg-type, list-item]
        ["data: a value of type int", "source: a value of type float", "target: a value of type NoneType"],
    ),
    "check": (lambda: antiphon.check(3, 4), ["config: a value", "overrides: a value"]),  # type: ignore[arg-type]
    "dict": (
        lambda: antiphon.train({"data": {"train": "a.tsv"}, "training": {"epochs": {1}, "seed": object()}}),
        ["training.epochs: a value of type set", "training.seed: a value of type object"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_wrong_types_get_a_sentence_each(call: str) -> None:
    function, problems = CALLS[call]
    with pytest.raises(UserError) as caught:
        function()
    assert [said[: len(wanted)] for said, wanted in zip(caught.value.problems, problems, strict=False)] == problems


def test_neither_pandas_nor_datasets_is_imported() -> None:
    code = (
        "import sys, antiphon.api\n"
        "antiphon.init([('abc', 'cba')] * 30)\n"
        "found = [name for name in ('pandas', 'datasets', 'IPython', 'wandb', 'mlflow', 'tensorboard') "
        "if name in sys.modules]\n"
        "assert found == [], found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
