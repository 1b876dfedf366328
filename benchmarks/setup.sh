#!/bin/sh
# Make the environment of the benchmark: Poolwise, the peers, nothing else. Quick when nothing has changed.
#
#     benchmarks/setup.sh PYTHON VENV        for example: benchmarks/setup.sh python3 .venv-bench
set -eu
python=${1:?usage: benchmarks/setup.sh PYTHON VENV}
venv=${2:?usage: benchmarks/setup.sh PYTHON VENV}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
cd "$root"

inputs="benchmarks/setup.sh benchmarks/requirements.txt benchmarks/requirements-no-deps.txt pyproject.toml"
constraints=
if [ -f constraints.txt ]; then
    inputs="$inputs constraints.txt"
    constraints="-c constraints.txt"
fi
# shellcheck disable=SC2086  # the lists are meant to split
stamp=$(cat $inputs | cksum)
if [ -f "$venv/.poolwise-bench" ] && [ "$(cat "$venv/.poolwise-bench")" = "$stamp" ]; then
    exit 0
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check"
# shellcheck disable=SC2086
$pip install --quiet $constraints -r benchmarks/requirements.txt -e .
# Last, since pip complains of their missing dependencies at each later install (see the file for why they may miss).
# shellcheck disable=SC2086
$pip install --quiet --no-deps -r benchmarks/requirements-no-deps.txt
echo "$stamp" > "$venv/.poolwise-bench"
