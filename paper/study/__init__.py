"""The study behind docs/results.md: what methods do on real data at the quick scale, and what that says of the paper.

poolwise run paper/configs/quick/NAME.toml -o runs    # each experiment, resumable
.venv/bin/python -m paper.study collect runs          # records into paper/records/
.venv/bin/python -m paper.study page                  # docs/results.md and its figures, from those records
"""
