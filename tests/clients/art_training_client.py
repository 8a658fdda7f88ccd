"""Trains with the unmodified ART client: ten steps as they come, every setting once, several turns with tools. Prints one JSON object; any failure is an exception.

usage: art_training_client.py BASE_URL API_KEY BASE_MODEL
"""

import asyncio
import inspect
import json
import os
import sys
import tempfile
import time

# Without a key in the environment the client keeps its metrics local.
os.environ.pop("WANDB_API_KEY", None)
os.environ["WANDB_MODE"] = "disabled"
os.chdir(tempfile.mkdtemp(prefix="trainyard-art-"))

import art  # noqa: E402
from art import dev  # noqa: E402
from art.serverless.backend import ServerlessBackend  # noqa: E402
from art_model import trainable_model  # noqa: E402
from art.types import TrainConfig  # noqa: E402

WORDS = {"yes": 0.5, "no": 0.75, "maybe": 1.0}
PROMPTS = ["respond with yes, no or maybe", "say 'maybe'"]
NUM_STEPS = 10

# Every parameter of `backend.train` with a value that is not its default, in one call or another.
TRAIN_CALLS = [
    {
        "learning_rate": 2e-5,
        "epsilon": 0.3,
        "epsilon_high": 0.5,
        "advantage_balance": -0.25,
        "scale_rewards": False,
        "importance_sampling_level": "sequence",
        "max_negative_advantage_importance_sampling_weight": 1.5,
        "mask_prob_ratio": True,
        "kimi_k2_tau": 0.05,
        "precalculate_logprobs": True,
        "verbose": True,
    },
    {"ppo": True, "epsilon": 0.1, "epsilon_high": 0.28, "importance_sampling_level": "average"},
    {"ppo": True, "importance_sampling_level": "geometric_average"},
]
# What `backend.train` takes from 0.5.19 on.
if "loss_fn" in inspect.signature(ServerlessBackend.train).parameters:
    TRAIN_CALLS += [
        {
            "loss_fn": "ppo",
            "normalize_advantages": False,
            "kl_penalty_coef": 0.02,
            "kl_penalty_reference_step": 1,
            "kl_penalty_source": "sample",
            "allow_training_without_logprobs": True,
            "plot_tensors": True,
            "truncated_importance_sampling": 2.0,
            "scale_learning_rate_by_reward_std_dev": True,
            "logprob_calculation_chunk_size": 512,
            "packed_sequence_length": 1024,
            "num_trajectories_learning_rate_multiplier_power": 0.25,
        },
        {"kl_penalty_coef": 0.02, "kl_penalty_step_lag": 2},
    ]
# What the client's own configuration knows beyond that and `backend.train` never sends: one job with all of it.
FURTHER_SETTINGS = {
    "learning_rate": 1e-5,
    "allow_training_without_logprobs": True,
    "grad_accumulation_sequences": 2,
    "kl_penalty_coef": 0.02,
    "logprob_calculation_chunk_size": 512,
    "moe_routing_replay_bundle": {"routes": []},
    "moe_routing_replay_path": "/routes",
    "moe_routing_replay_strict": True,
    "num_trajectories_learning_rate_multiplier_power": 0.5,
    "packed_sequence_length": 512,
    "plot_tensors": True,
    "scale_learning_rate_by_reward_std_dev": True,
    "truncated_importance_sampling": 2.0,
}
if "final_training_step" in TrainConfig.model_fields:
    FURTHER_SETTINGS["final_training_step"] = True
REFUSED_SETTING = {"kl_ref_adapter_path": "/adapters/reference"}

# Conversations beside the first: the class has another name since calls can be recorded.
HISTORY = getattr(art.trajectories, "LegacyHistory", None) or art.trajectories.History

CITIES = ["Rome", "Oslo", "Lima", "Cairo"]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": CITIES}}, "required": ["city"]},
        },
    }
]


