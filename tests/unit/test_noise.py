"""Pretext tasks: what is done to a source, how often, and always in the same way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config.schema import DataConfig, NoiseConfig, TextConfig, TrainingConfig
from antiphon.data.affixes import AffixTokenizer
from antiphon.data.batches import build_noise, collate
from antiphon.data.corpus import Corpus, Ragged
from antiphon.data.noise import Noise, NoisyTokenizer, corrupt, delete, infill, mask, permute, shuffle
from antiphon.data.pairs import DropLog, Pair, read_pairs
from antiphon.data.tokenizers import EOS, PAD, UNK, CharacterTokenizer, WordTokenizer

WORDS = WordTokenizer(["a", "b", "c", "d", "end.", "ho!", "so?", ". x"])
END, HO, SO = 8, 9, 10  # the ids of "end.", "ho!" and "so?"
LONG = np.arange(4, 1004)


def draw(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def no_ends(ids: np.ndarray) -> np.ndarray:
    return np.zeros(int(ids.max(initial=0)) + 1, bool)


def is_part_of(part: list[int], whole: list[int]) -> bool:
    """In the same order, with gaps."""
    rest = iter(whole)
    return all(one in rest for one in part)


def test_masking_hides_a_share_and_moves_nothing() -> None:
    corrupted = mask(LONG, draw(), share=0.3)
    assert len(corrupted) == len(LONG)
    assert set(corrupted[corrupted != LONG]) == {UNK}
    assert 0.25 < np.mean(corrupted == UNK) < 0.35


def test_deleting_takes_a_share_and_keeps_the_order() -> None:
    corrupted = delete(LONG, draw(), share=0.3)
    assert 650 < len(corrupted) < 750
    assert is_part_of(corrupted.tolist(), LONG.tolist())


def test_one_token_is_left_whatever_is_deleted() -> None:
    rows = [delete(np.array([4, 5, 6]), draw(seed), share=0.999) for seed in range(300)]
    assert {len(row) for row in rows} == {1}
    assert {int(row[0]) for row in rows} == {4, 5, 6}


def test_filling_in_hides_spans_behind_one_mark_each() -> None:
    """Kept tokens stay in order, 30 % are masked, and a mask replaces three tokens (Poisson) on average."""
    hidden, marks = 0, 0
    for seed in range(20):
        corrupted = infill(LONG, draw(seed), share=0.3, span=3.0)
        kept = corrupted[corrupted != UNK].tolist()
        assert is_part_of(kept, LONG.tolist())
        hidden, marks = hidden + len(LONG) - len(kept), marks + int(np.sum(corrupted == UNK))
    assert 0.28 < hidden / (20 * len(LONG)) < 0.32
    assert 2.7 < hidden / marks < 3.3


def test_the_spans_are_those_of_the_draw() -> None:
    """Written out: a token that stays, or a span that becomes one mark, in a row."""
    ids = np.arange(4, 16)
    corrupted = infill(ids, draw(1), share=0.6, span=2.0)
    twin = draw(1)
    left, lengths = int(twin.binomial(12, 0.6)), []
    hidden = left
    while left:
        length = min(int(twin.poisson(2.0)), left)
        length = 1 if length == 0 and len(lengths) == sum(lengths) else length
        lengths.append(length)
        left -= length
    spans = iter(lengths)
    places = set(twin.choice(12 - hidden + len(lengths), len(lengths), replace=False).tolist())
    expected, rest = [], ids.tolist()
    for place in range(12 - hidden + len(lengths)):
        if place in places:
            expected.append(UNK)
            del rest[: next(spans)]
        else:
            expected.append(rest.pop(0))
    assert corrupted.tolist() == expected
    assert len(lengths) > 1


def test_a_span_of_no_tokens_is_a_mark_put_in_between() -> None:
    """Neighbours stand with a mark between them; and nothing vanishes without one."""
    ids = np.arange(4, 104)
    rows = [infill(ids, draw(seed), share=0.5, span=1.5) for seed in range(40)]
    vanished = [row for row in rows if any(np.diff(row)[(row[:-1] != UNK) & (row[1:] != UNK)] > 1)]
    assert vanished == []
    between = [
        (left, right)
        for row in rows
        for left, middle, right in zip(row, row[1:], row[2:], strict=False)
        if middle == UNK and right == left + 1
    ]
    assert between


INFILL = st.fixed_dictionaries({"share": st.floats(0.01, 0.99), "span": st.floats(0.01, 8.0)})


@given(
    ids=st.lists(st.integers(4, 30), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
    values=st.fixed_dictionaries(
        {key: st.floats(0.0, 0.99) for key in ("mask", "delete")}
        | {"infill": st.none() | INFILL, "permute": st.booleans(), "shuffle": st.integers(0, 4)}
    ),
)
def test_something_is_left_and_nothing_is_added(ids: list[int], seed: int, values: dict[str, float]) -> None:
    row = np.array(ids)
    ends = np.arange(31) % 5 == 0
    corrupted = corrupt(row, draw(seed), NoiseConfig.model_validate(values), ends)
    assert 1 <= len(corrupted) <= len(ids)
    more = Counter(corrupted.tolist()) - Counter(ids)
    assert set(more) <= {UNK}
    assert row.tolist() == ids  # it is not changed in place


def test_nothing_asked_for_changes_nothing() -> None:
    assert corrupt(LONG, draw(), NoiseConfig(), no_ends(LONG)).tolist() == LONG.tolist()
    assert build_noise(TrainingConfig(), WORDS) is None


def test_sentences_change_their_order_and_stay_whole() -> None:
    ids = np.array([4, 5, END, 6, HO, 7, 4, SO, 5])
    ends = Noise(NoiseConfig(permute=True), WORDS, seed=1).ends
    sentences = ((4, 5, END), (6, HO), (7, 4, SO), (5,))
    orders = set()
    for seed in range(500):
        rest, order = permute(ids, draw(seed), ends).tolist(), []
        while rest:
            [number] = [n for n, one in enumerate(sentences) if tuple(rest[: len(one)]) == one and n not in order]
            order.append(number)
            del rest[: len(sentences[number])]
        orders.add(tuple(order))
    assert len(orders) == 4 * 3 * 2


def test_a_sentence_ends_after_the_last_of_its_marks() -> None:
    """`. x` does not end with a mark; three marks in a row end one sentence."""
    noise = Noise(NoiseConfig(permute=True), WORDS, seed=1)
    assert np.flatnonzero(noise.ends).tolist() == [END, HO, SO]
    letters = CharacterTokenizer(["a", "b", ".", "!"])
    ids = np.array(letters.encode("a..!b."))
    ends = Noise(NoiseConfig(permute=True), letters, seed=1).ends
    said = {letters.decode(permute(ids, draw(seed), ends).tolist()) for seed in range(20)}
    assert said == {"a..!b.", "b.a..!"}


def test_one_sentence_stays_as_it_is() -> None:
    ids = np.array([4, 5, 6])
    assert permute(ids, draw(), no_ends(ids)).tolist() == [4, 5, 6]


def test_an_unknown_word_with_affixes_ends_no_sentence() -> None:
    words = AffixTokenizer(["a", ".", "b"])
    ids = np.array(words.encode("a x . b y"))
    noise = Noise(NoiseConfig(permute=True), words, seed=1)
    assert {tuple(permute(ids, draw(seed), noise.ends)) for seed in range(20)} == {tuple(ids), (*ids[3:], *ids[:3])}
    assert noise.warnings([ids]) == []


def noise(**values: float) -> Noise:
    return Noise(NoiseConfig.model_validate(values), WORDS, seed=3)


def test_a_row_is_corrupted_by_seed_epoch_and_its_number_alone() -> None:
    row = np.arange(4, 44)
    config = NoiseConfig(mask=0.5)
    ends = np.zeros(44, bool)

    def corrupted(seed: int, epoch: int, number: int) -> list[int]:
        one = Noise(config, WORDS, seed=seed)
        one.ends = ends
        return one.of_epoch(epoch)(number, row).tolist()

    first = corrupted(1, 0, 0)
    assert first == corrupted(1, 0, 0)
    others = [corrupted(2, 0, 0), corrupted(1, 1, 0), corrupted(1, 0, 1)]
    assert all(other != first for other in others)


def corpus() -> Corpus:
    rows = [[4 + (i * j) % 8 for j in range(1, 4 + i % 5)] for i in range(12)]
    return Corpus(Ragged.of(rows), Ragged.of(rows))


def test_a_row_is_corrupted_alike_in_any_batch() -> None:
    corrupt_row = noise(mask=0.4, delete=0.2).of_epoch(2)
    together = collate(corpus(), np.arange(12), corrupt_row)
    for number in range(12):
        alone = collate(corpus(), np.array([number]), corrupt_row)
        length = int(alone.source.lengths[0])
        assert together.source.values[number, :length].tolist() == alone.source.values[0].tolist()
        assert int(together.source.lengths[number]) == length


def test_a_batch_has_clean_targets_and_closed_sources() -> None:
    rows = np.arange(12)
    clean, corrupted = collate(corpus(), rows), collate(corpus(), rows, noise(delete=0.5).of_epoch(0))
    assert corrupted.inputs.tolist() == clean.inputs.tolist()
    assert corrupted.outputs.values.tolist() == clean.outputs.values.tolist()
    assert int(corrupted.source.lengths.sum()) < int(clean.source.lengths.sum())
    for row, length in zip(corrupted.source.values.tolist(), corrupted.source.lengths.tolist(), strict=True):
        assert row[length - 1] == EOS
        assert set(row[length:]) <= {PAD}


def test_a_text_outside_the_corpus_is_always_corrupted_alike() -> None:
    reader = Noise(NoiseConfig(mask=0.5), WORDS, seed=5).reader()
    assert isinstance(reader, NoisyTokenizer)
    text = " ".join("abcd" * 20)
    ids = reader.encode(text)
    assert ids == reader.encode(text) == reader.encode_batch(["a b", text])[1]
    assert ids != WORDS.encode(text)
    assert UNK in ids
    assert reader.encode("") == []
    assert reader.shown(text).split() == [WORDS.symbols([number])[0] for number in ids]
    assert WORDS.shown("a zz") == "a zz"
    other = Noise(NoiseConfig(mask=0.5), WORDS, seed=6).reader()
    assert other.encode(text) != ids
    assert reader.decode(WORDS.encode(text)) == text
    assert reader.unknown("a zz") == ["zz"]
    assert reader.symbols([UNK, 4]) == ["<unk>", "a"]
    assert (reader.size, reader.kind, reader.fingerprint) == (WORDS.size, "words", WORDS.fingerprint)


@pytest.mark.parametrize("name", ["text.txt", "text.tsv"])
def test_plain_text_is_its_own_answer(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("one line. two!\n\nthree\n")
    data = DataConfig(train=str(path), source=TextConfig(column=0), target=TextConfig(column=0))
    dropped = DropLog()
    pairs = list(read_pairs(str(path), data, dropped))
    assert pairs == [Pair(("one line. two!",), "one line. two!", 1), Pair(("three",), "three", 3)]
    assert dropped.reasons == {"empty line": 1}


def test_a_tab_in_plain_text_is_part_of_the_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("a\tb\nc\n")
    data = DataConfig(train=str(path), source=TextConfig(column=0), target=TextConfig(column=0))
    assert [pair.source for pair in read_pairs(str(path), data, DropLog())] == ["a\tb", "c"]


@pytest.mark.parametrize("most", [1, 3, 7])
def test_shuffled_tokens_move_by_at_most_so_many_places(most: int) -> None:
    rows = [shuffle(LONG, draw(seed), most=most) for seed in range(20)]
    moves = np.abs(np.concatenate([np.argsort(row) - np.arange(len(row)) for row in rows]))
    assert moves.max() == most
    assert np.mean(moves > 0) > 0.2
    assert len({tuple(row) for row in rows}) == 20


def test_permuting_single_sentences_is_warned_of() -> None:
    one, two = np.array([4, END]), np.array([4, END, 5, HO])
    noise = Noise(NoiseConfig(permute=True), WORDS, seed=1)
    assert noise.warnings([one, two, two]) == []
    (warning,) = noise.warnings([one, one, two])
    assert "only 1 of the first 3 training sources have more than one sentence" in warning
    assert Noise(NoiseConfig(mask=0.1), WORDS, seed=1).warnings([one]) == []
