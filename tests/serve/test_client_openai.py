"""The package `openai` against a server: models, completions, chat, streams, and each mistake as its exception."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from conftest import KEY
from running_server import RunningServer

import antiphon
from antiphon.inference.generation import Generation

PROMPTS = ["a b c", "h g f e d", "", "a"]


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none needed", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def language_model(assorted: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{assorted.url}/v1", api_key="none needed", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def wanted(bahdanau_run: str) -> list[Generation]:
    return antiphon.load(bahdanau_run).generate(PROMPTS)


def test_models(client: openai.OpenAI, language_model: openai.OpenAI) -> None:
    [only] = client.models.list()
    assert (only.id, only.object, only.owned_by) == ("bahdanau", "model", "antiphon")
    assert client.models.retrieve("bahdanau").id == "bahdanau"
    assert [one.id for one in language_model.models.list()] == ["static", "rnn-lm", "image", "several", "tagger"]
    with pytest.raises(openai.NotFoundError, match="there is no 'gpt-4'; this server has bahdanau") as caught:
        client.models.retrieve("gpt-4")
    assert (caught.value.code, caught.value.param) == ("unknown_model", "model")


def test_completions_are_those_of_generate(client: openai.OpenAI, wanted: list[Generation]) -> None:
    many = client.completions.create(model="bahdanau", prompt=PROMPTS, temperature=0)
    assert [choice.text for choice in many.choices] == [one.text for one in wanted]
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3]
    cut = [any(flag.startswith("maximum length") for flag in one.flags) for one in wanted]
    assert [choice.finish_reason == "length" for choice in many.choices] == cut
    one = client.completions.create(model="bahdanau", prompt="a b c")
    assert one.choices[0].text == wanted[0].text
    assert one.usage is not None
    assert one.usage.prompt_tokens == len(wanted[0].source_tokens)
    assert one.usage.completion_tokens == len(wanted[0].tokens)
    assert one.usage.total_tokens == one.usage.prompt_tokens + one.usage.completion_tokens


def test_log_probs(client: openai.OpenAI, wanted: list[Generation]) -> None:
    found = client.completions.create(model="bahdanau", prompt=PROMPTS[:2], logprobs=1)
    for choice, one in zip(found.choices, wanted, strict=False):
        assert choice.logprobs is not None
        assert choice.logprobs.tokens == one.tokens
        assert choice.logprobs.token_logprobs == pytest.approx(one.log_probs, abs=1e-5)
    message = {"role": "user", "content": "a b c"}
    chat = client.chat.completions.create(model="bahdanau", messages=[message], logprobs=True)
    assert chat.choices[0].logprobs is not None
    content = chat.choices[0].logprobs.content
    assert content is not None
    assert [one.token for one in content] == wanted[0].tokens
    assert [one.logprob for one in content] == pytest.approx(wanted[0].log_probs, abs=1e-5)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_n_choices_for_each_prompt(client: openai.OpenAI, bahdanau_run: str, n: int) -> None:
    best = antiphon.load(bahdanau_run).generate(PROMPTS[:2], beam=max(n, 1), n_best=n)
    found = client.completions.create(model="bahdanau", prompt=PROMPTS[:2], n=n)
    assert [choice.text for choice in found.choices] == [other.text for one in best for other in one.alternatives]
    assert found.usage is not None
    assert found.usage.prompt_tokens == sum(len(one.source_tokens) for one in best)
    assert found.usage.completion_tokens == sum(len(other.tokens) for one in best for other in one.alternatives)


def test_sampling_depends_on_the_seed_alone(client: openai.OpenAI, bahdanau_run: str) -> None:
    generator = antiphon.load(bahdanau_run)
    texts = set()
    for seed in range(5):
        found = client.completions.create(model="bahdanau", prompt="a b c", temperature=1.5, top_p=0.9, seed=seed)
        wanted = generator.generate("a b c", sample=True, temperature=1.5, top_p=0.9, seed=seed)
        assert found.choices[0].text == wanted.text
        texts.add(wanted.text)
    assert len(texts) > 1
    drawn = client.completions.create(model="bahdanau", prompt="a b c", top_p=0.5)
    assert drawn.choices[0].text == generator.generate("a b c", sample=True, top_p=0.5).text


def test_max_tokens_and_stop(client: openai.OpenAI, wanted: list[Generation]) -> None:
    text = wanted[0].text
    assert len(text.split()) == 6
    short = client.completions.create(model="bahdanau", prompt="a b c", max_tokens=3).choices[0]
    assert (len(short.text.split()), short.finish_reason) == (3, "length")
    longer = client.completions.create(model="bahdanau", prompt="a b c", max_tokens=10**9).choices[0]
    assert longer.text == text
    for stop in (text[2:4], ["nowhere", text[2:4]]):
        stopped = client.completions.create(model="bahdanau", prompt="a b c", stop=stop).choices[0]
        assert (stopped.text, stopped.finish_reason) == (text[: text.index(text[2:4])], "stop")
    echoed = client.completions.create(model="bahdanau", prompt="a b c", echo=True, stop="a b").choices[0]
    assert echoed.text == f"a b c{text}"


def test_chat_answers_the_last_turn(client: openai.OpenAI, wanted: list[Generation]) -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "d"},
        {"role": "assistant", "content": "K"},
        {"role": "user", "content": [{"type": "text", "text": "a b c"}]},
    ]
    found = client.chat.completions.create(model="bahdanau", messages=messages)  # type: ignore[arg-type]
    assert found.object == "chat.completion"
    assert (found.choices[0].message.role, found.choices[0].message.content) == ("assistant", wanted[0].text)
    cut = client.chat.completions.create(model="bahdanau", messages=messages, max_completion_tokens=2)  # type: ignore[arg-type]
    assert (cut.choices[0].finish_reason, len(str(cut.choices[0].message.content).split())) == ("length", 2)


@pytest.mark.parametrize(
    "options", [{}, {"stop": ["L L L"]}, {"temperature": 1.5, "seed": 3}, {"extra_body": {"stop": "L"}}]
)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_stream_joins_to_the_whole(client: openai.OpenAI, prompt: str, options: dict[str, object]) -> None:
    """The client ends at `data: [DONE]`."""
    whole = client.completions.create(model="bahdanau", prompt=prompt, **options)
    with client.completions.create(
        model="bahdanau", prompt=prompt, stream=True, stream_options={"include_usage": True}, logprobs=1, **options
    ) as stream:
        chunks = list(stream)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.text for choice in choices) == whole.choices[0].text
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == [whole.choices[0].finish_reason]
    assert chunks[-1].usage == whole.usage
    assert choices[-1].logprobs is not None
    assert choices[-1].logprobs.tokens is not None


def test_a_chat_stream_joins_to_the_whole(client: openai.OpenAI, wanted: list[Generation]) -> None:
    messages = [{"role": "user", "content": "a b c"}]
    with client.chat.completions.create(
        model="bahdanau", messages=messages, stream=True, logprobs=True,  # type: ignore[arg-type]
    ) as stream:  # fmt: skip
        choices = [choice for chunk in stream for choice in chunk.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == wanted[0].text
    assert len([choice for choice in choices if choice.delta.content]) > 2
    assert choices[-1].logprobs is not None
    assert [one.token for one in choices[-1].logprobs.content or ()] == wanted[0].tokens


def test_a_language_model_goes_on_from_the_prompt(language_model: openai.OpenAI, assorted_runs: dict[str, str]) -> None:
    prompt = "K L "
    whole = antiphon.load(assorted_runs["rnn-lm"]).generate(prompt).text
    added = whole.removeprefix(prompt)
    assert added != whole
    create, chat = language_model.completions.create, language_model.chat.completions.create
    assert create(model="rnn-lm", prompt=prompt).choices[0].text == added
    assert create(model="rnn-lm", prompt=prompt, echo=True).choices[0].text == whole
    for echo, text in ((False, added), (True, whole)):
        with create(model="rnn-lm", prompt=prompt, echo=echo, stream=True) as stream:
            assert "".join(choice.text for chunk in stream for choice in chunk.choices) == text
    messages = [{"role": "user", "content": prompt}]
    assert chat(model="rnn-lm", messages=messages).choices[0].message.content == added  # type: ignore[arg-type]
    with chat(model="rnn-lm", messages=messages, stream=True) as stream:  # type: ignore[arg-type]
        pieces = [choice.delta.content or "" for chunk in stream for choice in chunk.choices]
    assert "".join(pieces) == added


def test_a_tagger_takes_what_clients_always_send(language_model: openai.OpenAI, assorted_runs: dict[str, str]) -> None:
    found = language_model.completions.create(model="tagger", prompt="a b c", max_tokens=16, temperature=0)
    assert found.choices[0].text == antiphon.load(assorted_runs["tagger"]).generate("a b c").text


def test_a_wrong_key(translator: RunningServer) -> None:
    for key, code in (("a-wrong-key", "wrong_api_key"), ("", "no_api_key")):
        with openai.OpenAI(base_url=f"{translator.url}/v1", api_key=key or "x", max_retries=0) as stranger:
            headers = {} if key else {"Authorization": ""}
            for call in (
                lambda c=stranger, h=headers: c.models.list(extra_headers=h),
                lambda c=stranger, h=headers: c.completions.create(model="bahdanau", prompt="a", extra_headers=h),
            ):
                with pytest.raises(openai.AuthenticationError) as caught:
                    call()
                assert (caught.value.code, caught.value.type) == (code, "invalid_request_error")
                assert caught.value.response.headers["www-authenticate"] == "Bearer"
    with openai.OpenAI(base_url=f"{translator.url}/v1", api_key=KEY, max_retries=0) as friend:
        assert len(list(friend.models.list())) == 2


@pytest.mark.parametrize(
    ("options", "message", "param"),
    [
        ({"prompt": [[1, 2]]}, "prompt: must be string or list of string", "prompt"),
        ({"prompt": ["a"] * 2, "stream": True}, "stream: one prompt and one answer at a time", "stream"),
        ({"prompt": "a", "n": 2, "stream": True}, "stream: one prompt and one answer at a time", "stream"),
        ({"prompt": "a", "n": 21}, "n: must be less than or equal to 20", "n"),
        ({"prompt": "a", "temperature": 2.5}, "temperature: must be less than or equal to 2", "temperature"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens: must be greater than or equal to 1", "max_tokens"),
        ({"prompt": "a", "n": 10}, "beam: 10 is more than the 9 tokens that the model knows", "beam"),
    ],
)
def test_wrong_values(client: openai.OpenAI, options: dict[str, object], message: str, param: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match=message) as caught:
        client.completions.create(model="bahdanau", **options)  # type: ignore[call-overload]
    assert (caught.value.code, caught.value.param, caught.value.status_code) == ("invalid_value", param, 422)


def test_other_mistakes(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="this server has bahdanau"):
        client.completions.create(model="gpt-3.5-turbo-instruct", prompt="a")
    with pytest.raises(openai.UnprocessableEntityError, match="messages: none has the role user"):
        client.chat.completions.create(model="bahdanau", messages=[{"role": "system", "content": "a"}])
    with pytest.raises(openai.APIStatusError, match="129 is more than this server takes") as caught:
        client.completions.create(model="bahdanau", prompt=["a"] * 129)
    assert caught.value.status_code == 413
    with pytest.raises(openai.NotFoundError, match="there is no '/v1/embeddings' here"):
        client.embeddings.create(model="bahdanau", input="a")
