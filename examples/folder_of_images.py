"""A folder of images, one sub-folder per class, and a simulation of labelling them in rounds.

python examples/folder_of_images.py [FOLDER]     # FOLDER/class name/image.png
"""

import sys
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

import poolwise as pw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "digits")
if not folder.exists():  # something to try it on: scikit-learn's digits as PNG files
    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images[:600], digits.target[:600], strict=True)):
        (folder / f"class-{label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15.9).astype("uint8")).save(folder / f"class-{label}" / f"{number:04d}.png")

data = pw.data.open_data(folder)  # size=32 for images of different sizes
shape = data.examples.inputs.shape[1:]
print(f"{len(data.ids)} images {tuple(shape)} of {len(data.class_names)} classes, such as {data.ids[0]}")

pool = pw.Pool(data.examples)
pool.hold_out(100, balanced=True)  # for early stopping
pool.start_balanced(2)  # two labels per class to start from; a real pool starts with the labels you have

posterior = pw.posteriors.DropoutEnsemble(
    lambda: pw.models.mlp(shape, len(data.class_names), hidden=(64,)),
    members=3,
    samples=10,
    training=pw.Training(steps=150, patience=5),
)
learner = pw.ActiveLearner(posterior, pool, batch_size=20)
for entry in pw.simulate(learner, data.labels, budget=100):
    print(f"{entry.labelled:4} labels: validation accuracy {entry.validation['accuracy']:.3f}")
    print("     next:", ", ".join(data.ids[index] for index in entry.indices[:3]), "..." if entry.indices else "")
