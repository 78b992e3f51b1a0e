"""Shared by the tests: nodes in this process, and a grid that asks them."""

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

# The run's context, without which Flower creates no messages.
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1


def record(arrays):
    return ArrayRecord({name: array if isinstance(array, Array) else Array(array) for name, array in arrays.items()})


class Nodes:
    """A grid of nodes that answer immediately; each is a function from (global arrays, config) to (arrays, metrics)."""

    def __init__(self, *nodes):
        self.nodes = dict(enumerate(nodes, start=1))

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):
        return [self.answer(message) for message in messages]

    def answer(self, message):
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        sent, metrics = self.nodes[message.metadata.dst_node_id](arrays, message.content["config"])
        content = RecordDict({"arrays": record(sent), "metrics": MetricRecord(metrics)})
        return Message(content, reply_to=message)
