"""Compare methods before you spend a budget: an experiment from Python, and its report.

python examples/compare_methods.py     # writes runs/ and report/index.html
"""

from pathlib import Path

from poolwise.experiments import execute_all, read_config
from poolwise.reports import write_report

Path("compare.toml").write_text("""
name = "compare"
seeds = 2

[data]
name = "digits"
pool = 500

[model]
name = "mlp"
hidden = [32]

[training]
steps = 80

[acquisition]
methods = ["random", "margin", "posterior-coverage"]
batch_size = 20
labels = 60
""")
execute_all(read_config(Path("compare.toml")), Path("runs"))
write_report(Path("runs"), Path("report"))
print("open report/index.html")
