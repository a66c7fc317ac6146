"""Two of the three numbers of the page, on samples in runs of 16 equal ones."""

import torch

import mixfree.torch
from mixfree.base.figures import new_figure

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
opt = mixfree.torch.Ladder(model.parameters())
x = torch.randn(125, 2).repeat_interleave(16, dim=0)
y = x @ torch.tensor([[2.0], [-1.0]]) + torch.randn(125, 1).repeat_interleave(16, dim=0)
seen = {"ladder/rate": [], "ladder/distance": []}
at = []
for row, target in zip(x, y, strict=True):
    opt.zero_grad()
    (model(row) - target).square().sum().backward()
    opt.step()
    if opt.samples % 20 == 0:
        at.append(opt.samples)
        for line, value in zip(seen.values(), (opt.rate, opt.distance), strict=True):
            line.append(float(value))

figure, axes = new_figure(1, 2, width=8.0, height=2.6)
for place, (name, line) in zip(axes, seen.items(), strict=True):
    place.plot(at, line, color="#CC79A7")
    place.set_title(name, loc="left", fontsize="medium")
    place.set_xlabel("samples")
    place.set_ylim(0, None)
figure
