"""Poolwise as a contender: the public interface, nothing else."""

from typing import Any

import numpy as np
import torch

import poolwise as pw
from benchmarks.contenders import Inputs, Outcome, Prepared, contender, top
from benchmarks.peers import potentials

POOLWISE = "poolwise"


def read_batch(batch: Any) -> Outcome:
    """Indices, gains and diagnostics of a `pw.select` result."""
    diagnostics = batch.diagnostics
    information = None if diagnostics.information is None else np.asarray(diagnostics.information, np.float64)
    return Outcome(
        picks=[int(i) for i in batch.indices],
        scores=np.asarray(batch.scores, np.float64),
        information=float(np.nanmax(information)) if information is not None and information.size else None,
        extra={
            "pairs": None if diagnostics.pairs is None else int(diagnostics.pairs),
            "rows": None if diagnostics.rows is None else int(diagnostics.rows),
            "saturated_at": diagnostics.saturated_at,
        },
    )


@contender("poolwise bald", POOLWISE)
def bald(inputs: Inputs) -> Prepared:
    log_probs = torch.from_numpy(inputs.log_probs())
    return lambda: pw.scores.bald(log_probs), lambda scores: top(np.asarray(scores), inputs.batch)


@contender("poolwise select", POOLWISE)
def select(inputs: Inputs) -> Prepared:
    """`pw.select` on an array in memory."""
    log_probs = torch.from_numpy(inputs.log_probs())
    return lambda: pw.select(log_probs, batch_size=inputs.batch, seed=0, **inputs.parameters), read_batch


@contender("poolwise mapped", POOLWISE)
def mapped(inputs: Inputs) -> Prepared:
    """Open a mapped file, validate it and select from it: all of it is timed."""
    path = inputs.files["log_probs"]

    def call() -> Any:
        return pw.select(pw.Predictions.open(path), batch_size=inputs.batch, seed=0, **inputs.parameters)

    return call, read_batch


@contender("poolwise badge", POOLWISE)
def badge(inputs: Inputs) -> Prepared:
    log_probs, (embeddings, _) = inputs.log_probs(), inputs.embeddings()

    def call() -> Any:
        return pw.select(log_probs, batch_size=inputs.batch, method="badge", embeddings=embeddings, seed=0)

    return call, read_batch


@contender("poolwise badge potential", POOLWISE)
def badge_potential(inputs: Inputs) -> Prepared:
    log_probs, (embeddings, _) = inputs.log_probs(), inputs.embeddings()

    def call() -> list[list[int]]:
        batches = []
        for seed in range(inputs.parameters["seeds"]):
            batch = pw.select(log_probs, batch_size=inputs.batch, method="badge", embeddings=embeddings, seed=seed)
            batches.append([int(i) for i in batch.indices])
        return batches

    return call, lambda batches: potentials(inputs, batches)


@contender("poolwise coreset", POOLWISE)
def coreset(inputs: Inputs) -> Prepared:
    log_probs, (pool, labelled) = inputs.log_probs(), inputs.embeddings()

    def call() -> Any:
        return pw.select(
            log_probs,
            batch_size=inputs.batch,
            method="coreset",
            embeddings=pool,
            labelled_embeddings=labelled,
            seed=0,
        )

    return call, read_batch
