"""The public functions of Antiphon, one for each command of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack, get_args

from numpy.typing import NDArray

from antiphon.arguments import (
    AnyConfig,
    AnyRun,
    file_names,
    readable_examples,
    usable_config,
    whole_config,
    wrong_config,
    wrong_path,
    wrong_run,
    wrong_texts,
)
from antiphon.autoconfig.columns import is_table
from antiphon.autoconfig.suggest import Suggestion, suggest_config
from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data.encode import nothing_usable, usable_pairs
from antiphon.data.in_memory import Examples, is_in_memory, kind_problem, store_all
from antiphon.data.lines import read_lines
from antiphon.data.pairs import DropLog, Example, file_paths, group, read_pairs
from antiphon.data.source import SourcePaths
from antiphon.data.tables import is_plain_text
from antiphon.errors import ConfigError, UserError, refuse, wrong_choice, wrong_item, wrong_type
from antiphon.evaluation.evaluate import Evaluation, evaluate_examples
from antiphon.export.base import export_model as write_export
from antiphon.export.huggingface_read import import_folder
from antiphon.inference.conversation import Conversation
from antiphon.inference.generation import Generation, Scores
from antiphon.inference.generator import Generator
from antiphon.inference.options import SearchKeywords
from antiphon.inference.token_tree import TokenTree
from antiphon.model_folder import load
from antiphon.ngrams.joint import JointNgrams
from antiphon.ngrams.shortlist import Shortlist
from antiphon.plots.attention_views import AttentionKind, explain_attention, explain_beside
from antiphon.plots.positional_encoding import draw_positions, position_tables
from antiphon.plots.search_tree import draw_trace
from antiphon.plots.sentence_map import Pool, SentenceMap, draw_map, make_map
from antiphon.training.callbacks import Callback
from antiphon.training.check import CheckReport, check_run
from antiphon.training.display import Display
from antiphon.training.notebook import DisplayName, chosen_display
from antiphon.training.run import train_run
from antiphon.training.side_models import make_joint, make_shortlist

__all__ = [
    "CheckReport", "chat", "check", "evaluate", "explain", "export_model", "import_model", "init",
    "joint", "load", "map_sentences", "positions", "read_examples", "read_inputs", "read_sentences", "score",
    "shortlist", "train", "tree",
]  # fmt: skip


def _opened(run: AnyRun) -> Generator:
    return run if isinstance(run, Generator) else load(run)


def init(
    data: Examples, *, source: str | int | Sequence[str | int] = (), target: str | int | Sequence[str | int] = ()
) -> Suggestion:
    """Inspect examples and return a `config` for them, the `reasons` for its values, and `warnings`.

    `source` and `target` are columns to read, by name or number; the others are found. Examples in memory are stored in
    the cache, and `config.data.train` names the file.
    """
    both = {"source": source, "target": target}
    columns = {name: [side] if isinstance(side, str | int) else side for name, side in both.items()}
    wanted = "the name or the number of a column, or a list of them"
    refuse(kind_problem("data", data), *(wrong_item(name, side, (str, int), wanted) for name, side in columns.items()))
    sources, targets = ([str(name) for name in side] for side in columns.values())
    if is_in_memory(data):
        file, usual_sources, usual_target = store_all(data)
        return suggest_config([file], sources or usual_sources, targets or usual_target)
    files = file_names(data)
    return suggest_config([files] if isinstance(files, str) else files, sources, targets)


def export_model(run: str | Path, to: str, out: str | Path, *, int8: bool = False, with_search: bool = False) -> Path:
    """Export a run to another engine (ctranslate2, onnx, huggingface); return the folder, which `load` takes.

    With `with_search`, an export to onnx is one file, which also has the search in it: other programs call it with ids
    and get ids, by onnxruntime alone. `load` does not take it.
    """
    flags = {"int8": int8, "with_search": with_search}
    wrong = [wrong_type(name, flag, bool) for name, flag in flags.items()]
    refuse(wrong_path("run", run), wrong_path("out", out, "a folder"), *wrong)
    return write_export(run, to, out, int8=int8, with_search=with_search)


def import_model(folder: str | Path, out: str | Path, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Turn a Marian or BART folder of `transformers` into a model folder; return it for `load`."""
    refuse(wrong_path("folder", folder, "a folder"), wrong_path("out", out, "a folder"))
    return import_folder(folder, out, say=say)


