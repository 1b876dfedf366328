"""The part of docs/results.md on exact copies: repeated data as the authors' program makes it."""

from paper.study.claims import COLUMNS, all_claims, judged_claims
from paper.study.claims_table import claims_table
from paper.study.compare import Records, dropout, repeated
from paper.study.further import by_setting
from paper.study.judging import seeds_of
from paper.study.markdown import listed


def exact_copies(records: Records) -> str:
    """What the paper says of repeated data, and every method against random; nothing while there are no runs.

    Args:
        records: the runs on exact copies of paper/configs/quick.
    """
    if not records.groups:
        return ""
    columns = [column for column in COLUMNS if column[1] == "settings"]
    tested = judged_claims(records, [claimed for claimed in all_claims() if claimed.wanted is repeated])
    names = {
        setting: f"{setting.data}, {'dropout' if dropout(setting) else 'ensemble'}, b = {setting.batch_size}"
        for setting in sorted(records.groups, key=lambda s: (s.data, dropout(s), s.batch_size))
    }
    return "\n\n".join(
        [
            "### On exact copies",
            "The text of the paper adds noise to the copies of RMNIST and RCIFAR-10, as do the settings above. The "
            f"authors' program makes exact copies. These are {len(names)} such settings of "
            f"{listed(records.data_sets)}, every image four times, {seeds_of(records)[1]} per setting. Settings are "
            "counted, and these are of few data sets, so the findings say little of others.",
            claims_table(tested, columns),
            "Every method against random: points over the curve, with 95 % intervals over the seeds that are not "
            "corrected for the number of methods, and labels saved.",
            by_setting(records, names),
        ]
    )
