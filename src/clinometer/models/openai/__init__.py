"""Models behind the images API of OpenAI, and what such a server may do."""