def num_sampled(*choices) -> int:
    return sum(len(choice.logprobs.content) for choice in choices)


async def sample(model: art.TrainableModel, messages: list, max_tokens: int, **request):
    """At temperature 1, unless `request` says otherwise."""
    client = model.openai_client()
    completion = await client.chat.completions.create(model=model.get_inference_name(), messages=messages, max_tokens=max_tokens, **request)
    assert completion.usage.completion_tokens == num_sampled(completion.choices[0])
    return completion.choices[0]


async def rollout(model: art.TrainableModel, prompt: str, index: int) -> art.Trajectory:
    messages = [{"role": "user", "content": prompt}]
    choice = await sample(model, messages, 16)
    answer = (choice.message.content or "").strip(" .'\"!\n").lower()
    # No two rewards are equal and none is the mean of four, so that every trajectory is trained.
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=WORDS.get(answer, 0.0) + index**2 / 1000)


async def gather(model: art.TrainableModel) -> list[art.TrajectoryGroup]:
    return await art.gather_trajectory_groups([art.TrajectoryGroup(rollout(model, prompt, index) for index in range(4)) for prompt in PROMPTS])


async def scored(model: art.TrainableModel, split: str, reward: float) -> None:
    trajectory = art.Trajectory(messages_and_choices=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}], reward=reward)
    await model.log([art.TrajectoryGroup([trajectory])], split=split)


async def registered(backend: ServerlessBackend, name: str, base_model: str) -> art.TrainableModel:
    model = trainable_model(name=name, project="conformance", base_model=base_model)
    await model.register(backend)
    return model


