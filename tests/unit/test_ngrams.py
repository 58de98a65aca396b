"""Vectors for n-grams: whose they are, what padding does, and that an unseen one says nothing."""
# B batch, S steps, E embedding

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.models.frontends.frontend import NgramEmbedding, hash_ngrams
from antiphon.sequence import Sequence

ROWS = [[3, 4, 3, 4, 5], [4, 3, 4, 3]]


def embedding(*, dropout: float = 0.0, rows: int = 4099) -> NgramEmbedding:
    made = NgramEmbedding(lengths=[3, 5], rows=rows, size=6, dropout=dropout)
    for table in made.parameters():
        nn.init.normal_(table)
    return made


def around(row: list[int], place: int, length: int) -> tuple[int, ...]:
    """The n-gram, written out; what lies outside is -1."""
    half = length // 2
    return tuple(row[i] if 0 <= i < len(row) else -1 for i in range(place - half, place + half + 1))


def test_each_ngram_has_a_number_of_its_own() -> None:
    numbers: dict[tuple[int, ...], int] = {}
    for length in (3, 5):
        for row in ROWS:
            for place, number in enumerate(hash_ngrams(torch.tensor([row]), length)[0].tolist()):
                assert numbers.setdefault(around(row, place, length), number) == number
    assert len(set(numbers.values())) == len(numbers)
    assert all(0 <= number < 2**31 for number in numbers.values())


def test_numbers_fill_a_table_evenly() -> None:
    """Of all 27,000 trigrams of 30 letters, a table of 1,000 rows gets about 27 in each."""
    letters = torch.arange(4, 34)
    trigrams = torch.cartesian_prod(letters, letters, letters)
    counts = torch.bincount(hash_ngrams(trigrams, 3)[:, 1] % 1000, minlength=1000)
    assert int(counts.min()) >= 5
    assert int(counts.max()) <= 60


def test_vectors_are_the_sum_of_the_tables_in_a_loop() -> None:
    made, source = embedding(), Sequence.of_ids(ROWS, 0)
    vectors = made(source)
    for number, row in enumerate(ROWS):
        for place in range(len(row)):
            expected = torch.zeros(6)
            for length, table in zip((3, 5), made.tables, strict=True):
                gram = torch.tensor([around(row, place, length)])
                assert isinstance(table, nn.Embedding)
                expected += table(hash_ngrams(gram, length)[0, length // 2] % 4099)
            assert torch.allclose(vectors[number, place], expected)


def test_what_stands_in_padding_is_not_seen() -> None:
    source = Sequence.of_ids(ROWS, 0)
    other = Sequence(source.values.masked_fill(~source.mask, 9), source.mask)
    assert torch.equal(embedding_of(other)[source.mask], embedding_of(source)[source.mask])


def embedding_of(source: Sequence) -> Tensor:
    torch.manual_seed(1)
    vectors: Tensor = embedding()(source)
    return vectors


def test_fresh_tables_say_nothing() -> None:
    fresh = NgramEmbedding(lengths=[3], rows=11, size=6, dropout=0.0)
    assert not fresh(Sequence.of_ids(ROWS, 0)).any()


def test_dropout_leaves_out_whole_vectors_in_training_only() -> None:
    made = NgramEmbedding(lengths=[3], rows=11, size=6, dropout=0.5)
    nn.init.ones_(made.tables[0].weight)  # type: ignore[arg-type]
    source = Sequence.of_ids([[3] * 200], 0)
    torch.manual_seed(1)
    vectors = made.train()(source)[0]
    assert set(map(tuple, vectors.tolist())) == {(0.0,) * 6, (2.0,) * 6}
    assert torch.equal(made.eval()(source)[0], torch.ones(200, 6))
