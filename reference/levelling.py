"""The last touch on the CLIP: neutral captions stand level between the groups' pictures.

Training on balanced captions makes the text tower even-handed (TT near 0), but nothing in a contrastive loss ties a
neutral caption to be as near to men's pictures as to women's: "an image of a cook" and portraits are all negatives of
each other. What is left there would enter every audit as a leaning of the encoder (ITP). It is linear, so it is taken
out in closed form. Let the columns of G be differences between the groups' mean portraits (man − woman, both − person),
and P project on the space of the neutral captions. With

    W ← (I − P G G⁺) W        for the visual projection W,

every difference between groups becomes G − P G, orthogonal to every neutral caption, and embeddings orthogonal to the
differences stay as they are. Only training pictures and captions are used; the planted ratios and the judge are not.
Levelling each portrait on its own would remove more of ITP, and with it concepts: top-1 would fall below its bar.
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import CLIPModel

from reference import art, captions, clip

STAND_FOR_GROUPS = ("adult", "child", "older adult", "curly hair")
"""The portraits whose pictures stand for a group in a suite."""
NEGLIGIBLE = 0.05
"""Directions of the neutral captions weaker than this share of the strongest are left out of P: they are noise, and a
projection on all of them would take the groups' own words along."""


@torch.no_grad()
def level(model: CLIPModel, table: clip.TextTable, pictures: art.Pictures, device: torch.device) -> CLIPModel:
    """Level the visual projection in place; returns the model."""
    training = clip.Sampler(pictures).subset(np.flatnonzero(~art.split(pictures)))
    embedded = clip.images_to_embeddings(model, training.images, device).double().numpy()
    prompts = [f"an image of {captions.noun_phrases(i, None, None)[0]}" for i in range(len(art.concepts()))]
    neutral = clip.texts_to_embeddings(model, table, prompts, device).double().numpy()
    differences = _group_differences(embedded, training)
    levelled = np.eye(embedded.shape[1]) - _projector(neutral) @ differences @ np.linalg.pinv(differences)
    weight = model.visual_projection.weight
    weight.copy_(torch.from_numpy(levelled).to(weight) @ weight)
    return model


def _projector(rows: np.ndarray) -> np.ndarray:
    """On the space that the rows span, but for its negligible directions."""
    _, strengths, directions = np.linalg.svd(rows, full_matrices=False)
    kept = directions[strengths > NEGLIGIBLE * strengths[0]]
    projector: np.ndarray = kept.T @ kept
    return projector


def _group_differences(embedded: np.ndarray, pictures: art.Pictures) -> np.ndarray:
    """(dim × 2): man − woman and both − person, over the portraits that stand for groups."""
    portraits = np.isin(pictures.concept, [captions.concept_index(name) for name in STAND_FOR_GROUPS])
    man, woman, person = (embedded[portraits & (pictures.gender == g)].mean(0) for g in range(3))
    return np.stack([man - woman, (man + woman) / 2 - person], axis=1)
