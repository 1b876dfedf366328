"""From the records of runs to tables, figures and one HTML page."""

from poolwise.reports.page import write_report

__all__ = ["write_report"]
