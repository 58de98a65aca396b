"""An answer while it is being written: the text that can no longer change, and the search as it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.data.tokenizers import UNK
from antiphon.errors import UserError
from antiphon.inference.answers import AnswerPipeline
from antiphon.inference.generation import Generation, join_parts
from antiphon.inference.generator import Generator, PreparedText
from antiphon.inference.inputs import EncodedInput
from antiphon.inference.options import STEP_ENGINES
from antiphon.inference.token_tree import TokenTree
from antiphon.search.trace import Candidate, SearchTree, TraceRecorder, TreeNode

__all__ = ["AnswerUpdate", "WatchedAnswer", "unwatchable", "watch_answer"]

INCOMPLETE = "\ufffd"  # the beginning of a character whose last bytes are still to come


@dataclass(frozen=True)
class AnswerUpdate:
    """The additions of one step of the search."""

    text: str  # behind the text of all updates before; no later step changes it
    part: int  # the number of the part of a text that was split, from 0
    first: int  # the index of the first of the nodes in the tree of this part
    nodes: tuple[TreeNode, ...]
    symbols: tuple[str, ...]  # one for each node


@dataclass(frozen=True)
class WatchedAnswer:
    """The answer, and the tree of its search; a text that was split has one for each part."""

    answer: Generation
    trees: tuple[TokenTree, ...]


def unwatchable(generator: Generator, pipeline: AnswerPipeline) -> str | None:
    """The reason why the steps of this search cannot be shown; None: they can."""
    options, engine = pipeline.options, generator.engine
    if engine.name not in STEP_ENGINES:
        return f"{engine.name} does not show the steps of its search; use the run that the export was made from"
    if options.diversity is not None:
        return "a diverse beam searches group by group; leave out diversity"
    if options.sample and options.width > 1:
        return "several samples are drawn at once; leave out n_best and mbr"
    if generator.codec.context_length is not None and options.width > 1:
        return "this language model writes in windows, each with a search of its own; set beam to 1"
    return None


def watch_answer(
    generator: Generator,
    prepared: PreparedText,
    pipeline: AnswerPipeline,
    update: Callable[[AnswerUpdate], None] = lambda _: None,
    *,
    pruned: int = 0,
) -> WatchedAnswer:
    """Answer one text; `update` is called after each step with what it has added.

    The texts of all updates together are the beginning of the answer's text: what every hypothesis that may still win
    has in common. `pruned` is the number of pruned candidates among the nodes of a step. The answer is that of
    `Generator.answer`. UserError if the steps of this search cannot be shown.
    """
    if problem := unwatchable(generator, pipeline):
        raise UserError(f"stream: {problem}")
    parts: list[Generation] = []
    trees: list[TokenTree] = []
    sent = ""
    for number, encoded in enumerate(prepared.parts):
        before = " ".join(part.text for part in parts if part.text)
        prefix = prepared.prefix if number == 0 else []
        observer = _StepObserver(generator, encoded, update, pruned, number, before, sent, len(prefix))
        answer, tree = _watch_part(prepared, number, encoded, prefix, pipeline, observer)
        sent = observer.sent
        parts.append(answer)
        trace = TokenTree(tree, observer.symbols, list(pipeline.options.reranking))
        trees.append(trace.of_search(generator.codec, encoded, pipeline.options, prefix, generator.name))
    return WatchedAnswer(join_parts(parts, pipeline.options.length_penalty), tuple(trees))


class _StepObserver:
    """Observes the search for one part of a text and reports each step."""

    def __init__(
        self,
        generator: Generator,
        encoded: EncodedInput,
        update: Callable[[AnswerUpdate], None],
        pruned: int,
        part: int,
        before: str,
        sent: str,
        forced: int,
    ) -> None:
        self.recorder, self.pruned = TraceRecorder(pruned, forced), pruned
        self.symbols: list[str] = []
        self.sent = sent  # all texts of updates
        self._tokenizer, self._codec, self._encoded = generator.target_tokenizer, generator.codec, encoded
        self._before = before  # the text of the parts before
        self._update, self._part = update, part

    def __call__(self, candidates: list[Candidate], /) -> None:
        first = len(self.recorder.nodes)
        self.recorder(candidates)
        nodes = self.recorder.nodes[first:]
        symbols = self._tokenizer.symbols([node.token for node in nodes])
        self.symbols += symbols
        self._update(AnswerUpdate(self._added(), self._part, first, tuple(nodes), tuple(symbols)))

    def _added(self) -> str:
        """The stable text that was not sent yet."""
        text = self._stable_text()
        if not text.startswith(self.sent):  # the text of the last tokens depends on those to come
            return ""
        added, self.sent = text[len(self.sent) :], text
        return added

    def _stable_text(self) -> str:
        tokens = self.recorder.stable_prefix
        known = tokens[: tokens.index(UNK)] if UNK in tokens else tokens  # its replacement is chosen at the end
        if not known:
            return self.sent
        text = self._codec.decode(self._encoded, known).rstrip(INCOMPLETE)
        return f"{self._before} {text}" if self._before and text else self._before + text


def _watch_part(
    prepared: PreparedText,
    number: int,
    encoded: EncodedInput,
    prefix: list[int],
    pipeline: AnswerPipeline,
    observer: _StepObserver,
) -> tuple[Generation, SearchTree]:
    if encoded.skip:
        return pipeline.skipped(encoded), SearchTree(())
    found = pipeline.engine.observe(encoded, prefix, pipeline.options, (*prepared.key, number), observer)
    best, *_ = pipeline.rerank(encoded, found)
    return pipeline.build(encoded, found), observer.recorder.tree(best)
