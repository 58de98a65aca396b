"""One ONNX file with its whole search: ids in, ids out, for programs that have nothing but onnxruntime.

The two graphs of `onnx_write` become one: `start` once, then a Loop over `step` and a step of beam search. The search
is that of search/beam.py with its `ShrinkingBeam`, in ONNX's own text form; greedy search is a beam of 1.
"""
# B sentences, A of them still open, W hypotheses on the widest frontier, R = A x W rows, C candidates, V vocabulary,
# T tokens so far, M ended hypotheses, K the beam

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto, compose, helper, numpy_helper, parser

from antiphon.config.networks import LanguageModelConfig
from antiphon.data.tokenizers import PAD, SPECIALS
from antiphon.errors import UserError
from antiphon.export.onnx_write import NEW, OPSET, ROW, SENTENCE, START, STEP, refuse_large, write_graphs
from antiphon.files import write_bytes
from antiphon.inference.inputs import AnswerCodec
from antiphon.inference.limits import Limits
from antiphon.model_folder import LoadedModel

__all__ = ["read_facts", "write_search"]

METADATA = "antiphon"  # the key in the metadata of the file
FORMAT = 1  # of its value
Array = npt.NDArray[Any]

# The graph without the weights, the steps of the model and the constants that depend on it; `insert` adds them. Those
# constants are `pad_id`, `start_id`, `end_id`, `forbidden` [V] (-inf for a token that is never written, else 0),
# `learnt_positions` of the decoder, and `shares_positions` (1 if the source takes some of them, else 0).
#
# A candidate is numbered in [A x C]. A hypothesis that has ended has a place in [B x K], those of a sentence in the
# order in which they ended; the ids of all of them stand one after the other in `ended_ids`.

