"""The tables. Rows of `events`, `batches`, `picks` and `models` are added and never changed."""

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text

VERSION = 1
"""The version of the tables below. A change of them needs a step in `migrations.py`."""

metadata = MetaData()

meta = Table("poolwise_meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

events = Table(
    "poolwise_events",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("item", Text),
    Column("label", Text),
    Column("person", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("request_id", Text, unique=True),
)

items = Table(
    "poolwise_items",
    metadata,
    Column("id", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("stamp", Text, nullable=False),
)

batches = Table(
    "poolwise_batches",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("after_event", BigInteger, nullable=False),
    Column("model", Integer),
    Column("details", Text, nullable=False),
)

picks = Table(
    "poolwise_picks",
    metadata,
    Column("batch", Integer, primary_key=True, autoincrement=False),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("item", Text, nullable=False),
    Column("score", Float(53)),
    Column("why", Text, nullable=False),
    Column("check", Boolean, nullable=False),
)
Index("poolwise_checks", picks.c.check)

models = Table(
    "poolwise_models",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("details", Text, nullable=False),
)

leases = Table(
    "poolwise_leases",
    metadata,
    Column("item", Text, primary_key=True),
    Column("person", Text, primary_key=True),
    Column("place", Integer, nullable=False),
    Column("until", Float(53), nullable=False),
)

people = Table(
    "poolwise_people",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token", Text, unique=True),
    Column("added", Float(53), nullable=False),
    Column("revoked", Float(53)),
)
