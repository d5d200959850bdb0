"""Models of the diffusers library: what is drawn, edited and classified with them."""
