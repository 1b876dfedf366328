"""`poolwise pilot` and `poolwise advise`: is it better than random on my data, and which method?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from poolwise.cli.app import app
from poolwise.cli.progress import lines, resumable
from poolwise.errors import PoolwiseError


@app.command()
def pilot(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A table, a folder of images or an array, of which a part is labelled."),
    ],
    text: Annotated[str | None, typer.Option("--text-column", help="The column of texts; text by default.")] = None,
    label: Annotated[str | None, typer.Option("--label-column", help="The column of labels; label by default.")] = None,
    file: Annotated[
        str | None, typer.Option("--file-column", help="The column of image files; file by default.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            help="Methods to compare with random, separated by commas; by default margin and posterior-coverage.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", "-b", min=1, help="Labels per round; at most 50 by default.")
    ] = None,
    labels: Annotated[
        int | None,
        typer.Option(min=20, help="Labels at the end of a run; by default half of those you have, at most 500."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many runs per method, each with its own seed.")] = 5,
    encoder: Annotated[
        str | None, typer.Option(help="For texts: a checkpoint that encodes them, such as minilm.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the runs.")] = Path("pilot"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many runs at a time.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer.")] = False,
) -> None:
    """Test on your data whether methods beat random.

    The labelled part of the data is split into a test set and a pool whose labels are hidden. Methods then ask for
    these labels round by round, as they would ask you. Examples without a label are ignored. After an interruption, the
    same command resumes; with a larger --seeds it adds runs.

    Examples:

    \b
      poolwise pilot texts.csv --label-column topic
      poolwise pilot texts.csv --encoder minilm --methods margin,posterior-coverage --seeds 10

    The answer is for this data, this model and this number of labels.
    """
    from poolwise import budget
    from poolwise.experiments import execute_all, failures
    from poolwise.experiments.pilot import pilot_config
    from poolwise.experiments.search import read_runs
    from poolwise.reports.pilot import answers, conclusion

    columns = {name: value for name, value in (("text", text), ("label", label), ("file", file)) if value is not None}
    chosen = tuple(name.strip() for name in (methods or "").split(",") if name.strip())
    config = pilot_config(
        data, methods=chosen, batch_size=batch_size, labels=labels, seeds=seeds, encoder=encoder, **columns
    )
    budget.keep_freed_memory()
    with resumable(), lines(quiet) as show:
        progress = execute_all(config, output, jobs, show)
    failed = failures(progress)
    if failed:
        raise PoolwiseError("\n".join(failed))
    found = answers(run for runs in read_runs(output / config.name).values() for run in runs)
    for answer in found:
        print(answer.sentence())
    print(conclusion(found))
    if not quiet:
        print(f"The runs are in {output / config.name}. More: poolwise report {output}", file=sys.stderr)


@app.command()
def advise(
    points: Annotated[int, typer.Option("--points", "-n", min=1, help="N, how many examples there are.")],
    classes: Annotated[int, typer.Option("--classes", "-c", min=2, help="C, how many classes.")],
    batch_size: Annotated[int, typer.Option("--batch-size", "-b", min=1, help="Labels per round.")] = 10,
    samples: Annotated[
        int, typer.Option("--samples", "-k", min=1, help="K, posterior samples: networks, or dropout masks.")
    ] = 5,
    features: Annotated[
        bool,
        typer.Option(
            "--features", help="There are fixed features: those of a pretrained encoder, or a table's columns."
        ),
    ] = False,
    labels: Annotated[int, typer.Option(min=0, help="How many of the examples are labelled already.")] = 0,
) -> None:
    """Recommend a method, from what the study measured.

    It gives the call, what the method saved in the settings most like yours, which others cannot be told from it, what
    limits the advice, and where its numbers are from.

    Examples:

    \b
      poolwise advise --points 50000 --classes 10 -b 50
      poolwise advise -n 50000 -c 77 -b 50 --features --labels 200
    """
    from poolwise.reports.advice import advise as find

    for line in find(points, classes, batch_size, samples, features=features, labels=labels).lines():
        print(line)
