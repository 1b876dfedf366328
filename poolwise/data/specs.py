"""The table of data sets: everything that Poolwise knows about each, and nothing about how to find it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from poolwise.data.formats.cifar import Cifar
from poolwise.data.formats.digits import Digits
from poolwise.data.formats.idx import Idx
from poolwise.data.formats.official import OfficialSplit
from poolwise.data.formats.svhn import Svhn
from poolwise.data.formats.texts import TextColumns, Texts
from poolwise.errors import ParameterError

InputKind = Literal["image", "text"]


@dataclass(frozen=True)
class Form:
    """One form in which a data set is distributed: the files of its two splits.

    Attributes:
        train: the files of the training examples.
        test: the files of the test examples.

    Example:
        >>> SPECS["cifar-100"].forms[0].files
        ('train.bin', 'test.bin')
    """

    train: OfficialSplit
    test: OfficialSplit

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files."""
        return self.train.files + self.test.files


@dataclass(frozen=True)
class Hub:
    """Where a data set is on the Hugging Face hub.

    Attributes:
        path: owner and name.
        inputs: the column of images or texts.
        label: the column of labels.
        config: the configuration, where there are several.

    Example:
        >>> SPECS["ag-news"].hub.path
        'fancyzhx/ag_news'
    """

    path: str
    inputs: str
    label: str = "label"
    config: str | None = None


@dataclass(frozen=True)
class Spec:
    """What is known about a data set before it is read.

    Attributes:
        name: what to pass to `load`.
        title: what it is, in a line.
        kind: images or texts.
        count: number of examples in the official splits, to train and to test.
        class_count: number of classes.
        home: where to get it.
        forms: the forms in which it can be read, the usual one first.
        folders: folders inside a root to search, beside the root itself.
        classes: the names of the classes in order; None if they are those in the file, sorted.
        shape: channels, height and width of images.
        mean: mean of each channel of the training images, scaled to 0 to 1.
        std: standard deviation of each channel.
        archives: archives that hold the files.
        hub: where it is on the Hugging Face hub; None if no copy there is known to be the same.

    Example:
        >>> SPECS["mnist"].shape, SPECS["mnist"].count
        ((1, 28, 28), (60000, 10000))
    """

    name: str
    title: str
    kind: InputKind
    count: tuple[int, int]
    class_count: int
    home: str
    forms: tuple[Form, ...]
    folders: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    shape: tuple[int, int, int] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    archives: tuple[str, ...] = ()
    hub: Hub | None = None

    @property
    def md5(self) -> set[str]:
        """The MD5 digests of its files, as far as they are known."""
        return {digest for form in self.forms for source in (form.train, form.test) for digest in source.md5}


def _mnist(train_md5: tuple[str, ...] = (), test_md5: tuple[str, ...] = ()) -> tuple[Form, ...]:
    """The four files that MNIST and its replacements share, under both spellings that are in use."""
    return tuple(
        Form(
            Idx(f"train-images{dash}idx3-ubyte", f"train-labels{dash}idx1-ubyte", md5=train_md5),
            Idx(f"t10k-images{dash}idx3-ubyte", f"t10k-labels{dash}idx1-ubyte", md5=test_md5),
        )
        for dash in "-."
    )


def _emnist(split: str) -> Form:
    train, test = (
        Idx(f"emnist-{split}-{part}-images-idx3-ubyte", f"emnist-{split}-{part}-labels-idx1-ubyte", transposed=True)
        for part in ("train", "test")
    )
    return Form(train, test)


def _texts(*columns: TextColumns) -> Form:
    return Form(Texts("train.csv", columns), Texts("test.csv", columns))


def _cachopo(name: str) -> tuple[Form, ...]:
    """A collection of Cardoso-Cachopo's: in its own form, with a class, a tab and a text per line; or as CSV."""
    lines = TextColumns(("class", "text"), text=(1,), label=0, header=False)
    return (
        Form(Texts(f"{name}-train-all-terms.txt", (lines,)), Texts(f"{name}-test-all-terms.txt", (lines,))),
        _texts(TextColumns(("text", "label"), text=(0,), label=1)),
    )


_DIGITS = tuple("0123456789")
_CACHOPO = "https://ana.cachopo.org/datasets-for-single-label-text-categorization"
_AG_NEWS = ("class index", "title", "description")

_CIFAR_100 = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy"),
    *("bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock"),
    *("cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish"),
    *("forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion"),
    *("lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange"),
    *("orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine"),
    *("possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk"),
    *("skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank"),
    *("telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale"),
    *("willow_tree", "wolf", "woman", "worm"),
)

