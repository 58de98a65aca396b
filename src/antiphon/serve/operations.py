"""Operations of a worker on the model it has loaded: each checks its input at once and plans what to compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, cast

from antiphon.errors import UserError
from antiphon.inference.answers import AnswerPipeline
from antiphon.inference.explain_step import explain_step
from antiphon.inference.generator import Generator, PreparedText
from antiphon.inference.inputs import UnreadableInputError
from antiphon.inference.occlusion import occlude
from antiphon.inference.options import LARGEST_BATCH, SearchKeywords
from antiphon.inference.source_view import view_sources
from antiphon.inference.streaming import AnswerUpdate, WatchedAnswer, unwatchable, watch_answer
from antiphon.inference.token_tree import node_dict
from antiphon.serve.answer_messages import OF_TOKENS, span_message, watched_message
from antiphon.serve.attachments import Attachments
from antiphon.serve.batcher import Part
from antiphon.serve.frames import Message
from antiphon.serve.protect import Asked, PieceSearch, glossary_phrases
from antiphon.serve.refusals import Refusal, invalid

__all__ = ["Emit", "Operations", "Plan", "refusal_of_error"]

Emit = Callable[[str, Message], None]  # sends an event of a stream: its name and data
PRUNED = 3  # candidates among the nodes of each step of a tree
# What a request may make at most: some 20 to 50 MB on its way to the client.
MOST_NODES = 250_000  # of trees
MOST_WEIGHTS = 1_000_000  # of attention
MOST_COMPARED = 256  # samples: minimum Bayes risk compares each with each
MOST_WITH_HEADS = 8  # inputs: their answers come with all layers and heads
LONGEST_EXPLAINED = 2_000  # tokens: every layer and head of a Transformer attends from each to each


@dataclass(frozen=True)
class Plan:
    """The parts of a request, and what makes the answer from their results."""

    parts: list[Part]
    answer: Callable[[list[Any]], Message]


class Operations:
    """The operations of one model; an operation is a method that takes the payload of a request."""

    def __init__(self, generator: Generator, most_positions: int, most_characters: int) -> None:
        """`most_positions` is the largest product of hypotheses, answers and tokens that a search may ask for."""
        self.generator, self.most_positions = generator, most_positions
        self.attachments = Attachments(generator.config, most_characters)

    def plan(self, operation: str, payload: Message, emit: Emit) -> Plan:
        """Check a request and plan what to compute; Refusal with all that is wrong."""
        methods: dict[str, Callable[[Message], Plan]] = {
            "generate": self._generate,
            "score": self._score,
            "alternatives": self._alternatives,
            "search": self._search,
            "step": self._step,
            "occlusion": self._occlusion,
            "source": self._source,
            "map": self._map,
        }
        try:
            if operation == "stream":
                return self._stream(payload, emit)
            return methods[operation](payload)
        except UserError as error:
            raise refusal_of_error(error) from error

    def _generate(self, payload: Message) -> Plan:
        returned = set(payload.get("return", ()))
        pipeline = self._pipeline(payload)
        if "tree" in returned:
            refuse_unwatchable(self.generator, pipeline, "return")
        every = self._asked(payload, pipeline)
        refuse_long([asked.text for asked, _ in every], pipeline, returned, PRUNED)
        parts = [self._part(asked, own, payload, returned) for asked, own in every]
        return Plan(parts, lambda results: {"outputs": results})

    def _part(self, asked: Asked, pipeline: AnswerPipeline, payload: Message, returned: set[str]) -> Part:
        """An input with those that are answered alike; a search whose steps are seen is alone."""
        restore, tree = bool(payload.get("protect")), "tree" in returned
        search = PieceSearch(self.generator, pipeline, partial(self._search_texts, tree=tree), restore)

        def work(many: list[Asked]) -> list[Message]:
            return [self._message(found, returned, text) for found, text in search.run(many)]

        if tree:
            return Part(asked, work)
        group = (pipeline.options, frozenset(returned), restore, prompt_length(asked.text))
        return Part(asked, work, group, asked.text.length, pipeline.options.width)

    def _search_texts(self, texts: list[PreparedText], pipeline: AnswerPipeline, *, tree: bool) -> list[WatchedAnswer]:
        if tree:
            return [watch_answer(self.generator, text, pipeline, pruned=PRUNED) for text in texts]
        return [WatchedAnswer(answer, ()) for answer in self.generator.answer(texts, pipeline)]

    def _watched_part(
        self,
        text: PreparedText,
        pipeline: AnswerPipeline,
        returned: set[str],
        update: Callable[[AnswerUpdate], None] = lambda _: None,
        pruned: int = PRUNED,
    ) -> Part:
        """A search whose steps are seen."""

        def work(_: list[Any]) -> list[Message]:
            most = pruned if "tree" in returned else 0
            found = watch_answer(self.generator, text, pipeline, update, pruned=most)
            return [self._message(found, returned, text)]

        return Part(None, work)

    def _message(self, found: WatchedAnswer, returned: set[str], text: PreparedText) -> Message:
        return watched_message(found, returned, self.generator, text)

    def _asked(self, payload: Message, pipeline: AnswerPipeline) -> list[tuple[Asked, AnswerPipeline]]:
        """Each input with the terms of the glossary that it needs, and the search that brings them in."""
        glossary = payload.get("glossary") or {}
        texts = [self.attachments.translated(given) for given in payload["inputs"]]
        if self.generator.codec.labels is not None:
            texts = [None] * len(texts)
        if glossary and None in texts:
            raise invalid("glossary: only for models that turn a text into another; leave it out", param="glossary")
        pipelines: dict[tuple[str, ...], AnswerPipeline] = {(): pipeline}
        found = []
        for given, text in zip(texts, self._prepare(payload, pipeline), strict=True):
            phrases = glossary_phrases(glossary, given or "")
            if (key := tuple(phrases)) not in pipelines:
                pipelines[key] = self._with_phrases(payload, phrases, pipeline)
            found.append((Asked(given or "", text, phrases), pipelines[key]))
        return found

    def _with_phrases(self, payload: Message, phrases: list[str], pipeline: AnswerPipeline) -> AnswerPipeline:
        """The search for answers that have these phrases: as many as the model can write in one answer."""
        target, options = self.generator.codec.target, payload.get("options", {})
        known = [phrase for phrase in phrases if target.encode(phrase) and not target.unknown(phrase)]
        while known:
            try:
                return self._pipeline(
                    {**payload, "options": {**options, "require": [*(options.get("require") or []), *known]}}
                )
            except (UserError, Refusal):
                known.pop()
        return pipeline

    def _stream(self, payload: Message, emit: Emit) -> Plan:
        """The answer to one text, while it is written."""
        returned = set(payload.get("return", ()))
        pipeline = self._pipeline(payload)
        [text] = self._prepare(payload, pipeline)
        shown = payload.get("search", False)
        if shown or "tree" in returned:
            refuse_unwatchable(self.generator, pipeline, "search" if shown else "return")
            returned.add("tree")
        refuse_long([text], pipeline, returned, payload.get("pruned", PRUNED))
        if unwatchable(self.generator, pipeline):  # the answer comes as one

            def work(_: list[Any]) -> list[Message]:
                return [self._message(one, returned, text) for one in self._search_texts([text], pipeline, tree=False)]

            return Plan([Part(None, work)], lambda results: {"output": results[0]})
        update = update_sender(emit, search=shown)
        part = self._watched_part(text, pipeline, returned, update, payload.get("pruned", PRUNED))
        return Plan([part], lambda results: {"output": results[0]})

    def _search(self, payload: Message) -> Plan:
        """The answer to one text and the tree of the search for it, from a prefix if one is given."""
        pipeline = self._pipeline({**payload, "search": True})
        refuse_unwatchable(self.generator, pipeline, "search")
        [text] = self._prepare(payload, pipeline)
        returned, pruned = {"tree", *OF_TOKENS, *payload.get("return", ())}, payload.get("pruned", PRUNED)
        refuse_long([text], pipeline, returned, pruned)
        part = self._watched_part(text, pipeline, returned, pruned=pruned)
        return Plan([part], lambda results: {"output": results[0]})

    def _score(self, payload: Message) -> Plan:
        """log p of given targets."""
        targets = payload["targets"]
        sources = [""] * len(targets) if self.generator.config.data.source is None else payload["inputs"]
        if len(sources) != len(targets):
            raise invalid(f"targets: {len(targets)} for {len(sources)} inputs; give one for each", param="targets")

        def work(_: list[Any]) -> list[Message]:
            with self.attachments.texts(sources) as texts:
                found = self.generator.score(list(zip(texts, targets, strict=True)))
            fields = ("target", "log_prob", "tokens", "log_probs", "flags")
            return [{"outputs": [{name: getattr(one, name) for name in fields} for one in found]}]

        return Plan([Part(None, work)], lambda results: cast("Message", results[0]))

    def _alternatives(self, payload: Message) -> Plan:
        """The tokens that could stand at a position."""

        def work(_: list[Any]) -> list[Message]:
            count, given = payload.get("count", 5), payload.get("answer")
            with self.attachments.texts(payload["inputs"]) as [text]:
                found = self.generator.alternatives(text, payload["position"], count, given)
            return [{"alternatives": [asdict(one) for one in found]}]

        return Plan([Part(None, work)], lambda results: cast("Message", results[0]))

    def _step(self, payload: Message) -> Plan:
        """One step of the decoder, worked out."""
        answer = payload.get("answer")
        ids = self.generator.target_tokenizer.encode(answer) if isinstance(answer, str) else answer or []
        refuse_more(len(ids), LONGEST_EXPLAINED, "answer", "tokens")
        keywords = {name: payload.get(name) for name in ("answer", "layer", "head")}

        def work(_: list[Any]) -> list[Message]:
            with self.attachments.texts(payload["inputs"]) as [text]:
                found = explain_step(
                    self.generator, text, payload["position"], count=payload.get("count", 10), **keywords
                )
            return [found.as_dict(payload.get("dimensions"))]

        return Plan([Part(None, work)], lambda results: cast("Message", results[0]))

    def _occlusion(self, payload: Message) -> Plan:
        """The loss of log p without each part of the source."""

        def work(_: list[Any]) -> list[Message]:
            with self.attachments.texts(payload["inputs"]) as [text]:
                found = occlude(self.generator, text, payload.get("answer"), by=payload.get("by", "token"))
                return [{**found.as_dict(), "spans": [span_message(span) for span in found.spans]}]

        return Plan([Part(None, work)], lambda results: cast("Message", results[0]))

    def _source(self, payload: Message) -> Plan:
        """The sources of an input as the model reads them."""

        def work(_: list[Any]) -> list[Message]:
            with self.attachments.texts(payload["inputs"]) as [text]:
                return [view_sources(self.generator, text)]

        return Plan([Part(None, work)], lambda results: cast("Message", results[0]))

    def _map(self, payload: Message) -> Plan:
        """Sentences as points."""

        def work(_: list[Any]) -> list[Message]:
            from antiphon.plots.sentence_map import make_map  # slow: it brings matplotlib

            with self.attachments.texts(payload["inputs"]) as texts:
                made = make_map(self.generator, texts, payload.get("pool"))
            points = dict(zip(made.sentences, made.plane.points.tolist(), strict=True))
            return [
                {
                    "points": [points.get(text) for text in texts],
                    "shares": list(made.plane.shares),
                    "vectors": made.made_of,
                    "flags": made.flags,
                }
            ]

        return Plan([Part(None, work)], lambda results: cast("Message", results[0]))

    def _pipeline(self, payload: Message) -> AnswerPipeline:
        """The search of a request; Refusal if it would be too large."""
        returned = payload.get("return", ())
        keywords = cast("SearchKeywords", dict(payload.get("options", {})))
        self._refuse_large(cast("Message", keywords))
        shown = not {"log_probs", "tree"}.isdisjoint(returned) or payload.get("search", False)
        options = self.generator.search_options({**keywords, "log_probs": shown, "batch_size": 1})
        if options.mbr is not None:
            refuse_more(options.width, MOST_COMPARED, "samples", "samples that are compared with each other")
        fitting = max(1, LARGEST_BATCH // (options.width * options.max_length))
        options = replace(options, batch_size=min(self.generator.config.decoding.batch_size, fitting))
        engine, heads = self.generator.engine, "heads" in returned
        if "attention" in returned and not engine.has_attention:
            raise invalid("return: this model returns no attention; leave attention out", param="return")
        if heads and not engine.has_heads:
            raise invalid("return: this model returns no single layers and heads; leave heads out", param="return")
        weights = engine.has_attention and not {"attention", "flags"}.isdisjoint(returned)
        # The lanes of the batcher compute several batches at once, so each computes its own as one.
        return replace(self.generator.pipeline(options, weights=weights, heads=heads), workers=1)

    def _refuse_large(self, keywords: Message) -> None:
        decoding, n_best = self.generator.config.decoding, keywords.get("n_best") or 1
        wide, width = "beam", keywords.get("beam") or decoding.beam
        if keywords.get("sample"):
            wide, width = ("samples", keywords.get("samples") or 1) if keywords.get("mbr") else ("n_best", 1)
        size = max(width, n_best) * n_best * (keywords.get("max_length") or decoding.max_length)
        if size > self.most_positions:
            product = f"{'samples' if keywords.get('sample') else 'beam'} x n_best x max_length"
            problem = f"{product} is {size:,}, this server computes at most {self.most_positions:,}; lower one of them"
            raise Refusal(413, "too_large", problem, param=wide, limit=self.most_positions, given=size)

    def _prepare(self, payload: Message, pipeline: AnswerPipeline) -> list[PreparedText]:
        with self.attachments.texts(payload["inputs"]) as texts:
            prefixes = self.generator.encode_prefixes(payload.get("prefix", ""), len(texts))
            return self.generator.prepare(texts, prefixes, pipeline)


def refuse_more(given: int, most: int, param: str, what: str) -> None:
    """Refusal (413) if a request would make more than a server can hold."""
    if given > most:
        problem = f"{param}: {what}: {given:,}, this server makes at most {most:,}; lower it, or send less at once"
        raise Refusal(413, "too_large", problem, param=param, limit=most, given=given)


def refuse_long(texts: list[PreparedText], pipeline: AnswerPipeline, returned: set[str], pruned: int) -> None:
    """Refusal if the attention or the trees of these searches could be too large."""
    options = pipeline.options
    if "attention" in returned:
        weights = sum(text.length * options.longest(text.length) for text in texts)
        refuse_more(weights, MOST_WEIGHTS, "return", "weights of attention")
    if "heads" in returned:
        refuse_more(len(texts), MOST_WITH_HEADS, "return", "inputs with all layers and heads")
        longest = max((max(text.length, options.longest(text.length)) for text in texts), default=0)
        refuse_more(longest, LONGEST_EXPLAINED, "return", "tokens that all layers and heads attend to")
    if "tree" in returned:
        steps = sum(len(text.parts) * options.longest(text.length) for text in texts)
        refuse_more(steps * (options.width + pruned), MOST_NODES, "max_length", "nodes of the tree")


def refuse_unwatchable(generator: Generator, pipeline: AnswerPipeline, param: str) -> None:
    """Refusal if the steps of this search cannot be shown."""
    if problem := unwatchable(generator, pipeline):
        raise invalid(f"{param}: {problem}", param=param)


def prompt_length(text: PreparedText) -> int:
    """The length of the prompt of a language model, which is the same within a batch."""
    return len(text.parts[0].prompt)


def refusal_of_error(error: UserError) -> Refusal:
    """422 with the problems of an error, without the paths of files, which are the server's own."""
    if isinstance(error, UnreadableInputError):
        problems = [f"inputs[{number - 1}]: {fact}" for number, _, fact in error.faults]
        return invalid(problems, code="unreadable_input", param="inputs")
    # The map of Python calls its inputs sentences.
    return invalid(
        [
            "inputs" + problem.removeprefix("sentences") if problem.startswith("sentences:") else problem
            for problem in error.problems
        ]
    )


def update_sender(emit: Emit, *, search: bool) -> Callable[[AnswerUpdate], None]:
    """Sends the steps of a search as events."""

    def send(update: AnswerUpdate) -> None:
        if update.text:
            emit("text", {"text": update.text})
        if search and update.nodes:
            emit("search", {"part": update.part, "nodes": nodes_of(update)})

    return send


def nodes_of(update: AnswerUpdate) -> Sequence[Message]:
    """The new nodes of a step; the winner is known at the end."""
    rows = enumerate(zip(update.nodes, update.symbols, strict=True), start=update.first)
    return [node_dict(number, node, symbol) for number, (node, symbol) in rows]
