"""One small reading of each probe, of A at step 6 and of B at step 3, with numbers known by hand.

Two gate layers of two and of three units, five examples of two classes; the wiring is straight,
but in the gates and in the agreement.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, Series, View
from tests.engine.panels.pictures import (
    LABELS,
    make_layers,
    make_series,
    started_run,
    symmetric_matrix,
    with_reading,
)

STEP, STEP_OF_B = 6, 3
MARKS = (Mark(3.0, "FL"),)

# With these lengths r the tangent kernels are r_i r_j times what is normalised.
LENGTH = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
SIZES = np.outer(LENGTH, LENGTH)
UNIT_VALUE = symmetric_matrix(5, 1.0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, -0.1])
UNIT_FEATURE = symmetric_matrix(5, 1.0, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
UNIT_CROSS = symmetric_matrix(
    5, -0.5, [0.05, 0.15, 0.25, -0.35, 0.45, 0.55, -0.65, 0.75, 0.85, 0.95]
)
VALUE, FEATURE = SIZES * UNIT_VALUE, 3 * SIZES * UNIT_FEATURE
CROSS = 4 * SIZES * UNIT_CROSS  # normalised by the diagonal of both: r² + 3 r²

# Above the diagonal, row by row: means 0.275, 0.11, 0.31 and 0.46.
ACTIVE = symmetric_matrix(5, 1.0, [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
SENSITIVE = symmetric_matrix(5, 1.0, [0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2])
ACTIVE_2 = symmetric_matrix(5, 1.0, [0.8, 0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.3, 0.4, 0.3])
SENSITIVE_2 = symmetric_matrix(5, 1.0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.7, 0.6])

PATH_KERNEL = symmetric_matrix(5, 0.2, [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1])
PATH_KERNEL_OF_B = symmetric_matrix(5, 0.2, [0.4, *[0.01] * 9])
EIGENVALUES = np.array([0.5, 0.3, 0.16, 0.04, -2e-18])  # the last is rounding noise

FIRST = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1]], dtype=np.uint8)
SECOND = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=np.uint8)
FIRST_OF_B = np.array([[0, 1], [1, 1], [0, 0], [0, 1], [1, 0]], dtype=np.float32) * 1.25
DIFFERS = np.array([[1, 0], [0, 0], [0, -1], [0, 0], [0, 0]], dtype=np.int8)
DIFFERS_2 = np.array([[0, 1, -1], [0, 0, 0], [1, 0, 0], [-1, -1, 0], [0, 0, 1]], dtype=np.int8)


def reading(probe: str, facts: dict[str, str] | None = None, /, **found: object) -> Reading:
    """Of step 6: arrays, beside the labels of the examples, and numbers: 'equal_' is 'equal'."""
    arrays = {name: one for name, one in found.items() if isinstance(one, np.ndarray)}
    scalars = {name.rstrip("_"): one for name, one in found.items() if isinstance(one, float)}
    return Reading(
        probe, STEP, arrays={"labels": LABELS} | arrays, scalars=scalars, facts=facts or {}
    )


def array(*values: object) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, dtype=np.float64)


READINGS = (
    reading(
        "gates",
        layer_0=FIRST,
        layer_1=SECOND,
        dead_0=np.array([], dtype=np.int64),
        dead_1=np.array([2]),
        active_0=0.6,
        active_1=0.333,
        churn=0.0125,
    ),
    reading(
        "overlap",
        {"kappa": "D = 1{|q| < 0.1·rms(q)}"},
        active=ACTIVE,
        sensitive=SENSITIVE,
        active_0=SENSITIVE,
        sensitive_0=ACTIVE,
        active_1=ACTIVE_2,
        sensitive_1=SENSITIVE_2,
    ),
    reading(
        "agreement",
        equal=array(0.9, 0.6),
        chance=array(0.5, 0.55),
        difference_0=DIFFERS,
        difference_1=DIFFERS_2,
        equal_=0.72,
        equal_0=0.8,
        equal_1=0.64,
    ),
    reading(
        "npk",
        npk=PATH_KERNEL,
        eigenvalues=EIGENVALUES,
        cumulative=array(0.5, 0.8, 0.96, 1.0, 1.0),
        alignment=array(4.0, 3.0, 2.0, 1.0, 0.0),
        nu=12.44,
        bound=2.5,
        bound_outside=0.125,
        rank=4.0,
        effective_rank=2.736,
        rho_max=0.5,
        rho_min=-2e-18,
        cutoff=0.00125,
    ),
    reading(
        "ntk",
        value=VALUE,
        feature=FEATURE,
        cross=CROSS,
        trace_value=55.0,
        norm_value=61.237,
        trace_feature=165.0,
        norm_feature=1234.56,
        trace_cross=-110.0,
    ),
    reading(
        "paths",
        {"example": "2", "logit": "1"},
        through=array([0.25, 0.75], [1.0, 0.0]),
        near=array([0.5, 0.5], [0.0, 1.0]),
        contributed=array([-1.0, 0.5], [-0.5, 0.0]),
        units=np.array([[0, 0], [1, 0], [1, 0]]),
        parts=array(-1.0, 0.25, 0.25),
        gates=array([1.0, 1.0], [1.0, 0.0]),
        slopes=array([0.0, 1.0], [0.1, 0.2]),
        inputs=array(0.5, 0.0, 1.0),
        weights_0=array([3.0, 1.0, -1.5], [0.5, 0.5, 0.5]),
        weights_1=array([-1.0, 1.0], [1.0, 1.0]),
        total=12_288.0,
        active=2250.0,
        sensitive=0.123456,
        output=-0.5,
    ),
    reading(
        "regions",
        {"plane": "data"},
        margin=array([-1.0, 0.5], [-0.5, 1.0]),
        winner=np.array([[0, 1], [0, 1]]),
        switch=np.array([[0, 1], [1, 2]]),
        x=array(0.0, 1.0),
        y=array(1.0, 0.0),
        points=array([0.0, 0.0], [1.0, 1.0]),
        labels=np.array([0, 1]),
        answers=np.array([0, 0]),
        regions=4.0,
    ),
    reading(
        "half_spaces",
        planes_0=array([1.0, 0.0, 0.0], [0.0, 1.0, 0.5]),
        units_0=np.array([0, 1]),
        planes_1=array([-0.6, -0.8, 0.25], [0.6, -0.8, 0.0], [0.0, 1.0, 0.0]),
        units_1=np.array([0, 1, 2]),
        cuts=array([1.0, 0.0, 0.0], [0.6, 0.8, 0.0]),
        angles_0=array(0.0, 36.87),
        angles_1=array(0.0, 53.13, 36.87),
        cuts_=0.125,
        offset=0.25,
        moved_0=10.0,
        moved_1=30.0,
    ),
    reading(
        "drift",
        switched=array(0.125, 0.375),
        features=array(0.1, 0.2, 0.3, 0.4, 0.5),
        features_=0.5,
        values=0.75,
    ),
    reading(
        "local_complexity",
        {"directions": "20"},
        radii=array(0.25, 2.5),
        examples_layers=array([1.0, 0.5], [2.0, 1.5]),
        between_layers=array([0.5, 0.25], [1.0, 3.0]),
        units=np.array([4, 5]),
        examples_0=1.5,
        between_0=0.75,
        examples_1=3.5,
        between_1=4.0,
    ),
    reading(
        "kernel_motion",
        {"readings": "2"},
        moved=0.5,
        weights=0.375,
        gates=0.25,
        share=0.125,
        switched=0.0625,
    ),
    reading(
        "path_norms",
        by_logit=array(20.0, 30.0),
        l1=50.0,
        l2=4.0,
        moved_l2=0.25,
        moved_low=0.125,
        moved_high=0.5,
    ),
    reading(
        "path_distance",
        l2=0.5,
        low=0.375,
        high=0.625,
        cosine=0.75,
        same_signs=0.875,
    ),
    reading("gradients", value=array(3.0, 4.0, 12.0), feature=array(0.0, 0.5, 0.25), loss=1.625),
    reading(
        "updates",
        {"steps": "3", "since": "1"},
        value_update=array(0.01, 0.02, 0.04),
        feature_update=array(0.001, 0.002, 0.003),
        value_moved=array(0.1, 0.2, 0.6),
        feature_moved=array(0.25, 0.5, 0.75),
    ),
    reading(
        "kernel_theory", value=SIZES, expected=2 * SIZES, distance=0.5, cosine=0.96, traces=0.75
    ),
    reading(
        "sensitive",
        sensitive=SENSITIVE,
        delta=ACTIVE_2,
        mean_sensitive=0.11,
        mean_delta=0.26,
        agreement=0.625,
    ),
    reading(
        "layer_kernels",
        tau_0=ACTIVE,
        tau_1=ACTIVE_2,
        product=ACTIVE * ACTIVE_2,
        each=array(0.275, 0.31),
        along=array(0.275, 0.09),
        along_straight=array(0.31, 0.085),
        product_=0.09,
        change=0.125,
    ),
    reading(
        "alignment",
        {"since": "2"},
        class_value=array(0.5, 0.125, 0.375),
        class_npk=array(0.25, np.nan, 0.75),
        centred_value=0.375,
        plain_value=0.75,
        shape_value=0.5,
        centred_npk=0.25,
    ),
    reading(
        "gate_statistics",
        density=array(0.5, 0.25),
        dead=array(0.0, 0.125),
        always=array(0.0625, 0.0),
        classes=np.array([0, 1]),
        by_class=array([0.4, 0.6], [0.2, 0.3]),
        churn=0.03125,
    ),
    reading(
        "error_prediction",
        {"rate": "0.5"},
        measured=array(2.0, 1.5, 1.25),
        predicted=array(2.0, 1.0, 0.5),
        change=array([0.5, -0.25], [0.125, 0.0]),
        change_predicted=array([0.25, -0.5], [0.375, 0.75]),
        one=0.1,
        all=0.25,
    ),
    reading(
        "hidden_outputs",
        {"example": "1", "channel": "0", "fed": "ones", "order": "2 1"},
        says=np.array([1, 0, 1]),
        **{
            f"{name}_{layer}": factor * values
            for name, factor in (("as_is", 1.0), ("reversed", 2.0), ("ones", 0.5))
            for layer, values in enumerate((array(4.0, -2.0), array(1.0, -8.0, 0.0)))
        },
        right_as_is=0.5,
        right_reversed=0.0,
        right_ones=1.0,
    ),
)


FIVE_STEPS = [2, 3, 4, 5, 6]  # fewer have no chart


def _series(**names: list[float]) -> dict[tuple[str, str], Series]:
    """'probe__scalar': its values at steps 2 and 6."""
    return {
        (name.split("__")[0], name.split("__")[1]): make_series([2, 6], values)
        for name, values in names.items()
    }


SERIES = {
    ("training", "train_loss"): make_series([2, 4, 6], [2.5, 1.25, 0.75]),
    ("training", "train_accuracy"): make_series([2, 4, 6], [0.25, 0.5, 0.625]),
    ("training", "test_loss"): make_series([3, 6], [2.0, 1.5]),
    ("training", "test_accuracy"): make_series([3, 6], [0.4, 0.35]),
    ("ntk", "trace_value"): make_series(FIVE_STEPS, [50.0, 51.0, 52.0, 53.0, 55.0]),
    ("ntk", "trace_feature"): make_series([2, 6], [0.0, 165.0]),
    ("ntk", "trace_cross"): make_series([2, 6], [10.0, -110.0]),
    ("ntk", "norm_value"): make_series(FIVE_STEPS, [60.0, 60.25, 60.5, 61.0, 61.237]),
    ("ntk", "norm_cross"): make_series([2, 6], [7.0, 8.0]),
    **_series(
        agreement__equal=[0.5, 0.75],
        drift__features=[0.25, 0.5],
        drift__values=[0.125, 0.75],
        drift__features_cosine=[0.9, 0.8],
        drift__values_cosine=[0.7, 0.6],
        local_complexity__examples_0=[1.75, 1.5],
        local_complexity__between_0=[1.25, 0.75],
        local_complexity__examples_1=[3.0, 3.5],
        local_complexity__between_1=[4.5, 4.0],
        kernel_motion__moved=[0.25, 0.5],
        kernel_motion__weights=[0.125, 0.375],
        kernel_motion__gates=[0.1875, 0.25],
        kernel_motion__share=[0.75, 0.125],
        path_norms__l1=[40.0, 50.0],
        path_norms__l2=[1.0, 2.0],
        path_norms__moved_low=[0.0, 0.125],
        path_norms__moved_high=[0.25, 0.5],
        gradients__value_0=[3.5, 3.0],
        gradients__value_2=[0.0, 12.0],
        updates__value_update_0=[0.03, 0.01],
        updates__value_moved_1=[0.15, 0.2],
        kernel_theory__distance=[0.25, 0.5],
        kernel_theory__cosine=[0.98, 0.96],
        kernel_theory__traces=[0.875, 0.75],
        sensitive__mean_sensitive=[0.125, 0.11],
        sensitive__mean_delta=[0.25, 0.26],
        gate_statistics__density_0=[0.75, 0.5],
        gate_statistics__churn_1=[0.5, 0.03125],
        half_spaces__cuts=[2.0, 0.125],
        half_spaces__cuts_0=[20.0, 5.0],
        half_spaces__cuts_1=[16.0, 8.0],
        half_spaces__moved_1=[0.0, 30.0],
        regions__regions=[3.0, 4.0],
        alignment__centred_value=[0.125, 0.375],
        alignment__centred_npk=[0.1, 0.25],
        alignment__plain_value=[0.5, 0.75],
        alignment__shape_value=[0.0, 0.5],
        alignment__norm_value=[1.0, 8.0],
        alignment__trace_value=[1.0, 0.0],
        error_prediction__one=[0.2, 0.1],
        error_prediction__all=[0.5, 0.25],
    ),
}
READINGS_OF_B = (
    reading("gates", layer_0=FIRST_OF_B, layer_1=1 - SECOND),
    reading("overlap", active=SENSITIVE, sensitive=ACTIVE_2, active_1=ACTIVE),
    reading(
        "npk",
        npk=PATH_KERNEL_OF_B,
        eigenvalues=array(0.64, 0.2, 0.1, 0.048, 0.016),
        cumulative=array(0.64, 0.84, 0.94, 0.988, 1.004),
        alignment=array(1.0, 1.0, 2.0, 0.0, 0.0),
        nu=3.0,
        rank=5.0,
        rho_max=0.64,
    ),
    reading(
        "ntk",
        value=2 * SIZES * UNIT_FEATURE,
        trace_value=110.0,
        norm_value=70.0,
        trace_feature=0.0,
        trace_cross=-4.0,
    ),
    reading("kernel_theory", value=SIZES, expected=SIZES, distance=0.125, cosine=1.0, traces=2.0),
    reading("layer_kernels", along=array(0.5, 0.375)),
    reading(
        "gate_statistics",
        density=array(0.875, 0.625),
        dead=array(0.25, 0.0),
        always=array(0.0, 0.125),
    ),
)
SERIES_OF_B = {
    ("training", "test_loss"): make_series([5, 9], [1.75, 1.0]),
    ("training", "test_accuracy"): make_series([5, 9], [0.55, 0.9]),
}
A = View(
    run=started_run((2,), (3,)),
    regime="FL",
    wiring=(0, 1),
    step=7,
    marks=MARKS,
    readings={one.probe: one for one in READINGS},
    series=SERIES,
)
OTHER = ComparedRun(
    "other.pt",
    "ReLU",
    make_layers((2,), (3,)),
    (0, 1),
    STEP_OF_B,
    {one.probe: replace(one, step=STEP_OF_B) for one in READINGS_OF_B},
    SERIES_OF_B,
)
BOTH = replace(A, compared=OTHER)
WIRED = replace(A, wiring=(1, 0))

# Two channels of 2 by 3 positions; the montage is of channel 1.
MEANS = np.array([[0.5, 0.1], [0.2, 0.3], [0.4, 0.6], [0.7, 0.8], [0.0, 0.9]], dtype=np.float32)
MAPS = np.arange(30, dtype=np.float32).reshape(5, 2, 3) / 32
GATES = A.readings["gates"]
CONV = replace(
    GATES,
    arrays={k: v for k, v in GATES.arrays.items() if "dead" not in k}
    | {"layer_0": MEANS, "unit_map": MAPS},
    facts={"unit_map": "layer 0, unit 1"},
)
CONV_VIEW = replace(with_reading(WIRED, CONV), run=started_run((2, 2, 3), (3,)))
