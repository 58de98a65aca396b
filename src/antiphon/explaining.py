"""Public functions that explain one answer: a decoder step, and what the answer owes to each part of the source."""

from __future__ import annotations

from antiphon.arguments import AnyRun, wrong_run
from antiphon.errors import refuse, wrong_type
from antiphon.inference.explain_step import explain_step as work_out_step
from antiphon.inference.generator import Generator
from antiphon.inference.occlusion import Occlusion, OcclusionUnit, occlude
from antiphon.inference.step_explanation import StepExplanation
from antiphon.model_folder import load

__all__ = ["explain_step", "occlusion"]


def _opened(run: AnyRun) -> Generator:
    return run if isinstance(run, Generator) else load(run)


def occlusion(
    run: AnyRun, text: str, answer: str | list[int] | None = None, *, by: OcclusionUnit = "token"
) -> Occlusion:
    """Leave out each part of a source, and return how much log p of the answer, and of each of its tokens, falls.

    `answer` is a text, or the ids of its tokens; None is the model's own. Parts are tokens or, with by="word", words of
    texts, cells of images and positions of other files. `differences` has a row for each part and a column for each
    token, `totals` their sums: a high value speaks for the answer, a negative one against it.
    """
    refuse(wrong_run(run), wrong_type("text", text, str, "one text"))
    return occlude(_opened(run), text, answer, by=by)


def explain_step(
    run: AnyRun,
    text: str,
    position: int,
    *,
    answer: str | list[int] | None = None,
    layer: int | None = None,
    head: int | None = None,
    count: int = 10,
) -> StepExplanation:
    """One decoder step with all its numbers: the step that writes the token at `position`, from 0, of the answer.

    `answer` is a text, or the ids of its tokens, that the model is made to write; None is its own answer. Of a
    Transformer, `layer` and `head` (from 1) choose the attention that is worked out; None is the last layer and the
    first head. `count` is the number of the most probable tokens.

    The result has the `parts` in the order of the computation, each with its formula; `result["weights"]` is the array
    of a part by name, and `result.as_dict()` the same for JSON.
    """
    refuse(wrong_run(run), wrong_type("text", text, str, "one text"), wrong_type("position", position, int, "a number"))
    return work_out_step(_opened(run), text, position, answer=answer, layer=layer, head=head, count=count)
