"""`python -m tpn` is `tpn`."""

import sys

from tpn.cli import main

sys.exit(main())
