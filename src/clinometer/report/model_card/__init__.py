"""The part of a model card that is about bias: runs in Markdown, and in the metadata that the Hub reads.

See decision 49.
"""

from clinometer.report.model_card.content import CardInput, section_of
from clinometer.report.model_card.existing import merged
from clinometer.report.model_card.metadata import eval_results

__all__ = ["CardInput", "eval_results", "merged", "section_of"]
