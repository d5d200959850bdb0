"""Encoders: adapters of transformers, open_clip, sentence-transformers and of files of embeddings."""
