# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: `python`, `tests`, `tools`, `bench`, `examples`."""

import signal

# A shell without job control has what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
