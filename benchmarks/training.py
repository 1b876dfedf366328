"""How fast networks train and predict here, and where the time goes; writes docs/training.md.

    .venv/bin/python -m benchmarks.training [--quick]

Times are the best of three. Data are random numbers of the right shape: arithmetic takes as long on those.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import poolwise as pw
from benchmarks.machine import cores, processor
from poolwise.data.examples import TensorExamples
from poolwise.models import build, make
from poolwise.parallel import threads_an_operation
from poolwise.posteriors import DeepEnsemble, MCDropout
from poolwise.training import Training, train

PAGE = Path(__file__).parents[1] / "docs" / "training.md"


def best(function: Callable[[], object], times: int = 3) -> float:
    function()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def cnn() -> nn.Module:
    return make("batchbald-cnn", (1, 28, 28), 10)


def mlp() -> nn.Module:
    return make("mlp", (384,), 10)


def images(count: int) -> TensorExamples:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(0, 256, (count, 1, 28, 28), generator=generator, dtype=torch.uint8)
    return TensorExamples(inputs, torch.arange(count) % 10)


def features(count: int) -> TensorExamples:
    generator = torch.Generator().manual_seed(0)
    return TensorExamples(torch.randn(count, 384, generator=generator), torch.arange(count) % 10)


def overhead(steps: int) -> tuple[float, float]:
    """Milliseconds of a step of the CNN at batch 64, and the share of it spent outside PyTorch's operators."""
    data, training = images(1_000), Training(steps=steps, batch_size=64)

    def run() -> None:
        train([network.to(memory_format=torch.channels_last)], data, training, [0])  # type: ignore[call-overload]

    with threads_an_operation(1):
        network = build(cnn, 0)
        seconds = best(run)
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            started = time.perf_counter()
            run()
            wall = time.perf_counter() - started
    inside = sum(event.self_cpu_time_total for event in profiled.key_averages() if _is_operator(event.key)) / 1e6
    return seconds / steps * 1e3, 1 - inside / wall


def _is_operator(name: str) -> bool:
    return name.startswith(("aten::", "mkldnn", "autograd::engine::evaluate_function", "Optimizer.step"))


def ways(make_model: Callable[[], nn.Module], data: TensorExamples, steps: int) -> dict[str, float]:
    """Seconds to train five members, by way."""
    seconds = {}
    for way in ("sequential", "processes", "vectorised"):
        posterior = DeepEnsemble(make_model, 5, train_members=way, training=Training(steps=steps))
        try:
            seconds[way] = best(partial(posterior.fit, data))
        except pw.errors.ParameterError:
            continue
    return seconds


def naive(network: nn.Module, inputs: Tensor, samples: int) -> Tensor:
    """K full forward passes, as one would write them: dropout on, everything else in evaluation mode."""
    network.eval()
    for layer in network.modules():
        if isinstance(layer, nn.Dropout | nn.Dropout2d):
            layer.train()
    with torch.no_grad():
        outputs = [torch.cat([network(part) for part in inputs.split(1_000)]) for _ in range(samples)]
    network.eval()
    return torch.stack(outputs, 1).log_softmax(2)


def dropout(count: int) -> dict[str, float]:
    """Seconds to predict a pool: a plain loop of K = 10 passes, and ours for K = 10 and 100."""
    data = images(count)
    network = build(cnn, 0).eval()
    inputs = data.inputs.float().div(255)
    seconds = {"loop of 10 passes": best(lambda: naive(network, inputs, 10))}
    for samples in (10, 100):
        posterior = MCDropout(network, samples)
        seconds[f"MCDropout, K = {samples}"] = best(lambda posterior=posterior: posterior.predict(data), 2)
    return seconds


def ensemble(count: int) -> float:
    """Seconds to predict a pool with five members."""
    data = images(count)
    networks = [build(cnn, seed) for seed in range(5)]
    return best(lambda: pw.ensemble(networks, data), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, written to the screen only")
    quick = parser.parse_args().quick
    steps, count = (20, 500) if quick else (200, 5_000)
    milliseconds, share = overhead(steps)
    by_way = {
        "BatchBALD CNN, 28 × 28": ways(cnn, images(500), steps // 4),
        "MLP on 384 features": ways(mlp, features(500), steps),
    }
    masks = dropout(count)
    lines = [
        "# Training and prediction: times",
        "",
        f"Made by `python -m benchmarks.training` on {processor()}, {cores()} cores, "
        f"PyTorch {torch.__version__}. Times are the best of three. Inputs are random numbers of the right shape.",
        "",
        "## One network",
        "",
        f"A training step of the BatchBALD CNN (28 × 28, batch 64, Adam, one thread) takes {milliseconds:.1f} ms. "
        f"{share:.1%} of the time is spent outside PyTorch's operators: in the Python code of Poolwise and in "
        "PyTorch's dispatch.",
        "",
        "## Five members",
        "",
        f"Seconds to train five members: {steps // 4} steps of the CNN and {steps} of the MLP, with batches of 64. "
        '`train_members="auto"` trains dense networks together (`"vectorised"`), which needs no further processes. It '
        'trains other networks in separate processes (`"processes"`).',
        "",
        "| network | one after another | in processes | together |",
        "| --- | --- | --- | --- |",
    ]
    for name, seconds in by_way.items():
        cells = [f"{seconds[way]:.2f}" if way in seconds else "–" for way in ("sequential", "processes", "vectorised")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "## Prediction",
        "",
        f"Seconds to predict {count:,} images of 28 × 28, on all threads. *Loop* calls the network K times.",
        "",
        "| what | seconds |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {seconds:.2f} |" for name, seconds in masks.items()]
    lines.append(f"| ensemble of 5 | {ensemble(count):.2f} |")
    ratio = 10 * masks["loop of 10 passes"] / masks["MCDropout, K = 100"]
    lines += ["", f"MC dropout with K = 100 takes 1/{ratio:.1f} of the time of a loop of 100 passes.", ""]
    text = "\n".join(lines)
    print(text)
    if not quick:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
