"""What the numbers of a sweep are called."""

from __future__ import annotations

from typing import Final

from clinometer.report import wording

DIFFERENCE_SYMBOL: Final = "mean magnitude, less the baseline's"

_NAMES: Final = {
    ("internal_bias_summary", "diffusion_bias_mean"): "mean diffusion bias \N{GREEK SMALL LETTER DELTA}",
    ("internal_bias_summary", "bias_amplification_mean"): "mean bias amplification \N{GREEK SMALL LETTER ALPHA}",
    ("category", "std"): "spread of MCAS over concepts",
    ("category", "mean"): "mean MCAS",
}


def number_in_words(metric: str, component: str) -> str:
    """A number about a whole suite, as a page calls it."""
    component_names = wording.COMPONENT_NAMES
    plain = " ".join(dict.fromkeys(component_names.get(name, name.replace("_", " ")) for name in (metric, component)))
    return _NAMES.get((metric, component), plain)
