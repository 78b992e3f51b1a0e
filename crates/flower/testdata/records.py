"""Writes the ids that flwr 1.41 gives the records of a test: python records.py > records.ids"""

from flwr.app import Array, ConfigRecord, MetricRecord
from flwr.app.message.arraychunk import ArrayChunk
import numpy as np

metrics = MetricRecord({"num-examples": 7, "loss": 0.5, "losses": [1.0, 2.0], "counts": [-1, 2]})
config = ConfigRecord({"server-round": 3, "lr": 0.1, "name": "ä", "on": True, "raw": b"\x00\xff"})
print(metrics.object_id)
print(config.object_id)
for values in (np.array([1.0, -2.0], np.float32), np.array(3.0, np.float32)):
    print(ArrayChunk(memoryview(Array(values).data)).object_id)
