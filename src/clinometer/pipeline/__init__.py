"""What happens in which order: plan, draw, embed, score, compare, report, over one run directory."""
