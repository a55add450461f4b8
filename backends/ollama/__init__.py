"""Ollama by its own API, so that context length, time in memory, token counts and thinking are ours to say and to know.

A request goes: `refusals` (what it cannot do) > `asking` (into Ollama's words) > `errors` or `answers` (back into the
official ones). `models` keeps what it tells of its models, `backend` puts these together.
"""
