"""What promptfoo looks for: a provider and an assertion. See docs/hosts.md."""

from clinometer.hosts.promptfoo import call_api, get_assert

__all__ = ["call_api", "get_assert"]
