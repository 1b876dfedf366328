"""What was measured on what: the machine, the versions, a fingerprint of the sources."""

import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "poolwise",
    "batchbald_redux",
    "baal",
    "scikit-activeml",
    "small-text",
    "torch",
    "numpy",
    "scikit-learn",
)


# What a selection runs through; the learner and its parts do not change a result of the benchmark.
_SELECTION = (
    *(f"{folder}/**/*.py" for folder in ("information", "predictions", "scores", "selection")),
    *(f"{name}.py" for name in ("memory", "parallel", "registry", "seeding")),
)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def processor() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def describe() -> dict[str, str | int | float]:
    """The machine, for the page."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": processor(),
        "cores": cores(),
        "memory_gb": round(memory / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def version(package: str) -> str:
    """The installed version, or "missing"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def fingerprint(package: str) -> str:
    """What a result of this package depends on: its version, or the sources of selection when it is Poolwise."""
    common = f"{processor()} {cores()} {platform.python_version()} {version('torch')} {version('numpy')}"
    if package != "poolwise":
        return f"{package} {version(package)} {common}"
    digest = hashlib.sha256()
    sources = [path for part in _SELECTION for path in (ROOT / "poolwise").glob(part)]
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return f"poolwise {digest.hexdigest()[:16]} {common}"
