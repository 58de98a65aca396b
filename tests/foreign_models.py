"""Small Marian and BART folders, made by `transformers` itself, with tokenizers learnt from made-up sentences."""
# V vocabulary

from __future__ import annotations

import io
import json
import random
import warnings
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SYLLABLES = {"source": ["ka", "mi", "tor", "el", "en", "ü", "ra", "st"], "target": ["be", "lin", "mi", "ou", "é", "ra"]}
BLOCKS = {
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_layers": 1,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "init_std": 0.3,
}


def hugging_face(name: str) -> Any:  # noqa: ANN401 (transformers is not typed)
    """A class of transformers, by its name; it takes seconds to import, which only the tests that ask for it wait."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of what transformers imports
        import transformers

        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        return getattr(transformers, name)


def sentences(side: str, seed: int, count: int) -> list[str]:
    """Words of a made-up language, the same for every seed."""
    words, rng = random.Random(side), random.Random(seed)
    lexicon = ["".join(words.choices(SYLLABLES[side], k=words.randint(1, 4))) for _ in range(150)]
    return [" ".join(rng.choices(lexicon, k=rng.randint(2, 8))) + rng.choice([".", "!", " 12"]) for _ in range(count)]


def spm(side: str, **options: Any) -> bytes:  # noqa: ANN401 (any option of sentencepiece)
    """A sentencepiece model of one side."""
    out, lines = io.BytesIO(), iter(sentences(side, 1, 300))
    usual = {"vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=out, **{**usual, **options})
    return out.getvalue()


def spm_files(folder: Path, kind: str) -> dict[str, int]:
    """source.spm, target.spm and vocab.json over both, as OPUS-MT has them; a language code, and padding last."""
    folder.mkdir()
    names = {"</s>": 0, "<unk>": 1, ">>xyz<<": 2}
    for side in ("source", "target"):
        content = spm(side, model_type=kind)
        (folder / f"{side}.spm").write_bytes(content)
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        pieces = [model.id_to_piece(number) for number in range(model.get_piece_size()) if not model.is_control(number)]
        for piece in pieces:
            names.setdefault(piece, len(names))
    names["<pad>"] = len(names)
    (folder / "vocab.json").write_text(json.dumps(names))
    return names


def drawn(model: Any) -> Any:  # noqa: ANN401 (transformers is not typed)
    """Random biases and norms, too: a weight of 0 or 1 would hide that it stands in the wrong place."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(mean=float("norm" in name and name.endswith("weight")), std=0.3)
        model.final_logits_bias.normal_(std=0.5)
    return model.eval()


def marian(folder: Path, kind: str = "unigram", seed: int = 1, **options: Any) -> Any:  # noqa: ANN401
    """An OPUS-MT folder; its decoder starts with padding."""
    size = len(spm_files(folder, kind))
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "forced_eos_token_id": None}
    torch.manual_seed(seed)
    usual = {"activation_function": "swish", "scale_embedding": True}
    model = drawn(
        hugging_face("MarianMTModel")(
            hugging_face("MarianConfig")(vocab_size=size, **{**BLOCKS, **ids, **usual, **options})
        )
    )
    model.save_pretrained(folder)
    return model


def marian_apart(folder: Path) -> tuple[Any, dict[str, int], dict[str, int]]:
    """Two vocabularies, two tables, and an output layer that is a third; no other names than these."""
    joint = spm_files(folder, "unigram")
    source = {"</s>": 0, "<unk>": 1, "<pad>": 2} | {name: number for number, name in enumerate(list(joint)[3:80], 3)}
    target = {"<unk>": 0, "<pad>": 1, "</s>": 2} | {name: number for number, name in enumerate(list(joint)[40:-1], 3)}
    (folder / "vocab.json").write_text(json.dumps(source))
    (folder / "target_vocab.json").write_text(json.dumps(target))
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True}))
    sizes = {"vocab_size": len(source), "decoder_vocab_size": len(target)}
    ids = {"pad_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": None}
    untied = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    torch.manual_seed(3)
    model = drawn(hugging_face("MarianMTModel")(hugging_face("MarianConfig")(**{**BLOCKS, **sizes, **ids, **untied})))
    model.save_pretrained(folder, max_shard_size="20KB")
    return model, source, target


def marian_tokenizer(folder: Path) -> Any:  # noqa: ANN401
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses", category=UserWarning)
        return hugging_face("MarianTokenizer").from_pretrained(folder)


def bart(folder: Path, *, fast: bool, **options: Any) -> Any:  # noqa: ANN401
    """A BART folder with its byte-level BPE: as tokenizer.json, or as vocab.json and merges.txt."""
    folder.mkdir()
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator(sentences("source", 1, 200) + sentences("target", 1, 200), trainer)
    learnt = json.loads(inner.to_str())["model"]
    pieces = sorted(learnt["vocab"], key=learnt["vocab"].__getitem__)
    names = {piece: number for number, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"])}
    if fast:
        merges = [tuple(pair) for pair in learnt["merges"]]
        hugging_face("BartTokenizer")(vocab=names, merges=merges).save_pretrained(folder)
    else:
        (folder / "vocab.json").write_text(json.dumps(names))
        lines = ["#version: 0.2", *(" ".join(pair) for pair in learnt["merges"])]
        (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    torch.manual_seed(2)
    usual = {"forced_eos_token_id": None}
    model = drawn(
        hugging_face("BartForConditionalGeneration")(
            hugging_face("BartConfig")(vocab_size=len(names), **{**BLOCKS, **usual, **options})
        )
    )
    model.save_pretrained(folder)
    return model