async def probe(model: art.TrainableModel, step: int) -> list[float]:
    """Log-probabilities of one greedy answer."""
    request = {"messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 8, "temperature": 0}
    completion = await model.openai_client().chat.completions.create(model=model.get_inference_name(step=step), **request)
    return [entry.logprob for entry in completion.choices[0].logprobs.content]


async def ten_steps(backend: ServerlessBackend, base_model: str) -> dict:
    """The loop of ART's examples, with every default."""
    model = await registered(backend, "ten-steps", base_model)
    report: dict = {"model_id": model.id, "first_step": await model.get_step(), "steps": []}
    for _ in range(NUM_STEPS):
        groups = await gather(model)
        await model.log(groups, split="train")
        result = await backend.train(model, groups)
        await model.log(metrics=result.metrics, step=result.step, split="train")
        tokens = num_sampled(*(trajectory.messages_and_choices[-1] for group in groups for trajectory in group))
        report["steps"].append({"step": result.step, "artifact_name": result.artifact_name, "metrics": result.metrics, "num_sampled_tokens": tokens})
        if result.step in (4, NUM_STEPS):
            await scored(model, "val", 1.0 if result.step == 4 else 0.5)
    report["probes"] = [await probe(model, step) for step in (0, NUM_STEPS)]

    client = backend._client
    steps = client.models.checkpoints.list
    request = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    chat = model.openai_client().chat.completions
    report["answered_by"] = [(await chat.create(model=model.get_inference_name(step=step), **request)).model for step in (None, NUM_STEPS)]
    report["checkpoints"] = [checkpoint.step async for checkpoint in steps(model_id=model.id, limit=4, order="asc")]
    await model.delete_checkpoints()
    report["kept_checkpoints"] = [checkpoint.step async for checkpoint in steps(model_id=model.id)]
    report["answered_after_deletion_by"] = [(await chat.create(model=model.get_inference_name(step=step), **request)).model for step in (None, 4)]
    try:
        await chat.create(model=model.get_inference_name(step=5), **request)
    except Exception as error:  # noqa: BLE001
        report["deleted"] = type(error).__name__
    return report


async def every_setting(backend: ServerlessBackend, base_model: str) -> dict:
    model = await registered(backend, "every-setting", base_model)
    groups = await gather(model)
    parameters = inspect.signature(backend.train).parameters
    report: dict = {
        "model_id": model.id,
        "train_parameters": {name: parameter.default for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY},
        "further_names": sorted((set(dev.TrainConfig.__annotations__) | set(TrainConfig.model_fields)) - set(parameters)),
        "train_calls": TRAIN_CALLS,
        "further_settings": FURTHER_SETTINGS,
        "refused_name": list(REFUSED_SETTING)[0],
        "metrics": [(await backend.train(model, groups, **call)).metrics for call in TRAIN_CALLS],
    }
    jobs = backend._client.training_jobs
    job = await jobs.create(model_id=model.id, trajectory_groups=groups, experimental_config=FURTHER_SETTINGS)
    while True:
        types = [event.type async for event in jobs.events.list(training_job_id=job.id)]
        if types and types[-1] in ("training_ended", "training_failed"):
            break
        await asyncio.sleep(0.25)
    report["further_events"] = types
    try:
        await jobs.create(model_id=model.id, trajectory_groups=groups, experimental_config=REFUSED_SETTING)
    except Exception as error:  # noqa: BLE001
        report["refusal"] = [type(error).__name__, str(error)]
    return report


async def agent(model: art.TrainableModel, city: str, reward: float, tool_choice: str) -> art.Trajectory:
    """A turn, what a tool said, an answer; and a summary by the same policy in a conversation of its own."""
    trajectory = art.Trajectory(tools=TOOLS, reward=reward, metadata={"city": city}, metrics={"is_agent": True})
    turns = trajectory.messages_and_choices
    turns.append({"role": "user", "content": f"What is the weather in {city}?"})
    # Greedy, so that the text of this turn, tokenised again for the next prompt, gives the same tokens.
    first = await sample(model, trajectory.messages(), 48 if tool_choice == "required" else 12, tools=TOOLS, tool_choice=tool_choice, temperature=0)
    turns.append(first)
    for call_id in [call.id for call in first.message.tool_calls or []] or ["call_0"]:
        turns.append({"role": "tool", "tool_call_id": call_id, "content": f"{city}: sunny, 24 degrees."})
    turns.append(await sample(model, trajectory.messages(), 12, tools=TOOLS))
    # What follows the last choice is no part of the training.
    turns.append({"role": "user", "content": "Thank you."})
    summary = HISTORY(messages_and_choices=[{"role": "user", "content": f"Sum up: sunny in {city}, 24 degrees."}])
    summary.messages_and_choices.append(await sample(model, summary.messages(), 12))
    trajectory.additional_histories.append(summary)
    return trajectory.finish()


async def several_turns(backend: ServerlessBackend, base_model: str) -> dict:
    model = await registered(backend, "several-turns", base_model)
    report: dict = {"model_id": model.id}
    for tool_choice in ("auto", "required"):
        # Rewards of which none is the mean.
        agents = (agent(model, city, index**2, tool_choice) for index, city in enumerate(CITIES))
        groups = await art.gather_trajectory_groups([art.TrajectoryGroup(agents)])
        histories = [history for trajectory in groups[0] for history in (trajectory, *trajectory.additional_histories)]
        choices = [[item for item in history.messages_and_choices if not isinstance(item, dict)] for history in histories]
        result = await backend.train(model, groups)
        first_turns = [items[0] for items in choices[::2]]
        report[tool_choice] = {
            "step": result.step,
            "metrics": result.metrics,
            "num_choices": [len(items) for items in choices],
            "num_sampled_tokens": num_sampled(*(choice for items in choices for choice in items)),
            "first_turns": [first.message.content for first in first_turns],
            "calls": [[call.function.model_dump() for call in first.message.tool_calls or []] for first in first_turns],
        }
    return report


async def recorded_calls(backend: ServerlessBackend, base_model: str) -> dict | None:
    """Calls inside `with art.Trajectory()` instead of messages and choices: two turns of the policy, whole and streamed, and one of a judge."""
    if "exchanges" not in art.Trajectory.model_fields:
        return None
    model = await registered(backend, "recorded-calls", base_model)

    async def rollout(index: int) -> art.Trajectory:
        # The client of the model records nothing by itself: it is any client inside the block.
        with art.Trajectory() as trajectory:
            messages = [{"role": "user", "content": PROMPTS[0]}]
            first = await sample(model, messages, 8)
            messages += [{"role": "assistant", "content": first.message.content}, {"role": "user", "content": "Really?"}]
            await sample(model, messages, 8)
            judge = [{"role": "user", "content": "Is it good?"}]
            await model.openai_client().chat.completions.create(model=base_model, messages=judge, max_tokens=2)
        # The reward of the first is 0, which the client leaves out.
        trajectory.reward = index**2
        return trajectory

    groups = await art.gather_trajectory_groups([art.TrajectoryGroup(rollout(index) for index in range(4))])
    result = await backend.train(model, groups)
    calls = [len(trajectory.exchanges.chat_completions) for group in groups for trajectory in group]
    return {"model_id": model.id, "step": result.step, "num_calls": calls, "metrics": result.metrics}


async def calls_of_every_form(backend: ServerlessBackend, base_model: str) -> dict | None:
    """An agent whose libraries speak other forms than chat completions: each form once whole and once streamed."""
    if "exchanges" not in art.Trajectory.model_fields:
        return None
    import anthropic

    model = await registered(backend, "every-form", base_model)
    name = model.get_inference_name()
    client = model.openai_client()
    base_url = str(client.base_url).removesuffix("/").removesuffix("/v1")
    # Of a stream that is cut off by its limit the client keeps nothing: this answer ends by itself.
    answer = {"format": {"type": "json_schema", "name": "answer", "schema": {"enum": ["yes", "no"]}}}

    async def rollout(index: int) -> art.Trajectory:
        with art.Trajectory() as trajectory:
            request = {"model": name, "input": PROMPTS[0], "instructions": "Be brief.", "max_output_tokens": 8}
            await client.responses.create(**request)
            async for _ in await client.responses.create(**request, text=answer, stream=True):
                pass
            async with anthropic.AsyncAnthropic(base_url=base_url, api_key=client.api_key) as messages_client:
                request = {"model": name, "messages": [{"role": "user", "content": PROMPTS[1]}], "system": "Be brief.", "max_tokens": 8}
                await messages_client.messages.create(**request)
                async with messages_client.messages.stream(**request) as stream:
                    await stream.get_final_message()
            request = {"model": name, "prompt": ["Yes or no?", "Maybe?"], "n": 2, "max_tokens": 8}
            await client.completions.create(**request)
            async for _ in await client.completions.create(**request, stream=True):
                pass
        trajectory.reward = index**2
        return trajectory

    groups = await art.gather_trajectory_groups([art.TrajectoryGroup(rollout(index) for index in range(4))])
    result = await backend.train(model, groups)
    exchanges = [trajectory.exchanges for group in groups for trajectory in group]
    calls = [[len(getattr(one, form)) for form in ("completions", "responses", "messages")] for one in exchanges]
    return {"model_id": model.id, "step": result.step, "num_calls": calls, "metrics": result.metrics}


async def main(base_url: str, api_key: str, base_model: str) -> dict:
    backend = ServerlessBackend(api_key=api_key, base_url=base_url)
    report: dict = {"seconds": {}}
    for part in (ten_steps, every_setting, several_turns, recorded_calls, calls_of_every_form):
        start = time.monotonic()
        report[part.__name__] = await part(backend, base_model)
        report["seconds"][part.__name__] = round(time.monotonic() - start, 1)
    return report


if __name__ == "__main__":
    print("REPORT " + json.dumps(asyncio.run(main(*sys.argv[1:4]))))
