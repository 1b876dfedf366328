"""Which labels to check: cleanlab on the predictions of an ensemble (pip install cleanlab).

cleanlab's ensemble scores take the predictions of K models as `[K, N, C]`; Poolwise has them as `[N, K, C]`.
"""

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_ensemble_scores
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

import poolwise as pw

digits = load_digits()
inputs, truth = digits.data[:600] / 16, digits.target[:600]
draw = np.random.default_rng(0)
wrong = draw.choice(len(truth), 30, replace=False)
labels = truth.copy()
labels[wrong] = (truth[wrong] + draw.integers(1, 10, 30)) % 10  # what tired annotators do

# Nobody judges a label that it was trained on: each part is predicted by members that have seen the others.
probs = np.empty((len(labels), 5, 10))
for trained, left_out in KFold(5, shuffle=True, random_state=0).split(inputs):
    posterior = pw.posteriors.Committee(LogisticRegression(max_iter=300), members=5, classes=10)
    probs[left_out] = posterior.fit((inputs[trained], labels[trained]), seed=0).predict(inputs[left_out]).probs

quality = get_label_quality_ensemble_scores(labels, list(probs.transpose(1, 0, 2)), verbose=False)
worst = np.argsort(quality)[:30]
print(f"of {len(labels)} labels 30 are wrong: {np.isin(worst, wrong).sum()} of them are among the 30 of lowest quality")
issues = find_label_issues(labels, probs.mean(1), return_indices_ranked_by="self_confidence", n_jobs=1)
print(f"cleanlab lists {len(issues)} labels to check, {np.isin(issues, wrong).sum()} of them wrong")
