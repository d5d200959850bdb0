"""Text-to-image models, image-text encoders and readers of pictures, behind small protocols.

``load_generator("reference")``, ``load_encoder("reference")`` and ``load_reader("reference")`` are the way in;
``registry`` says what else they take. Importing this package imports neither torch nor any model.
"""

from clinometer.models.protocols import Card, Encoder, GenerationRequest, GenerationResult, Generator, Status
from clinometer.models.readers import Question, Reader, Reading
from clinometer.models.registry import load_encoder, load_generator, load_reader, registered

__all__ = [
    "Card",
    "Encoder",
    "GenerationRequest",
    "GenerationResult",
    "Generator",
    "Question",
    "Reader",
    "Reading",
    "Status",
    "load_encoder",
    "load_generator",
    "load_reader",
    "registered",
]
