"""Crosstalk's fused talking-heads layer in a model of PyTorch's, on a CPU.

TalkingHeads is a torch.nn.Module: its parameters are the layer's own memory, by DLPack, so that an optimizer of PyTorch's
trains the layer; and a torch.autograd.Function computes it and its gradients. Run as a program, it trains a small model to
reverse rows of numbers.

    PYTHONPATH=models/bindings/python python3 examples/talking_heads_torch.py
"""

import crosstalk
import torch


class _Attend(torch.autograd.Function):
    """X[b, n, d], then the layer's parameters in the order of `names` → Y[b, n, d]."""

    @staticmethod
    def forward(ctx, layer, names, X, *parameters):
        # The parameters are where the layer computes from; autograd asks for them as arguments.
        ctx.layer, ctx.names, ctx.forward = layer, names, layer.forward(X.detach())
        ctx.save_for_backward(X)
        return torch.from_dlpack(ctx.forward["Y"])

    @staticmethod
    def backward(ctx, dY):
        # A pass gives its gradients once: a graph that is kept for more of them computes it again.
        forward = ctx.forward or ctx.layer.forward(ctx.saved_tensors[0].detach())
        ctx.forward = None
        gradients = forward.backward("Y", dY.detach().contiguous())
        return (None, None, *(torch.from_dlpack(gradients[name]) for name in ("X", *ctx.names)))


class TalkingHeads(torch.nn.Module):
    """Self-attention X[b, n, d_model] → Y[b, n, d_model]; options as of crosstalk.Attention."""

    def __init__(self, d_model, heads, **options):
        super().__init__()
        self.layer = crosstalk.Attention(d_model=d_model, heads=heads, attention="talking", **options)
        self.names = list(self.layer.parameters)
        for name, array in self.layer.parameters.items():
            self.register_parameter(name, torch.nn.Parameter(torch.from_dlpack(array)))

    def forward(self, X):
        return _Attend.apply(self.layer, self.names, X, *(getattr(self, name) for name in self.names))


def main():
    torch.manual_seed(1)
    positions, width = 6, 32
    read, attend, write = torch.nn.Linear(1 + positions, width), TalkingHeads(width, 4), torch.nn.Linear(width, 1)
    parameters = [*read.parameters(), *attend.parameters(), *write.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.003)
    where = torch.eye(positions).expand(64, positions, positions)
    for step in range(301):
        rows = torch.rand(64, positions, 1)
        X = read(torch.cat([rows, where], dim=-1))
        loss = ((write(X + attend(X)) - rows.flip(1)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:3}  error {loss.item():.4f}")


if __name__ == "__main__":
    main()
