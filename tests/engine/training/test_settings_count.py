"""Every setting of a configuration changes what it is there for, by a value worked out by hand.

A setting without a case fails `test_every_setting_has_a_case`: what is lost on the way from the
configuration to the network would be lost on both sides of any comparison of two runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.config import SETTINGS
from tests.engine.training import network_cases, training_cases
from tests.engine.training.setting_cases import CASES

MODULES = (network_cases, training_cases)  # each adds its cases


def test_every_setting_has_a_case() -> None:
    known = {
        f"{part}.{name}" if part else name for part, found in SETTINGS.items() for name in found
    }
    missing, gone = known - set(CASES), set(CASES) - known - {"data.options", "net.options"}
    assert not missing, (
        f"Write a case, in one of MODULES, that works out what {sorted(missing)} changes."
    )
    assert not gone, f"There are cases of settings that are gone: {sorted(gone)}."


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_setting_changes_what_it_is_for(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