TEXT = """
search (int64[B, S] source, int64 beam, float length_penalty, int64 max_length)
    => (int64[B, K, L] answers, int64[B, K] lengths, float[B, K] scores)
<
    int64 zero = {0}, int64 one = {1}, int64 two = {2}, bool yes = {1},
    int64[1] zeros = {0}, int64[1] ones = {1}, int64[1] flat = {-1},
    float[1] certain = {0.0}, float[1] impossible = {-inf},
    int64[0] no_numbers = {}, float[0] no_totals = {}
>
{
    is_padding = Equal(source, pad_id)
    start_ids = Identity(source)
    start_mask = Not(is_padding)

    B1 = Shape <start = 0, end = 1> (source)
    B = Squeeze(B1)
    K1 = Reshape(beam, ones)
    one_each = Concat <axis = 0> (B1, ones)
    empty_each = Concat <axis = 0> (B1, ones, zeros)
    all_sentences = Range(zero, B, one)
    none_finished = Expand(zeros, B1)
    first_totals = Expand(certain, one_each)
    first_tokens = Expand(start_id, one_each)
    first_history = Expand(zeros, empty_each)
    S = Shape <start = 1, end = 2> (source)
    taken = Mul(S, shares_positions)
    untaken = Sub(learnt_positions, taken)
    most_steps = Min(max_length, untaken)
    steps = Squeeze(most_steps)

    sentences, finished, totals, tokens, history, places, sums, sizes, ended_ids = Loop <body = step (
        int64 position, bool open,
        int64[A] sentences_, int64[A] finished_, float[A, W] totals_, int64[A, W] tokens_, int64[A, W, T] history_,
        int64[M] places_, float[M] sums_, int64[M] sizes_, int64[I] ids_
    ) => (
        bool open_after,
        int64[AA] sentences_after, int64[AA] finished_after, float[AA, WW] totals_after, int64[AA, WW] tokens_after,
        int64[AA, WW, TT] history_after,
        int64[MM] places_after, float[MM] sums_after, int64[MM] sizes_after, int64[II] ids_after
    ) {
        tokens_in = Concat <axis = 0> (flat, ones)
        step_tokens = Reshape(tokens_, tokens_in)

        log_probs = LogSoftmax <axis = 1> (step_logits)
        allowed = Add(log_probs, forbidden)
        A1 = Shape <start = 0, end = 1> (tokens_)
        W1 = Shape <start = 1, end = 2> (tokens_)
        V1 = Shape <start = 1, end = 2> (allowed)
        left = Sub(K1, finished_)
        most = ReduceMax <keepdims = 1> (left)
        pairs = Mul(W1, V1)
        C1 = Min(most, pairs)
        few = Min(most, V1)
        best, best_tokens = TopK <axis = 1> (allowed, few)
        by_hypothesis = Concat <axis = 0> (A1, W1, few)
        by_sentence = Concat <axis = 0> (A1, flat)
        totals_column = Unsqueeze(totals_, two)
        best_column = Reshape(best, by_hypothesis)
        extended = Add(totals_column, best_column)
        extended_flat = Reshape(extended, by_sentence)
        total, chosen = TopK <axis = 1> (extended_flat, C1)
        tokens_flat = Reshape(best_tokens, by_sentence)
        token = GatherElements <axis = 1> (tokens_flat, chosen)
        slot = Div(chosen, few)

        C = Squeeze(C1)
        rank = Range(zero, C, one)
        left_column = Unsqueeze(left, one)
        fits = Less(rank, left_column)
        is_possible = Greater(total, impossible)
        selected = And(fits, is_possible)
        is_end = Equal(token, end_id)
        ended = And(selected, is_end)
        ended_number = Cast <to = 7> (ended)
        ended_count = ReduceSum <keepdims = 0> (ended_number, ones)
        finished_now = Add(finished_, ended_count)
        not_ended = Not(is_end)
        selected_open = And(selected, not_ended)
        is_unfilled = Less(finished_now, K1)
        unfilled_column = Unsqueeze(is_unfilled, one)
        going = And(selected_open, unfilled_column)

        A = Squeeze(A1)
        W = Squeeze(W1)
        sentence_number = Range(zero, A, one)
        sentence_column = Unsqueeze(sentence_number, one)
        first_row = Mul(sentence_column, W1)
        row = Add(first_row, slot)
        T1 = Shape <start = 2, end = 3> (history_)
        R1 = Mul(A1, W1)
        by_row = Concat <axis = 0> (R1, T1)
        rows_history = Reshape <allowzero = 1> (history_, by_row)
        row_flat = Reshape(row, flat)
        token_flat = Reshape(token, flat)
        total_flat = Reshape(total, flat)
        before = Gather <axis = 0> (rows_history, row_flat)
        token_column = Unsqueeze(token_flat, one)
        grown = Concat <axis = 1> (before, token_column)

        ended_before = CumSum <exclusive = 1> (ended_number, one)
        finished_column = Unsqueeze(finished_, one)
        ended_order = Add(finished_column, ended_before)
        own_sentence = Unsqueeze(sentences_, one)
        first_place = Mul(own_sentence, K1)
        place = Add(first_place, ended_order)
        place_flat = Reshape(place, flat)
        ended_flat = Reshape(ended, flat)
        ended_at = NonZero(ended_flat)
        ending = Squeeze(ended_at, zeros)
        T_now = Add(T1, ones)
        M1 = Shape(ending)
        new_places = Gather <axis = 0> (place_flat, ending)
        new_sums = Gather <axis = 0> (total_flat, ending)
        new_sizes = Expand(T_now, M1)
        new_histories = Gather <axis = 0> (grown, ending)
        new_ids = Reshape(new_histories, flat)
        places_after = Concat <axis = 0> (places_, new_places)
        sums_after = Concat <axis = 0> (sums_, new_sums)
        sizes_after = Concat <axis = 0> (sizes_, new_sizes)
        ids_after = Concat <axis = 0> (ids_, new_ids)

        going_number = Cast <to = 1> (going)
        width = ReduceSum <keepdims = 0> (going_number, ones)
        widest = ReduceMax <keepdims = 1> (width)
        widest_number = Cast <to = 7> (widest)
        still_at = NonZero(width)
        still = Squeeze(still_at, zeros)
        still_going = Gather <axis = 0> (going_number, still)
        on, order = TopK <axis = 1> (still_going, widest_number)
        first_candidate = Mul(still, C1)
        first_column = Unsqueeze(first_candidate, one)
        candidate = Add(first_column, order)
        kept = Gather <axis = 0> (total_flat, candidate)
        is_on = Cast <to = 9> (on)
        sentences_after = Gather <axis = 0> (sentences_, still)
        finished_after = Gather <axis = 0> (finished_now, still)
        totals_after = Where(is_on, kept, impossible)
        tokens_after = Gather <axis = 0> (token_flat, candidate)
        history_after = Gather <axis = 0> (grown, candidate)
        rows_kept = Gather <axis = 0> (row_flat, candidate)
        next_rows = Reshape(rows_kept, flat)
        open_count = Size(still)
        open_after = Cast <to = 9> (open_count)
    }> (steps, yes, all_sentences, none_finished, first_totals, first_tokens, first_history,
         no_numbers, no_totals, no_numbers, no_numbers)

    alive = Greater(totals, impossible)
    alive_number = Cast <to = 7> (alive)
    alive_before = CumSum <exclusive = 1> (alive_number, one)
    finished_column = Unsqueeze(finished, one)
    alive_order = Add(finished_column, alive_before)
    own_sentence = Unsqueeze(sentences, one)
    first_place = Mul(own_sentence, K1)
    place = Add(first_place, alive_order)
    place_flat = Reshape(place, flat)
    total_flat = Reshape(totals, flat)
    alive_flat = Reshape(alive, flat)
    alive_at = NonZero(alive_flat)
    going = Squeeze(alive_at, zeros)
    T1 = Shape <start = 2, end = 3> (history)
    R1 = Shape(total_flat)
    by_row = Concat <axis = 0> (R1, T1)
    rows_history = Reshape <allowzero = 1> (history, by_row)
    new_places = Gather <axis = 0> (place_flat, going)
    new_sums = Gather <axis = 0> (total_flat, going)
    G1 = Shape(going)
    new_sizes = Expand(T1, G1)
    new_histories = Gather <axis = 0> (rows_history, going)
    new_ids = Reshape(new_histories, flat)
    all_places = Concat <axis = 0> (places, new_places)
    all_sums = Concat <axis = 0> (sums, new_sums)
    all_sizes = Concat <axis = 0> (sizes, new_sizes)
    all_ids = Concat <axis = 0> (ended_ids, new_ids)

    at_least_one = Max(all_sizes, ones)
    length = Cast <to = 1> (at_least_one)
    norm = Pow(length, length_penalty)
    all_scores = Div(all_sums, norm)
    M1 = Shape(places)
    finished_each = Expand(ones, M1)
    unfinished_each = Expand(zeros, G1)
    all_finished = Concat <axis = 0> (finished_each, unfinished_each)
    size_sums = CumSum <exclusive = 1> (all_sizes, zero)

    table_size = Mul(B1, K1)
    table = Concat <axis = 0> (B1, K1)
    no_places = Expand(zeros, table_size)
    no_scores = Expand(impossible, table_size)
    scores_flat = ScatterElements <axis = 0> (no_scores, all_places, all_scores)
    finished_flat = ScatterElements <axis = 0> (no_places, all_places, all_finished)
    lengths_flat = ScatterElements <axis = 0> (no_places, all_places, all_sizes)
    begins_flat = ScatterElements <axis = 0> (no_places, all_places, size_sums)
    scores_table = Reshape(scores_flat, table)
    finished_table = Reshape(finished_flat, table)
    lengths_table = Reshape(lengths_flat, table)
    begins_table = Reshape(begins_flat, table)
    scores_sorted, by_score = TopK <axis = 1> (scores_table, K1)
    finished_by_score = GatherElements <axis = 1> (finished_table, by_score)
    finished_sorted, by_finished = TopK <axis = 1> (finished_by_score, K1)
    best_first = GatherElements <axis = 1> (by_score, by_finished)
    scores = GatherElements <axis = 1> (scores_table, best_first)
    lengths = GatherElements <axis = 1> (lengths_table, best_first)
    begins = GatherElements <axis = 1> (begins_table, best_first)

    longest = ReduceMax <keepdims = 0> (lengths)
    place_in_answer = Range(zero, longest, one)
    length_column = Unsqueeze(lengths, two)
    begin_column = Unsqueeze(begins, two)
    is_token = Less(place_in_answer, length_column)
    where = Add(begin_column, place_in_answer)
    token_at = Where(is_token, where, zero)
    token = Gather <axis = 0> (all_ids, token_at)
    answers = Where(is_token, token, pad_id)
}
"""
UNLIMITED = 2**31  # positions of a decoder that has learnt none
WITH_DEFAULT = ("beam", "length_penalty", "max_length")  # inputs that may be left out
LEFT_OUT = ("joint", "replace_unknown")  # defaults of a model that the file cannot follow


