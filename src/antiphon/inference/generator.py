"""The Generator: a model with its codec and search. Text in, text out, the same in any batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Unpack, cast, overload

from antiphon.config.schema import Config
from antiphon.data.source import Source
from antiphon.data.tokenizers import Tokenizer, text_source
from antiphon.errors import UserError, refuse, wrong_item, wrong_type
from antiphon.inference.answers import AnswerPipeline
from antiphon.inference.conversation import TurnFormat
from antiphon.inference.engine import Engine, EngineModel, LoadedModel, TorchEngine
from antiphon.inference.flags import unknown_flags
from antiphon.inference.generation import Generation, ScoredTarget, TokenAlternative, join_parts
from antiphon.inference.inputs import EncodedInput, build_codec, chunk_size, encode_inputs
from antiphon.inference.limits import Limits, label_problems
from antiphon.inference.options import OPTIONS, SearchKeywords, SearchOptions, search_options
from antiphon.inference.token_tree import TokenTree
from antiphon.models.frontends.frontend import FrontEnd
from antiphon.models.model import SequenceModel
from antiphon.search.sampling import text_key
from antiphon.search.trace import TraceRecorder

__all__ = ["LONGEST_CONTINUATION", "Generator", "PreparedText"]

LONGEST_CONTINUATION = 24  # tokens of a language model that is explained: a picture of more is hard to read


class GenerateKeywords(SearchKeywords, total=False):
    """The keywords of `Generator.generate`."""

    prefix: str | list[str]
    first: int
    seen: Counter[int] | None
    weights: bool
    heads: bool


@dataclass(frozen=True)
class PreparedText:
    """A text that has been read and checked, ready to be answered in any batch."""

    parts: list[EncodedInput]  # more than one if it is too long to be read at once
    prefix: list[int]  # ids that the answer to the first part begins with
    key: tuple[int, ...]  # of the random numbers of a sample

    @property
    def length(self) -> int:
        """Positions to be read: those of the source, or of the prompt of a language model."""
        return sum(part.length + len(part.prompt) for part in self.parts)


class Generator:
    """Answers, scores and explains with a model."""

    def __init__(self, loaded: LoadedModel | EngineModel, check: Callable[[], None] | None = None) -> None:
        self.config: Config = loaded.config
        self.source: Source = loaded.source
        self.target_tokenizer: Tokenizer = loaded.target_tokenizer
        folder = loaded.folder if isinstance(loaded, LoadedModel) else None
        self.name = "" if folder is None else folder.resolve().name  # stands in traces
        self.check = check  # called before each step; it may raise an exception, which stops the search
        self.precision = loaded.precision if isinstance(loaded, LoadedModel) else None  # of the weights in products
        self.rerankers, self.flag_limits = loaded.rerankers, loaded.flag_limits
        turns, self.turns = self.flag_limits.turns, self.flag_limits.turns or TurnFormat()
        self.codec = build_codec(self.config, self.source, self.target_tokenizer, _front_ends(loaded), turns)
        self.engine: Engine = (
            loaded.engine
            if isinstance(loaded, EngineModel)
            else TorchEngine(self.config, loaded.model, self.codec, check)
        )
        self.limits = Limits.of(self.config, self.codec.context_length)

    def __repr__(self) -> str:
        return f"Generator({', '.join(self._facts().values())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in self._facts().items()
        )
        return f"<table>{rows}</table>"

    def _facts(self) -> dict[str, str]:
        model, data = self.config.model, self.config.data
        encoders = " + ".join(encoder.kind for encoder in getattr(model, "encoders", []))
        network = f"{encoders} → {model.decoder.kind}" if encoders else model.decoder.kind
        own = isinstance(self.engine, TorchEngine)
        facts = {
            "network": f"{model.kind} {network}",
            "size": f"{self.model.parameter_count:,} parameters" if own else f"exported to {self.engine.name}",
            "target": f"{self.target_tokenizer.size:,} {data.target.tokens}",
        }
        kinds = [source.tokens if source.kind == "text" else source.kind for source in data.sources]
        return {**facts, "source": f"from {' + '.join(kinds)}"} if kinds else facts

    @property
    def model(self) -> SequenceModel:
        """The network."""
        if isinstance(self.engine, TorchEngine):
            return self.engine.model
        raise UserError(f"an export to {self.engine.name} has no network; use the run that it was made from")

    @property
    def source_tokenizer(self) -> Tokenizer:
        """That of the only source, which is a text; UserError for all others."""
        return text_source(self.source)

    @overload
    def generate(self, texts: str, **keywords: Unpack[GenerateKeywords]) -> Generation: ...

    @overload
    def generate(self, texts: list[str], **keywords: Unpack[GenerateKeywords]) -> list[Generation]: ...

    def generate(
        self,
        texts: str | list[str],
        *,
        prefix: str | list[str] = "",
        first: int = 0,
        seen: Counter[int] | None = None,
        weights: bool = True,
        heads: bool = False,
        **options: Unpack[SearchKeywords],
    ) -> Generation | list[Generation]:
        """Answers to one text or to many, in order; a language model continues each text.

        A source that is a file is given by its path; several sources have a tab between them.

        `options` are those of the search, such as beam=4 or sample=True: see `SearchOptions`. A sample depends on
        `seed`, on the text and on the number of times that the same text came before it in `texts`; calls that share a
        counter `seen` count as one. Errors number the texts from `first`. A text that is too long is split after
        sentences and answered in parts. `weights=False` saves the forward pass for attention; `heads=True` returns the
        attention of every layer and head, and splits no text.
        """
        many = _texts(texts)
        pipeline = self.pipeline(self.search_options(options), weights=weights, heads=heads)
        prefixes = self.encode_prefixes(prefix, len(many))
        size = chunk_size(self.codec, pipeline.options.batch_size, len(many))
        seen = Counter() if seen is None else seen
        found: list[Generation] = []
        for start in range(0, len(many), size):
            chunk = slice(start, start + size)
            found += self.answer(self.prepare(many[chunk], prefixes[chunk], pipeline, first + start, seen), pipeline)
        return found[0] if isinstance(texts, str) else found

    def pipeline(self, options: SearchOptions, *, weights: bool = True, heads: bool = False) -> AnswerPipeline:
        """The way from encoded inputs to answers, with the options of one search."""
        return AnswerPipeline(
            self.engine, self.codec, self.rerankers, options, self.flag_limits, weights=weights, heads=heads
        )

    def prepare(
        self,
        texts: list[str],
        prefixes: list[list[int]],
        pipeline: AnswerPipeline,
        first: int = 0,
        seen: Counter[int] | None = None,
    ) -> list[PreparedText]:
        """Read and check texts without answering them; UserError with all that cannot be read or is too long."""
        keys: list[tuple[int, ...]] = [()] * len(texts)
        if pipeline.options.sample:
            keys = _sample_keys(texts, Counter() if seen is None else seen)
        parts = [[text] if pipeline.heads else self.codec.split(text) for text in texts]
        inputs = encode_inputs(self.codec, [part for row in parts for part in row], first)
        spoken = [encoded for encoded in inputs if not encoded.skip]
        refuse(*self.limits.answer_problems(spoken, pipeline.options.max_length, heads=pipeline.heads))
        encoded = iter(inputs)
        rows = zip(parts, prefixes, keys, strict=True)
        return [PreparedText([next(encoded) for _ in row], prefix, key) for row, prefix, key in rows]

    def answer(self, texts: list[PreparedText], pipeline: AnswerPipeline) -> list[Generation]:
        """Answers to prepared texts, in order; each is the same as if it were alone."""
        inputs = [encoded for text in texts for encoded in text.parts]
        forced = [text.prefix if part == 0 else [] for text in texts for part in range(len(text.parts))]
        keys = [(*text.key, part) for text in texts for part in range(len(text.parts))]
        answers = iter(pipeline.run(inputs, forced, keys))
        return [join_parts([next(answers) for _ in text.parts], pipeline.options.length_penalty) for text in texts]

    def alternatives(
        self, text: str, position: int, count: int = 5, answer: str | list[int] | None = None
    ) -> list[TokenAlternative]:
        """The `count` most probable tokens at a position (from 0) of the answer, or of a given one, best first.

        `answer` is a text, or the ids of its tokens, that the answer begins with; ids that end in </s> are all of it.
        Each alternative comes with the answer that would follow.
        """
        numbers = {"position": position, "count": count}
        refuse(*(wrong_type(name, value, int) for name, value in numbers.items()))
        encoded, size = self._searchable(text), self.target_tokenizer.size
        if not 1 <= count <= size:
            raise UserError(f"count: must be from 1 to the {size} tokens of the model, not {count}")
        options = self.search_options({"beam": 1})
        tokens = self._begun_answer(encoded, answer or "", options)
        if not 0 <= position < len(tokens):
            raise UserError(f"position: the answer has {len(tokens)} tokens; choose one of them")
        wide = replace(options, beam=count, max_length=position + 1)
        [others] = self.engine.decode([encoded], [tokens[:position]], wide, [(0,)])
        prefixes = [list(other.tokens) for other in others if len(other.tokens) == position + 1]
        continued = self.engine.decode([encoded] * len(prefixes), prefixes, options, [(0,)] * len(prefixes))
        pipeline = AnswerPipeline(self.engine, self.codec, {}, options, self.flag_limits)
        answers = pipeline.alternatives(encoded, [best for [best, *_] in continued])
        found = [
            TokenAlternative(
                token=it.tokens[position],
                probability=math.exp(it.log_probs[position]),
                text=it.text,
                token_id=it.token_ids[position],
                log_prob=it.log_probs[position],
                token_ids=it.token_ids,
            )
            for it in answers
        ]
        return sorted(found, key=lambda alternative: -alternative.log_prob)

    def _begun_answer(self, encoded: EncodedInput, answer: str | list[int], options: SearchOptions) -> list[int]:
        """The ids of an answer that begins as the given one does; ids that end in </s> are the whole of it."""
        ended = isinstance(answer, list) and answer[-1:] == [self.codec.end]
        begun = answer[:-1] if isinstance(answer, list) and ended else answer
        [prefix] = self.encode_prefixes(begun, 1)
        if ended:
            return [*prefix, self.codec.end]
        [[best]] = self.engine.decode([encoded], [prefix], options, [(0,)])
        return list(best.tokens)

    def tree(
        self, text: str, *, prefix: str | list[int] = "", pruned: int = 3, **options: Unpack[SearchKeywords]
    ) -> TokenTree:
        """The tree of a beam search for one text, with the best `pruned` pruned candidates of each step.

        `prefix`, a text or ids of tokens, is what every answer begins with: so a search goes on from any node. A
        language model writes at most 24 tokens, unless `max_length` is given.
        """
        if self.config.data.source is None and options.get("max_length") is None:
            options["max_length"] = min(LONGEST_CONTINUATION, self.config.decoding.max_length)
        chosen = self.search_options(options)
        refuse(wrong_type("pruned", pruned, int))
        if pruned < 0:
            raise UserError(f"pruned: must be at least 0, not {pruned}")
        if chosen.sample or chosen.diversity is not None:
            raise UserError("tree: only of a single beam; leave out sample and diversity")
        after = [name for name, option in OPTIONS.items() if option.reranker or name == "coverage"]
        if given := [name for name in after if cast("dict[str, float]", options).get(name)]:
            raise UserError(f"tree: {given[0]} reranks answers after the search; leave it out")
        encoded, [forced] = self._searchable(text, chosen.max_length), self.encode_prefixes(prefix, 1)
        recorder = TraceRecorder(pruned, len(forced))
        [best, *_] = self.engine.observe(encoded, forced, chosen, (0,), recorder)
        tree = recorder.tree(best)
        symbols = self.target_tokenizer.symbols([node.token for node in tree.nodes])
        found = TokenTree(tree, symbols, list(chosen.reranking))
        return found.of_search(self.codec, encoded, chosen, forced, self.name)

    def score(self, pairs: list[tuple[str, str]] | list[str], batch_size: int | None = None) -> list[ScoredTarget]:
        """log p(y | x) of given targets, teacher-forced; of a language model log p(y) of given texts.

        A text that is longer than a Transformer can attend to is read in windows, as `evaluate` does.
        """
        size, option = self.config.decoding.batch_size if batch_size is None else batch_size, OPTIONS["batch_size"]
        refuse(option.wrong_type(size))
        refuse(*option.problems(size))
        both = self._pairs(pairs)
        step = chunk_size(self.codec, size, len(both))
        chunks = [self._score(both[first : first + step], size, first) for first in range(0, len(both), step)]
        return [scored for chunk in chunks for scored in chunk]

    def _pairs(self, pairs: object) -> list[tuple[str, str]]:
        """Pairs of a source and a target; UserError for anything else. The texts of a language model have no source."""
        model = self.config.data.source is None
        wanted = "a list of texts" if model else "a list of pairs (source, target)"
        refuse(wrong_item("pairs", pairs, (tuple, list, str) if model else (tuple, list), wanted))
        both = [("", pair) if isinstance(pair, str) else tuple(pair) for pair in cast("list[Any]", pairs)]
        if wrong := [pair for pair in both if len(pair) != 2 or not all(isinstance(text, str) for text in pair)]:
            raise UserError(f"pairs: {wrong[0]!r} is not a pair of two texts; give {wanted}")
        return both

    def _score(self, pairs: list[tuple[str, str]], size: int, first: int) -> list[ScoredTarget]:
        inputs = encode_inputs(self.codec, [source for source, _ in pairs], first)
        texts = [text for _, text in pairs]
        targets = [self.codec.encode_target(text) for text in texts]
        labels = [] if self.codec.labels is None else label_problems(inputs, texts, targets)
        refuse(*(labels or self.limits.target_problems(inputs, texts, targets)))
        found = self.engine.log_probs([encoded.source for encoded in inputs], targets, size)
        return [
            ScoredTarget(
                source=encoded.text,
                target=text,
                log_prob=sum(log_probs),
                tokens=self.codec.target.symbols(ids),
                log_probs=log_probs,
                flags=[*encoded.flags, *self._target_flags(text, ids)],
            )
            for encoded, text, ids, log_probs in zip(inputs, texts, targets, found, strict=True)
        ]

    def _target_flags(self, text: str, ids: list[int]) -> list[str]:
        name, longest = self.codec.target_name, self.codec.context_length
        flags = unknown_flags(name, self.codec.target.unknown(text))
        if longest is not None and len(ids) > longest:
            flags.append(f"windows: the {name} has {len(ids)} tokens, {longest} were read at a time")
        return flags

    def _searchable(self, text: str, max_length: int | None = None) -> EncodedInput:
        """The input of a single search; UserError if the text is empty or a language model writes in windows."""
        [encoded], usual = encode_inputs(self.codec, [text]), self.config.decoding.max_length
        if encoded.skip:
            raise UserError(f"{text!r}: {', '.join(encoded.flags)}; there is nothing to search for")
        if self.codec.context_length is not None:
            raise UserError(
                "this language model writes in windows, each with a search of its own; there is no one search"
            )
        refuse(*(self.limits.answer_problems([encoded], max_length or usual, heads=False)))
        return encoded

    def search_options(self, keywords: SearchKeywords) -> SearchOptions:
        """The options of a search in this model, with its defaults; UserError with every problem."""
        return search_options(keywords, self.config.decoding, self.codec, self.engine, self.rerankers)

    def encode_prefixes(self, prefix: str | list[str] | list[int], count: int) -> list[list[int]]:
        """Ids of the prefix of each of `count` answers: one text or the ids of one for all, or a text for each."""
        if isinstance(prefix, list) and any(isinstance(token, int) for token in prefix):
            return [self._check_prefix(cast("list[int]", prefix))] * count
        texts = [prefix] * count if isinstance(prefix, str) else cast("list[str]", prefix)
        if not texts and count:
            texts = [""] * count
        if len(texts) != count:
            raise UserError(f"prefix: {len(texts)} prefixes for {count} texts; give one, or one for each")
        if self.config.data.source is None and any(texts):
            raise UserError("prefix: a language model continues the text; put the prefix at its end")
        for text in set(texts):
            unknown = self.target_tokenizer.unknown(text)
            if unknown:
                raise UserError(f"prefix {text!r}: the model does not know {', '.join(map(repr, unknown))}; change it")
        return [self.target_tokenizer.encode(text) if text else [] for text in texts]

    def _check_prefix(self, ids: list[int]) -> list[int]:
        size, never = self.target_tokenizer.size, {*self.codec.forbidden, self.codec.end}
        if wrong := [token for token in ids if not 0 <= token < size or token in never]:
            raise UserError(f"prefix: token {wrong[0]} cannot stand in an answer; give ids from 0 to {size - 1}")
        return ids


def _texts(texts: object) -> list[str]:
    """One text or many as a list; UserError for anything else."""
    many = [texts] if isinstance(texts, str) else list(texts) if isinstance(texts, list | tuple) else None
    if many is None or not all(isinstance(text, str) for text in many):
        wrong = texts if many is None else next(text for text in many if not isinstance(text, str))
        raise UserError(
            f"texts: a value of type {type(wrong).__name__}; give a text or a list of texts (of a Series: .tolist())"
        )
    return many


def _sample_keys(texts: list[str], seen: Counter[int]) -> list[tuple[int, ...]]:
    """The key of each text, and the number of times it came before; the texts are added to `seen`."""
    keys: list[tuple[int, ...]] = []
    for text in texts:
        key = text_key(text)
        keys.append((key, seen[key]))
        seen[key] += 1
    return keys


def _front_ends(loaded: LoadedModel | EngineModel) -> list[FrontEnd]:
    """The front ends of a network; another engine reads one text."""
    if isinstance(loaded, LoadedModel):
        return loaded.model.front_ends
    return loaded.engine.model.front_ends if isinstance(loaded.engine, TorchEngine) else []
