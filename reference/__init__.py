"""Builds the reference model: artwork, VAE, CLIP, UNet, their evaluation and the shipped package data.

`python -m reference.build` runs every stage; see `README.md` beside this file.
"""

# Before any other import of torch: it sets how idle threads wait, and repairs a mismatched torchvision.
import clinometer._torch  # noqa: F401
