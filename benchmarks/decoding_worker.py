"""One contestant of benchmarks/decoding.py: loads a model, then answers tasks from stdin with JSON on stdout.

It gets its sentences as JSON, and where CTranslate2 computes, torch computes nothing: once torch has used its threads,
those of CTranslate2 in the same process are several times slower. A task is `ready`, or `batch BEAM` (all sentences;
the peers get 64 at a time, sorted by length, ours cuts its own batches) or `single BEAM` (some, one by one).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import antiphon
from antiphon.data.build_tokenizer import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_tokenizer
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK

SIZE, LONGEST = 64, 100
Answer = Callable[[list[str], int, int], list[str]]  # texts, beam, batch size → texts


def ours(path: str, *, shortlist: bool = False) -> Answer:
    """Through our own API, with the beam that other toolkits use, so that all do the same work.

    It cuts its batches as it does for a user.
    """
    generator = antiphon.load(path)

    def answer(texts: list[str], beam: int, size: int) -> list[str]:
        patience = None if beam == 1 else 1.0
        found = generator.generate(
            texts,
            beam=beam,
            batch_size=1 if size == 1 else None,
            patience=patience,
            max_length=LONGEST,
            length_penalty=1.0,
            weights=False,
            log_probs=False,
            shortlist=shortlist,
        )
        return [one.text for one in found]

    return answer


def ctranslate2_directly(path: str) -> Answer:
    """A plain script: tokenize, sort, cut into batches, translate_batch, put back in order."""
    import ctranslate2

    translator = ctranslate2.Translator(path, device="cpu", inter_threads=1, intra_threads=torch.get_num_threads())
    source, target = (load_tokenizer(Path(path) / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    names = vocabulary(path)
    ids = {name: number for number, name in enumerate(names)}

    def answer(texts: list[str], beam: int, size: int) -> list[str]:
        pieces = [[names[token] for token in [*source.encode(text), EOS]] for text in texts]
        order = sorted(range(len(texts)), key=lambda row: len(pieces[row]))
        found = [""] * len(texts)
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            results = translator.translate_batch(
                [pieces[row] for row in rows], beam_size=beam, max_decoding_length=LONGEST, length_penalty=1.0,
                suppress_sequences=[[names[token]] for token in (PAD, SOS, UNK)],
            )  # fmt: skip
            for row, result in zip(rows, results, strict=True):
                found[row] = target.decode([ids[piece] for piece in result.hypotheses[0]])
        return found

    return answer


def vocabulary(path: str) -> list[str]:
    """The names that the tokens have in a CTranslate2 folder, by id."""
    with open(f"{path}/shared_vocabulary.json", encoding="utf-8") as file:
        return [str(name) for name in json.load(file)]


def transformers_generate(path: str) -> Answer:
    """transformers' own loop, with its key/value cache."""
    from transformers import MarianMTModel

    model: Any = MarianMTModel.from_pretrained(path)  # in evaluation mode
    source, target = (load_tokenizer(Path(path) / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))

    @torch.inference_mode()
    def answer(texts: list[str], beam: int, size: int) -> list[str]:
        ids = [[*source.encode(text), EOS] for text in texts]
        order = sorted(range(len(texts)), key=lambda row: len(ids[row]))
        found = [""] * len(texts)
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            longest = max(len(ids[row]) for row in rows)
            batch = torch.tensor([ids[row] + [PAD] * (longest - len(ids[row])) for row in rows])
            written = model.generate(
                batch, attention_mask=(batch != PAD).long(), num_beams=beam, max_length=LONGEST + 1, do_sample=False
            )
            for row, tokens in zip(rows, written.tolist(), strict=True):
                found[row] = target.decode(tokens)
        return found

    return answer


def main(kind: str, path: str, sentences: str, singles: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    texts: list[str] = json.loads(Path(sentences).read_text("utf-8"))
    few = texts[:: max(1, len(texts) // int(singles))][: int(singles)]
    kinds: dict[str, Callable[[], Answer]] = {
        "ours": lambda: ours(path),
        "ours-shortlist": lambda: ours(path, shortlist=True),
        "ctranslate2": lambda: ctranslate2_directly(path),
        "transformers": lambda: transformers_generate(path),
    }
    answer = kinds[kind]()
    for line in sys.stdin:
        way, *beam = line.split()
        if way == "ready":
            print(json.dumps({"kind": kind}), flush=True)
            continue
        began = time.perf_counter()
        if way == "batch":
            found = answer(texts, int(beam[0]), SIZE)
        else:
            found = [answer([text], int(beam[0]), 1)[0] for text in few]
        print(json.dumps({"seconds": time.perf_counter() - began, "texts": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
