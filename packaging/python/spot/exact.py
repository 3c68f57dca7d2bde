# SPDX-License-Identifier: MIT
"""Weights whose bits do not depend on how many ranks there are.

An all-reduce of floating-point numbers rounds in an order that depends on the world, and so do
the means of a rank's share of a batch. Here a batch is cut into V virtual ranks, V fixed: each rank
computes V / world of them one after the other, each alone, and every gradient is added in fixed
point, where sums are exact and their order does not matter.

    reducer = spot.exact.Reducer(model, virtual=8)      # instead of DistributedDataParallel
    for v in reducer.mine():                            # numbers of this rank's virtual ranks
        loss(model, part(batch, v)).backward()          # the mean over that part
        reducer.add()
    reducer.step()                                      # .grad of all ranks: the mean over all V
    optimizer.step()

The same bits for each world that divides V, provided that one part gives the same gradients on
every rank: the same kind of processor, threads and library, and random numbers that are drawn from
the step and v, not from the rank. Batch norms over a batch see one part. Costs: V / world backward passes
of smaller parts, and an all-reduce of 8 bytes for each weight in place of 4.
"""
import torch
import torch.distributed as dist

_BITS = 40  # below the largest gradient's exponent: 24 are those of a float


class Reducer:
    """Sums gradients of a model's parameters over virtual ranks, exactly."""

    def __init__(self, model, virtual, group=None):
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.virtual, self.group = virtual, group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        if virtual % self.world or virtual > 1 << 20:
            raise ValueError(f"{self.world} ranks do not divide {virtual} virtual ones")
        self.parts = []
        for p in self.parameters:  # a rank that begins anew may have drawn others
            dist.broadcast(p.data, 0, group=group)

    def mine(self):
        """The virtual ranks that this rank computes. Clears the gradients of the step before."""
        self._clear()
        each = self.virtual // self.world
        return range(self.rank * each, (self.rank + 1) * each)

    def _clear(self):
        for p in self.parameters:
            p.grad = None

    def add(self):
        """The gradients are of one virtual rank: keep them, and clear them."""
        flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        self.parts.append(torch.cat([g.detach().reshape(-1).double() for g in flat]))
        self._clear()

    def step(self):
        """Set .grad to the mean over all virtual ranks, the same bits on every rank."""
        if len(self.parts) != self.virtual // self.world:
            raise RuntimeError(f"{len(self.parts)} parts were added, not "
                               f"{self.virtual // self.world}")
        most = torch.stack([part.abs().max() for part in self.parts]).max()
        dist.all_reduce(most, dist.ReduceOp.MAX, group=self.group)
        if not torch.isfinite(most):
            raise FloatingPointError("a gradient is not finite")
        _, exponent = torch.frexp(most)  # |g| < 2^exponent, exactly, on every rank
        scale = torch.ldexp(torch.ones_like(most), _BITS - exponent)
        total = torch.zeros_like(self.parts[0], dtype=torch.int64)
        for part in self.parts:
            total += (part * scale).round().to(torch.int64)  # V 2^40 is below 2^63
        dist.all_reduce(total, group=self.group)
        mean = (total.double() / scale / self.virtual).split([p.numel() for p in self.parameters])
        for p, g in zip(self.parameters, mean):
            p.grad = g.reshape(p.shape).to(p.dtype)
        self.parts = []
