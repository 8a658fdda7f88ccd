"""What the newest ART client has beside its plain loop: rollouts, training and evaluation side by side, and calls recorded in streams, threads and blocks
within blocks. Prints one JSON object; any failure is an exception.

usage: art_pipeline_client.py BASE_URL API_KEY BASE_MODEL
"""

import asyncio
import itertools
import json
import os
import sys
import tempfile
import types

# Without a key in the environment the client keeps its metrics local.
os.environ.pop("WANDB_API_KEY", None)
os.environ["WANDB_MODE"] = "disabled"
os.chdir(tempfile.mkdtemp(prefix="trainyard-art-"))

# The trainer of the pipeline asks whether its back end is the local one, whose module needs torch and a GPU.
local = types.ModuleType("art.local.backend")
local.LocalBackend = type("LocalBackend", (), {})
sys.modules["art.local"] = types.ModuleType("art.local")
sys.modules["art.local.backend"] = local

import art  # noqa: E402
import openai  # noqa: E402
from art.pipeline_trainer import PipelineRuntimeConfig, PipelineTrainer, make_group_rollout_fn  # noqa: E402
from art.serverless.backend import ServerlessBackend  # noqa: E402
from art_model import trainable_model  # noqa: E402

SCENARIOS = ["respond with yes, no or maybe", "say 'maybe'", "say 'no'"]


async def registered(backend: ServerlessBackend, name: str, base_model: str) -> art.TrainableModel:
    model = trainable_model(name=name, project="conformance", base_model=base_model)
    await model.register(backend)
    return model


async def pipeline(backend: ServerlessBackend, base_model: str) -> dict:
    """Two steps with an evaluation of each, then, as another process would, one more."""
    counter = itertools.count()

    async def answered(model: art.TrainableModel, prompt: str, step: int | None = None) -> art.Trajectory:
        messages = [{"role": "user", "content": prompt}]
        name = model.get_inference_name(step=step)
        completion = await model.openai_client().chat.completions.create(model=name, messages=messages, max_tokens=8)
        # No two rewards are equal.
        return art.Trajectory(messages_and_choices=[*messages, completion.choices[0]], reward=next(counter))

    async def rollout(model: art.TrainableModel, prompt: str, _config: None) -> art.Trajectory:
        trajectory = await answered(model, prompt)
        trajectory.metadata["scenario_id"] = prompt
        return trajectory

    async def evaluate(model: art.TrainableModel, step: int, _config: None) -> dict:
        return {"val": [await answered(model, prompt, step) for prompt in SCENARIOS], "test": [await answered(model, SCENARIOS[0])]}

    async def trained(max_steps: int, **options) -> art.TrainableModel:
        model = await registered(backend, "pipeline", base_model)
        settings = PipelineRuntimeConfig(num_rollout_workers=2, min_batch_size=2, max_batch_size=2)
        trainer = PipelineTrainer(
            model,
            backend,
            make_group_rollout_fn(rollout, n=3),
            itertools.cycle(SCENARIOS),
            None,
            evaluate,
            pipeline=settings,
            max_steps=max_steps,
            eval_every_n_steps=1,
            kl_penalty_coef=0.02,
            kl_penalty_step_lag=1,
            **options,
        )
        await trainer.train(handle_signals=False)
        return model

    model = await trained(2)
    steps = [await model.get_step()]
    model = await trained(1, loss_fn="ppo", normalize_advantages=False)
    steps.append(await model.get_step())
    with open(os.path.join(model._get_output_dir(), "history.jsonl")) as file:
        history = [json.loads(line) for line in file]
    evaluated = {split: sorted({entry["step"] for entry in history if f"{split}/reward" in entry}) for split in ("val", "test")}
    return {"model_id": model.id, "steps": steps, "evaluated": evaluated}


async def recorded(backend: ServerlessBackend, base_model: str) -> dict:
    """Each rollout samples otherwise than plainly, in four ways, three of them in the outer of two blocks."""
    model = await registered(backend, "recorded", base_model)
    own = model.openai_client()
    request = {"model": model.get_inference_name(), "messages": [{"role": "user", "content": SCENARIOS[0]}], "max_tokens": 6, "temperature": 0.7}

    async def rollout(index: int) -> tuple[art.Trajectory, art.Trajectory]:
        with art.Trajectory() as outer:
            await own.chat.completions.create(**request, n=2)
            async for _ in await own.chat.completions.create(**request, stream=True):
                pass
            with art.Trajectory() as inner:
                with openai.OpenAI(base_url=str(own.base_url), api_key=own.api_key) as client:
                    await asyncio.to_thread(client.chat.completions.create, **request)
            with art.no_capture():
                await own.chat.completions.create(**request)
        for trajectory in (outer, inner):
            trajectory.reward = index**2
            trajectory.metadata = {"tags": ["a", {"of": None}], "index": index}
        return outer, inner

    pairs = await asyncio.gather(*(rollout(index) for index in range(3)))
    groups = [art.TrajectoryGroup(trajectories, metadata={"nested": {"list": [1, True]}}) for trajectories in zip(*pairs)]
    result = await backend.train(model, groups)
    calls = [[len(trajectory.exchanges.chat_completions) for trajectory in group] for group in groups]
    return {"model_id": model.id, "step": result.step, "num_calls": calls}


async def main(base_url: str, api_key: str, base_model: str) -> dict:
    backend = ServerlessBackend(api_key=api_key, base_url=base_url)
    return {"pipeline": await pipeline(backend, base_model), "recorded": await recorded(backend, base_model)}


if __name__ == "__main__":
    print("REPORT " + json.dumps(asyncio.run(main(*sys.argv[1:4]))))
