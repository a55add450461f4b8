"""What of the chat page stands there before any script has run: the field, and the places of what scripts add."""

from __future__ import annotations

from gateway.web.words import Language, said


def chat_frame(language: Language, *, new: bool) -> str:
    """HTML inside <main>. `new`: a conversation that begins, its field in the middle of the page."""
    ask = said("chat_ask", language)
    return (
        '<div class="chat"><div class="sidebar"></div>'
        f'<div class="column{" empty" if new else ""}"><div class="bar"></div><div class="stage"></div>'
        f'<p class="greeting">{said("chat_greeting", language)}</p>'
        '<form class="composer" autocomplete="off">'
        f'<textarea rows="1" placeholder="{ask}" aria-label="{ask}" enterkeyhint="enter" autofocus></textarea>'
        '<div class="row"></div></form>'
        f'<p class="caution soft">{said("chat_caution", language)}</p></div></div>'
    )
