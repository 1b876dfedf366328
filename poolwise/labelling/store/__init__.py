"""What people did, on the disk: events, batches, models, leases and people, in SQLite or PostgreSQL."""

from poolwise.labelling.store.events import Answer, Current, Event
from poolwise.labelling.store.records import Known, ModelRecord, Person, Pick, Proposal
from poolwise.labelling.store.store import Store

__all__ = ["Answer", "Current", "Event", "Known", "ModelRecord", "Person", "Pick", "Proposal", "Store"]
