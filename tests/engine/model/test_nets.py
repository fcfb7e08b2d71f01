"""Every network trains in the window's first regime and says what its form asks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.model.nets import all_nets
from dgn_engine.session.known_plug_ins import net_entries
from tests.engine.conftest import SMALL
from tests.plugins import each


@pytest.mark.discovery
def test_the_form_offers_every_network():
    assert [entry.id for entry in net_entries()] == list(all_nets())
    assert all(entry.title for entry in net_entries())


@pytest.mark.parametrize("name", each(all_nets()))
def test_a_network_with_the_least_numbers_of_its_form_trains_and_is_finite(make_run, name):
    options = {
        field.name: field.least
        for field in all_nets()[name].options
        if isinstance(field.default, int) and field.least is not None
    }
    net = NetConfig(name, tuple((key, int(least)) for key, least in options.items()))
    data = replace(SMALL.data, train_limit=40, test_limit=20)
    run = make_run("DL", replace(SMALL, net=net, data=data))
    before = [weight.detach().clone() for weight in run.trainer.network.value.parameters()]
    for _ in range(2):
        run.step()
    after = list(run.trainer.network.value.parameters())
    assert all(bool(torch.isfinite(weight).all()) for weight in after)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    logits = run.trainer.network(run.probed.context().x)
    assert logits.shape == (20, 10)
