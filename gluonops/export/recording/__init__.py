"""Records one run of a net that is plain Python, and makes the graph of what it computed.

:mod:`.hooks` sees every call that one thread makes to MXNet's C library. :mod:`.tape` makes a node of each call, and
follows arrays by their handles. :mod:`.naming` names nodes and constants, and says in which line of the user's code
something happened. :mod:`.arguments` names the inputs, and :mod:`.runs` runs the net. :mod:`.reads` records again with
other numbers where the net reads some, :mod:`.variation` with other sizes: :mod:`.aligned` puts the runs side by side,
and :mod:`.freeing` makes the graph fit several sizes. :mod:`.record` puts it together.
"""
from .arguments import signature_of
from .record import calls, check_initialized, record

__all__ = ["calls", "check_initialized", "record", "signature_of"]
