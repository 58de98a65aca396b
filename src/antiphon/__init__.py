"""Antiphon learns to turn one sequence into another.

>>> import antiphon
>>> run = antiphon.train("reverse")                            # doctest: +SKIP
>>> antiphon.load(run).generate("a b c", beam=4).text           # doctest: +SKIP
'c b a'
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from antiphon._version import __version__

# Torch's threads (GNU OpenMP) spin for a while when they wait for each other: on a machine with other work they keep
# the one they wait for from its core, and training was a quarter as fast. This counts only before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")

if TYPE_CHECKING:
    from antiphon.api import (
        chat,
        check,
        evaluate,
        explain,
        export_model,
        import_model,
        init,
        joint,
        map_sentences,
        positions,
        score,
        shortlist,
        train,
        tree,
    )
    from antiphon.errors import AntiphonError, UserError
    from antiphon.explaining import explain_step, occlusion
    from antiphon.inference.conversation import Conversation
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator
    from antiphon.model_folder import load
    from antiphon.registry import register_encoder, register_metric, register_score
    from antiphon.training.callbacks import Callback
    from antiphon.training.display import Display

__all__ = [
    "AntiphonError", "Callback", "Conversation", "Display", "Generation", "Generator", "UserError", "__version__",
    "chat", "check", "evaluate", "explain", "explain_step", "export_model", "import_model", "init", "joint", "load",
    "map_sentences", "occlusion", "positions", "register_encoder", "register_metric", "register_score", "score",
    "shortlist", "train", "tree",
]  # fmt: skip

_HOMES = {
    "AntiphonError": "antiphon.errors",
    "Callback": "antiphon.training.callbacks",
    "Conversation": "antiphon.inference.conversation",
    "Display": "antiphon.training.display",
    "Generation": "antiphon.inference.generation",
    "Generator": "antiphon.inference.generator",
    "UserError": "antiphon.errors",
    "explain_step": "antiphon.explaining",
    "load": "antiphon.model_folder",
    "occlusion": "antiphon.explaining",
    "register_encoder": "antiphon.registry",
    "register_metric": "antiphon.registry",
    "register_score": "antiphon.registry",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    """Public names are imported when first used: `antiphon --help` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "antiphon.api")), name)


def __dir__() -> list[str]:
    return __all__