def shortlist(
    run: str | Path, *, per_token: int = 40, always: int = 100, say: Callable[[str], None] = lambda _: None
) -> Shortlist:
    """Learn a shortlist of target tokens from the run's training pairs, and save it in its folder."""
    numbers = {"per_token": per_token, "always": always}
    refuse(wrong_path("run", run), *(wrong_type(name, value, int) for name, value in numbers.items()))
    return make_shortlist(run, per_token=per_token, always=always, say=say)


def joint(run: str | Path, *, say: Callable[[str], None] = lambda _: None) -> JointNgrams:
    """Count joint n-grams in the run's training pairs, and save them in its folder."""
    refuse(wrong_path("run", run))
    return make_joint(run, say=say)


def train(
    config: AnyConfig,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    data: Examples | None = None,
    dev: Examples | None = None,
    fresh: bool = False,
    display: Display | DisplayName | None = "auto",
    callbacks: Sequence[Callback] = (),
) -> Path:
    """Train, resume or extend a run; return its folder, which `load` takes.

    `config` is a file, a recipe's name, a dict or a Config. `data` and `dev` take the place of data.train and data.dev;
    with `data` alone, dev is held out of it. Examples may be files, a list of pairs, a pandas DataFrame or a
    datasets.Dataset, also inside a dict.

    `display` is auto, plain (lines on stderr), terminal (a bar) or notebook; None shows nothing, and an object of a
    subclass of `Display` shows what it likes. `callbacks` are told of updates and evaluations: see `Callback`.

    `learnt` in its summary.json is false, with `problem` and `advice`, if the run has ended without having learnt more
    than the frequency of the output tokens.
    """
    shown, problem = chosen_display(display)
    wrong = [
        wrong_item("callbacks", callbacks, Callback, "a list of objects of antiphon.Callback"),
        None if out is None else wrong_path("out", out, "a folder"),
    ]
    chosen = whole_config(config, overrides, data, dev, problems=[problem, *wrong])
    name = Path(config).stem if isinstance(config, str | Path) else "run"
    folder = Path(out) if out is not None else Path("runs") / name
    train_run(chosen, folder, display=shown, fresh=fresh, callbacks=callbacks)
    return folder


def read_examples(generator: Generator, examples: Examples) -> tuple[list[Example], DropLog]:
    """The pairs of a file or in memory, read as the model's config says; lines that cannot be used are counted."""
    dropped, (files, data) = DropLog(), readable_examples(generator.config.data, examples)
    found = group(usable_pairs(files, data, generator.source, dropped))
    if not found:
        raise nothing_usable(files, data, dropped)
    return found, dropped


def score(run: AnyRun, examples: Examples, *, batch_size: int | None = None) -> Scores:
    """log p(target | source) of given targets, or log p(text) of a language model: `targets`, one for each pair.

    `lines` are their lines in the file, or rows in memory, from 1; `dropped` counts those that could not be used.
    """
    refuse(wrong_run(run), kind_problem("examples", examples))
    generator, dropped = _opened(run), DropLog()
    files, data = readable_examples(generator.config.data, examples)
    pairs = list(usable_pairs(files, data, generator.source, dropped))
    if not pairs:
        raise nothing_usable(files, data, dropped)
    targets = generator.score([(pair.source, pair.target) for pair in pairs], batch_size=batch_size)
    return Scores(targets, [pair.line for pair in pairs], dropped.facts())


