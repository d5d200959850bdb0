"""Text-to-image models and image-text encoders, behind two small protocols.

``load_generator("reference")`` and ``load_encoder("reference")`` are the way in; ``registry`` says what else
they take. Importing this package imports neither torch nor any model.
"""

from clinometer.models.protocols import (
    Card,
    Encoder,
    GenerationRequest,
    GenerationResult,
    Generator,
    Status,
)
from clinometer.models.registry import load_encoder, load_generator, registered

__all__ = [
    "Card",
    "Encoder",
    "GenerationRequest",
    "GenerationResult",
    "Generator",
    "Status",
    "load_encoder",
    "load_generator",
    "registered",
]
