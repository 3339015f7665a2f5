"""Pictures of held-out digits with a net's predictions. Copy it with the scripts."""
import numpy as np
from _common import write
from matplotlib.figure import Figure


def draw_predictions(split, predicted, path, names=range(10), rows=5, columns=10):
    """A grid of held-out images, the wrong ones first and framed in red; ``names`` are the classes'."""
    order = np.argsort(predicted == split.labels, kind="stable")[:rows * columns]
    figure = Figure(figsize=(columns, 1.3 * rows + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns)
    wrong = int((predicted != split.labels).sum())
    figure.suptitle(f"Held-out digits, predicted / true: {wrong} of {len(predicted)} wrong, in red")
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.set_frame_on(False)
    for axes, i in zip(grid.flat, order):
        right = predicted[i] == split.labels[i]
        axes.imshow(split.images[i, 0], cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(f"{names[predicted[i]]} / {names[split.labels[i]]}", color="black" if right else "red",
                       fontsize=10, pad=3)
        if not right:
            axes.set_frame_on(True)
            for spine in axes.spines.values():
                spine.set(color="red", linewidth=2)
    write(path, lambda name: figure.savefig(name, format="png", dpi=120))
