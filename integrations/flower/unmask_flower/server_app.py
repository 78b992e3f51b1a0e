"""The server of a federation of rooms and native clients, with Flower's own FedAvg or MaskedFedAvg."""

from logging import WARNING
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Context
from flwr.common import log
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from safetensors.numpy import load_file, save_file

from unmask_flower.deadline import Deadline
from unmask_flower.fresh import fresh_vit
from unmask_flower.masked_fedavg import MaskedFedAvg
from unmask_flower.received import Received

STRATEGIES = {"fedavg": FedAvg, "masked": MaskedFedAvg}

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    if config["strategy"] not in STRATEGIES:
        raise ValueError(f"there is no strategy {config['strategy']!r}; choose one of {', '.join(STRATEGIES)}")
    arrays = load_file(config["initial"]) if config["initial"] else fresh_vit(int(config["seed"]))
    # Fails before hours of training rather than after them.
    out = Path(config["out"]) if config["out"] else None
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    strategy = STRATEGIES[config["strategy"]](
        fraction_evaluate=1.0 if config["evaluate"] else 0.0,
        min_train_nodes=config["min-nodes"],
        min_evaluate_nodes=config["min-nodes"],
        min_available_nodes=config["min-nodes"],
    )
    grid = Deadline(grid)
    result = strategy.start(
        grid=Received(grid, config["received"]) if config["received"] else grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in arrays.items()}),
        num_rounds=config["num-server-rounds"],
        timeout=float(config["round-timeout"]),
        train_config=ConfigRecord({key: config[key] for key in ("lr", "local-epochs", "batch-size") if config[key]}),
    )
    if out is None:
        return
    # The result has no arrays if no node ever answered.
    if not result.arrays:
        log(WARNING, "No node ever answered: there is no model to write to %s, which is unchanged", out)
    else:
        save_file({name: array.numpy() for name, array in result.arrays.items()}, out)
