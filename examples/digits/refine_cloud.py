"""Train a second strong model from the first: the same settings, and its support vectors moved by a pixel.

    refine_cloud.py [--shift PIXELS]

The support vectors of the base model are the digits at the borders between the classes. A digit that is moved a little
is the same digit: shown these too, the machine draws better borders (DeCoste and Schölkopf, "Training Invariant Support
Vector Machines", 2002).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from digits import IMAGE, base_model, read, save, tell
from train_cloud import train


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shift", type=int, default=1)
    pixels = parser.parse_args().shift

    machine = base_model().calibrated_classifiers_[0].estimator
    border, border_digits = machine.support_vectors_, np.repeat(machine.classes_, machine.n_support_)
    tell(0, 1, f"the base model has C {machine.C:g} gamma {machine.gamma:g} and {len(border)} support vectors")

    images, digits = read("train")
    images = np.vstack([images, moved(border, pixels), moved(border, -pixels)])
    digits = np.concatenate([digits, border_digits, border_digits])
    model = train(images, digits, machine.C, machine.gamma)
    tell(1, 1, f"learned from {len(digits)} digits")
    save(model, examples=len(digits))


def moved(images: Any, pixels: int) -> Any:
    """The images moved to the right (or left) by so many pixels; what comes in is white."""
    source = np.pad(images.reshape(-1, *IMAGE), ((0, 0), (0, 0), (abs(pixels), abs(pixels))))
    width = IMAGE[1]
    start = abs(pixels) - pixels
    return source[:, :, start : start + width].reshape(len(images), -1)


if __name__ == "__main__":
    main()
