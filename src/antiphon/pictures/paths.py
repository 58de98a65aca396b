"""Where a picture may be written, asked before anything is computed."""

from __future__ import annotations

from pathlib import Path

__all__ = ["MAPS", "PICTURES", "folder_problems", "suffix_problems"]

PICTURES = (".png", ".svg")
MAPS = (*PICTURES, ".html")


def suffix_problems(path: Path, suffixes: tuple[str, ...]) -> list[str]:
    """`a.jpg: PNG or SVG can be written; give a name that ends in .png or .svg`"""
    if path.suffix.lower() in suffixes:
        return []
    kinds = _either([suffix[1:].upper() for suffix in suffixes])
    return [f"{path}: {kinds} can be written; give a name that ends in {_either(list(suffixes))}"]


def folder_problems(path: Path) -> list[str]:
    """At the command line a folder that is not there is more often mistyped than meant."""
    return [] if path.parent.is_dir() else [f"{path}: there is no folder {path.parent}; make it first"]


def _either(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
