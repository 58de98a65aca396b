"""Operations of a worker on the model it has loaded: each checks its input at once and plans what to compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from antiphon.errors import UserError
from antiphon.inference.answers import AnswerPipeline
from antiphon.inference.explain_step import explain_step
from antiphon.inference.generator import Generator, PreparedText
from antiphon.inference.inputs import UnreadableInputError
from antiphon.inference.occlusion import occlude
from antiphon.inference.options import SearchKeywords, SearchOptions
from antiphon.inference.source_view import view_sources
from antiphon.inference.streaming import AnswerUpdate, unwatchable, watch_answer
from antiphon.inference.token_tree import node_dict
from antiphon.serve.answer_messages import OF_TOKENS, answer_message, span_message, watched_message
from antiphon.serve.attachments import Attachments
from antiphon.serve.batcher import Part
from antiphon.serve.frames import Message
from antiphon.serve.refusals import Refusal, invalid

__all__ = ["Emit", "Operations", "Plan"]

Emit = Callable[[str, Message], None]  # sends an event of a stream: its name and data
PRUNED = 3  # candidates among the nodes of each step of a tree


@dataclass(frozen=True)
class Plan:
    """The parts of a request, and what makes the answer from their results."""

    parts: list[Part]
    answer: Callable[[list[Any]], Message]


class Operations:
    """The operations of one model; an operation is a method that takes the payload of a request."""

    def __init__(self, generator: Generator, most_positions: int) -> None:
        """`most_positions` is the largest product of hypotheses, answers and tokens that a search may ask for."""
        self.generator, self.most_positions = generator, most_positions
        self.attachments = Attachments(generator.config)

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
        except UnreadableInputError as error:
            raise invalid(unreadable(error), code="unreadable_input", param="inputs") from error
        except UserError as error:
            raise invalid(error.problems) from error

    def _generate(self, payload: Message) -> Plan:
        returned = set(payload.get("return", ()))
        pipeline = self._pipeline(payload)
        texts = self._prepare(payload, pipeline)
        if "tree" in returned:
            refuse_unwatchable(self.generator, pipeline, "return")
            parts = [self._watched_part(text, pipeline, returned) for text in texts]
            return Plan(parts, lambda results: {"outputs": results})
        work = self._answers(pipeline, returned)
        group = (pipeline.options, pipeline.weights, frozenset(returned))
        width = pipeline.options.width
        parts = [Part(text, work, (*group, prompt_length(text)), text.length, width) for text in texts]
        return Plan(parts, lambda results: {"outputs": results})

    def _answers(self, pipeline: AnswerPipeline, returned: set[str]) -> Callable[[list[PreparedText]], list[Message]]:
        def work(texts: list[PreparedText]) -> list[Message]:
            answers = zip(texts, self.generator.answer(texts, pipeline), strict=True)
            return [answer_message(answer, returned, self.generator, text) for text, answer in answers]

        return work

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
            watched = watch_answer(self.generator, text, pipeline, update, pruned=most)
            return [watched_message(watched, returned, self.generator, text)]

        return Part(None, work)

    def _stream(self, payload: Message, emit: Emit) -> Plan:
        """The answer to one text, while it is written."""
        returned = set(payload.get("return", ()))
        pipeline = self._pipeline(payload)
        [text] = self._prepare(payload, pipeline)
        shown = payload.get("search", False)
        if shown:
            refuse_unwatchable(self.generator, pipeline, "search")
            returned.add("tree")
        if unwatchable(self.generator, pipeline):  # the answer comes as one
            work = self._answers(pipeline, returned)
            return Plan([Part(text, work)], lambda results: {"output": results[0]})
        update = update_sender(emit, search=shown)
        pruned = payload.get("pruned", PRUNED)
        part = self._watched_part(text, pipeline, returned, update, pruned)
        return Plan([part], lambda results: {"output": results[0]})

    def _search(self, payload: Message) -> Plan:
        """The answer to one text and the tree of the search for it, from a prefix if one is given."""
        pipeline = self._pipeline({**payload, "search": True})
        refuse_unwatchable(self.generator, pipeline, "search")
        [text] = self._prepare(payload, pipeline)
        returned = {"tree", *OF_TOKENS, *payload.get("return", ())}
        part = self._watched_part(text, pipeline, returned, pruned=payload.get("pruned", PRUNED))
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
        shown = not {"log_probs", "tree"}.isdisjoint(returned) or payload.get("search", False)
        options = self.generator.search_options({**keywords, "log_probs": shown})
        self._refuse_large(options)
        weights, heads, engine = "attention" in returned, "heads" in returned, self.generator.engine
        if weights and not engine.has_attention:
            raise invalid("return: this model returns no attention; leave attention out", param="return")
        if heads and not engine.has_heads:
            raise invalid("return: this model returns no single layers and heads; leave heads out", param="return")
        # The lanes of the batcher compute several batches at once, so each computes its own as one.
        return replace(self.generator.pipeline(options, weights=weights, heads=heads), workers=1)

    def _refuse_large(self, options: SearchOptions) -> None:
        size = options.width * options.n_best * options.max_length
        if size > self.most_positions:
            wide = "samples" if options.sample else "beam"
            raise Refusal(
                413,
                "too_large",
                f"{wide} x n_best x max_length is {size:,}, this server computes at most {self.most_positions:,}; "
                f"lower one of them",
                param=wide,
                limit=self.most_positions,
                given=size,
            )

    def _prepare(self, payload: Message, pipeline: AnswerPipeline) -> list[PreparedText]:
        with self.attachments.texts(payload["inputs"]) as texts:
            prefixes = self.generator.encode_prefixes(payload.get("prefix", ""), len(texts))
            return self.generator.prepare(texts, prefixes, pipeline, 0, Counter())


def refuse_unwatchable(generator: Generator, pipeline: AnswerPipeline, param: str) -> None:
    """Refusal if the steps of this search cannot be shown."""
    if problem := unwatchable(generator, pipeline):
        raise invalid(f"{param}: {problem}", param=param)


def prompt_length(text: PreparedText) -> int:
    """The length of the prompt of a language model, which is the same within a batch."""
    return len(text.parts[0].prompt)


def unreadable(error: UnreadableInputError) -> list[str]:
    """The problems without the paths of the files, which are the server's own."""
    return [f"inputs[{number - 1}]: {fact}" for number, _, fact in error.faults]


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
