"""Crosstalk's fused talking-heads layer in a model of PyTorch's, which learns to reverse rows of numbers.

    PYTHONPATH=models/bindings/python python3 examples/talking_heads_torch.py
"""

import torch
from crosstalk.torch import TalkingHeadsAttention


def main():
    torch.manual_seed(1)
    positions, width = 6, 32
    read, attend, write = torch.nn.Linear(1 + positions, width), TalkingHeadsAttention(width, 4), torch.nn.Linear(width, 1)
    model = torch.nn.ModuleList([read, attend, write])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
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
