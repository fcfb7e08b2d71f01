"""Choices of a network that a configuration names; free of torch."""

from __future__ import annotations

from typing import Literal

ValueInput = Literal["image", "ones", "random"]
Initialisation = Literal["kaiming", "bernoulli", "glorot"]