def write_search(loaded: LoadedModel, path: Path) -> None:
    """Write the file; UserError if the model has no source, or is too large."""
    if isinstance(loaded.config.model, LanguageModelConfig):
        raise UserError(
            "with_search: a language model continues a text, and this file answers a source; leave it out, or use "
            "the run itself"
        )
    refuse_large(loaded.model)
    with tempfile.TemporaryDirectory() as folder:
        parts = [Path(folder) / START, Path(folder) / STEP]
        write_graphs(loaded.model, *parts)
        start, step = (onnx.load(str(part)) for part in parts)
    model = join_graphs(start, step, model_constants(loaded))
    helper.set_model_props(model, {METADATA: json.dumps(facts(loaded), ensure_ascii=False)})
    onnx.checker.check_model(model)
    write_bytes(path, model.SerializeToString())


def model_constants(loaded: LoadedModel) -> dict[str, Array]:
    """The constants of the search that depend on the model, and the defaults of its options."""
    decoding, limits = loaded.config.decoding, Limits.of(loaded.config, None)
    forbidden = np.zeros(loaded.target_tokenizer.size, dtype=np.float32)
    forbidden[list(AnswerCodec.forbidden)] = -np.inf
    return {
        "beam": np.array(decoding.beam),
        "length_penalty": np.array(decoding.length_penalty, dtype=np.float32),
        "max_length": np.array(decoding.max_length),
        "pad_id": np.array(PAD),
        "start_id": np.array([AnswerCodec.start]),
        "end_id": np.array(AnswerCodec.end),
        "forbidden": forbidden,
        "learnt_positions": np.array([limits.decoder or UNLIMITED]),
        "shares_positions": np.array([int(limits.joint)]),
    }


