"""The kinds of error, each an exception, by the library's status."""


class Error(RuntimeError):
    """What the library refused or could not do. `field`: the configuration field at fault ("d_model"), or ""."""

    def __init__(self, message, field=""):
        super().__init__(message)
        self.field = field


class UsageError(Error, ValueError):
    """An argument or a configuration that cannot be honoured."""


class DataError(Error):
    """A data, model or checkpoint file that was rejected."""


class NumericalError(Error, ArithmeticError):
    """A loss or a gradient that is not finite."""


class ResourceError(Error, MemoryError):
    """No memory, or no room on the disk."""


class Stopped(Error):
    """A callback asked to stop."""


BY_STATUS = {1: Error, 2: UsageError, 3: DataError, 4: NumericalError, 5: ResourceError, 6: Stopped}
STOPPED = 6
