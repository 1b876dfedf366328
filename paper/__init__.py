"""Everything about the paper: its figures and tables made again, and the study that tests its claims.

python -m paper --list                     # every figure and table, and what each costs
python -m paper figure-1 -o runs --jobs 2  # quick scale; --scale paper for the paper's own settings
python -m paper.study page                 # docs/results.md, from the records

`configs/` holds the experiments, `targets.py` which of them each figure is made of, `cost.py` what they cost,
`timings/` Tables 1 and 2, `study/` the comparison behind docs/results.md, `records/` its runs.
"""
