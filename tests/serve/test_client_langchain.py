"""The package `langchain-openai` against a server: chat and completion, whole and streamed."""

from __future__ import annotations

import openai
import pytest
from langchain_openai import ChatOpenAI, OpenAI
from running_server import RunningServer

import antiphon

TEXTS = ["a b c", "h g f e d"]


def test_chat(server: RunningServer, bahdanau_run: str) -> None:
    wanted = [one.text for one in antiphon.load(bahdanau_run).generate(TEXTS)]
    chat = ChatOpenAI(model="bahdanau", base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    found = chat.invoke(TEXTS[0])
    assert found.content == wanted[0]
    assert found.usage_metadata is not None
    assert found.usage_metadata["output_tokens"] == 6
    assert [one.content for one in chat.batch(TEXTS)] == wanted
    pieces = [str(chunk.content) for chunk in chat.stream(TEXTS[0])]
    assert "".join(pieces) == wanted[0]
    assert len([piece for piece in pieces if piece]) > 2


def test_completion(server: RunningServer, bahdanau_run: str) -> None:
    generator = antiphon.load(bahdanau_run)
    llm = OpenAI(model="bahdanau", base_url=f"{server.url}/v1", api_key="none", max_retries=0, temperature=0)
    wanted = [one.text for one in generator.generate(TEXTS)]
    assert llm.invoke(TEXTS[0]) == wanted[0]
    assert llm.batch(TEXTS) == wanted
    assert "".join(llm.stream(TEXTS[0])) == wanted[0]
    drawn = OpenAI(model="bahdanau", base_url=f"{server.url}/v1", api_key="none", temperature=0.7, seed=3)
    assert drawn.invoke(TEXTS[0]) == generator.generate(TEXTS[0], sample=True, temperature=0.7, seed=3).text


def test_mistakes_arrive_as_those_of_openai(server: RunningServer) -> None:
    chat = ChatOpenAI(model="gpt-4o", base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.NotFoundError, match="there is no 'gpt-4o'; this server has bahdanau"):
        chat.invoke("a")
