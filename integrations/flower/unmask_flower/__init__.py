"""unmask for Flower: masked clients, and what a Flower server sees of its clients' pictures."""

from unmask_flower.deadline import Deadline
from unmask_flower.leaks import Leak, leak_report
from unmask_flower.masked_fedavg import MASK_SUFFIX, MaskedFedAvg
from unmask_flower.received import Received

__all__ = ["MASK_SUFFIX", "Deadline", "Leak", "MaskedFedAvg", "Received", "leak_report"]
