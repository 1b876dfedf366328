"""The part of docs/results.md on exact copies: repeated data as the authors' program makes it."""

from paper.study.claims import all_claims, comparison, spelled
from paper.study.compare import Records, dropout, repeated, seeds_of
from paper.study.further import by_setting
from paper.study.markdown import listed, table


def exact_copies(records: Records) -> str:
    """What the paper says of repeated data, and every method against random; nothing while there are no runs.

    Args:
        records: the runs on exact copies of paper/configs/quick.
    """
    if not records.groups:
        return ""
    names = {
        setting: f"{setting.data}, {'dropout' if dropout(setting) else 'ensemble'}, b = {setting.batch_size}"
        for setting in sorted(records.groups, key=lambda s: (s.data, dropout(s), s.batch_size))
    }
    rows = []
    for claimed in (claimed for claimed in all_claims() if claimed.wanted is repeated):
        found = comparison(records, claimed, "curve")
        cells = (spelled(found.each[setting]) if setting in found.each else "" for setting in names)
        tested = f"`{claimed.first} − {claimed.second}`"
        rows.append((claimed.text, tested, *cells, f"{found.ahead} of {len(found.each)}"))
    return "\n\n".join(
        [
            "### On exact copies",
            "The text of the paper adds noise to the copies of RMNIST and RCIFAR-10, as do the settings above. The "
            f"authors' program makes exact copies. These are {len(names)} such settings of "
            f"{listed(records.data_sets)}, every image four times, {seeds_of(records)[1]} per setting. So few data "
            "sets give no verdict. Points over the curve, with 95 % intervals over the seeds of each setting; "
            "ensembles are compared with dropout where both were run.",
            table(("claim", "tested", *names.values(), "ahead"), rows),
            "Every method against random, by setting. Nothing is corrected for the number of methods.",
            by_setting(records, names),
        ]
    )
