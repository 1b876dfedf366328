"""A learner that is saved in a directory: each change is on disk before the call that made it returns."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from poolwise.data.examples import Examples
from poolwise.data.pool import Pool
from poolwise.errors import StateError
from poolwise.learning.current import Current
from poolwise.learning.features import Features
from poolwise.learning.identity import Identity
from poolwise.learning.model import Model
from poolwise.learning.saving import Parts, Saver
from poolwise.learning.settings import Settings


class InDirectory:
    """A learner's model, pool and place in its rounds, and the directory where they are saved.

    Attributes:
        pool: the pool. Change it through the learner, which saves each change.
    """

    pool: Pool
    _model: Model
    _now: Current
    _features: Features
    _test: Examples | None
    _validation: Examples | None
    _check_data: bool
    _self_contained: bool
    _saver: Saver | None

    @abstractmethod
    def _settings(self) -> Settings:
        """What the learner was made with."""

    @property
    def directory(self) -> Path | None:
        """Where the state is kept."""
        return None if self._saver is None else self._saver.folder

    def save(self, directory: str | Path | None = None) -> None:
        """Write everything that `load` needs: pool, labels, history, weights, and the learner's own settings.

        A learner with a directory does this by itself at every change.

        Args:
            directory: where to save it from now on; by default the directory that it has.
        """
        before = self._saver
        if directory is not None and (before is None or Path(directory).resolve() != before.folder.resolve()):
            self._saver = self._new_saver(Path(directory))
        elif before is not None:
            before.renew()
        try:
            self._save_state()
        except BaseException:
            if self._saver is not None and self._saver is not before:
                self._saver.undo()
            self._saver = before
            raise
        if before is not None and before is not self._saver:
            before.close()

    def close(self) -> None:
        """Free the directory for other processes. The learner can still predict, but refuses any change."""
        if self._saver is not None:
            self._saver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, folder: Path, *, read_only: bool = False, grow: bool = False) -> None:
        """Resume from a directory, or begin to keep this learner there."""
        saver = self._new_saver(folder, read_only)
        try:
            if saver.exists:
                self._now = saver.resume(self._settings(), self._parts(), grow=grow)
                if saver.grew and not read_only:
                    saver.renew()
                    saver.save(self._settings(), self._parts(), self._now)
            else:
                saver.save(self._settings(), self._parts(), self._now)
        except BaseException:
            saver.undo()
            raise
        self._saver = saver

    def _new_saver(self, folder: Path, read_only: bool = False) -> Saver:
        identity = Identity(self.pool, self._test, self._validation) if self._check_data else None
        return Saver(folder, identity, self_contained=self._self_contained, read_only=read_only)

    def _parts(self) -> Parts:
        return Parts(self._model, self.pool, self._test, self._validation, self._features.given)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A change, which is on the disk at the end; on any error everything is as it was, there and here."""
        if self._saver is not None:
            self._saver.check()
        pool, now, features = self.pool.snapshot(), self._now.copy(), dict(vars(self._features))
        try:
            yield
            if self._saver is not None:
                self._save_state()
        except BaseException:
            vars(self.pool).update(pool)
            vars(self._features).update(features)
            self._now = now
            raise

    def _save_state(self) -> None:
        if self._saver is None:
            raise StateError('this learner has no directory. Pass one: learner.save("runs/mine").')
        self._saver.save(self._settings(), self._parts(), self._now)