_TABLE = (
    Spec(
        name="mnist",
        title="handwritten digits",
        kind="image",
        count=(60_000, 10_000),
        class_count=10,
        home="http://yann.lecun.com/exdb/mnist/",
        forms=_mnist(
            ("6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624"),
            ("2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"),
        ),
        folders=("MNIST/raw", "MNIST"),
        classes=_DIGITS,
        shape=(1, 28, 28),
        mean=(0.1307,),
        std=(0.3081,),
        hub=Hub("ylecun/mnist", "image"),
    ),
    Spec(
        name="fashion-mnist",
        title="images of clothes, a replacement for MNIST",
        kind="image",
        count=(60_000, 10_000),
        class_count=10,
        home="https://github.com/zalandoresearch/fashion-mnist",
        forms=_mnist(
            ("f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9"),
            ("8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"),
        ),
        folders=("fashion_mnist", "FashionMNIST/raw"),
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        shape=(1, 28, 28),
        mean=(0.2860,),
        std=(0.3530,),
        hub=Hub("zalando-datasets/fashion_mnist", "image"),
    ),
    Spec(
        name="kmnist",
        title="cursive Japanese characters, a replacement for MNIST",
        kind="image",
        count=(60_000, 10_000),
        class_count=10,
        home="https://github.com/rois-codh/kmnist",
        forms=_mnist(),
        folders=("KMNIST/raw", "KMNIST"),
        classes=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        shape=(1, 28, 28),
        mean=(0.1918,),
        std=(0.3483,),
        hub=Hub("tanganke/kmnist", "image"),
    ),
    Spec(
        name="emnist",
        title="handwritten digits and letters, the balanced split",
        kind="image",
        count=(112_800, 18_800),
        class_count=47,
        home="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        forms=(_emnist("balanced"),),
        folders=("emnist/gzip", "EMNIST/raw", "gzip"),
        classes=(*_DIGITS, *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abdefghnqrt"),
        shape=(1, 28, 28),
        mean=(0.1751,),
        std=(0.3332,),
        archives=("gzip.zip",),
    ),
    Spec(
        name="svhn",
        title="house numbers in street photographs, cropped digits",
        kind="image",
        count=(73_257, 26_032),
        class_count=10,
        home="http://ufldl.stanford.edu/housenumbers/",
        forms=(Form(Svhn("train_32x32.mat"), Svhn("test_32x32.mat")),),
        folders=("SVHN",),
        classes=_DIGITS,
        shape=(3, 32, 32),
        mean=(0.4377, 0.4438, 0.4728),
        std=(0.1980, 0.2010, 0.1970),
        hub=Hub("ufldl-stanford/svhn", "image", config="cropped_digits"),
    ),
    Spec(
        name="cifar-10",
        title="small colour images of animals and vehicles",
        kind="image",
        count=(50_000, 10_000),
        class_count=10,
        home="https://www.cs.toronto.edu/~kriz/cifar.html (the binary version)",
        forms=(Form(Cifar(tuple(f"data_batch_{part}.bin" for part in range(1, 6))), Cifar(("test_batch.bin",))),),
        folders=("cifar-10/cifar-10-batches-bin", "cifar-10-batches-bin", "cifar10"),
        classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        shape=(3, 32, 32),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        archives=("cifar-10-binary.tar.gz",),
        hub=Hub("uoft-cs/cifar10", "img"),
    ),
    Spec(
        name="cifar-100",
        title="small colour images of a hundred kinds of things",
        kind="image",
        count=(50_000, 10_000),
        class_count=100,
        home="https://www.cs.toronto.edu/~kriz/cifar.html (the binary version)",
        forms=(Form(Cifar(("train.bin",), label_bytes=2), Cifar(("test.bin",), label_bytes=2)),),
        folders=("cifar-100/cifar-100-binary", "cifar-100-binary", "cifar100"),
        classes=_CIFAR_100,
        shape=(3, 32, 32),
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        archives=("cifar-100-binary.tar.gz",),
        hub=Hub("uoft-cs/cifar100", "img", "fine_label"),
    ),
    Spec(
        name="digits",
        title="small handwritten digits that come with scikit-learn",
        kind="image",
        count=(1_297, 500),
        class_count=10,
        home="https://scikit-learn.org (it is part of the package)",
        forms=(Form(Digits(test=False), Digits(test=True)),),
        classes=_DIGITS,
        shape=(1, 8, 8),
        mean=(0.3053,),
        std=(0.3759,),
    ),
    Spec(
        name="ag-news",
        title="news by topic",
        kind="text",
        count=(120_000, 7_600),
        class_count=4,
        home="https://github.com/mhjabreel/CharCnn_Keras/tree/master/data/ag_news_csv",
        forms=(
            _texts(
                TextColumns(_AG_NEWS, text=(1, 2), label=0, first=1),
                TextColumns(("text", "label"), text=(0,), label=1, first=0),  # as on the hub, which counts from 0
                TextColumns(
                    _AG_NEWS, text=(1, 2), label=0, first=1, header=False
                ),  # fits any three columns, so it is last
            ),
        ),
        folders=("ag_news", "ag_news_csv"),
        classes=("World", "Sports", "Business", "Sci/Tech"),
        hub=Hub("fancyzhx/ag_news", "text"),
    ),
    Spec(
        name="banking77",
        title="questions to a bank by intent",
        kind="text",
        count=(10_003, 3_080),
        class_count=77,
        home="https://github.com/PolyAI-LDN/task-specific-datasets",
        forms=(_texts(TextColumns(("text", "category"), text=(0,), label=1)),),
        folders=("banking_data",),
        hub=Hub("legacy-datasets/banking77", "text"),
    ),
    Spec(
        name="20news",
        title="posts to newsgroups, in lower case and letters only",
        kind="text",
        count=(11_293, 7_528),
        class_count=20,
        home=_CACHOPO,
        forms=_cachopo("20ng"),
    ),
    Spec(
        name="r8",
        title="Reuters news by topic, in lower case and letters only",
        kind="text",
        count=(5_485, 2_189),
        class_count=8,
        home=_CACHOPO,
        forms=_cachopo("r8"),
    ),
)

SPECS: Mapping[str, Spec] = MappingProxyType({spec.name: spec for spec in _TABLE})
"""Every data set by name."""


def find_spec(name: str) -> Spec:
    """What is known about the data set of that name. Capitals, underscores and spaces do not matter.

    Args:
        name: its name, such as `"fashion-mnist"`.

    Example:
        >>> find_spec("Fashion MNIST").name
        'fashion-mnist'
    """
    spec = SPECS.get(name.lower().replace("_", "-").replace(" ", "-"))
    if spec is None:
        raise ParameterError(f"there is no data set {name!r}. The data sets are: {', '.join(SPECS)}.")
    return spec