def evaluate(
    run: AnyRun,
    examples: Examples,
    *,
    metrics: Sequence[str] | None = None,
    **options: Unpack[SearchKeywords],
) -> Evaluation:
    """Metrics on pairs, with 95 % bootstrap intervals.

    `run` is a folder or a loaded model. `examples` are a file, two parallel files, a list of pairs, a pandas DataFrame
    or a datasets.Dataset with the columns of the model's configuration.

    The result's `predictions` have the answer, flags and metrics of each example; `worst(5)` returns the worst of them.
    """
    wrong = None if metrics is None else wrong_item("metrics", metrics, str, "a list of names")
    refuse(wrong_run(run), kind_problem("examples", examples), wrong)
    generator = _opened(run)
    found, dropped = read_examples(generator, examples)
    return evaluate_examples(
        generator,
        found,
        metrics=list(metrics or generator.config.evaluation.metrics),
        dropped=dropped.facts(),
        **options,
    )


def explain(
    run: AnyRun,
    text: str,
    out: str | Path,
    *,
    attention: AttentionKind | None = None,
    layer: int | None = None,
    head: int | None = None,
    beside: AnyRun | None = None,
    **options: Unpack[SearchKeywords],
) -> Generation:
    """Answer a text and draw the attention of the model: PNG or SVG by the file's suffix.

    An image, audio or a video is drawn with the attention over it. Several sources are drawn in a file each, with names
    that end in -1, -2, ...

    `attention` is cross (from the answer to the source), own (within the answer) or source (within the source); None is
    the first of them that the model has. Several heads make a grid; `layer` and `head`, from 1, select among them.

    `beside` is another model of images, with hard attention for example: its attention to the same image, while it is
    made to write the same answer, is drawn below that of the first.
    """
    refuse(
        wrong_run(run),
        wrong_type("text", text, str, "one text"),
        wrong_path("out", out, "a file name"),
        None if beside is None else wrong_run(beside, "beside"),
        *(wrong_type(name, one, int) for name, one in (("layer", layer), ("head", head)) if one is not None),
    )
    generator, path = _opened(run), Path(out)
    if beside is not None:
        if attention or layer or head:
            raise UserError("beside: the mean attention of both models is drawn; leave out attention, layer and head")
        return explain_beside(generator, _opened(beside), text, path, **options).answer
    return explain_attention(generator, text, path, kind=attention, layer=layer, head=head, **options).answer


def tree(run: AnyRun, text: str, out: str | Path, *, pruned: int = 3, **options: Unpack[SearchKeywords]) -> TokenTree:
    """Draw the tree of a beam search, PNG or SVG by the suffix, or write its trace (JSON), which can be drawn later."""
    refuse(wrong_run(run), wrong_type("text", text, str, "one text"), wrong_path("out", out, "a file name"))
    explained = _opened(run).tree(text, pruned=pruned, **options)
    draw_trace(explained, Path(out))
    return explained


def chat(run: AnyRun, **options: Unpack[SearchKeywords]) -> Conversation:
    """Begin a conversation with a model; `say` is the next turn.

    A model that was trained with `data.turns` reads as many turns before each answer as its training sources had at
    most; others answer each turn by itself.
    """
    refuse(wrong_run(run))
    return Conversation(_opened(run), **options)


def positions(run: AnyRun, out: str | Path) -> dict[str, NDArray[Any]]:
    """Draw the positional encoding of each part of a run that has one; return the tables [position, dimension]."""
    refuse(wrong_run(run), wrong_type("out", out, (str, Path), "a file name"))
    generator = _opened(run)
    tables = position_tables(generator.model, generator.config)
    if not tables:
        raise UserError(
            "positions: this model reads in order and needs no positional encoding, so there is none to draw; "
            "a Transformer and a convolutional encoder have one"
        )
    draw_positions(tables, Path(out))
    return tables


