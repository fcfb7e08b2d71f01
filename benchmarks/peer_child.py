"""Run neural-tangents in its own environment; each line on standard input gets one answer.

`prepare KIND FILE.npz` compiles a kernel function for the arrays in FILE; `run` answers with the
processor and wall seconds of one call; `save FILE.npy` writes the result. Imports nothing of this
project.
"""

import importlib
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = (
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"  # beside the pinning
)
# Its `experimental` part imports TensorFlow, and nothing else does.
sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")

np: Any = importlib.import_module("numpy")
jax: Any = importlib.import_module("jax")
nt: Any = importlib.import_module("neural_tangents")
stax: Any = importlib.import_module("neural_tangents.stax")

Call = Callable[[], Any]


def make_dense_kernel(arrays: Any, trace_axes: tuple[int, ...]) -> Call:
    """Return the jitted NTK of a bias-free ReLU network, by structured derivatives."""
    weights = [jax.numpy.asarray(arrays[f"weight_{i}"].T) for i in range(len(arrays.files) - 1)]
    x = jax.numpy.asarray(arrays["x"])

    def logits(parameters: Any, z: Any) -> Any:
        for weight in parameters[:-1]:
            z = jax.nn.relu(z @ weight)
        return z @ parameters[-1]

    function = jax.jit(
        nt.empirical_ntk_fn(
            logits,
            trace_axes=trace_axes,
            vmap_axes=0,
            implementation=nt.NtkImplementation.STRUCTURED_DERIVATIVES,
        )
    )
    return lambda: function(x, None, weights)


def make_limit_kernel(arrays: Any) -> Call:
    """Return a block of the CNTK: four 3×3 convolutions with ReLU, global average pooling."""
    one, two = (jax.numpy.asarray(arrays[key].transpose(0, 2, 3, 1)) for key in ("one", "two"))
    layers: list[Any] = []
    for index in range(4):
        # Our first layer is N(0, 1/9) without the division by its channels.
        scale = one.shape[-1] if index == 0 else 2.0
        layers += [stax.Conv(1, (3, 3), padding="SAME", W_std=scale**0.5), stax.Relu()]
    _, _, kernel = stax.serial(*layers, stax.GlobalAvgPool(), stax.Dense(1, W_std=2**0.5))
    function = jax.jit(lambda a, b: kernel(a, b, "ntk"))
    return lambda: function(one, two)


KINDS: dict[str, Callable[[Any], Call]] = {
    "fc_mean": lambda arrays: make_dense_kernel(arrays, (-1,)),
    "fc_full": lambda arrays: make_dense_kernel(arrays, ()),
    "cntk": make_limit_kernel,
}


def main() -> None:
    """Answer requests until standard input ends."""
    call: Call = lambda: None  # noqa: E731 - until something is prepared
    print("ready", nt.__version__, jax.__version__, flush=True)
    for line in sys.stdin:
        word, *arguments = line.split()
        answer = "done"
        if word == "prepare":
            call = KINDS[arguments[0]](np.load(arguments[1]))
            jax.block_until_ready(call())
        elif word == "run":
            start, wall = time.process_time(), time.perf_counter()
            jax.block_until_ready(call())
            answer = f"{time.process_time() - start} {time.perf_counter() - wall}"
        elif word == "save":
            np.save(arguments[0], np.asarray(call()))
        print(answer, flush=True)


if __name__ == "__main__":
    main()
