"""A page that scripts build: the frame that all of them share. Everything else of it is in static/."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape

from gateway.web.assets import assets
from gateway.web.words import Language, said

_BRAND = '<a class="brand" href="/"><span lang="ja" aria-hidden="true">関所</span><span class="name">Sekisho</span></a>'


def app_page(
    language: Language, title: str, module: str, body: str = "", styles: Sequence[str] = (), kind: str = ""
) -> str:
    """HTML that loads `module`, a path under static/, and `styles` behind base.css.

    `body` is HTML inside <main>: what is seen before any script has run. `kind`: a class of the whole page. The module
    finds <header id="header"> for lib/header.js and <main id="main">, which the link to skip to leads to.
    """
    files = assets()
    sheets = "".join(f'<link rel="stylesheet" href="{files.url(path)}">' for path in ("base.css", *styles))
    return (
        f'<!doctype html><html lang="{language}" data-version="{files.version}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} · Sekisho</title><link rel="icon" href="{files.url("icon.svg")}">{sheets}'
        # Not a module: it runs before anything is painted, so that a dark page never flashes white.
        f'<script src="{files.url("lib/first.js")}"></script>'
        "</head>"
        f'<body class="app {kind}"><a class="skip" href="#main">{said("skip", language)}</a>'
        f'<header id="header">{_BRAND}</header>'
        f'<main id="main" tabindex="-1"><noscript><p>{said("no_script", language)}</p></noscript>{body}</main>'
        # For lib/first.js, which puts it into the page once that was painted.
        f'<template id="late">{_preloads(module)}<script type="module" src="{files.url(module)}"></script></template>'
        "</body></html>"
    )


@cache
def _preloads(module: str) -> str:
    """What it imports is asked for at once, and not each file when the one that imports it has come."""
    files = assets()
    return "".join(f'<link rel="modulepreload" href="{files.url(path)}">' for path in files.imports(module))
