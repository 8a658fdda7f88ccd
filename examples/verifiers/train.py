"""Training on an environment of the library `verifiers`: python train.py --steps 10 --seed 1

The library's TrainClient renders prompts to token ids and samples from the service. The taskset scores the rollouts. This file sends them to the
training API. TRAINYARD_BASE_URL and TRAINYARD_API_KEY name the service.
"""

import argparse
import asyncio
import os
from collections.abc import Callable
from functools import partial

import httpx
import verifiers.v1 as vf
from renderers import DefaultRendererConfig
from verifiers.v1.dialects.chat import message_to_wire


def trajectory(trace: vf.Trace) -> dict:
    """A rollout in the form of the training API: each branch of its message graph is a history."""
    reasons = {call.node: call.finish_reason for call in trace.calls}
    finished = {id(node): reasons.get(place) or "stop" for place, node in enumerate(trace.nodes)}
    first, *others = [history(branch, finished) for branch in trace.branches if branch.trainable]
    return {
        "messages_and_choices": first,
        "additional_histories": [{"messages_and_choices": items} for items in others],
        "reward": trace.reward,
    }


def history(branch: vf.Branch, finish_reasons: dict[int, str]) -> list[dict]:
    """Messages, and sampled replies with the token ids and log-probabilities by which the service finds its records."""
    items = []
    token_ids: list[int] = []
    for node in branch.nodes:
        message = message_to_wire(node.message)
        if node.sampled:
            # The mask is true for the sampled tokens, which are the last ones of the node.
            start = len(node.token_ids) - sum(node.mask)
            prompt, sampled = node.token_ids[:start], node.token_ids[start:]
            logprobs = [
                {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
                for token, logprob in zip(sampled, node.logprobs, strict=True)
            ]
            items.append(
                {
                    "index": 0,
                    "finish_reason": finish_reasons[id(node)],
                    "message": message,
                    "prompt_token_ids": token_ids + prompt,
                    "token_ids": sampled,
                    "logprobs": {"content": logprobs},
                }
            )
        else:
            items.append(message)
        token_ids += node.token_ids
    return items


async def train(http: httpx.AsyncClient, model_id: str, groups: list[list[vf.Trace]], learning_rate: float) -> dict:
    """Runs one training job. Returns it as it ended."""
    answer = await http.post(
        "preview/training-jobs",
        json={
            "model_id": model_id,
            "trajectory_groups": [{"trajectories": [trajectory(trace) for trace in group]} for group in groups],
            "experimental_config": {"learning_rate": learning_rate},
        },
    )
    if answer.is_error:
        raise SystemExit(f"the training job was refused: {answer.text}")
    job = answer.json()
    while job["status"] not in ("succeeded", "failed", "cancelled"):
        await asyncio.sleep(0.25)
        job = (await http.get(f"preview/training-jobs/{job['id']}")).raise_for_status().json()
    if job["status"] != "succeeded":
        raise SystemExit(f"training job {job['id']} ended as {job['status']}: {job['error_message']}")
    return job


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", default="reverse_words", help="id of the taskset (reverse_words)")
    parser.add_argument("--tokenizer", help="folder or name of the Hugging Face tokenizer (the base model's name)")
    parser.add_argument("--rollouts", type=int, default=8, help="of each task in a round (8)")
    parser.add_argument("--steps", type=int, default=10, help="training jobs (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the sampling (1)")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the sampling (1)")
    parser.add_argument("--top-p", type=float, default=1.0, help="of the sampling (1)")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="of the training jobs (5e-4)")
    parser.add_argument("--name", default="reverse-words", help="name of the model (reverse-words)")
    options = parser.parse_args()

    base_url = os.environ.get("TRAINYARD_BASE_URL", "http://127.0.0.1:8420/v1")
    headers = {"Authorization": f"Bearer {os.environ['TRAINYARD_API_KEY']}"}
    async with httpx.AsyncClient(base_url=f"{base_url}/", headers=headers, timeout=600) as http:
        models = (await http.get("models")).raise_for_status().json()["data"]
        base_model = next(model["id"] for model in models if model["parent"] is None)
        registered = await http.post(
            "preview/models",
            json={"project": "demo", "name": options.name, "base_model": base_model, "return_existing": True},
        )
        model = registered.raise_for_status().json()
        client = vf.TrainClientConfig(
            base_url=base_url,
            api_key_var="TRAINYARD_API_KEY",
            renderer=DefaultRendererConfig(),
            renderer_model_name=options.tokenizer or base_model,
        )

        def context(step: int, rollout: int) -> vf.ModelContext:
            seed = options.seed * 1_000_003 + step * 1_009 + rollout
            sampling = vf.SamplingConfig(
                temperature=options.temperature, top_p=options.top_p, max_tokens=24, seed=seed
            )
            return vf.ModelContext(f"{model['entity']}/{model['project']}/{model['name']}", client, sampling)

        environment = vf.load_environment(
            vf.SingleAgentEnvConfig(
                taskset={"id": options.environment},
                agent=vf.AgentConfig(runtime=vf.SubprocessConfig()),
            )
        )
        async with environment.serving():
            for step in range(options.steps + 1):
                groups = await roll_out(environment, options.rollouts, partial(context, step))
                rewards = [trace.reward for group in groups for trace in group]
                print(f"step {step} reward {sum(rewards) / len(rewards):.3f}", flush=True)
                # The last round shows the result of the last job.
                if step < options.steps:
                    counts = (await train(http, model["id"], groups, options.learning_rate))["counts"]
                    sampled = sum(sum(node.mask) for group in groups for trace in group for node in trace.nodes)
                    print(f"trained {counts['num_trainable_tokens']} of {sampled} sampled tokens", flush=True)


async def roll_out(
    environment: vf.Env, num_rollouts: int, context: Callable[[int], vf.ModelContext]
) -> list[list[vf.Trace]]:
    """Rolls out each task of the environment several times. Returns the traces of each task."""
    semaphore = asyncio.Semaphore(64)

    async def group(task: vf.Task) -> list[vf.Trace]:
        slots = environment.slots(task, num_rollouts)
        episodes = await asyncio.gather(
            *(environment.run_slot(slot, context(rollout), semaphore) for rollout, slot in enumerate(slots))
        )
        traces = [trace for episode in episodes for trace in episode.traces]
        for failed in [*episodes, *traces]:
            if not failed.ok:
                error = failed.errors[-1] if failed.errors else None
                raise SystemExit(f"a rollout failed: {error and error.message}")
        return traces

    return await asyncio.gather(*(group(task) for task in environment.taskset))


asyncio.run(main())
