"""How types are checked while the tests run: as mypy reads them, a whole number may stand for a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
