"""From the records of runs to tables, figures and one HTML page."""

from poolwise.reports.report import Report, make_report, write_report

__all__ = ["Report", "make_report", "write_report"]
