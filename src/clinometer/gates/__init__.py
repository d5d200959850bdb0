"""Gates: limits that the numbers of a finished run must keep, such as before a model is released.

A policy lists rules; each names numbers of the scores, or of the comparison with a baseline, and their limits. A gate
holds only where the intervals show it: ``holds``, ``broken`` or ``undecided``.
"""

from clinometer.gates.gate import gate, policy_of_verdicts
from clinometer.gates.outcome import Gate, RuleOutcome
from clinometer.gates.policy import Policy, Rule, load_policy, policy_from_mapping

__all__ = ["Gate", "Policy", "Rule", "RuleOutcome", "gate", "load_policy", "policy_from_mapping", "policy_of_verdicts"]
