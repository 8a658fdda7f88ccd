"""One way to make a model for every release of the client: from 0.5.19 on a model has a `run_name` beside its name."""

import art


def trainable_model(**options: object) -> art.TrainableModel:
    if "run_name" in art.TrainableModel.model_fields:
        options.setdefault("run_name", options["name"])
    return art.TrainableModel(**options)
