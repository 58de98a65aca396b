"""The page at /: its files are read once, and nothing but these is served."""

from __future__ import annotations

import gzip
from importlib import resources

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from antiphon.serve.refusals import Refusal

__all__ = ["routes"]

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def routes() -> APIRouter:
    """The routes of the page; they need no key, for they hold nothing of a model."""
    router = APIRouter(include_in_schema=False)
    folder = resources.files("antiphon.serve") / "page"
    files = {entry.name: entry.read_bytes() for entry in folder.iterdir() if kind(entry.name) in KINDS}
    packed = {name: gzip.compress(content, mtime=0) for name, content in files.items()}

    async def index(request: Request) -> Response:
        return answer("index.html", request)

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files:
            raise Refusal(404, "unknown_path", f"there is no file {name[:100]!r} of the page")
        return answer(name, request)

    def answer(name: str, request: Request) -> Response:
        headers = {
            "Content-Security-Policy": POLICY,
            "Content-Type": f"{KINDS[kind(name)]}; charset=utf-8",
            "Vary": "Accept-Encoding",
        }
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed[name], headers={**headers, "Content-Encoding": "gzip"})
        return Response(files[name], headers=headers)

    router.add_api_route("/", index, methods=["GET"])
    router.add_api_route("/page/{name}", file, methods=["GET"])
    return router


def kind(name: str) -> str:
    """The ending of a file's name."""
    return name.rpartition(".")[2]
