"""Methods that take a leaning away, as far as they do: each makes of a model what ``--model`` takes again.

    >>> from clinometer.mitigation import methods
    >>> sorted(methods())
    ['balanced', 'lora', 'projection', 'prompt', 'steering', 'unconditional']

A method is a function from a `Job` to what it `Made`, offered by an entry point of the group
``clinometer.mitigations``; the first line of its docstring is what the card says of it. What it makes acts on words,
embeddings, cross-attention or weights; :mod:`clinometer.models.mitigation` says what lies on disk, and the loaders of
models do the rest. Whether it works, an audit of both and their comparison say.
"""

from clinometer.mitigation.making import Job, Made, Mitigated, methods, mitigate

__all__ = ["Job", "Made", "Mitigated", "methods", "mitigate"]
