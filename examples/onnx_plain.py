"""Answer texts with one ONNX file, by numpy and onnxruntime alone.

    antiphon export RUN --to onnx --with-search --out model.onnx
    python examples/onnx_plain.py model.onnx "first text" "second text" --beam 5

Without texts it answers the lines of its input. Sub-words (bpe, unigram) need the package `tokenizers`, too. A
character is a code point with the marks behind it, which is a little less than all that Unicode joins.
"""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime

PAD, START, END, UNKNOWN = range(4)  # the ids that every model has; its own tokens follow
OWN = 4
JOINER = "\u200d"


def split_characters(text: str) -> list[str]:
    """Characters with their accents."""
    clusters: list[str] = []
    for point in text:
        joined = unicodedata.category(point).startswith("M") or point == JOINER
        if clusters and (joined or clusters[-1].endswith(JOINER)):
            clusters[-1] += point
        else:
            clusters.append(point)
    return clusters


def byte_table() -> dict[str, int]:
    """The byte of each character in the byte-level alphabet of sub-words."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


class PlainTokenizer:
    """Text to ids and back, by the tokenizer in the file."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.kind: str = content["kind"]
        self.form: dict[str, Any] = content.get("form", {})
        self.symbols: list[str] = content.get("symbols", [])
        self.ids = {symbol: number for number, symbol in enumerate(self.symbols, start=OWN)}
        self.inner = None
        if self.kind in ("bpe", "unigram"):
            from tokenizers import Tokenizer

            self.inner = Tokenizer.from_str(json.dumps(content["model"]))
        elif not self.symbols:
            sys.exit(
                f"the tokens of this model are {self.kind}; this example has words, characters, letters, bpe, unigram"
            )

    def encode(self, text: str) -> list[int]:
        if normal := self.form.get("normalization"):
            text = unicodedata.normalize(normal.upper(), text)
        if self.form.get("lowercase"):
            text = text.lower()
            text = unicodedata.normalize(normal.upper(), text) if normal else text
        if self.inner is not None:
            return [number + OWN for number in self.inner.encode(text).ids]
        if self.kind == "words":
            return [self.ids.get(word, UNKNOWN) for word in text.split()]
        if self.kind == "letters":
            return [self.ids.get(letter, UNKNOWN) for letter in unicodedata.normalize("NFD", text)]
        return [number for cluster in split_characters(text) for number in self._character(cluster)]

    def _character(self, cluster: str) -> list[int]:
        """A character that is unknown as a whole is spelt by its parts if all of them are known."""
        if cluster in self.ids:
            return [self.ids[cluster]]
        return [self.ids[point] for point in cluster] if all(point in self.ids for point in cluster) else [UNKNOWN]

    def decode(self, ids: list[int]) -> str:
        own = [number for number in ids if number not in (PAD, START, END)]
        if self.inner is not None:
            table, pieces = byte_table(), [self.inner.id_to_token(number - OWN) for number in own]
            return bytes(table[mark] for piece in pieces for mark in piece).decode("utf-8", "replace").removeprefix(" ")
        symbols = ["<unk>" if number == UNKNOWN else self.symbols[number - OWN] for number in own]
        joined = (" " if self.kind == "words" else "").join(symbols)
        return unicodedata.normalize("NFC", joined) if self.kind == "letters" else joined


@dataclass(frozen=True)
class Answer:
    """A hypothesis of the search; of a beam, the best one stands first."""

    text: str
    score: float  # sum(log p) / length ^ length_penalty
    finished: bool  # False: cut at max_length


class OnnxFile:
    """A model with its search: texts in, answers out."""

    def __init__(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # it warns of every input that has a default
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        facts = json.loads(self.session.get_modelmeta().custom_metadata_map["antiphon"])
        self.source, self.target = PlainTokenizer(facts["source"]), PlainTokenizer(facts["target"])
        self.longest_source: int = facts["longest_source"]

    def answers(
        self,
        texts: list[str],
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length: int | None = None,
    ) -> list[list[Answer]]:
        """The hypotheses of each text, best first; None stands for the model's default."""
        rows = [[*self.source.encode(text)[: self.longest_source], END] for text in texts]
        ids = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
        for row, own in zip(ids, rows, strict=True):
            row[: len(own)] = own
        options = {
            "beam": None if beam is None else np.array(beam, dtype=np.int64),
            "length_penalty": None if length_penalty is None else np.array(length_penalty, dtype=np.float32),
            "max_length": None if max_length is None else np.array(max_length, dtype=np.int64),
        }
        given = {name: value for name, value in options.items() if value is not None}
        found = self.session.run(["answers", "lengths", "scores"], {"source": ids, **given})
        return [self._hypotheses(*values) for values in zip(*found, strict=True)]

    def _hypotheses(self, answers: np.ndarray, lengths: np.ndarray, scores: np.ndarray) -> list[Answer]:
        """A beam that is wider than the number of possible answers has places without one, of length 0."""
        rows = [(ids[:length].tolist(), score) for ids, length, score in zip(answers, lengths, scores, strict=True)]
        return [Answer(self.target.decode(ids), float(score), ids[-1] == END) for ids, score in rows if ids]


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer texts with one ONNX file.")
    parser.add_argument("model", help="written by `antiphon export RUN --to onnx --with-search`")
    parser.add_argument("texts", nargs="*", help="without them, the lines of the input are answered")
    parser.add_argument("--beam", type=int, help="hypotheses kept at each step; 1: greedy")
    parser.add_argument("--max-length", type=int, help="longest answer in tokens")
    parser.add_argument("--length-penalty", type=float, help="exponent a of sum(log p) / length^a")
    given = parser.parse_intermixed_args()
    model = OnnxFile(given.model)
    texts = given.texts or [line.rstrip("\n") for line in sys.stdin]
    for found in model.answers(texts, given.beam, given.length_penalty, given.max_length) if texts else []:
        print(f"{found[0].text}\t{found[0].score:.4f}")


if __name__ == "__main__":
    main()
