"""`poolwise predict`: from a trained model and data to a folder of predictions."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from poolwise import cluster
from poolwise.cli.app import app
from poolwise.cli.engines import AddressOption, EngineOption, working
from poolwise.cli.progress import bar
from poolwise.data import SPECS, Examples, load, open_data
from poolwise.errors import ParameterError
from poolwise.learning.learner import ActiveLearner
from poolwise.models.saved import read_network
from poolwise.posteriors import Posterior, write_predictions
from poolwise.posteriors.trained import trained


@app.command()
def predict(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="[LEARNER] DATA",
            help="The folder of a saved learner (left out with --model), and the data: a name of `poolwise datasets`, "
            "a folder of pictures, a table, or an array file.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the predictions.")],
    model: Annotated[
        list[Path] | None,
        typer.Option(
            help="A network: saved whole by torch.save (.pt), by torch.jit.save or by torch.export.save (.pt2); "
            "repeatable, for an ensemble.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Dropout masks of each network of --model; none by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Where the dropout masks come from.")] = 0,
    split: Annotated[
        Literal["train", "test"], typer.Option(help="Which part of a data set that is given by name.")
    ] = "train",
    root: Annotated[Path | None, typer.Option(help="A folder to look for data sets in first.")] = None,
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
        typer.Option(help="What the networks of --model put out; auto: logits, with an error if they are normalised."),
    ] = "auto",
    memory: Annotated[str, typer.Option(help="Working memory; of the predictions, one shard is held.")] = "1GB",
    engine: EngineOption = "local",
    address: AddressOption = None,
    gpus: Annotated[float, typer.Option(min=0, help="With --engine ray: GPUs that a task takes.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
) -> None:
    """Predict a data set into a folder that `poolwise select` reads.

    The folder is written shard by shard. Stop it, kill it, let the disk fill up: the same command goes on with the
    first shard that is missing.

    Loading a learner or a network runs code that was saved with it: only load what you trust.

    Example: `poolwise predict runs/mine pool.npy -o preds`, then `poolwise select preds -b 100`
    """
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
    data = partial(_data, name, split, None if root is None else root.resolve())
    try:
        with working(engine, address), bar(quiet) as report:
            write = partial(cluster.predict, gpus=gpus) if engine == "ray" else write_predictions
            predictions = write(
                posterior,
                data if engine == "ray" else data(),
                output,
                dtype=dtype,
                rows_per_shard=rows_per_shard,
                embeddings=embeddings,
                memory=memory,
                report=report,
            )
    except KeyboardInterrupt:
        print("\nstopped. All complete shards are kept: the same command goes on from there.", file=sys.stderr)
        raise typer.Exit(130) from None
    if not quiet:
        print(f"{predictions} in {output}. Next: poolwise select {output}", file=sys.stderr)


def _learned(directory: str, samples: int | None) -> Posterior:
    if samples is not None:
        raise ParameterError("--samples is for --model; a learner has the samples of its posterior.")
    return ActiveLearner.load(directory).posterior


def _data(name: str, split: str, root: Path | None) -> Examples:
    if name in SPECS and not Path(name).exists():
        found = load(name, root)
        return found.train if split == "train" else found.test
    return open_data(name).examples
