"""The beam with patience: equally many hypotheses go on, however many have finished."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import TableModel, TableState, loop_kept, seeded_rows

from antiphon.search.beam import BeamPolicy, PatientBeam, ShrinkingBeam, beam_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest

END, START, V = 0, 99, 5


def searched(seed: int, policy: BeamPolicy, longest: int, *, end_bias: float = 0.0) -> list[list[Hypothesis]]:
    return beam_search(
        TableModel(seeded_rows(seed, V, end_bias=end_bias)),
        TableState.start(3),
        SearchRequest(sentences=3, start=START, end=END, max_length=longest, length_penalty=0.7),
        policy=policy,
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.5, 1.0, 2.0]), st.integers(1, 6), st.floats(-2, 2))
def test_it_is_the_loop(seed: int, size: int, patience: float, longest: int, end_bias: float) -> None:
    rows = seeded_rows(seed, V, end_bias=end_bias)
    found = searched(seed, PatientBeam(size, patience), longest, end_bias=end_bias)
    for sentence, answers in enumerate(found):
        expected = loop_kept(
            rows, sentence, end=END, size=size, patience=patience, max_length=longest, length_penalty=0.7
        )
        assert [(a.tokens, a.finished) for a in answers] == [(a.tokens, a.finished) for a in expected]


def test_patience_finds_better_answers_than_a_beam_that_shrinks() -> None:
    """With normalised scores, a longer answer may be the better one; a beam that has shrunk does not see it."""
    better = worse = 0
    for seed in range(40):
        kept, shrunk = (searched(seed, policy, 6) for policy in (PatientBeam(2, 3.0), ShrinkingBeam(2)))
        for long, short in zip(kept, shrunk, strict=True):
            better += long[0].score > short[0].score + 1e-9
            worse += long[0].score < short[0].score - 1e-9
    assert better > 3 * worse
