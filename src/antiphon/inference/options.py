"""The options of a search, each declared once: as a field of `SearchOptions`.

From these fields come the flags of the command line, the keywords of Python (`SearchKeywords`), the checks and
docs/reference/search-options.md. The command line imports this module to print its help, so it imports nothing heavy.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast, get_args, get_origin, get_type_hints

from antiphon.errors import UserError, wrong_item, wrong_type
from antiphon.text import nearest

if TYPE_CHECKING:
    from antiphon.config.schema import DecodingConfig
    from antiphon.inference.engine import Engine
    from antiphon.inference.inputs import Codec

__all__ = [
    "FLOAT32", "HALF_WEIGHTS", "LARGEST_BATCH", "OPTIONS", "STEP_ENGINES", "Option", "Precision",
    "SearchKeywords", "SearchOptions", "is_given", "keyword_problems", "search_options",
]  # fmt: skip

Utility = Literal["chrf", "bleu"]
Precision = Literal["float32", "float16-weights"]  # of the weights of a run in matrix products
FLOAT32, HALF_WEIGHTS = get_args(Precision)
Phrases = tuple[tuple[int, ...], ...]

STEP_ENGINES = ("torch", "onnx")  # engines whose steps we search with
ALL = (*STEP_ENGINES, "ctranslate2")
RENORMALISED = "CTranslate2 removes forbidden tokens before its softmax, which changes the scores"
NOT_OF_LABELS = (  # options that a tagger refuses
    "max_length", "min_length", "max_ratio", "min_ratio", "length_penalty", "patience", "diversity", "no_repeat",
    "require", "coverage", "joint", "replace_unknown",
)  # fmt: skip
LARGEST_BATCH = 50_000_000  # tokens on the frontier of a batch: beam (or samples) x batch_size x max_length


@dataclass(frozen=True)
class Option:
    """The description of an option, its range, and where it can be used."""

    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    needs: str = ""  # another option, without which this one has no effect
    search: Literal["any", "beam", "sampling"] = "any"
    reads: Literal["", "answer", "source"] = ""  # no windows of a language model; no language model at all
    attention: bool = False  # the model has to attend to its source
    reranker: bool = False  # the weight of the model's reranker of this name
    engines: tuple[str, ...] = STEP_ENGINES
    hint: str = ""  # the remedy for a value out of range
    refusal: str = "the search of CTranslate2 does not have it"  # the reason why such an export refuses the option
    flag: bool = True  # on the command line
    name: str = ""
    default: Any = None
    configured: bool = False  # the default is the model's decoding.NAME
    kind: type = str  # int, float, bool, str, or tuple: several texts

    @property
    def off(self) -> object:
        """The value that has no effect."""
        return False if self.configured else self.default

    def bound(self, value: float) -> float | None:
        """The bound that a number breaks; None if it is within all."""
        if self.least is not None and value < self.least:
            return self.least
        if self.above is not None and value <= self.above:
            return self.above
        return self.most if self.most is not None and value > self.most else None

    def wrong_type(self, value: object) -> str | None:
        """The sentence for a value of another type; None has no effect."""
        if value is None:
            return None
        if self.kind is tuple:
            example = f", such as [{value!r}]" if isinstance(value, str) else ""
            return wrong_item(self.name, value, str, f"a list of phrases{example}")
        return wrong_type(self.name, value, self.kind)

    def problems(self, value: object) -> Iterator[str]:
        """A sentence with a remedy if the value is out of range."""
        hint = f"; {self.hint}" if self.hint else ""
        if self.choices and value not in self.choices:
            yield f"{self.name}: must be {' or '.join(self.choices)}, not {value!r}"
        if not isinstance(value, int | float):
            return
        if not math.isfinite(value):
            yield f"{self.name}: must be a finite number, not {value:g}"
        elif self.bound(value) is not None:
            bounds = {"at least": self.least, "above": self.above, "at most": self.most}
            known = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
            yield f"{self.name}: must be {known}, not {value:g}{hint}"


# fmt: off
@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of one search, phrases as ids; those without a default have it in the model's `decoding` section."""

    beam: Annotated[int, Option("Hypotheses kept at each step; 1 is greedy search.", least=1, engines=ALL)]
    n_best: Annotated[int, Option("Answers returned for each input, best first.", least=1, engines=ALL)] = 1
    max_length: Annotated[int, Option("Longest answer in tokens; </s> counts.", least=1, engines=ALL)]
    min_length: Annotated[int, Option(
        "Shortest answer in tokens; </s> counts.", least=1, reads="answer", refusal=RENORMALISED)] = 1
    max_ratio: Annotated[float | None, Option(
        "Longest answer as a multiple of the length of its source, both with </s>.", above=0, reads="source")] = None
    min_ratio: Annotated[float | None, Option(
        "Shortest answer as a multiple of the length of its source, both with </s>.", above=0, reads="source",
        refusal=RENORMALISED)] = None
    length_penalty: Annotated[float, Option(
        "Exponent a of the score sum(log p) / length^a.", least=0, most=10, engines=ALL)]
    patience: Annotated[float | None, Option(
        "Keep the beam full until beam x patience hypotheses have finished; "
        "without it the beam shrinks by one for each.",
        above=0, most=1000, search="beam", engines=ALL, hint="leave it out for a beam that shrinks")] = None
    diversity: Annotated[float | None, Option(
        "Divide the beam into groups; a token costs this much for each earlier group that took it at the same step.",
        above=0, most=1000, search="beam", reads="answer", hint="leave it out for one beam")] = None
    groups: Annotated[int, Option("Groups of the beam.", least=2, needs="diversity", search="beam")] = 2
    no_repeat: Annotated[int | None, Option(
        "No n-gram of this length occurs twice in an answer.", least=1, reads="answer", refusal=RENORMALISED)] = None
    forbid: Annotated[Phrases, Option(
        "A phrase that no answer may contain; repeatable.", reads="answer", refusal=RENORMALISED)] = ()
    require: Annotated[Phrases, Option("A phrase that every answer must contain; repeatable.", reads="answer")] = ()
    coverage: Annotated[float, Option(
        "Weight of the coverage penalty, which favours answers that attend to the whole source, when a beam is ranked.",
        least=0, search="beam", reads="source", attention=True)] = 0.0
    joint: Annotated[float, Option(
        "Weight of the run's joint n-grams in the ranking of a beam's answers; 0 turns them off.",
        least=0, search="beam", reads="source", reranker=True, engines=ALL)]
    replace_unknown: Annotated[bool, Option(
        "Allow <unk>, and write the source token attended to most in its place.", reads="source", attention=True)]
    shortlist: Annotated[bool, Option(
        "Compute only the tokens that `antiphon shortlist` learnt for the source: faster. For exports to CTranslate2.",
        reads="source", engines=("ctranslate2",))] = False
    sample: Annotated[bool, Option(
        "Sample tokens instead of searching for the most probable answer.",
        refusal="CTranslate2 draws random numbers for a whole batch, so an answer would depend on the batch")] = False
    temperature: Annotated[float, Option(
        "Sample from p^(1 / temperature): below 1 likely tokens gain, above 1 rare ones.", above=0, search="sampling",
        hint="for greedy search leave sample out and set beam to 1")] = 1.0
    top_k: Annotated[int | None, Option("Sample from the k most probable tokens.", least=1, search="sampling")] = None
    top_p: Annotated[float | None, Option(
        "Sample from the fewest tokens whose probabilities sum to p.", above=0, most=1, search="sampling")] = None
    seed: Annotated[int, Option("Seed of the random numbers.", least=0, search="sampling")] = 1
    mbr: Annotated[Utility | None, Option(
        "Take the sample most similar to the others (minimum Bayes risk), by chrF or BLEU.",
        choices=get_args(Utility), search="sampling")] = None
    samples: Annotated[int, Option("Samples to choose from.", least=2, needs="mbr", search="sampling")] = 16
    batch_size: Annotated[int, Option("Inputs answered together, which changes no answer.", least=1, engines=ALL)]
    log_probs: Annotated[bool, Option(
        "Return the log probability of each token; some engines are faster without.", engines=ALL, flag=False)] = True
    # fmt: on

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that are decoded at once."""
        if not self.sample:
            return self.beam
        return self.n_best if self.mbr is None else max(self.n_best, self.samples)

    @property
    def reranking(self) -> dict[str, float]:
        """The weight of each reranker in use."""
        weights = {name: getattr(self, name) for name, option in OPTIONS.items() if option.reranker}
        return {name: weight for name, weight in weights.items() if weight}

    def longest(self, source: int) -> int:
        """Most tokens of an answer to a source of this many tokens, both with </s>."""
        return self.max_length if self.max_ratio is None else max(1, int(min(self.max_length, self.max_ratio * source)))

    def shortest(self, source: int) -> int:
        """Fewest tokens of an answer to a source of this many tokens, both with </s>."""
        share = 0 if self.min_ratio is None else math.ceil(min(self.max_length, self.min_ratio * source))
        return max(self.min_length, share)


def _kind(hint: Any) -> type:  # noqa: ANN401 (a type or a form of typing)
    """The type of the values of an option: of `int | None` it is int."""
    one = get_args(hint)[0] if type(None) in get_args(hint) else hint
    return str if get_origin(one) is Literal else get_origin(one) or one


OPTIONS: dict[str, Option] = {
    name: replace(
        hint.__metadata__[0],
        name=name,
        default=getattr(SearchOptions, name, None),
        configured=not hasattr(SearchOptions, name),
        kind=_kind(hint.__origin__),
    )
    for name, hint in get_type_hints(SearchOptions, include_extras=True).items()
}


class SearchKeywords(TypedDict, total=False):
    """The options of a search as keywords, described in `SearchOptions`; None stands for the default."""

    beam: int | None
    n_best: int | None
    max_length: int | None
    min_length: int | None
    max_ratio: float | None
    min_ratio: float | None
    length_penalty: float | None
    patience: float | None
    diversity: float | None
    groups: int | None
    no_repeat: int | None
    forbid: list[str] | None
    require: list[str] | None
    coverage: float | None
    joint: float | None
    replace_unknown: bool | None
    shortlist: bool | None
    sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    mbr: Utility | None
    samples: int | None
    batch_size: int | None
    log_probs: bool | None


def search_options(
    keywords: SearchKeywords,
    decoding: DecodingConfig,
    codec: Codec,
    engine: Engine,
    rerankers: Collection[str],
) -> SearchOptions:
    """The options of a search, from keywords and the defaults of a config; UserError with every problem."""
    given = cast("Mapping[str, Any]", keywords)
    if wrong := [said for name in given if name in OPTIONS and (said := OPTIONS[name].wrong_type(given[name]))]:
        raise UserError(wrong)
    given = {name: value.item() if hasattr(value, "item") else value for name, value in given.items()}  # of NumPy
    options = _with_defaults(given, decoding, codec)
    problems = [
        *keyword_problems(given),
        *_combination_problems(options),
        *_phrase_problems(given, options, codec),
        *_model_problems(given, options, codec),
    ]
    if problems := problems or _engine_problems(options, codec, engine, rerankers):
        raise UserError(problems)
    return options


def is_given(value: object) -> bool:
    """The value differs from not giving the option at all."""
    return value is not None and value is not False and value != []


def keyword_problems(given: Mapping[str, object]) -> list[str]:
    """Problems that the keywords alone show: unknown names, values out of range, options without the one they need."""
    problems = []
    for name, value in given.items():
        if name not in OPTIONS:
            close = nearest(name, OPTIONS)
            problems.append(f"{name}: there is no such option" + (f"; did you mean {close!r}?" if close else ""))
        elif is_given(value):
            option = OPTIONS[name]
            needed = option.needs or ("sample" if option.search == "sampling" else "")
            problems += option.problems(value)
            if needed and not is_given(given.get(needed)):
                problems.append(f"{name}: only with {needed}; add {needed}, or leave {name} out")
    if given.get("sample") and (beam := given.get("beam")) is not None:
        problems.append(f"beam: a beam of {beam} looks for the most probable answer, sample draws one; leave one out")
    return problems


def _with_defaults(given: Mapping[str, Any], decoding: DecodingConfig, codec: Codec) -> SearchOptions:
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        default = getattr(decoding, name) if option.configured else option.default
        values[name] = default if given.get(name) is None else given[name]
    if codec.labels is not None:  # as many as there are tokens; each is chosen alone, so greedy search is exact
        wide = given.get("beam") or given.get("n_best") or 1
        values |= {"max_length": codec.labels + 1, "length_penalty": 0.0, "beam": wide}
    for name in ("forbid", "require"):
        phrases = dict.fromkeys(tuple(codec.target.encode(text)) for text in values[name])
        values[name] = tuple(phrase for phrase in phrases if phrase)
    if values["sample"] or values["coverage"] or values["beam"] == 1:  # a default reranker gives way
        values |= {name: 0.0 for name, one in OPTIONS.items() if one.reranker and given.get(name) is None}
    return SearchOptions(**values)


def _combination_problems(options: SearchOptions) -> list[str]:
    """Values that contradict each other."""
    beam, n_best, longest = options.beam, options.n_best, options.max_length
    problems = []
    if not options.sample and n_best > beam:
        problems.append(f"n_best: {n_best} answers need a beam of at least {n_best}, not {beam}")
    elif 0 < (options.patience or 1.0) < 1 and n_best > (ended := math.ceil(beam * (options.patience or 1.0))):
        why = f"the search stops when {ended} have ended (beam x patience)"
        problems.append(f"n_best: {n_best} answers, but {why}; raise patience")
    if options.min_length > longest:
        problems.append(f"min_length: {options.min_length} is more than max_length {longest}; change one of them")
    if options.min_ratio is not None and options.max_ratio is not None and options.min_ratio > options.max_ratio:
        both = f"{options.min_ratio:g} is more than max_ratio {options.max_ratio:g}"
        problems.append(f"min_ratio: {both}; change one of them")
    if options.width * options.batch_size * longest > LARGEST_BATCH:
        wide = f"{'n_best' if options.sample else 'beam'} x batch_size x max_length"
        size = f"{options.width} x {options.batch_size} x {longest}"
        problems.append(f"{wide}: {size} is more than {LARGEST_BATCH:,} tokens at once; make one of them smaller")
    return [*problems, *_beam_problems(options)]


def _beam_problems(options: SearchOptions) -> list[str]:
    problems = []
    if options.sample or options.beam == 1:
        used = [name for name, one in OPTIONS.items() if one.search == "beam" and getattr(options, name) != one.off]
        problems += [f"{name}: only for a beam of 2 and more; leave it out" for name in used]
    if options.reranking and options.coverage:
        [name, *_] = options.reranking
        problems.append(f"{name}: it orders the answers of a beam, and so does coverage; leave out one of them")
    if options.diversity is not None and options.groups > 1 and options.beam % options.groups:
        problems.append(f"groups: {options.groups} groups cannot share a beam of {options.beam} evenly; give a divisor")
    if options.require and (options.diversity is not None or options.sample):
        problems.append("require: phrases are worked in by a beam; leave out sample and diversity")
    return problems


def _phrase_problems(given: Mapping[str, Any], options: SearchOptions, codec: Codec) -> list[str]:
    from antiphon.search.phrases import contains

    problems = []
    needed = sum(map(len, options.require)) + 1
    if needed > options.max_length:
        longest = options.max_length
        problems.append(f"require: {needed} tokens with </s> do not fit into max_length {longest}; raise max_length")
    if any(contains(phrase, never) for phrase in options.require for never in options.forbid):
        problems.append("forbid: a phrase in it is part of one that require asks for; leave it out of one of them")
    for name in ("forbid", "require"):
        for text in given.get(name) or []:
            if not codec.target.encode(text):
                problems.append(f"{name}: an empty phrase; leave it out")
            elif unknown := codec.target.unknown(text):
                problems.append(f"{name} {text!r}: the model does not know {', '.join(map(repr, unknown))}; change it")
    return problems


def _model_problems(given: Mapping[str, Any], options: SearchOptions, codec: Codec) -> list[str]:
    """A language model has no source, one with a limited context writes in windows, and a tagger has no search."""
    readers = [name for name, option in OPTIONS.items() if option.reads and is_given(given.get(name))]
    problems, size = [], codec.target.size
    if codec.labels is not None:
        why = "a tagger gives each token one label, chosen alone; leave it out"
        problems += [f"{name}: {why}" for name in NOT_OF_LABELS if is_given(given.get(name))]
    if codec.context_length is not None:
        why = "this language model writes in windows and forgets what is before; leave it out"
        problems += [f"{name}: {why}" for name in readers]
    elif codec.target_name == "text":
        of_source = [name for name in readers if OPTIONS[name].reads == "source"]
        problems += [f"{name}: a language model has no source; leave it out" for name in of_source]
    if not options.sample and options.beam > size:
        known = f"is more than the {size} tokens that the model knows"
        problems.append(f"beam: {options.beam} {known}; give at most {size}")
    return problems


def _engine_problems(
    options: SearchOptions, codec: Codec, engine: Engine, rerankers: Collection[str]
) -> list[str]:
    problems = []
    used = {name: one for name, one in OPTIONS.items() if getattr(options, name) != one.off}
    for name, option in used.items():
        if engine.name in option.engines:
            if option.attention and not engine.has_attention:
                problems.append(f"{name}: this model does not attend to a source; leave it out")
        elif option.engines == ("ctranslate2",):
            why = "only an export to CTranslate2 uses one"
            problems.append(f"{name}: {why}; leave it out, or export the run to ctranslate2")
        elif option.search != "sampling":  # sample itself is refused
            problems.append(f"{name}: {option.refusal}; leave it out, or use the run that the export was made from")
    if options.replace_unknown and not codec.single_text:
        problems.append("replace_unknown: only for a source that is one text; leave it out")
    if engine.longest is not None and options.max_length > engine.longest:
        problems.append(
            f"max_length: {options.max_length}, but the export has {engine.longest} positions; give at most that, "
            "or raise decoding.max_length or data.target.max_length in the config of the run and export it again"
        )
    if options.shortlist and engine.name == "ctranslate2" and not engine.has_shortlist:
        problems.append(
            "shortlist: the export has none; `antiphon shortlist RUN` learns one, then export the run again"
        )
    for name in (name for name in options.reranking if name not in rerankers):
        then = "" if engine.name == "torch" else ", then export the run again"
        learn = f"the model has none; `antiphon {name} RUN` learns it from the training pairs{then}"
        problems.append(f"{name}: {learn if codec.single_text else 'only for a source that is one text; leave it out'}")
    return problems
