"""`poolwise pilot` and `poolwise advise`: is it better than random on my data, and which method?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from poolwise.cli.app import app
from poolwise.cli.progress import bar, lines, resumable
from poolwise.errors import PoolwiseError


@app.command()
def pilot(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A table of texts, image files or numbers, a folder of images or an array, of which a part is "
            "labelled.",
        ),
    ],
    text: Annotated[str | None, typer.Option("--text-column", help="The column of texts; text by default.")] = None,
    label: Annotated[str | None, typer.Option("--label-column", help="The column of labels; label by default.")] = None,
    file: Annotated[
        str | None, typer.Option("--file-column", help="The column of image files; file by default.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--feature-columns",
            metavar="A,B",
            help="The columns of numbers, separated by commas; by default all but the labels, if there are no texts.",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            "-m",
            metavar="A,B",
            help="Methods to compare with random, separated by commas, or one at a time; by default that of a "
            "labelling project, mutual-herding, and margin and posterior-coverage.",
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
        str | None,
        typer.Option(
            help="What turns texts into numbers: minilm, tfidf or a checkpoint. For images: efficientnet or patches. "
            "By default what a labelling project takes: minilm and efficientnet, if they are installed."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the runs.")] = Path("pilot"),
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many runs at a time.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the answer.")] = False,
) -> None:
    """Test on your data whether methods beat random.

    The labelled part of the data is split into a test set and a pool whose labels are hidden. Methods then ask for
    these labels round by round, as they would ask you in a labelling project (`poolwise label`): with its features, its
    model and its first batch, which is k-means for texts and images, and random for numbers. Examples without a label
    are not asked for. After an interruption, the same command resumes; with a larger --seeds it adds runs.

    Examples:

    \b
      poolwise pilot texts.csv --label-column topic
      poolwise pilot texts.csv --encoder minilm --methods mutual-herding,margin --seeds 10
      poolwise pilot measurements.csv --label-column species

    The answer is for this data, this model and this number of labels.
    """
    from poolwise import budget
    from poolwise.cli.columns import show_paragraph
    from poolwise.experiments import Config, execute_all, failures
    from poolwise.experiments.pilot import PilotData, check_unchanged, other_runs, pilot_config
    from poolwise.experiments.records import read_run
    from poolwise.labelling.piloting import open_pilot
    from poolwise.reports.pilot import answers, conclusion

    opened = open_pilot(data, text=text, file=file, label=label, features=_listed(features), encoder=encoder)

    def planned(of: PilotData) -> Config:
        return pilot_config(
            of, methods=_listed(",".join(methods or ())), batch_size=batch_size, labels=labels, seeds=seeds
        )

    plan = opened.plan()
    config = planned(plan)  # so that mistakes show before features are made
    for doubt in () if quiet else plan.doubts():
        print(f"poolwise: warning: {data}: {doubt}", file=sys.stderr)
    budget.keep_freed_memory()
    with resumable():
        with bar(quiet) as report:
            made, said = opened.prepare(output / "features", report)
        for line in () if quiet else (*said, made.summary()):
            print(line, file=sys.stderr)
        config = planned(made)
        check_unchanged(config, output)
        with lines(quiet) as show:
            progress = execute_all(config, output, jobs, show)
    failed = failures(progress)
    if not any(entry.done for entry in progress):
        raise PoolwiseError("\n".join(failed))
    asked = [entry.run.folder for entry in progress]
    others = "" if quiet else other_runs(output / config.name, asked)
    if others:
        print(others, file=sys.stderr)
    found = answers(read_run(entry.run.folder) for entry in progress if entry.done)
    for answer in found:
        show_paragraph(answer.sentence())
    show_paragraph(conclusion(found, made.default["method"]))
    if failed:
        sys.stdout.flush()
        raise PoolwiseError("the answer is without runs that failed. " + "\n".join(failed))
    if not quiet:
        print(f"The runs are in {output / config.name}. More: poolwise report {output}", file=sys.stderr)


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


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
    from poolwise.cli.columns import show_paragraph
    from poolwise.reports.advice import advise as find

    for line in find(points, classes, batch_size, samples, features=features, labels=labels).lines():
        show_paragraph(line)
