"""The judging of a rule on data that had no part in its design: see PLAN.md."""
