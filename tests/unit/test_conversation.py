"""Conversations: the turns that become a source, what the training data say about them, and the answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_generators import tiny_generator
from untrained_models import LogitBias, untrained_generator, untrained_model

import antiphon
from antiphon.autoconfig.tasks import find_mark
from antiphon.config.schema import Config
from antiphon.data.statistics import TurnCounts, data_warnings
from antiphon.errors import UserError
from antiphon.inference.conversation import Conversation, TurnFormat, chat_problem
from antiphon.inference.flags import FlagLimits
from antiphon.inference.generation import Generation
from antiphon.inference.generator import Generator
from antiphon.inference.options import SearchKeywords
from antiphon.model_folder import load_flag_limits

DIALOGUE = TurnFormat(" ? ", 3)  # a word that the models here know


def speaker(turns: TurnFormat | None = DIALOGUE, longest: int = 30) -> Generator:
    """A model that was trained with such turns."""
    loaded = untrained_model(LogitBias(end=-0.5), longest=longest)
    return Generator(replace(loaded, flag_limits=FlagLimits(turns=turns)))


# Turns and sources.


@pytest.mark.parametrize(
    ("separator", "most", "turns", "source"),
    [
        (" <turn> ", 2, ["a", "b", "c"], "b <turn> c"),
        (" <turn> ", 5, ["a", "b", "c"], "a <turn> b <turn> c"),
        (" <turn> ", 1, ["a", "b", "c"], "c"),
        (" <turn> ", 3, ["a <turn> b", "c", "d"], "b <turn> c <turn> d"),  # a turn may come with those before it
        (" <turn> ", 3, ["a", "", "b"], "a <turn> b"),
        ("\n", 2, ["a", "b", "c"], "b\nc"),
        ("。", 2, ["a", "b。c"], "b。c"),
        ("", 1, ["a", " b ? c "], " b ? c "),
    ],
)
def test_the_latest_turns_are_the_source(separator: str, most: int, turns: list[str], source: str) -> None:
    assert TurnFormat(separator, most).source(turns) == source


@given(st.lists(st.text("ab ", min_size=1).filter(str.strip), min_size=1, max_size=6), st.integers(1, 6))
def test_a_source_has_the_last_turns_and_no_more(turns: list[str], most: int) -> None:
    found = TurnFormat(" | ", most)
    assert found.split(found.source(turns)) == [turn.strip() for turn in turns[-most:]]


@pytest.mark.parametrize(
    ("mark", "sources", "separator", "most"),
    [
        ("<turn>", ["a", "a <turn> b", "c <turn> d <turn> e", "f<turn> g"], " <turn> ", 3),
        (" <turn> ", ["a <turn> b"], " <turn> ", 2),
        ("__eou__", ["hi __eou__", "hi __eou__ who ? __eou__ me __eou__"], " __eou__ ", 3),
        ("|", ["a|b", "a|b|c", "a | b"], "|", 3),
        ("\n", ["a\nb", "c"], "\n", 2),
        ("<turn>", ["a", "b"], "<turn>", 1),
    ],
)
def test_the_training_data_say_how_turns_are_joined(mark: str, sources: list[str], separator: str, most: int) -> None:
    counts = TurnCounts(mark)
    counts.add(sources)
    assert TurnFormat(**counts.facts()) == TurnFormat(separator, most)


def test_a_mark_that_separates_nothing_is_a_warning() -> None:
    files = [{"part": "train", "path": "t.tsv"}]
    facts = {"dropped": {"reasons": {}}, "train_unknown": {}, "dev_unknown": {}, "dev_overlap": 0, "files": files}
    facts |= {"dev": {"held_out": True, "sources": 1}}
    assert data_warnings({**facts, "turns": {"separator": " <turn> ", "most": 2}}) == []
    assert data_warnings({**facts, "turns": {"separator": "<trun>", "most": 1}}) == [
        "t.tsv: no source has two turns with '<trun>' (data.turns) between them; give the mark as it is in the file, "
        "or set data.turns to null"
    ]


@pytest.mark.parametrize(
    ("sources", "mark"),
    [
        (["a <turn> b", "c", "d <TURN> e <turn> f"], "<turn>"),
        (["hi __eou__ you __eou__ __eot__ me __eou__"], "__eot__"),
        (["hi __eou__ you __eou__"], "__eou__"),
        (["hi __eou__", "you __eou__"], None),  # at the end it is between nothing
        (["User: hi Bot: hello"], None),
    ],
)
def test_the_mark_between_turns_is_found(sources: list[str], mark: str | None) -> None:
    assert find_mark(sources) == mark


def test_the_turns_are_kept_in_the_model_folder(tmp_path: Path) -> None:
    limits = FlagLimits(turns=DIALOGUE)
    limits.save(tmp_path)
    assert load_flag_limits(tmp_path) == limits
    (tmp_path / "flags.json").write_text('{"repetition": [9, 10, 11, 12, 15, 18]}')
    assert load_flag_limits(tmp_path) == FlagLimits((9, 10, 11, 12, 15, 18)), "of an older version"


# Sources of a dialogue model.


def test_a_dialogue_that_is_too_long_loses_its_oldest_turns() -> None:
    """Other models answer a long text in parts; the last part alone would be no answer to the turn."""
    model = speaker(longest=6)
    whole, kept = model.generate(["a a a a a ? b b ? c c", "b b ? c c"])
    assert whole.flags[0] == "turns: only the last 2 of 3 were read, 6 tokens at most"
    assert (whole.text, whole.source_tokens) == (kept.text, kept.source_tokens)
    assert not any(flag.startswith(("turns", "split")) for flag in kept.flags)
    alone = model.generate("a a ? b b b b b b b b")
    assert alone.source_tokens == ["b"] * 6 + ["</s>"]
    assert alone.flags[1] == "truncated: the source has 8 tokens, only the first 6 were read"
    assert untrained_generator(longest=6).generate("a a a ? b b ? c c").flags[0].startswith("split")


def test_more_turns_than_in_training_are_flagged() -> None:
    many, few = speaker().generate(["a ? b ? c ? d", "a ? b ? c"])
    assert many.flags[0] == "turns: the source has 4, the model was trained with at most 3"
    assert len(many.source_tokens) == 8, "all of them are read"
    assert not any(flag.startswith("turns") for flag in few.flags)


# Conversations.


def read(answer: Generation) -> str:
    """The source of an answer."""
    return answer.spans[0].text


def test_each_answer_reads_the_turns_before_it() -> None:
    model = speaker()
    talk = Conversation(model)
    first, second, third = talk.say("a b"), talk.say("c"), talk.say("d")
    assert first.text
    assert first.text == model.generate("a b").text
    assert read(second) == f"a b ? {first.text} ? c"
    assert read(third) == f"c ? {second.text} ? d", "three turns, as in training"
    assert third.text == model.generate(read(third)).text
    assert talk.turns == ["a b", first.text, "c", second.text, "d", third.text]


def test_a_model_without_turns_answers_each_line_by_itself() -> None:
    talk = Conversation(speaker(turns=None))
    assert [read(talk.say(text)) for text in ("a b", "c ? d")] == ["a b", "c ? d"]


def test_turns_are_taken_back_and_forgotten() -> None:
    talk = Conversation(speaker())
    first = talk.say("a b")
    talk.say("c")
    taken = talk.undo()
    assert taken is not None
    assert taken.text == "c"
    assert read(talk.say("d")) == f"a b ? {first.text} ? d"
    talk.reset()
    assert (talk.turns, talk.undo()) == ([], None)
    assert read(talk.say("e")) == "e"


def test_an_empty_turn_is_answered_by_nothing_and_forgotten() -> None:
    talk = Conversation(speaker())
    first = talk.say("a b")
    empty = talk.say("  ")
    assert (empty.text, empty.flags) == ("", ["empty source"])
    assert talk.turns == ["a b", first.text]


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 4), ({"beam": 2}, 2), ({"n_best": 1}, 1), ({"beam": 4, "patience": 0.5}, 2), ({"sample": True}, 1)],
)
def test_alternatives_are_those_of_the_beam(options: SearchKeywords, count: int) -> None:
    model = speaker()
    said = Conversation(model, **options).say("a b c")
    assert len(said.alternatives) == count
    assert said.text == said.alternatives[0].text == model.generate("a b c", **options).text


def test_a_turn_that_is_said_again_gets_another_sample() -> None:
    """So `undo` and the same line once more is worth it."""
    talk = Conversation(speaker(), sample=True, temperature=3.0, seed=5)
    found = set()
    for _ in range(5):
        found.add(talk.say("a b c").text)
        talk.undo()
    assert len(found) > 1


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("rnn-lm", "chat: a language model continues a text and does not answer; `antiphon generate` does that"),
        ("images", "chat: this model reads image, not the turns of a conversation; use `antiphon generate`"),
        ("tagger", "chat: a tagger labels the words of a text and does not answer; `antiphon generate` does that"),
    ],
)
def test_a_model_that_does_not_answer_texts_is_refused(kind: str, problem: str) -> None:
    models: dict[str, dict[str, Any]] = {
        "rnn-lm": {"model": {"kind": "language-model"}},
        "images": {"data": {"source": {"kind": "image"}}},
        "tagger": {"model": {"kind": "tagger"}},
    }
    values = {**models[kind], "data": {"train": "train.tsv", **models[kind].get("data", {})}}
    assert chat_problem(Config.model_validate(values)) == problem


def test_a_language_model_holds_no_conversation() -> None:
    with pytest.raises(UserError, match="chat: a language model continues a text"):
        antiphon.chat(tiny_generator("rnn-lm"))


def test_wrong_arguments_get_a_sentence() -> None:
    with pytest.raises(UserError, match="run: a value of type int is given; give the folder of a run, or what anti"):
        antiphon.chat(3)  # type: ignore[arg-type]
    talk = antiphon.chat(speaker())
    with pytest.raises(UserError, match="text: a value of type list is given; give the next turn as one text"):
        talk.say(["a"])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="beams: there is no such option; did you mean 'beam'"):
        antiphon.chat(speaker(), beams=3)  # type: ignore[call-arg]
    assert "turns=[]" in repr(talk)
