"""The truth of drawing on a device, in plain torch, by sorting every row."""

from __future__ import annotations

import torch

from kernels.sampling.draws import DeviceDraws


def sample(logits: torch.Tensor, draws: DeviceDraws) -> torch.Tensor:
    """See kernels.sampling.device.sample; logits in float32."""
    weights = _weights(logits, draws).double() * kept(logits, draws)
    ends = weights.cumsum(-1)
    places = (ends <= draws.uniform.double()[:, None] * ends[:, -1:]).sum(-1)
    last = (torch.arange(logits.shape[1], device=logits.device) * (weights > 0)).amax(-1)
    return torch.where(logits.isfinite().all(-1), torch.minimum(places, last), -1).int()


def kept(logits: torch.Tensor, draws: DeviceDraws) -> torch.Tensor:
    """Which tokens the limits let through, bool [rows, vocabulary]: min_p, top_k of what is left, top_p of what is left
    then, the best first and the lower id first of equals. One is always left."""
    order = logits.argsort(dim=-1, descending=True, stable=True)
    weights = _weights(logits, draws).gather(-1, order).double()
    ranks = torch.arange(logits.shape[1], device=logits.device)
    top_k = torch.where(draws.top_k > 0, draws.top_k, logits.shape[1])
    left = (weights >= draws.min_p[:, None]) & (ranks < torch.where(draws.temperature > 0, top_k, 1)[:, None])
    before = (weights * left).cumsum(-1) - weights * left
    mass = (weights * left).sum(-1, keepdim=True)
    left &= (before < draws.top_p.double()[:, None] * mass) | (draws.top_p == 1)[:, None]
    return torch.zeros_like(left).scatter(-1, order, left | (ranks == 0))


def _weights(logits: torch.Tensor, draws: DeviceDraws) -> torch.Tensor:
    """Probabilities up to a factor: that of the best is 1."""
    temperature = torch.where(draws.temperature > 0, draws.temperature, 1.0)[:, None]
    return ((logits - logits.amax(-1, keepdim=True)) / temperature).exp()
