"""Areas below performance profiles, by data set."""

import numpy as np

from paper.study.compare import Records, over
from poolwise.reports.paired import Difference
from poolwise.reports.profiles import Problems, areas, problems


def by_data(records: Records) -> Problems:
    """The problems of performance profiles, to be drawn again by data set."""
    table = problems(records.groups.values())
    comparable = [setting.data for setting, group in records.groups.items() if group.labelled]
    numbers = {data: number for number, data in enumerate(sorted(set(comparable)))}
    data_P = np.array([numbers[comparable[setting]] for setting in table.setting_P], np.int64)
    return Problems(table.labels, table.errors_P_S, data_P)


def area_above(table: Problems, first: str, second: str, largest: float) -> Difference:
    """How much larger a method's area is than another's, with an interval from how data sets differ.

    Args:
        table: what `by_data` gave.
        first: the one.
        second: the other.
        largest: the ratio up to which profiles are looked at.
    """
    area_P_S = areas(table.errors_P_S, largest)
    above_P = area_P_S[:, table.labels.index(first)] - area_P_S[:, table.labels.index(second)]
    return over([float(above_P[table.setting_P == data].mean()) for data in np.unique(table.setting_P)])
