"""A model's own chat template: Jinja in a sandbox, with the helpers that templates expect. Knows no tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from native_engine.loading.errors import ModelError

Message = Mapping[str, Any]


class TemplateRefused(Exception):
    """The template does not accept these messages; the text says why, in the template author's words."""


class _Generation(Extension):
    """`{% generation %}` marks the assistant's words for training; here it is its content."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """One template, compiled once."""

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.source = source
        try:
            self._template = _environment().from_string(source)
            self.variables = meta.find_undeclared_variables(_environment().parse(source))
        except jinja2.TemplateSyntaxError as fault:
            raise ModelError(f"the model's chat template is not valid Jinja: line {fault.lineno}: {fault}.") from fault

    @property
    def knows_tools(self) -> bool:
        return "tools" in self.variables

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """`continue_final_message` leaves the last message open, so that the model goes on with it."""
        values = {**(variables or {}), **self._tokens, "messages": messages, "tools": tools}
        values["add_generation_prompt"] = add_generation_prompt and not continue_final_message
        try:
            text = self._template.render(values)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as fault:
            raise TemplateRefused(str(fault)) from fault
        return _cut_after(text, messages[-1]["content"]) if continue_final_message else text


def _cut_after(text: str, final: str) -> str:
    """A template may trim a message and puts its closing behind it; the open text ends where the message ends."""
    final = final.strip()
    position = text.rfind(final)
    if position < 0:
        raise TemplateRefused("the template changes the last message, so it cannot be continued")
    return text[: position + len(final)]


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """Jinja's own escapes for HTML, which a model must not see."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)
