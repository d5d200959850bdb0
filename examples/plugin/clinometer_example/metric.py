"""A metric: a pure function of arrays. What makes rows of it is a study, here ``brightness/scores.py``."""

import numpy as np


def brightness(rgb):
    """Brightness of an image, the mean of its channels.

    ::

        b = mean_{y,x,c} rgb[y, x, c] / 255

    ``rgb`` is (height, width, 3) uint8. The result is in [0, 1]: 0 is black, 1 is white.
    """
    return float(np.asarray(rgb).mean() / 255)
