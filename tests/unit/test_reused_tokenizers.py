"""Tokenizers of another run: which one, what must agree, and that the cache knows them by their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.config.schema import Config
from antiphon.config.yaml_text import explained_yaml
from antiphon.data.build_source import reused_tokenizers
from antiphon.data.prepare import prepare
from antiphon.data.tokenizers import CharacterTokenizer, Tokenizer, WordTokenizer
from antiphon.errors import ConfigError

SPELLING, PHONES = CharacterTokenizer(list("abc")), WordTokenizer(["a", "b", "c", "d", "e"])
USUAL = {"source": {"tokens": "characters"}, "target": {"tokens": "words", "column": 1}}


def made(folder: Path, source: Tokenizer, target: Tokenizer, **values: Any) -> Path:  # noqa: ANN401
    """A run as far as its tokenizers go."""
    folder.mkdir()
    config = Config.model_validate({"data": {"train": "x.tsv", **USUAL}, **values})
    (folder / "config.yaml").write_text(explained_yaml(config))
    source.save(folder / "tokenizer.source.json")
    target.save(folder / "tokenizer.target.json")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made(tmp_path / "run", SPELLING, PHONES)


@pytest.fixture
def language_run(tmp_path: Path) -> Path:
    model = {"kind": "language-model"}
    data = {"train": "x.txt", "target": {"tokens": "words"}}
    return made(tmp_path / "lm", PHONES, PHONES, data=data, model=model, evaluation={"metrics": ["loss"]})


def data_of(source: dict[str, Any] | None = None, target: dict[str, Any] | None = None, **data: Any) -> Config:  # noqa: ANN401
    sides = {"source": {**USUAL["source"], **(source or {})}, "target": {**USUAL["target"], **(target or {})}}
    return Config.model_validate({"data": {"train": "x.tsv", **sides, **data}})


def problems(config: Config) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        reused_tokenizers(config.data)
    return caught.value.problems


def test_each_side_takes_that_of_its_side(run: Path) -> None:
    given = reused_tokenizers(data_of({"tokenizer": str(run)}, {"tokenizer": str(run)}).data)
    assert given["source"].fingerprint == SPELLING.fingerprint
    assert given["target"].fingerprint == PHONES.fingerprint
    assert reused_tokenizers(data_of().data) == {}
    assert list(reused_tokenizers(data_of(target={"tokenizer": str(run)}).data)) == ["target"]


def test_a_language_model_has_one_for_either_side(language_run: Path) -> None:
    side = {"tokens": "words", "tokenizer": str(language_run)}
    given = reused_tokenizers(data_of(side, side, shared_vocabulary=True).data)
    assert {one.fingerprint for one in given.values()} == {PHONES.fingerprint}


def test_the_kind_of_tokens_must_agree(run: Path) -> None:
    [sentence] = problems(data_of({"tokenizer": str(run), "tokens": "words"}))
    assert sentence.startswith(f"data.source.tokens: words, but the tokenizer of {run} is one of characters; set it to")


def test_how_it_would_be_learnt_may_not_be_at_odds(tmp_path: Path) -> None:
    """The default says nothing; the values of the other run are true; anything else would be ignored."""
    learnt = {"train": "x.tsv", **USUAL, "target": {**USUAL["target"], "vocabulary": 500}}
    run = str(made(tmp_path / "run", SPELLING, PHONES, data=learnt))
    for value in (500, 8000):
        assert reused_tokenizers(data_of(target={"tokenizer": run, "vocabulary": value}).data)
    found = problems(data_of({"tokenizer": run, "min_count": 3}, {"tokenizer": run, "vocabulary": 501}))
    assert len(found) == 2
    assert found[0].startswith("data.source.min_count: 3 is for a tokenizer to be learnt")
    assert "7 tokens; set it to 1 (the default), or data.source.tokenizer to null" in found[0]
    assert found[1].startswith("data.target.vocabulary: 501 is for")
    assert "9 tokens; set it to 8000" in found[1]
    [found_case] = problems(data_of({"tokenizer": run, "lowercase": True}))
    assert found_case.startswith("data.source.lowercase: true is for a tokenizer to be learnt")


def test_a_run_that_is_not_there_or_not_whole(tmp_path: Path, run: Path) -> None:
    missing = str(tmp_path / "nowhere")
    assert problems(data_of({"tokenizer": missing}, {"tokenizer": missing})) == [
        f"data.{side}.tokenizer: {missing}: no such folder; give a run that has been trained, or null"
        for side in ("source", "target")
    ]
    (run / "tokenizer.source.json").unlink()
    [sentence] = problems(data_of({"tokenizer": str(run)}))
    assert sentence.startswith(f"data.source.tokenizer: {run}/tokenizer.source.json: no such file")
    (run / "config.yaml").write_text("data: 5\n")
    [sentence] = problems(data_of(target={"tokenizer": str(run)}))
    assert sentence.startswith(f"data.target.tokenizer: {run}/config.yaml: data: should be a section of keys")


def test_one_vocabulary_is_one_tokenizer(tmp_path: Path) -> None:
    words = {"source": {"tokens": "words"}, "target": {"tokens": "words", "column": 1}}
    run = made(tmp_path / "run", WordTokenizer(["a"]), PHONES, data={"train": "x.tsv", **words})
    side = {"tokens": "words", "tokenizer": str(run)}
    [sentence] = problems(data_of(side, side, shared_vocabulary=True))
    assert sentence.startswith("data.shared_vocabulary: the source's tokenizer has 5 tokens, the target's 9")


def test_a_stream_of_characters_needs_a_line_end(tmp_path: Path) -> None:
    data = {"train": "x.txt", "target": {"tokens": "characters"}}
    model, measured = {"kind": "language-model"}, {"metrics": ["loss"]}
    letters, lines = CharacterTokenizer(["a"]), CharacterTokenizer(["a", "\n"])
    old = made(tmp_path / "old", letters, letters, data=data, model=model, evaluation=measured)
    new = made(tmp_path / "new", lines, lines, data=data, model=model, evaluation=measured)

    def stream(run: Path) -> Config:
        values = {**data, "window": 8, "target": {"tokens": "characters", "tokenizer": str(run)}}
        return Config.model_validate({"data": values, "model": model, "evaluation": measured})

    [sentence] = problems(stream(old))
    assert sentence.startswith(f"data.target.tokenizer: that of {old} was learnt line by line and has no line end")
    assert reused_tokenizers(stream(new).data)


def test_data_is_read_with_it(run: Path, tmp_path: Path) -> None:
    """Not with a vocabulary of its own; what it does not have is unknown, and said."""
    train = tmp_path / "train.tsv"
    train.write_text("ab\ta b\nba\tb a\ncc\tc x\n")
    said: list[str] = []
    config = data_of({"tokenizer": str(run)}, {"tokenizer": str(run)}, train=str(train), dev=str(train))
    prepared = prepare(config.data, said.append)
    assert said == [f"encoding {train}"]
    assert prepared.source_tokenizer.fingerprint == SPELLING.fingerprint
    assert prepared.target_tokenizer.fingerprint == PHONES.fingerprint
    assert [prepared.train.target[row].tolist() for row in range(3)] == [[4, 5], [5, 4], [6, 3]]
    assert prepared.facts["tokenizers"] == {"source": str(run), "target": str(run)}
    [warning] = [one for one in prepared.facts["warnings"] if "target tokens" in one]
    assert warning.endswith(f"data.target.tokenizer: null learns a new one (now that of {run})")


def test_one_side_may_be_learnt(run: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("ab\tz y\nba\ty z\n")
    prepared = prepare(data_of({"tokenizer": str(run)}, train=str(train)).data, lambda _: None)
    assert prepared.source_tokenizer.fingerprint == SPELLING.fingerprint
    assert sorted(prepared.target_tokenizer.symbols(range(4, prepared.target_tokenizer.size))) == ["y", "z"]


def test_the_cache_knows_a_tokenizer_by_its_content(run: Path, tmp_path: Path) -> None:
    """The run is trained again under the same name: what was encoded with the old one is not used."""
    train = tmp_path / "train.tsv"
    train.write_text("ab\ta b\nba\tb a\n")
    config = data_of(target={"tokenizer": str(run)}, train=str(train), dev=str(train))
    before = prepare(config.data, lambda _: None)
    WordTokenizer(["b", "a"]).save(run / "tokenizer.target.json")
    after = prepare(config.data, lambda _: None)
    assert [before.train.target[row].tolist() for row in range(2)] == [[4, 5], [5, 4]]
    assert [after.train.target[row].tolist() for row in range(2)] == [[5, 4], [4, 5]]
