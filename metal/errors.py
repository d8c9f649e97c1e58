"""What can go wrong with a kernel, before any model is involved."""


class KernelError(Exception):
    """A kernel cannot be built or launched; the message says what, where and what to do."""


class KernelBuildError(KernelError):
    """A compiler refused a kernel's text; the message holds what it said."""


class KernelRefused(KernelError):
    """The emulator stopped a launch: a race, a divergent barrier, a stray access …, with its lines."""
