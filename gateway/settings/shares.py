"""What tokens cost and count for, and how service is shared out."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gateway.scope import QueueClass


class Price(BaseModel):
    """What a million tokens of a model cost, in one currency for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Decimal = Field(ge=0, le=1_000_000)
    cached_input: Decimal | None = Field(None, ge=0, le=1_000_000, description="None: as input.")
    output: Decimal = Field(ge=0, le=1_000_000)


class TokenWeights(BaseModel):
    """What a token counts for where service is shared out fairly."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(1.0, ge=0, le=1000)
    cached: float = Field(0.1, ge=0, le=1000, description="Of the input, what the engine remembered.")
    output: float = Field(4.0, ge=0, le=1000)

    def of(self, prompt: float, cached: float, output: float) -> float:
        """`cached` is a part of `prompt`."""
        return (prompt - cached) * self.input + cached * self.cached + output * self.output


# A table that names some classes leaves the others as they are.
CLASS_WEIGHTS: dict[QueueClass, float] = {"interactive": 8.0, "api": 4.0, "batch": 1.0}
STARVATION_SECONDS: dict[QueueClass, float] = {"interactive": 10.0, "api": 20.0, "batch": 40.0}
Weight = Annotated[float, Field(gt=0, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
Places = Annotated[int, Field(ge=0, le=1_000_000)]
