"""Shapes are checked at every call of a kernel, here and in every other test of the session."""

from __future__ import annotations

from tests.engine.kernels.contracts import switch_on

switch_on()
