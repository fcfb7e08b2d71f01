"""First pictures: `python -m benchmarks.first_pictures NET --data folder:PATH [--seconds S]`.

Seconds from the start of a run to the first estimate and to the exact reading of each kernel
panel, and steps per second with no probe watched and with all of them; in the engine, no window.
"""

from __future__ import annotations

import argparse
import os
import time

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Failed, Refused
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.thread_session import ThreadSession

PROBES = ("gates", "overlap", "npk", "ntk")


def watch_run(config: RunConfig, watched: tuple[str, ...], seconds: float, paused: bool) -> None:
    """Run for so many seconds and print when each reading arrives."""
    session, seen = ThreadSession(), set[str]()
    session.start()
    requests = tuple(ProbeRequest(name) for name in watched)
    commands: tuple[Command, ...] = (Watch(requests), StartRun(config, paused))
    for command in commands:
        session.send(command)
    began, last = 0.0, None
    while not began or time.monotonic() - began < seconds:
        for event in session.drain_events():
            if isinstance(event, RunStarted):
                began = time.monotonic()
            if isinstance(event, (Failed, Refused)):
                print(event)
                began = began or time.monotonic()
        frame = session.take_latest_frame()
        if frame is not None and began:
            last = frame
            _print_new_readings(frame, time.monotonic() - began, seen)
        time.sleep(0.005)
    if last is not None and not paused:
        print(f"  {last.step / (time.monotonic() - began):.2f} steps/s")
    session.close()


def _print_new_readings(frame: Frame, now: float, seen: set[str]) -> None:
    for name, reading in frame.readings.items():
        if reading.absent:
            continue
        exact = reading.progress == 1.0 and not reading.error
        for what in ("first", *(("exact",) if exact else ())):
            if f"{what} {name}" not in seen:
                seen.add(f"{what} {name}")
                print(f"  {now:6.2f} s {what} {name}: {reading.remark or 'all'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("net")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--examples", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    config = RunConfig(
        data=DataConfig(options.data, train_limit=1000, test_limit=200),
        net=NetConfig(options.net),
        gating=GatingConfig("DL"),
        training=TrainingConfig(epochs=0, batch=32),
        device="cpu",
        probe_examples=options.examples,
    )
    for watched, paused in ((PROBES, True), (PROBES, False), ((), False)):
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        state = "paused" if paused else "training"
        print(f"{options.net}, {state}, {'all' if watched else 'none'} watched, load {load:.1f}")
        watch_run(config, watched, options.seconds, paused)


if __name__ == "__main__":
    main()
