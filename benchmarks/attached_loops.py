"""Training loops as a user's script would contain them: a ResNet-18 and an MLP in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with BatchNorm and a skip (He et al., arXiv:1512.03385, Fig. 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        z = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(z)) + self.downsample(x))


class ResNet18(nn.Module):
    """ResNet-18 with torchvision's stem: a 7×7 convolution and a max pooling, stride 2 each."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        blocks: list[nn.Module] = []
        inputs = 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        z = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        logits: Tensor = self.fc(self.blocks(z).mean((2, 3)))
        return logits


def make_mlp() -> nn.Sequential:
    """Return an MLP 784-128×4-10."""
    hidden: list[nn.Module] = [nn.Flatten(), nn.Linear(784, 128), nn.ReLU()]
    for _ in range(3):
        hidden += [nn.Linear(128, 128), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(128, 10))


@dataclass(frozen=True)
class Work:
    """What is trained: its title, a factory, the shape of an example and the batch size."""

    title: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int


WORKS = {
    "mlp": Work("MLP 784-128×4-10, batch 64", make_mlp, (1, 28, 28), 64),
    "resnet18": Work("ResNet-18, images 3×64×64, batch 32", ResNet18, (3, 64, 64), 32),
}


class Loop:
    """A network with its optimiser on random data; `step` takes one step and returns the loss."""

    def __init__(self, work: Work) -> None:
        torch.manual_seed(0)
        self.model = work.make()
        self._optimiser = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)
        generator = torch.Generator().manual_seed(1)
        self._x = torch.randn((4 * work.batch, *work.shape), generator=generator)
        self._y = torch.randint(0, 10, (4 * work.batch,), generator=generator)
        self._batch, self._at = work.batch, 0

    def probe(self, examples: int) -> tuple[Tensor, Tensor]:
        """Return the first examples and their labels."""
        return self._x[:examples], self._y[:examples]

    def step(self) -> Tensor:
        rows = slice(self._at, self._at + self._batch)
        self._at = rows.stop % len(self._x)
        loss = F.cross_entropy(self.model(self._x[rows]), self._y[rows])
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        return loss
