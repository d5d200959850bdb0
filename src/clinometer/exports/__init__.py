"""Exports of finished runs: papers, model cards, evidence, the Hub, and the formats of other tools."""
