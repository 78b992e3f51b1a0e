"""Flower requires a client app. The real clients are rooms and programs of unmask."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
@app.evaluate()
def refuse(message: Message, context: Context) -> Message:
    raise RuntimeError(
        "this SuperNode has nothing to train; use `unmask join --flower URL` or `unmask relay --flower URL` instead"
    )
