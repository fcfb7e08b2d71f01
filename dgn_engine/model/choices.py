"""Choices for networks that configurations name; importable without torch."""

from __future__ import annotations

from typing import Literal

FeatureLayers = Literal["chain", "parallel"]
ValueInput = Literal["image", "ones", "random"]
Initialisation = Literal["kaiming", "bernoulli", "glorot"]
