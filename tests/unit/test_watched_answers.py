"""A search that is watched: its tree, the tokens that were forced, and the rank of each candidate."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from tiny_generators import tiny_generator
from untrained_models import TEXTS, untrained_generator

from antiphon.inference.generator import Generator
from antiphon.inference.options import SearchKeywords
from antiphon.inference.streaming import AnswerUpdate, WatchedAnswer, watch_answer
from antiphon.search.trace import TreeNode

TEXT = TEXTS[5]


@pytest.fixture(scope="module")
def generator() -> Generator:
    return untrained_generator()


def watch(
    generator: Generator, text: str, prefix: list[int], options: SearchKeywords, *, pruned: int = 3
) -> tuple[WatchedAnswer, list[AnswerUpdate]]:
    """The answer, and all updates on the way to it."""
    pipeline = generator.pipeline(generator.search_options(options))
    [prepared] = generator.prepare([text], [prefix], pipeline)
    updates: list[AnswerUpdate] = []
    return watch_answer(generator, prepared, pipeline, updates.append, pruned=pruned), updates


def path(nodes: tuple[TreeNode, ...], number: int | None) -> list[int]:
    return [] if number is None else [*path(nodes, nodes[number].parent), nodes[number].token]


@pytest.mark.parametrize("beam", range(1, 10))
@pytest.mark.parametrize("length", [0, 1, 3])
def test_from_a_prefix_the_tree_begins_with_what_was_forced(generator: Generator, beam: int, length: int) -> None:
    prefix = generator.target_tokenizer.encode("M O O")[:length]
    watched, updates = watch(generator, TEXT, prefix, {"beam": beam, "n_best": beam})
    [tree] = watched.trees
    nodes = tree.tree.nodes
    assert [node.token for node in nodes if node.forced] == prefix
    assert [node.step for node in nodes if node.forced] == list(range(length))
    assert all(node.status == "kept" and node.winner and node.rank == 1 for node in nodes if node.forced)
    assert all(path(nodes, number)[:length] == prefix for number, node in enumerate(nodes) if node.step >= length)
    assert sum(len(update.nodes) for update in updates) == len(nodes)
    assert watched.answer.token_ids == [node.token for node in nodes if node.winner]
    [wanted] = generator.engine.decode(
        generator.prepare([TEXT], [prefix], generator.pipeline(generator.search_options({})))[0].parts,
        [prefix], generator.search_options({"beam": beam, "n_best": beam}), [()],
    )  # fmt: skip
    assert [tuple(one.token_ids) for one in watched.answer.alternatives] == [one.tokens for one in wanted]


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4}, {"sample": True}])
def test_ranks_count_the_candidates_of_a_step(generator: Generator, options: SearchKeywords) -> None:
    watched, _ = watch(generator, TEXT, [], options, pruned=50)
    steps = defaultdict(list)
    for node in watched.trees[0].tree.nodes:
        steps[node.step].append(node)
    for nodes in steps.values():
        assert [node.rank for node in nodes] == list(range(1, len(nodes) + 1))
        assert [node.total for node in nodes] == sorted((node.total for node in nodes), reverse=True)


def test_a_sample_shows_the_tokens_that_were_not_drawn(generator: Generator) -> None:
    """One is drawn in each step; with all others it makes the whole distribution, and the rank is in all of it."""
    options: SearchKeywords = {"sample": True, "seed": 3, "temperature": 2.0}
    all_nodes = watch(generator, TEXT, [], options, pruned=50)[0].trees[0].tree.nodes
    few_nodes = watch(generator, TEXT, [], options, pruned=1)[0].trees[0].tree.nodes
    for step in range(max(node.step for node in all_nodes) + 1):
        every = [node for node in all_nodes if node.step == step]
        drawn = [node for node in every if node.status != "pruned"]
        assert len(drawn) == 1
        assert drawn[0].winner
        some = [node for node in few_nodes if node.step == step]
        assert [node.rank for node in some if node.status != "pruned"] == [drawn[0].rank]
        assert len(some) == 2
        assert all(node in every for node in some if node.winner)
    first = [node for node in all_nodes if node.step == 0]
    forbidden = generator.codec.forbidden
    left = 1 - sum(math.exp(node.log_prob) for node in first)  # the share of forbidden tokens
    assert len(first) == generator.target_tokenizer.size - len(forbidden)
    assert 0 < left < 1
    assert watch(generator, TEXT, [], options, pruned=0)[0].answer.text == generator.generate(TEXT, **options).text


def test_the_answer_is_that_of_a_search_nobody_watches(generator: Generator) -> None:
    for text in TEXTS[1:6]:
        for options in ({"beam": 1}, {"beam": 3}, {"sample": True}):
            assert watch(generator, text, [], options)[0].answer.text == generator.generate(text, **options).text


def test_a_language_model_that_writes_in_windows_goes_on_from_a_prefix() -> None:
    made = tiny_generator("transformer-lm", window=6)
    prefix = made.target_tokenizer.encode("M M N O K L M N")
    options: SearchKeywords = {"beam": 1, "max_length": 12}
    watched, _ = watch(made, "K L", prefix, options, pruned=1)
    assert watched.answer.token_ids[:8] == prefix
    assert [node.forced for node in watched.trees[0].tree.nodes if node.winner] == [True] * 8 + [False] * 4
    pipeline = made.pipeline(made.search_options(options))
    [plain] = made.answer(made.prepare(["K L"], [prefix], pipeline), pipeline)
    assert plain.token_ids == watched.answer.token_ids
    assert made.generate("K L", beam=1, max_length=12).token_ids != plain.token_ids
