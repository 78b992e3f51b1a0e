"""Flower wants every app to have a client; of this one the clients are rooms and programs of unmask."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
@app.evaluate()
def refuse(message: Message, context: Context) -> Message:
    raise RuntimeError(
        "this SuperNode has nothing to train; join with `unmask join --flower URL` or `unmask relay --flower URL` in its place"
    )
