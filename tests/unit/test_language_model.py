"""A language model that reads a prompt and goes on: primed, forced and stepped agree; lines and streams; sampling."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from antiphon.config.schema import Config
from antiphon.data.tokenizers import EOS, SOS, CharacterTokenizer, LetterTokenizer, Tokenizer, WordTokenizer
from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel
from antiphon.models.build import build_model

LETTERS = CharacterTokenizer("abcdef\n")
DECODERS: dict[str, dict[str, Any]] = {
    "lstm": {"kind": "plain", "cell": "lstm", "embedding": 8, "size": 8, "layers": 2},
    "transformer": {"kind": "transformer", "size": 8, "layers": 2, "heads": 2, "feedforward": 16},
}
PROMPTS = ["", "a", "abc", "fed", "abcabc", "cab", "d", "ffffffffff", "b", "eb"]


def scatter(model: nn.Module) -> None:
    """Weights from a formula, the same everywhere, that look as if they were drawn."""
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            places = torch.arange(parameter.numel(), dtype=torch.float64)
            if parameter.dim() > 1:
                parameter.copy_((1.6 * torch.sin(places**2 * 0.7 + number)).reshape(parameter.shape))
            elif "bias" in name:
                parameter.zero_()


def make(
    decoder: str = "lstm",
    window: int | None = None,
    tokenizer: Tokenizer = LETTERS,
    **more: Any,  # noqa: ANN401
) -> Generator:
    """A model that has learnt nothing, but goes on after each prompt in its own way."""
    config = Config.model_validate(
        {
            "data": {"train": "a.txt", "window": window, "target": {"tokens": tokenizer.kind}},
            "model": {"kind": "language-model", "decoder": {**DECODERS[decoder], **more}},
            "decoding": {"beam": 1, "max_length": 12, "batch_size": 4},
        }
    )
    model = build_model(config.model, source_tokens=tokenizer.size, target_tokens=tokenizer.size).eval()
    scatter(model)
    if window is None:
        with torch.no_grad():
            model.decoder.output.bias[EOS] += 0.3 if decoder == "lstm" else -2.0  # so that some end, and some do not
    return Generator(LoadedModel(config, model, tokenizer, tokenizer))


@torch.no_grad()
def stepped(generator: Generator, prompt: str, length: int) -> tuple[list[int], list[float]]:
    """Greedy, as slowly as can be: every token, also of the prompt, is one step."""
    codec = generator.codec
    state = generator.model.start(Ones())  # type: ignore[arg-type]
    for token in [codec.start, *codec.target.encode(prompt)]:
        step = generator.model.step(torch.tensor([[token]]), state)
        state = step.state
    tokens: list[int] = []
    log_probs: list[float] = []
    while len(tokens) < length and codec.end not in tokens:
        scores = torch.log_softmax(step.logits[0, -1], -1)
        scores[list(codec.forbidden)] = -torch.inf
        tokens.append(int(scores.argmax()))
        log_probs.append(float(scores.max()))
        step = generator.model.step(torch.tensor([[tokens[-1]]]), step.state)
    return tokens, log_probs


class Ones:
    """A source of which only the number of rows counts."""

    mask = torch.ones(1, 1, dtype=torch.bool)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("window", [None, 40])
def test_a_primed_prompt_is_a_prompt_forced_step_by_step(decoder: str, window: int | None) -> None:
    generator = make(decoder, window)
    texts = set()
    for prompt, answer in zip(PROMPTS, generator.generate(PROMPTS), strict=True):
        tokens, log_probs = stepped(generator, prompt, 12)
        assert answer.tokens == LETTERS.symbols(tokens)
        assert answer.log_probs == pytest.approx(log_probs, abs=1e-4)
        assert answer.text == prompt + LETTERS.decode(tokens)
        assert answer.source_tokens == list(prompt)
        assert (answer.weights, answer.heads) == (None, None)
        texts.add(LETTERS.decode(tokens))
    assert len(texts) > 4, "else the prompts would not matter"


def test_the_prompt_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = make()
    widths: list[int] = []
    really = generator.model.step

    def step(tokens: torch.Tensor, state: Any) -> Any:  # noqa: ANN401 - passes on what it gets
        widths.append(tokens.size(1))
        return really(tokens, state)

    monkeypatch.setattr(generator.model, "step", step)
    generator.generate("abcabc", max_length=2)
    assert (widths[0], {*widths[1:]}) == (6, {1})


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3}, {"sample": True, "seed": 5}])
@pytest.mark.parametrize("decoder", DECODERS)
def test_same_answer_in_any_company(decoder: str, options: dict[str, Any]) -> None:
    generator = make(decoder)
    many = generator.generate(PROMPTS, batch_size=3, **options)
    for prompt, answer in zip(PROMPTS, many, strict=True):
        alone = generator.generate(prompt, **options)
        assert alone.text == answer.text
        assert alone.log_probs == pytest.approx(answer.log_probs, abs=1e-4)
    assert [one.text for one in generator.generate(PROMPTS, batch_size=64, **options)] == [one.text for one in many]


def test_sampling_is_another_answer_for_another_occurrence_or_seed() -> None:
    generator = make()
    options: dict[str, Any] = {"sample": True, "temperature": 2.0}
    texts = [answer.text for answer in generator.generate(["ab"] * 20, **options)]
    assert len(set(texts)) > 10
    assert texts == [answer.text for answer in generator.generate(["ab"] * 20, seed=1, **options)]
    assert texts != [answer.text for answer in generator.generate(["ab"] * 20, seed=2, **options)]
    seen: Counter[int] = Counter()
    in_calls = [generator.generate(["ab", "c"], seen=seen, first=number, **options)[0] for number in range(20)]
    assert texts == [answer.text for answer in in_calls], "the other text makes no difference"
    assert texts[:1] * 2 == [generator.generate("ab", first=number, **options).text for number in (0, 7)]
    cold = generator.generate(PROMPTS, sample=True, temperature=1e-5)
    assert [answer.text for answer in cold] == [answer.text for answer in generator.generate(PROMPTS)]
    assert generator.generate("ab", sample=True, top_k=1, seed=9).text == generator.generate("ab").text


def test_n_best_of_a_sampling_are_so_many_draws() -> None:
    generator = make()
    answer, other = generator.generate(["ab", "c"], sample=True, n_best=5, seed=3)
    assert len(answer.alternatives) == len(other.alternatives) == 5
    assert len({one.text for one in answer.alternatives}) > 1
    assert answer.text == answer.alternatives[0].text == generator.generate("ab", sample=True, seed=3).text
    assert all(one.text.startswith("c") for one in other.alternatives)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temperature": 0.5}, "temperature: only with sample; add sample, or leave temperature out"),
        ({"top_k": 3}, "top_k: only with sample"),
        ({"seed": 3}, "seed: only with sample"),
        ({"sample": True, "beam": 2}, "beam: a beam of 2 looks for the most probable answer, sample draws one"),
        (
            {"sample": True, "temperature": 0.0},
            "temperature: must be above 0, not 0; for greedy search leave sample out",
        ),
        ({"sample": True, "top_p": 1.2}, "top_p: must be above 0 and at most 1, not 1.2"),
        ({"prefix": "a"}, "prefix: a language model continues the text"),
        ({"prefix": "x?"}, "prefix: a language model continues the text"),
        ({"n_best": 2}, "n_best: 2 answers need a beam of at least 2, not 1"),
    ],
)
def test_options_that_speak_against_one_another(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        make().generate("a", **options)
    assert caught.value.problems[0].startswith(sentence)


def test_flags_of_lines_and_of_streams() -> None:
    line, stream = make(), make(window=40)
    short = line.generate("a", max_length=1)
    assert short.flags == ["maximum length: stopped after 1 tokens without an end"]
    assert stream.generate("a", max_length=1).flags == [], "a stream has no end, and nobody expects one"
    strange = line.generate("xay")
    assert strange.flags[0] == "unknown symbols in the prompt: 'x' x 1, 'y' x 1"
    assert strange.text.startswith("xay"), "the prompt is given back as it was"
    assert stream.generate("x").flags == ["unknown symbols in the prompt: 'x' x 1"]


def test_a_stream_goes_on_over_line_ends() -> None:
    generator = make(window=40)
    assert generator.codec.start == LETTERS.encode("\n")[0]
    texts = [answer.text for answer in generator.generate(["ab"] * 30, sample=True, temperature=3.0, max_length=30)]
    assert all(len(text) == 32 for text in texts)
    assert any("\n" in text[:-1] for text in texts)
    both = generator.generate("ab\nc")
    assert both.text.startswith("ab\nc")
    assert both.flags == []


def test_words_of_a_stream_are_lines_of_words() -> None:
    words = WordTokenizer(["one", "two", "three"])
    generator = make(window=40, tokenizer=words)
    assert generator.codec.start == EOS
    answers = generator.generate(["one  two ", "two\nthree", ""], sample=True, temperature=5.0, max_length=40, n_best=3)
    for prompt, answer in zip(["one  two ", "two\nthree", ""], answers, strict=True):
        for one in answer.alternatives:
            assert one.text.startswith(prompt)
            assert "   " not in one.text
            assert one.text.removeprefix(prompt).replace("\n", " ").split() == [t for t in one.tokens if t != "</s>"]
            assert one.text.removeprefix(prompt).count("\n") == one.tokens.count("</s>")
    assert any("</s>" in one.tokens for one in answers[0].alternatives)


@torch.no_grad()
@pytest.mark.parametrize("room", [3, 4, 9])
def test_a_transformer_writes_on_when_its_window_is_full(room: int) -> None:
    """It never looks back further than it was taught to; where it does not have to cut, nothing changes."""
    learnt = make("transformer", window=room, positions={"kind": "learnt", "longest": room + 1})
    answer = learnt.generate("abcab", max_length=25)
    assert len(answer.tokens) == 25
    context = LETTERS.encode("\nabcab")[-room:]
    for token, log_prob in zip(answer.tokens, answer.log_probs, strict=True):
        if len(context) > room:
            context = context[-(room // 2) :]  # full: the later half is read again
        logits = learnt.model(Ones(), torch.tensor([context])).logits[0, -1]  # type: ignore[arg-type]
        number = LETTERS.encode(token)[0]
        assert log_prob == pytest.approx(float(torch.log_softmax(logits, -1)[number]), abs=1e-4)
        context = [*context, number]
    assert (len("abcab") > room) == any(flag.startswith("truncated: the prompt has 5") for flag in answer.flags)
    sampled = learnt.generate(["ab", "abc"], sample=True, max_length=25, n_best=2)
    assert all(len(one.tokens) == 25 for answer in sampled for one in answer.alternatives)
    assert [one.text for one in sampled] == [
        learnt.generate(text, sample=True, max_length=25).text for text in ("ab", "abc")
    ]


def test_score_is_that_of_the_continuation() -> None:
    generator = make()
    finished = [(p, answer) for p, answer in zip(PROMPTS, generator.generate(PROMPTS), strict=True) if not answer.flags]
    assert finished
    for prompt, answer in finished:
        [scored] = generator.score([answer.text])
        assert scored.tokens == [*prompt, *answer.tokens]
        assert scored.log_probs[len(prompt) :] == pytest.approx(answer.log_probs, abs=1e-4)
        assert (scored.source, scored.target) == ("", answer.text)
        assert scored.flags == []
    assert generator.score(["ax"])[0].flags == ["unknown symbols in the text: 'x' x 1"]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("window", [None, 40])
def test_score_in_any_company(decoder: str, window: int | None) -> None:
    generator = make(decoder, window)
    texts = random.Random(3).sample([*PROMPTS, "abcdefabc", "ccc"], 12)
    scored = generator.score(texts, batch_size=5)
    for text, one in zip(texts, scored, strict=True):
        assert one.target == text
        assert one.tokens == [*text, "\n" if window else "</s>"]
        [alone] = generator.score([text])
        assert alone.log_probs == pytest.approx(one.log_probs, abs=1e-4)
        start = LETTERS.encode("\n")[0] if window else SOS
        logits = generator.model(Ones(), torch.tensor([[start, *LETTERS.encode(text)]])).logits[0]  # type: ignore[arg-type]
        own = torch.log_softmax(logits, -1)[range(len(text) + 1), [*LETTERS.encode(text), start if window else EOS]]
        assert one.log_probs == pytest.approx(own.tolist(), abs=1e-4)


@pytest.mark.parametrize("window", [None, 8])
def test_a_letter_that_follows_joins_the_last_character(window: int | None) -> None:
    """The prompt 하 goes on with ᆫ: 한. Nothing of what was said is lost where the two meet."""
    letters = LetterTokenizer([*dict.fromkeys(unicodedata.normalize("NFD", "한국café\n"))])
    codec = make(window=window, tokenizer=letters).codec
    for prompt, whole in (("하", "한국"), ("cafe", "café"), ("한", "한국"), ("", "국")):
        told = letters.encode(unicodedata.normalize("NFD", whole)[len(unicodedata.normalize("NFD", prompt)) :])
        assert codec.decode(codec.encode(prompt), tuple(told)) == whole


def test_a_tree_ends_after_the_documented_length() -> None:
    """A stream has no end of its own."""
    generator = make("lstm", window=40)
    decoding = generator.config.decoding.model_copy(update={"max_length": 60})
    generator.config = generator.config.model_copy(update={"decoding": decoding})
    assert generator.tree("abc", beam=2).tree.steps == 24
    assert generator.tree("abc", beam=2, max_length=30).tree.steps == 30
