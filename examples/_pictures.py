"""Pictures of a training run."""
import math

import numpy as np
from _common import write
from matplotlib.figure import Figure


def save(figure, path):
    write(path, lambda name: figure.savefig(name, format="png", dpi=100))


def curves(history, path, losses, scores):
    """Losses on the left, scores on the right, by epoch; the learning rate below."""
    epochs = [row["epoch"] for row in history]
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplot_mosaic([["losses", "scores"], ["losses", "scores"], ["rate", "rate"]])
    for panel, names in (("losses", losses), ("scores", scores)):
        for name in names:
            axes[panel].plot(epochs, [row.get(name, math.nan) for row in history], marker="o", markersize=3,
                             label=name.replace("_", " "))
        axes[panel].grid(alpha=0.3)
        axes[panel].legend()
    axes["losses"].set(title="mean loss of an image", ylim=(0, None))
    axes["scores"].set(title="on images to choose an epoch on", ylim=(None, 1))
    axes["rate"].plot(epochs, [row.get("learning_rate", math.nan) for row in history], color="tab:gray")
    axes["rate"].set(xlabel="epoch", ylabel="learning rate", ylim=(0, None))
    save(figure, path)


def embedding(vectors, labels, classes, path):
    """Vectors of (N, D) as points, a colour for each class; for D > 2 along the two directions of largest variance."""
    title, aspect = "the embedding", "equal"
    if vectors.shape[1] == 1:
        vectors, aspect = np.column_stack([vectors, labels]), "auto"
        title += ", and the class upwards"
    if vectors.shape[1] > 2:
        centred = vectors - vectors.mean(0)
        _, values, directions = np.linalg.svd(centred, full_matrices=False)
        vectors = centred @ directions[:2].T
        title += f", along two directions that have {(values[:2]**2).sum() / (values**2).sum():.0%} of its variance"
    figure = Figure(figsize=(7.5, 6.5), layout="constrained")
    axes = figure.subplots()
    for label, name in enumerate(classes):
        points = vectors[labels == label]
        axes.scatter(*points[:, :2].T, s=9, alpha=0.7, label=name, color=f"C{label % 10}")
        if len(points):
            axes.annotate(name, points[:, :2].mean(0), weight="bold", ha="center", va="center", fontsize=13,
                          bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "alpha": 0.8, "lw": 0})
    axes.set(title=f"{title}; {len(labels)} images", aspect=aspect)
    axes.grid(alpha=0.3)
    save(figure, path)


def spread(vectors, labels):
    """Mean squared distance to the own class's mean, divided by that of the class means from their mean.

    None where the means are one, as that of a single class is.
    """
    means = np.stack([vectors[labels == label].mean(0) for label in np.unique(labels)])
    within = np.mean([((vectors[labels == label] - mean)**2).sum(1).mean()
                      for label, mean in zip(np.unique(labels), means)])
    between = ((means - means.mean(0))**2).sum(1).mean()
    return float(within / between) if between else None
