"""Environment of two turns for verifiers.test.ts. Its rewards differ between rollouts of any model."""

import verifiers.v1 as vf
from openai import AsyncOpenAI

__all__ = ["TwoTurnsHarness", "TwoTurnsTaskset"]


class TwoTurnsTask(vf.Task[vf.TaskData]):
    @vf.reward
    async def length(self, trace: vf.Trace) -> float:
        replies = [node.message.content or "" for node in trace.nodes if node.sampled]
        return sum(map(len, replies)) % 50 / 50


class TwoTurnsTaskset(vf.Taskset[TwoTurnsTask, vf.TasksetConfig]):
    def load(self) -> list[TwoTurnsTask]:
        return [TwoTurnsTask(vf.TaskData(prompt=f"Name {thing}.")) for thing in ("a colour", "a city")]


class TwoTurnsHarness(vf.Harness[vf.HarnessConfig]):
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> vf.ProgramResult:
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            messages = [{"role": "user", "content": data.prompt}]
            first = await client.chat.completions.create(model=ctx.model, messages=messages)
            messages += [first.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "Another."}]
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
