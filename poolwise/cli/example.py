"""An experiment that `poolwise run --example` prints, to start from."""

EXAMPLE = """\
# An experiment for `poolwise run`. It needs no download: the digits come with scikit-learn.
name = "digits"
seeds = [0, 1, 2]                 # every method is run once per seed

[data]
name = "digits"                   # see `poolwise datasets`; for data of your own: path = "mine.csv"

[model]
name = "mlp"                      # a small network
hidden = [64]
dropout = 0.2

[posterior]
kind = "deep-ensemble"            # or mc-dropout, dropout-ensemble, committee
members = 5                       # K, the number of posterior samples

[training]
steps = 200
batch_size = 32
learning_rate = 3e-3

[acquisition]
methods = ["random", "margin", "power-lbb", "posterior-coverage"]     # see `poolwise methods`
initial_per_class = 2             # labels before the first round
batch_size = 10                   # labels per round
labels = 100                      # where to stop
"""
