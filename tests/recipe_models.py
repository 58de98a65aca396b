"""A small untrained model and a table of invented examples for each shipped recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from source_files import write_file
from tiny_models import fill

from antiphon.config.checks import check_config
from antiphon.config.load import read_values
from antiphon.config.schema import Config, DataConfig, SourceConfig, TextConfig
from antiphon.data.prepare import prepare
from antiphon.model_folder import fresh_model, save_model

WORDS = ["the", "green", "boat", "slept", "under", "seven", "quiet", "hills"]
SIZES = ("size", "embedding", "feedforward", "channels")  # an eighth of each, so that parts that fit still do


@dataclass(frozen=True)
class RecipeModel:
    """A model folder, a table that its recipe can read, and the source of each row as a command reads it."""

    folder: str
    table: str
    sources: list[str]


def recipe_model(name: str, folder: Path, rows: int = 30) -> RecipeModel:
    """The recipe's own network and vocabularies, but small, and with weights from a formula."""
    table = folder / "table.tsv"
    values, problems = read_values(name, [f"data.train={table}", "data.dev=null"], notices=False)
    config = Config.model_validate({**values, "model": smaller(values["model"])})
    assert problems + check_config(config) == []
    sources = write_table(table, config.data, rows)
    prepared = prepare(config.data, lambda _: None)
    model = fresh_model(config, prepared.source, prepared.target_tokenizer)
    fill(model)
    save_model(folder / "run", config, model.state_dict(), prepared.source, prepared.target_tokenizer)
    return RecipeModel(str(folder / "run"), str(table), sources)


def smaller(value: Any, key: str = "") -> Any:  # noqa: ANN401 (any YAML value)
    """A section of the model with an eighth of its sizes."""
    if isinstance(value, dict):
        return {name: smaller(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [smaller(item, key) for item in value]
    return value // 8 if key in SIZES else value


def write_table(path: Path, data: DataConfig, rows: int) -> list[str]:
    """Write a table with the columns of the recipe; return the sources, those of one row with tabs between them."""
    targets = data.target.column if isinstance(data.target.column, list) else [data.target.column]
    columns = list(dict.fromkeys([*(source.column for source in data.sources), *targets]))  # those of a pretext: one
    lines = [columns] if any(isinstance(column, str) for column in columns) else []
    sources = []
    for row in range(rows):
        cells = {source.column: cell(source, path.parent, number, row) for number, source in enumerate(data.sources)}
        cells = cells or {data.target.column: sentence(0, row)}  # a language model reads its text
        sources.append("\t".join(cells.values()))
        lines.append([cells.get(column, sentence(3, row)) for column in columns])
    path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines), "utf-8")
    return sources


def cell(source: SourceConfig, folder: Path, number: int, row: int) -> str:
    """A sentence, or the path of a file; no two are alike."""
    if isinstance(source, TextConfig):
        return sentence(number, row)
    return write_file(type(source), folder / "files", f"{number}-{row}", 20 + row)


def sentence(number: int, row: int) -> str:
    """Three to six words, of which two tell the row."""
    first, second = divmod(row, len(WORDS))
    return " ".join([WORDS[first], WORDS[second], WORDS[number], *WORDS[: row % 4]])
