"""`antiphon map` on a table, with the model of every recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_models import recipe_model

from antiphon.config.load import recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_the_sources_of_a_table_become_points(antiphon, name: str, tmp_path: Path) -> None:  # noqa: ANN001
    """Each row is a point of its own with its source beside it, however many sources and targets there are."""
    made = recipe_model(name, tmp_path)
    ended = antiphon("map", made.folder, made.table)
    assert ended.code == 0, ended.err
    rows = [line.split("\t", 2) for line in ended.lines]
    assert [source for *_, source in rows] == [source.replace("\t", "\\t") for source in made.sources]
    assert len({(x, y) for x, y, _ in rows}) > len(rows) / 2
    assert "of the variance" in ended.err


@pytest.mark.parametrize("name", ["answer", "entail"])
def test_lines_of_several_sources_are_read_as_generate_reads_them(antiphon, name: str, tmp_path: Path) -> None:  # noqa: ANN001
    """A tab between the sources is no table yet; with the names of the columns in its first line it is one."""
    made = recipe_model(name, tmp_path)
    lines, table = tmp_path / "lines.txt", tmp_path / "table.txt"
    lines.write_text("".join(f"{source}\n" for source in made.sources))
    table.write_text(Path(made.table).read_text())
    expected = antiphon("map", made.folder, made.table).out
    assert antiphon("map", made.folder, str(lines)).out == expected
    assert antiphon("map", made.folder, str(table)).out == expected
    lines.write_text("only one\nor one more\n")
    refused = antiphon("map", made.folder, str(lines))
    assert (refused.code, refused.out) == (2, "")
    assert "source 1: only one: 1 cells for 2 sources; put a tab between them" in refused.err


def test_a_point_has_the_name_of_its_file(antiphon, tmp_path: Path) -> None:  # noqa: ANN001
    """Without the folder, which would fill the label; beside it the text of another source."""
    made = recipe_model("see-answer", tmp_path)
    ended = antiphon("map", made.folder, made.table, "--out", str(tmp_path / "map.svg"))
    assert (ended.code, ended.out) == (0, "")
    drawn = (tmp_path / "map.svg").read_text()
    labels = [source.removeprefix(f"{tmp_path}/files/").replace("\t", "⇥") for source in made.sources]
    assert sum(f"<!-- {label[:35]}" in drawn for label in labels) > 5
    assert str(tmp_path) not in drawn
