"""Options of a job's logs."""

from penstock.model.option import Option
from penstock.model.option_types import Integer, Size

LOG_MAX_SIZE = Option(
    "penstock.log.max-size",
    Size(),
    64 << 20,
    "A log of the driver or of a TaskManager that has this size is continued in a new file; the full one gets the next "
    "number, as in `driver.log.3`. 0: no limit.",
)
LOG_BACKUPS = Option(
    "penstock.log.backups",
    Integer(least=1),
    2,
    "How many full files of a log are kept, the newest ones.",
)
