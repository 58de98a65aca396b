"""Classes: on paper."""

from __future__ import annotations

import pytest

from antiphon.evaluation.classes import class_names, compare_classes, not_classes

NAMES = ["no", "yes"]
# of 6 yes: 4 yes, 1 no, 1 what; of 4 no: 3 no, 1 yes
OUTPUTS = ["yes"] * 4 + ["no", "what"] + ["no"] * 3 + ["yes"]
REFERENCES = [("yes",)] * 6 + [("no",)] * 4


def test_scores_on_paper() -> None:
    found = compare_classes(OUTPUTS, REFERENCES, NAMES)
    assert found.confusion.tolist() == [[3, 1, 0], [1, 4, 1]]
    no, yes = found.scores
    assert (no.name, no.precision, no.recall, no.f1, no.count) == ("no", 75, 75, 75, 4)
    assert (yes.precision, yes.count) == (80, 6)
    assert yes.recall == pytest.approx(100 * 4 / 6)
    assert yes.f1 == pytest.approx(100 * 2 * 4 / (5 + 6))
    assert found.accuracy == 70
    assert found.others == 1
    assert found.mean.precision == pytest.approx(77.5)
    assert found.mean.f1 == pytest.approx((no.f1 + yes.f1) / 2)
    assert found.mean.count == 10


def test_another_order_moves_rows_and_columns() -> None:
    found = compare_classes(OUTPUTS, REFERENCES, NAMES)
    assert found.by_size == ["yes", "no"]
    assert found.ordered(["yes"]).names == ["yes", "no"]
    assert found.ordered(["yes"]).confusion.tolist() == [[4, 1, 1], [1, 3, 0]]
    assert found.ordered([]).confusion.tolist() == found.confusion.tolist()


def test_a_class_that_is_never_answered_has_no_precision() -> None:
    found = compare_classes(["yes"] * 10, REFERENCES, NAMES)
    no, yes = found.scores
    assert (no.precision, no.recall, no.f1) == (None, 0, 0)
    assert found.mean.precision == pytest.approx((yes.precision or 0) / 2)


def test_any_reference_is_right() -> None:
    found = compare_classes(["no", "what"], [("yes", "no"), ("yes", "no")], NAMES)
    assert found.confusion.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_class_without_examples_has_no_scores_but_its_column() -> None:
    found = compare_classes(["yes", "no"], [("yes", "no"), ("yes",)], NAMES)
    assert found.confusion.tolist() == [[0, 0, 0], [1, 1, 0]]
    assert [score.name for score in found.scores] == ["yes"]
    assert (found.mean.recall, found.mean.precision) == (50, 100)


def test_a_few_answers_again_and_again_are_classes() -> None:
    assert class_names(REFERENCES) == NAMES
    many = [(f"word {number % 100}",) for number in range(500)]
    assert class_names(many) == [f"word {number}" for number in range(100)]  # in the order of people


@pytest.mark.parametrize(
    "references",
    [
        [],
        [("yes",)] * 100,  # one answer is no choice
        [(f"word {number % 101}",) for number in range(1000)],
        [(f"word {number % 20}",) for number in range(99)],
        [(f"T AH {number}",) for number in range(50)],
    ],
)
def test_others_are_none(references: list[tuple[str, ...]]) -> None:
    assert class_names(references) is None
    assert "not classes: " in not_classes(references)


def test_none_is_told_with_numbers() -> None:
    assert not_classes([("a",), ("b", "c")]).startswith("the targets are not classes: 3 different ones in 2 examples; ")
