"""Training steps of small language models in PyTorch, on a CPU: the models of `make bench FILTER=small`, to compare.

Run it beside that one, with nothing else on the machine. It needs PyTorch 2 and nothing of Crosstalk:

    python3 examples/small_models_torch.py [--filter TEXT] [--seconds S]

A row is a model, with the median microseconds of a whole step (forward, loss, backward, clipping, AdamW) on one thread
and on all. The batch is made before the clock runs, as in ours. Multi-head attention is PyTorch's own fused operation,
the quickest of its ways, and AdamW its fused one. It has no operation for talking heads: they are written as two
products, the softmax and two einsums. Norms are LayerNorm without bias where ours are RMSNorm, which takes PyTorch
longer.
"""

import argparse
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 64
# d_model, layers, heads, letters, batch: SmallBenchCases in tools/lab/bench/step.cc.
SIZES = [(16, 1, 4, 16, 1), (32, 2, 4, 32, 4), (64, 2, 4, 64, 8), (128, 4, 4, 64, 12), (256, 6, 4, 128, 16),
         (384, 6, 6, 256, 16)]


class Attention(nn.Module):
    """Causal self-attention, X[b, n, d] → Y[b, n, d]."""

    def __init__(self, d, heads, n, kind):
        super().__init__()
        self.heads, self.d_k, self.kind = heads, d // heads, kind
        self.project, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        if kind == "talking":
            self.P_l, self.P_w = nn.Parameter(torch.eye(heads)), nn.Parameter(torch.eye(heads))
            self.register_buffer("hidden", torch.ones(n, n, dtype=torch.bool).triu(1))

    def forward(self, X):
        b, n, d = X.shape
        Q, K, V = (part.view(b, n, self.heads, self.d_k).transpose(1, 2) for part in self.project(X).split(d, dim=2))
        if self.kind == "talking":
            J = Q @ K.transpose(-1, -2) / math.sqrt(self.d_k)
            L = torch.einsum("bhnm,hg->bgnm", J, self.P_l).masked_fill(self.hidden, -math.inf)
            O = torch.einsum("bhnm,hg->bgnm", L.softmax(-1), self.P_w) @ V
        else:
            O = functional.scaled_dot_product_attention(Q, K, V, is_causal=True)
        return self.out(O.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, d, heads, n, kind):
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(d, bias=False), Attention(d, heads, n, kind)
        self.feed_forward_norm = nn.LayerNorm(d, bias=False)
        self.feed_forward = nn.Sequential(nn.Linear(d, 4 * d, bias=False), nn.GELU(), nn.Linear(4 * d, d, bias=False))

    def forward(self, X):
        X = X + self.attention(self.attention_norm(X))
        return X + self.feed_forward(self.feed_forward_norm(X))


class LanguageModel(nn.Module):
    """Its classifier is the table of the embedding."""

    def __init__(self, d, layers, heads, n, kind):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, d), nn.Embedding(n, d)
        self.blocks = nn.Sequential(*(Block(d, heads, n, kind) for _ in range(layers)))
        self.norm = nn.LayerNorm(d, bias=False)

    def forward(self, ids, targets):
        X = self.norm(self.blocks(self.embedding(ids) + self.positions.weight))
        logits = functional.linear(X, self.embedding.weight)
        return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def microseconds(sizes, kind, threads, seconds):
    """The median of steps for so many seconds, at least three, after one that does not count."""
    d, layers, heads, n, batch = sizes
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = LanguageModel(d, layers, heads, n, kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, begin = [], time.perf_counter()
    while len(times) < 4 or time.perf_counter() - begin < seconds:
        ids, targets = torch.randint(VOCABULARY, (2, batch, n))
        start = time.perf_counter()
        loss = model(ids, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times[1:])


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Microseconds of a training step of small models in PyTorch.")
    parser.add_argument("--filter", default="", help="only the models with this in their name")
    parser.add_argument("--seconds", type=float, default=2.0, help="to measure each for")
    options = parser.parse_args(arguments)
    all_threads = torch.get_num_threads()
    print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, µs a step on threads:")
    print(f"{'':24} {1:11} {all_threads:11}")
    for sizes in SIZES:
        for kind in ("multihead", "talking"):
            name = f"small-{sizes[0]}-{kind}"
            if options.filter in name:
                on = [microseconds(sizes, kind, threads, options.seconds) for threads in (1, all_threads)]
                print(f"{name:24} {on[0]:11.1f} {on[1]:11.1f}", flush=True)


if __name__ == "__main__":
    main()
