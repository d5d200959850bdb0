"""Readings: who says what a picture shows, how often that is wrong, and what a run's scores say of it.

``known`` counts answers by concept and by what is known of pictures, ``scores`` makes rows of them, ``open_answers``
puts answers in free words together, ``standard`` holds shares against a declared one, ``folder`` reads pictures outside
of a run, ``questions`` lets a model propose what to ask, and ``fit`` says which pictures a reader or an encoder knows.
The readers themselves are models: :mod:`clinometer.models.readers`.
"""