def read_sentences(generator: Generator, file: str) -> tuple[list[str], DropLog]:
    """The sentences of a file without duplicates: its lines, or the source (or text) column of a table.

    A table is a .tsv, .csv, .json, .jsonl, .parquet, .xlsx or CoNLL; for a model of pairs also any file whose lines
    have tabs, as in training. Lines with the cells of several sources, as `generate` reads them, are a table only if
    they have the columns of one.
    """
    [(_, path)] = file_paths(file)
    data, dropped = generator.config.data, DropLog()
    if is_table(path, data) and (len(data.sources) < 2 or _has_source_columns(path, data)):
        sentences = list(dict.fromkeys(read_inputs(generator, file, dropped)))
    else:
        lines = TextConfig(column=0)
        read = data.model_copy(update={"source": None, "target": lines, "window": None, "header": False})
        paths = SourcePaths.of_lines(data, str(path))
        sentences = list(dict.fromkeys(paths.resolve_line(pair.target) for pair in read_pairs(file, read, dropped)))
    if not sentences:
        raise nothing_usable(file, data, dropped)
    return sentences, dropped


def read_inputs(generator: Generator, file: str, dropped: DropLog) -> Iterator[str]:
    """The source (or text) of each row of a table, as `Generator.generate` reads it; the targets may be missing."""
    data = generator.config.data
    for pair in read_pairs(file, _sources_alone(data), dropped, table=True):
        yield pair.source or pair.target
    dropped.refuse(data)


def _has_source_columns(path: Path, data: DataConfig) -> bool:
    """True if a file is a table by its name, or its first line has the columns of all sources."""
    if not is_plain_text(path):
        return True
    first = next((line.text.split("\t") for line in read_lines(path) if line.text.strip()), [])
    columns = [source.column for source in data.sources]
    return all(column < len(first) if isinstance(column, int) else column in first for column in columns)


def _sources_alone(data: DataConfig) -> DataConfig:
    """The data section for a table whose targets may be missing: a source, or the text, takes their place.

    Its other keys stay: a shared vocabulary is refused if the sides differ, and a header may be known by the target.
    """
    targets = data.target.column if isinstance(data.target.column, list) else [data.target.column]
    columns = [*(source.column for source in data.sources), *targets]
    named = any(isinstance(column, str) for column in columns)
    target = data.target.model_copy(update={"column": columns[0]})
    header = named if data.header is None else data.header
    return data.model_copy(update={"target": target, "header": header, "window": None})


def map_sentences(
    run: AnyRun,
    sentences: list[str],
    out: str | Path | None = None,
    *,
    pool: Pool | None = None,
    title: str = "",
) -> SentenceMap:
    """Sentences as points, from the encoder's states by PCA: PNG or SVG by the suffix of `out`.

    `run` is a folder or a loaded model. `pool` makes one vector of a sentence's states: last, mean or max. None is last
    for recurrent networks and for networks without an encoder, mean for the other encoders.
    """
    file = None if out is None else wrong_type("out", out, (str, Path), "a file name")
    choice = wrong_choice("pool", pool, get_args(Pool))
    refuse(wrong_run(run), wrong_texts("sentences", sentences), file, choice, wrong_type("title", title, str, "a text"))
    sentence_map = make_map(_opened(run), list(sentences), pool)
    if out is not None:
        draw_map(sentence_map, Path(out), title)
    return sentence_map


def check(
    config: AnyConfig,
    overrides: Sequence[str] = (),
    *,
    say: Callable[[str], None] = lambda _: None,
) -> CheckReport:
    """Report all problems of a configuration and its data, without training; nothing but the cache is written.

    A report without problems has a `dry_run`: parameters by part, tokens and seconds of an epoch, and memory, from a
    few updates of a copy of the model.
    """
    refuse(*wrong_config(config, overrides))
    try:
        chosen = whole_config(config, overrides)
    except ConfigError as error:
        part = usable_config(config, overrides)
        data = check_run(part, say) if part else CheckReport()
        problems = list(dict.fromkeys([*error.problems, *data.problems]))
        return CheckReport(problems, data.warnings, dropped=data.dropped)  # the model of a broken one is not the user's
    return check_run(chosen, say)
