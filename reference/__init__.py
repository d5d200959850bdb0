"""Builds the reference model: artwork, VAE, CLIP, UNet, their evaluation and the shipped package data.

`python -m reference.build` runs every stage; see `README.md` beside this file.
"""
