"""CTranslate2 behind a plain FastAPI route, as one would write it first: a request is one translate_batch call.

    python benchmarks/plain_server.py EXPORT PORT THREADS BEAM

The route is a plain function, so FastAPI calls it in its thread pool; uvicorn has its default settings. POST
/translate takes {"text": "..."}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from antiphon.data.build_source import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_tokenizer
from antiphon.data.tokenizers import PAD, SOS, UNK


class Body(BaseModel):
    """A request."""

    text: str


def create_app(path: Path, threads: int, beam: int) -> FastAPI:
    """The application for one export."""
    translator = ctranslate2.Translator(str(path), inter_threads=1, intra_threads=threads)
    source, target = (load_tokenizer(path / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    names = [str(name) for name in json.loads((path / "shared_vocabulary.json").read_text("utf-8"))]
    ids = {name: number for number, name in enumerate(names)}
    never = [[names[token]] for token in (PAD, SOS, UNK)]
    app = FastAPI()

    @app.post("/translate")
    def translate(body: Body) -> dict[str, str]:
        tokens = [names[token] for token in source.encode(body.text)]
        [result] = translator.translate_batch([tokens], beam_size=beam, length_penalty=1.0, suppress_sequences=never)
        return {"text": target.decode([ids[piece] for piece in result.hypotheses[0]])}

    return app


if __name__ == "__main__":
    folder, port, threads, beam = sys.argv[1:]
    uvicorn.run(create_app(Path(folder), int(threads), int(beam)), port=int(port), log_level="warning")