def facts(loaded: LoadedModel) -> dict[str, Any]:
    """All that a program needs between a text and the file: both tokenizers, special ids, limits and defaults."""
    config, limits = loaded.config, Limits.of(loaded.config, None)
    assert config.data.text is not None
    longest = config.data.text.max_length  # without </s>, as a TextCodec counts
    return {
        "format": FORMAT,
        "specials": {name: number for number, name in enumerate(SPECIALS)},
        "longest_source": min(longest, (limits.encoder or UNLIMITED) - 1),
        "defaults": {name: getattr(config.decoding, name) for name in WITH_DEFAULT},
        "left_out": [name for name in LEFT_OUT if getattr(config.decoding, name)],
        "source": json.loads(loaded.source_tokenizer.json()),
        "target": json.loads(loaded.target_tokenizer.json()),
    }


def read_facts(path: Path) -> dict[str, Any]:
    """The facts in the metadata of a file that `write_search` wrote."""
    metadata = {entry.key: entry.value for entry in onnx.load(str(path)).metadata_props}
    return dict(json.loads(metadata[METADATA]))


def join_graphs(start: ModelProto, step: ModelProto, constants: dict[str, Array]) -> ModelProto:
    """TEXT with both graphs of a model in it, and with the state of the model in its loop."""
    graph = parser.parse_graph(TEXT)
    before, inside = (compose.add_prefix(part, name).graph for part, name in ((start, "start_"), (step, "step_")))
    state = [value.name for value in step.graph.input if value.name.startswith((ROW, SENTENCE))]
    _insert_nodes(graph, before, after="start_mask")
    [loop] = [node for node in graph.node if node.op_type == "Loop"]
    body = loop.attribute[0].g
    _insert_nodes(body, inside, after="step_tokens")
    changed = {value.name for value in inside.output}
    for value in inside.input:
        name = value.name.removeprefix("step_")
        if name not in state:
            continue
        new = f"step_{NEW}{name}" if f"step_{NEW}{name}" in changed else value.name
        rows = "next_rows" if name.startswith(ROW) else "still"
        body.input.append(value)
        body.node.append(helper.make_node("Gather", [new, rows], [f"after_{name}"], axis=0))
        body.output.append(_renamed(value, f"after_{name}"))
        loop.input.append(f"start_{name}")
        loop.output.append(f"last_{name}")
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph.initializer.extend([*before.initializer, *arrays])
    body.initializer.extend(inside.initializer)  # onnxruntime prepares weights for its products where they are used
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=start.ir_version)


def _insert_nodes(graph: GraphProto, part: GraphProto, after: str) -> None:
    """Put the nodes of a part behind the one that computes `after`."""
    nodes = list(graph.node)
    [place] = [number for number, node in enumerate(nodes, start=1) if after in node.output]
    del graph.node[:]
    graph.node.extend([*nodes[:place], *part.node, *nodes[place:]])


def _renamed(value: ValueInfoProto, name: str) -> ValueInfoProto:
    """The value under another name, its sizes unknown."""
    kind = value.type.tensor_type
    shape = [None if size.dim_param else size.dim_value for size in kind.shape.dim]
    return helper.make_tensor_value_info(name, kind.elem_type, shape)
