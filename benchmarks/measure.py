"""One measurement in one fresh process: best wall time, memory, what was picked.

The parent calls `measure`; the child is `python -m benchmarks.measure SPEC RESULT`. A fresh process keeps
peak memory, thread pools, caches and crashes of one contender away from the next.
"""

import gc
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPEATS = 5
# A first run longer than this many seconds is repeated less often.
FEWER = ((90.0, 1), (20.0, 2))
KEPT_PICKS = 2_000
# Of the machine's memory: a contender that wants more gets a MemoryError and does not bring the machine down.
MEMORY_SHARE = 0.85
START_UP = 60.0  # seconds for imports and input, on top of the limit


def measure(spec: dict[str, Any], limit: float) -> dict[str, Any]:
    """Run one measurement in a child process.

    Args:
        spec: `contender`, `files`, `batch`, `parameters`, `threads`, `repeats`.
        limit: seconds after which the child is ended.
    Returns:
        The child's record, or `{"error": reason}`.
    """
    threads = str(spec["threads"])
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    environment = os.environ | dict.fromkeys(variables, threads)
    environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        given, result, log = Path(folder, "spec.json"), Path(folder, "result.json"), Path(folder, "log")
        given.write_text(json.dumps(spec | {"limit": limit}))
        command = [sys.executable, "-m", "benchmarks.measure", str(given), str(result)]
        with log.open("w") as stream:
            child = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream, cwd=ROOT)
            try:
                status = child.wait(timeout=limit + START_UP)
            except BaseException as error:
                child.kill()
                child.wait()
                if isinstance(error, subprocess.TimeoutExpired) and not result.exists():
                    return {"error": f"stopped at the time limit of {limit:.0f} s", "at_least_seconds": limit}
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                status = 0
        if result.exists():
            record: dict[str, Any] = json.loads(result.read_text())
            return record
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if status < 0 or not lines:
            return {"error": f"ended by signal {-status}" if status < 0 else f"exit status {status}"}
        return {"error": lines[-1][:240]}  # of a traceback, the exception


def status_mb(field: str) -> float:
    """A memory field of this process in MB (10^6 bytes), such as VmRSS or its peak VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"/proc/self/status has no field {field}")


def reset_peak() -> bool:
    """Set the peak of resident memory back to the present value; False where the kernel does not allow it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def repeats_for(first: float, wanted: int) -> int:
    """How many runs in all, given the seconds of the first."""
    return min([wanted, *(repeats for longer_than, repeats in FEWER if first > longer_than)])


def run(spec: dict[str, Any], result: Path) -> None:
    """The child's work. The result is rewritten after every repeat: a time limit keeps what was measured."""
    import numpy as np
    import torch

    from benchmarks import peers  # noqa: F401  (registers its contenders)
    from benchmarks.contenders import CONTENDERS, Inputs

    if spec["contender"].startswith("poolwise"):
        from benchmarks import ours  # noqa: F401

    torch.set_num_threads(spec["threads"])
    inputs = Inputs(spec["files"], spec["batch"], spec["parameters"])
    call, read = CONTENDERS[spec["contender"]].prepare(inputs)
    gc.collect()
    loading_peak = status_mb("VmHWM")
    exact = reset_peak()
    before = status_mb("VmRSS")

    seconds: list[float] = []
    cpu_seconds: list[float] = []
    messages: list[str] = []
    started, repeats = time.perf_counter(), spec["repeats"]
    while len(seconds) < repeats and (not seconds or time.perf_counter() - started < spec["limit"]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            start, start_cpu = time.perf_counter(), time.process_time()
            returned = call()
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - start_cpu)
        peak = status_mb("VmHWM")
        messages = messages or [f"{w.category.__name__}: {w.message}"[:300] for w in caught]
        repeats = repeats_for(seconds[0], spec["repeats"])
        if len(seconds) == 1:
            outcome = read(returned)
            exact = exact and reset_peak()  # reading is not the contender's memory
            first_peak = peak
            scores = np.asarray([] if outcome.scores is None else outcome.scores, np.float64)
            finite = scores[np.isfinite(scores)]
        del returned
        record = {
            "seconds": min(seconds),
            "cpu_seconds": cpu_seconds[seconds.index(min(seconds))],
            "all_seconds": [round(s, 6) for s in seconds],
            "repeats": len(seconds),
            "memory_above_input_mb": round(max(peak, first_peak) - before, 1),
            "memory_peak_mb": round(max(peak, first_peak, loading_peak), 1),
            "memory_exact": exact,
            "picks": outcome.picks[:KEPT_PICKS],
            "nan": int(np.isnan(scores).sum()),
            "nan_picked": int(np.isnan(scores).sum()) if len(scores) == len(outcome.picks) else 0,
            "largest_score": float(finite.max()) if finite.size else None,
            "information": outcome.information if math.isfinite(outcome.information or 0) else None,
            "extra": outcome.extra,
            "warnings": messages[:3],
        }
        unfinished = result.with_suffix(".part")
        unfinished.write_text(json.dumps(record))
        unfinished.rename(result)


def main() -> None:
    """Child entry: read the specification, bound the memory, measure."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    bound = int(total * MEMORY_SHARE)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    run(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
