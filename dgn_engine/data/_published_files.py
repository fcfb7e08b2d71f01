"""The downloadable files, with size and sha256 of each.

Source of the sha256: torchvision's prototype data sets (`prototype/datasets/_builtin/mnist.py`,
`cifar.py`), and for CIFAR `file_hash` of `keras.datasets`, which agrees. Sizes: as stated by the
servers. torchvision itself checks an md5, which another file could be made to match.
"""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.errors import UserError


@dataclass(frozen=True)
class PublishedFile:
    """The required size and sha256 of a download."""

    bytes: int
    sha256: str


PUBLISHED: dict[tuple[str, str], PublishedFile] = {  # by torchvision's class and file name
    ("MNIST", "train-images-idx3-ubyte.gz"): PublishedFile(
        9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    ("MNIST", "train-labels-idx1-ubyte.gz"): PublishedFile(
        28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    ("MNIST", "t10k-images-idx3-ubyte.gz"): PublishedFile(
        1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    ("MNIST", "t10k-labels-idx1-ubyte.gz"): PublishedFile(
        4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
    ("FashionMNIST", "train-images-idx3-ubyte.gz"): PublishedFile(
        26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
    ),
    ("FashionMNIST", "train-labels-idx1-ubyte.gz"): PublishedFile(
        29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
    ),
    ("FashionMNIST", "t10k-images-idx3-ubyte.gz"): PublishedFile(
        4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
    ),
    ("FashionMNIST", "t10k-labels-idx1-ubyte.gz"): PublishedFile(
        5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
    ),
    ("CIFAR10", "cifar-10-python.tar.gz"): PublishedFile(
        170_498_071, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
    ),
    ("CIFAR100", "cifar-100-python.tar.gz"): PublishedFile(
        169_001_437, "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"
    ),
}


def published_file(kind: str, name: str) -> PublishedFile:
    """Return size and sha256; raises `UserError` if unknown, as nothing could be verified."""
    if (kind, name) not in PUBLISHED:
        raise UserError(
            f"{name} of {kind} cannot be downloaded, because its sha256 is unknown; download it "
            "yourself and choose its folder.",
            kind="no-download",
        )
    return PUBLISHED[kind, name]
