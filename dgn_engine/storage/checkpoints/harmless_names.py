"""The names that a pickle may contain without a warning, and what each may be used for.

`MADE` are classes and functions that create values when called as their libraries write it
(`result_of`), `NAMED` types and constants that nothing calls, and `SHOWN` functions that honest
networks and settings hold as a value. Any other name, or any other use, is named in a warning,
whether the pickle calls it or not: a list of harmful names would never be complete.

Why that is enough: loading a pickle only calls what it names. Attributes that it sets, hooks that
it registers and functions that it passes on are names too, so anything that runs is either on the
list or warned about. The names on it are therefore chosen so that none of them runs code from text
or bytes, opens a file, starts a process, or looks up an attribute or a module by name, other than a
text codec in Python's `encodings`. The one exception, `_load_from_bytes`, is judged by the bytes it
is given, and may not be kept.

A name of `MADE` is harmless with the arguments that its library writes; with others it may return
anything, such as numbers of another type, or a dtype that turns bytes of the file into addresses.
Such a call is reported, and its result is not read. What makes tensors, arrays and containers is
judged where these are rebuilt (`pickled_tensors`, `pickled_arrays`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertObject, Opaque

_OPTIMISERS = (  # each in a module of its own name
    *("Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "LBFGS"),
    *("NAdam", "RAdam", "RMSprop", "Rprop", "SGD"),
)
# Modules → names that create values: they may be called, passed on, and kept.
MADE = {
    # Python's values
    "_codecs": "encode",
    "builtins": (
        "bool bytearray bytes complex dict float frozenset int list object range set slice str "
        "tuple"
    ),
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "pathlib._local": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "uuid": "UUID",
    # Python's objects with any attributes
    "argparse": "Namespace",
    "types": "SimpleNamespace",
    # numpy
    "numpy": "dtype",
    "numpy.core.multiarray": "scalar",
    "numpy._core.multiarray": "scalar",
    "numpy.core.numeric": "_frombuffer",
    "numpy._core.numeric": "_frombuffer",
    "numpy._core._internal": "_convert_to_stringdtype_kwargs",
    "numpy.random._pickle": "__bit_generator_ctor",
    # torch: values and tensors
    "torch": "Size device",
    "torch.nn.parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
    "torch.serialization": "_get_layout",
    "torch._utils": (
        "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "
        "_rebuild_parameter_with_state _rebuild_device_tensor_from_numpy "
        "_rebuild_device_tensor_from_cpu_tensor _rebuild_xla_tensor _rebuild_qtensor "
        "_rebuild_sparse_tensor _rebuild_sparse_csr_tensor _rebuild_nested_tensor "
        "_rebuild_meta_tensor_no_storage"
    ),
    # torch: modules, optimisers and schedules, with whatever state the file gives them
    "torch.nn.modules.activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
        "LogSoftmax Mish MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax "
        "Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
    ),
    "torch.nn.modules.adaptive": "AdaptiveLogSoftmaxWithLoss",
    "torch.nn.modules.batchnorm": (
        "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
        "SyncBatchNorm"
    ),
    "torch.nn.modules.channelshuffle": "ChannelShuffle",
    "torch.nn.modules.container": (
        "Container ModuleDict ModuleList ParameterDict ParameterList Sequential"
    ),
    "torch.nn.modules.conv": (
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d "
        "LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
    ),
    "torch.nn.modules.distance": "CosineSimilarity PairwiseDistance",
    "torch.nn.modules.dropout": (
        "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout"
    ),
    "torch.nn.modules.flatten": "Flatten Unflatten",
    "torch.nn.modules.fold": "Fold Unfold",
    "torch.nn.modules.instancenorm": (
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d"
    ),
    "torch.nn.modules.linear": (
        "Bilinear Identity LazyLinear Linear NonDynamicallyQuantizableLinear _LinearWithBias"
    ),
    "torch.nn.modules.loss": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss "
        "HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss MSELoss "
        "MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss "
        "NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss"
    ),
    "torch.nn.modules.module": "Module _WrappedHook",
    "torch.nn.modules.normalization": (
        "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm"
    ),
    "torch.nn.modules.padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
        "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
        "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"
    ),
    "torch.nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle",
    "torch.nn.modules.pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d "
        "FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
        "MaxUnpool2d MaxUnpool3d"
    ),
    "torch.nn.modules.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    "torch.nn.modules.sparse": "Embedding EmbeddingBag",
    "torch.nn.modules.transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer"
    ),
    "torch.nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "torch.nn.parallel.data_parallel": "DataParallel",
    "torch.nn.utils.spectral_norm": (
        "SpectralNorm SpectralNormLoadStateDictPreHook SpectralNormStateDictHook"
    ),
    "torch.nn.utils.weight_norm": "WeightNorm",
    **{f"torch.optim.{name.lower()}": name for name in _OPTIMISERS},
    "torch.optim.lr_scheduler": (
        "ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR "
        "ExponentialLR LRScheduler LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR "
        "PolynomialLR ReduceLROnPlateau SequentialLR StepLR _LRScheduler"
    ),
    "torch.optim.optimizer": "Optimizer",
    "torch.optim.sparse_adam": "SparseAdam",
    "torch.optim.swa_utils": "AveragedModel SWALR",
}

_STORAGES = (
    "FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage IntStorage ShortStorage "
    "CharStorage ByteStorage BoolStorage ComplexFloatStorage ComplexDoubleStorage"
)
_TENSORS = (
    "FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor "
    "CharTensor ByteTensor"
)
# Classes and constants that a pickle names: types of numbers, arrays, storages and tensors. None
# may be called: with suitable arguments they take a number for the address of an allocator, a
# tensor or an object, or return numbers of another type than those of the file.
NAMED = {
    "numpy": (
        "ndarray record recarray bool bool_ float16 float32 float64 int8 int16 int32 int64 uint8 "
        "uint16 uint32 uint64 complex64 complex128 str_ bytes_ longlong ulonglong"
    ),
    "numpy.rec": "recarray",
    "numpy.dtypes": (
        "BoolDType Int8DType Int16DType Int32DType Int64DType UInt8DType UInt16DType UInt32DType "
        "UInt64DType Float16DType Float32DType Float64DType Complex64DType Complex128DType StrDType"
    ),
    "numpy.random.bit_generator": "SeedSequence",
    "numpy.random._mt19937": "MT19937",
    "numpy.random._pcg64": "PCG64 PCG64DXSM",
    "numpy.random._philox": "Philox",
    "numpy.random._sfc64": "SFC64",
    "torch": (
        "dtype bool float double half bfloat16 float16 float32 float64 "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
        "float4_e2m1fn_x2 uint1 uint2 uint3 uint4 uint5 uint6 uint7 uint8 uint16 uint32 uint64 "
        "int1 int2 int3 int4 int5 int6 int7 int8 int16 int32 int64 short int long complex32 "
        "complex64 complex128 qint8 quint8 qint32 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 "
        "bits16 strided sparse_coo sparse_csr per_tensor_affine per_tensor_symmetric "
        "per_channel_affine per_channel_symmetric per_channel_affine_float_qparams "
        "contiguous_format channels_last preserve_format Tensor UntypedStorage QInt8Storage "
        "QUInt8Storage QInt32Storage QUInt4x2Storage QUInt2x4Storage "
        f"{_STORAGES} {_TENSORS} BoolTensor"
    ),
    "torch.cuda": f"{_STORAGES} {_TENSORS} BoolTensor",
    "torch.sparse": _TENSORS,
    "torch.cuda.sparse": _TENSORS,
    "torch.storage": "TypedStorage UntypedStorage",
    "torch._tensor": "Tensor",
}

# Functions on numbers that may be kept, as the activation or loss of a network; no pickle needs to
# call them.
SHOWN = {
    "torch.nn.functional": (
        "alpha_dropout batch_norm binary_cross_entropy binary_cross_entropy_with_logits celu "
        "cosine_embedding_loss cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu "
        "embedding gaussian_nll_loss gelu glu group_norm gumbel_softmax hardsigmoid hardswish "
        "hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss "
        "layer_norm leaky_relu local_response_norm log_softmax margin_ranking_loss mish mse_loss "
        "multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize "
        "pad poisson_nll_loss relu relu6 rms_norm rrelu selu sigmoid silu smooth_l1_loss "
        "soft_margin_loss softmax softmin softsign tanh tanhshrink threshold triplet_margin_loss"
    ),
    "torch._C._nn": (
        "avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear log_sigmoid one_hot "
        "scaled_dot_product_attention softplus softshrink"
    ),
    "torch.nn.init": (
        "calculate_gain constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_ ones_ "
        "orthogonal_ sparse_ trunc_normal_ uniform_ xavier_normal_ xavier_uniform_ zeros_"
    ),
}

# Functions that create values by calling another name → the positions of such arguments. They may
# be called if these arguments are names (which are judged themselves) or text, not objects that the
# file creates; if kept, they might be called with anything later.
CALLS_ARGUMENTS = {
    "copyreg._reconstructor": (0, 1),
    "numpy.core.multiarray._reconstruct": (0,),
    "numpy._core.multiarray._reconstruct": (0,),
    "numpy.random._pickle.__generator_ctor": (1,),
    "numpy.random._pickle.__randomstate_ctor": (1,),
    "numpy.random.bit_generator.__pyx_unpickle_SeedSequence": (0,),
    "torch._tensor._rebuild_from_type": (0, 1),
    "torch._tensor._rebuild_from_type_v2": (0, 1),
    "torch._utils._rebuild_wrapper_subclass": (0,),
}
# Classes that do the same but may be kept.
_ALSO_CALLS = {
    "collections.defaultdict": (0,),
    "numpy.random._pickle.__bit_generator_ctor": (0,),
}
LOADS_BYTES = "torch.storage._load_from_bytes"  # unpickles its argument
_MOST = 16  # parts of an argument
_RANDOM = "numpy.random._pickle."
_GENERATOR = f"{_RANDOM}__bit_generator_ctor"
_SEED = "numpy.random.bit_generator.__pyx_unpickle_SeedSequence"
# Objects created without arguments that then take a dictionary of attributes.
_WITH_ATTRIBUTES = (
    *("torch.nn.modules.", "torch.nn.parallel.", "torch.nn.utils.", "torch.optim."),
    "uuid.UUID",
)
_WITH_STATE = (_RANDOM, _SEED, *_WITH_ATTRIBUTES)  # or a state of another form, as generators have


def _full_names(table: dict[str, str]) -> frozenset[str]:
    return frozenset(
        f"{module}.{name}" for module, names in table.items() for name in names.split()
    )


_MAY_CALL = _full_names(MADE) | set(CALLS_ARGUMENTS) | {LOADS_BYTES}
_MAY_KEEP = _full_names(MADE) | _full_names(NAMED) | _full_names(SHOWN)


def may_be_called(name: GlobalName) -> bool:
    """Return whether calling it only creates a value; see `called_arguments` for conditions."""
    return _is_in_module(name) and str(name) in _MAY_CALL


def may_be_kept(name: GlobalName) -> bool:
    """Return whether it may be a value: an argument, an item, an attribute of anything."""
    return _is_in_module(name) and str(name) in _MAY_KEEP


def called_arguments(name: GlobalName) -> tuple[int, ...]:
    """Return the positions of arguments that the function calls or uses as a class."""
    text = str(name)
    return CALLS_ARGUMENTS.get(text, ()) or _ALSO_CALLS.get(text, ())


def _is_in_module(name: GlobalName) -> bool:
    """Return whether it is looked up in its module itself.

    From protocol 4 on, a dot leads through attributes ('torch', 'serialization.os.system').
    """
    return "." not in name.name


def result_of(name: GlobalName, arguments: tuple[Any, ...]) -> InertObject:
    """Return a stand-in for the result of a name that may be called: an object or a value.

    Raises:
        UnreadableFile: It is a torch module with arguments.
    """
    text = str(name)
    if text.startswith("torch.nn.modules.") or (text.startswith(_WITH_STATE) and not arguments):
        return InertObject.from_call(name, arguments)
    written = _FORMS.get(text, _are_plain)(arguments)
    if written and text.startswith(_WITH_STATE):
        return InertObject.from_call(name, arguments)
    return Opaque(text, arguments, odd=not written)


def takes_attributes(kind: GlobalName) -> bool:
    """Return whether objects of a class have attributes and no arguments."""
    return str(kind).startswith(_WITH_ATTRIBUTES)


def _are_plain(arguments: tuple[Any, ...]) -> bool:
    """Return whether all are values as pickle writes them, or calls that create such values."""
    return len(arguments) <= _MOST and all(map(_is_plain, arguments))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= _MOST and all(isinstance(part, _SCALARS) for part in value)
    return isinstance(value, _SCALARS) or (isinstance(value, Opaque) and not value.odd)


_SCALARS = (NoneType, bool, int, float, str, bytes)


def _is_of_items(arguments: tuple[Any, ...]) -> bool:
    return arguments == () or (len(arguments) == 1 and type(arguments[0]) in (list, tuple))


def _is_of_bytes(arguments: tuple[Any, ...]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], (bytes, str))


def _is_of_generator(arguments: tuple[Any, ...]) -> bool:
    """Return whether it is the name or class of a bit generator, called without arguments.

    The class is NumPy's, or one that is reported.
    """
    match arguments:
        case (str(),):
            return True
        case (GlobalName() as kind,):
            return kind.module.startswith("numpy.random.") or not may_be_kept(kind)
    return arguments == ()


def _is_of_bits(arguments: tuple[Any, ...]) -> bool:
    """Return whether it is (bit generator, optionally the function that creates it by name)."""
    if not arguments or len(arguments) > 2:
        return False
    bits, *maker = arguments
    is_call = isinstance(bits, InertObject) and bits.callee == _GENERATOR
    return (is_call or isinstance(bits, str)) and all(
        isinstance(function, GlobalName)
        and (str(function) == _GENERATOR or not may_be_kept(function))
        for function in maker
    )


def _is_of_seed(arguments: tuple[Any, ...]) -> bool:
    match arguments:
        case (GlobalName() as kind, int(), None | tuple()):
            return kind.module == "numpy.random.bit_generator" or not may_be_kept(kind)
    return False


_FORMS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "builtins.frozenset": _is_of_items,
    "builtins.object": lambda arguments: not arguments,
    "builtins.set": _is_of_items,
    LOADS_BYTES: _is_of_bytes,
    _GENERATOR: _is_of_generator,
    f"{_RANDOM}__generator_ctor": _is_of_bits,
    f"{_RANDOM}__randomstate_ctor": _is_of_bits,
    _SEED: _is_of_seed,
}
