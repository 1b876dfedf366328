"""`poolwise predict`: from a trained model and data to a folder of predictions."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from poolwise.cli.app import app
from poolwise.cli.engines import AddressOption, EngineOption, working
from poolwise.cli.lists import read_ids
from poolwise.cli.progress import bar
from poolwise.errors import ParameterError

if TYPE_CHECKING:
    from poolwise.data import Examples
    from poolwise.posteriors import Posterior


@app.command()
def predict(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="[LEARNER] DATA",
            help="The folder of a saved learner (left out with --model), and the data: a name of `poolwise datasets`, "
            "a folder of images, a table (.csv, .tsv, .jsonl, .parquet) or an array file (.npy, .npz, .pt).",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the predictions.")],
    model: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A network: saved whole by torch.save (.pt), by torch.jit.save or by torch.export.save (.pt2); "
            "repeatable, for an ensemble.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Dropout masks of each network of --model; none by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the dropout masks.")] = 0,
    split: Annotated[
        Literal["train", "test"], typer.Option(help="Which part of a data set that is given by name.")
    ] = "train",
    root: Annotated[Path | None, typer.Option(help="A folder to search for data sets first.")] = None,
    text: Annotated[str | None, typer.Option(help="Of a table: the column of texts.")] = None,
    file: Annotated[str | None, typer.Option(help="Of a table: the column of image files.")] = None,
    id: Annotated[str | None, typer.Option(help="Of a table: the column that names the examples.")] = None,
    separator: Annotated[str | None, typer.Option(help="Of a table: the character between its fields.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of a table: its encoding, such as cp1252.")] = None,
    reader: Annotated[
        str | None, typer.Option(help="The function that reads the data, as package.module:function.")
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            metavar="FILE[:COLUMN]",
            help="Names of the examples, if the data has none: one per line of a .txt file, or a column of a .csv "
            "or .parquet file.",
        ),
    ] = None,
    dtype: Annotated[
        Literal["float16", "float32"], typer.Option(help="The type to store; float16 keeps three digits.")
    ] = "float16",
    rows_per_shard: Annotated[
        int | None, typer.Option(min=1, help="How many examples go into one file; about 64 MB by default.")
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Write embeddings as well, for the methods that need them.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where the networks of --model run: auto, cpu, cuda:0, ...")] = "auto",
    outputs: Annotated[
        Literal["auto", "logits", "probs", "log-probs"],
        typer.Option(help="What the networks of --model return; auto expects logits, and refuses probabilities."),
    ] = "auto",
    memory: Annotated[str, typer.Option(help="Working memory. One shard of predictions is kept at a time.")] = "1GB",
    engine: EngineOption = "local",
    address: AddressOption = None,
    gpus: Annotated[float, typer.Option(min=0, help="With --engine ray: GPUs that a task takes.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Predict a data set into a folder that `poolwise select` reads.

    The folder is written shard by shard. After a crash, a full disk or Ctrl-C, the same command resumes with the first
    shard that is missing. The names of the examples (image files, or the id column of a table) are kept with them.

    Loading a learner or a network runs code that was saved with it: only load what you trust.

    With a learner that was saved in runs/mine:

    \b
      poolwise predict runs/mine pool.npy -o preds
      poolwise select preds -b 100

    With a network that torch.save wrote, 20 dropout masks and a folder of images:

    \b
      poolwise predict --model net.pt --samples 20 photos -o preds
    """
    from poolwise import cluster
    from poolwise.models.saved import read_network
    from poolwise.posteriors import write_predictions
    from poolwise.posteriors.trained import trained

    if len(inputs) != (1 if model else 2):
        raise ParameterError(
            f"expected {'DATA alone, since --model is given' if model else 'LEARNER and DATA'}; got {' '.join(inputs)}."
        )
    if gpus and engine == "local":
        raise ParameterError("--gpus is for --engine ray; on this machine, --device says where networks run.")
    sys.path.append(os.getcwd())  # where the classes of a saved model may be defined, as for python itself
    posterior = (
        trained([read_network(path) for path in model], samples, seed=seed, device=device, outputs=outputs)
        if model
        else _learned(inputs[0], samples)
    )
    name = str(Path(inputs[-1]).resolve()) if Path(inputs[-1]).exists() else inputs[-1]
    opening = {"text": text, "file": file, "id": id, "separator": separator, "encoding": encoding, "reader": reader}
    given = {option: value for option, value in opening.items() if value is not None}
    data = partial(_examples, name, split, None if root is None else root.resolve(), given)
    examples, names = _open(name, split, root, given)
    if ids is not None:
        names = read_ids(ids, len(examples))
    try:
        with working(engine, address), bar(quiet) as report:
            write = partial(cluster.predict, gpus=gpus) if engine == "ray" else write_predictions
            predictions = write(
                posterior,
                data if engine == "ray" else examples,  # type: ignore[arg-type]
                output,
                dtype=dtype,
                rows_per_shard=rows_per_shard,
                embeddings=embeddings,
                ids=names,
                memory=memory,
                report=report,
            )
    except KeyboardInterrupt:
        print("\nstopped. All complete shards are kept: the same command resumes from there.", file=sys.stderr)
        raise typer.Exit(130) from None
    if not quiet:
        print(f"{predictions} in {output}. Next: poolwise select {output}", file=sys.stderr)


def _learned(directory: str, samples: int | None) -> "Posterior":
    from poolwise.learning.learner import ActiveLearner

    if samples is not None:
        raise ParameterError("--samples is for --model; a learner has the samples of its posterior.")
    return ActiveLearner.load(directory, read_only=True).posterior


def _examples(name: str, split: str, root: Path | None, opening: Mapping[str, Any]) -> "Examples":
    """The examples alone, for a worker to open."""
    return _open(name, split, root, opening)[0]


def _open(
    name: str, split: str, root: Path | None, opening: Mapping[str, Any]
) -> tuple["Examples", Sequence[str] | None]:
    """The examples and their names; None where a name would only repeat the position."""
    from poolwise.data import SPECS, load, open_data

    if name in SPECS and not Path(name).exists():
        if opening:
            raise ParameterError(f"--{next(iter(opening))} is for data of your own, not for a data set by name.")
        found = load(name, root)
        return (found.train if split == "train" else found.test), None
    opened = open_data(name, **opening)
    positions = all(given == str(place) for place, given in enumerate(opened.ids))
    return opened.examples, None if positions else opened.ids
