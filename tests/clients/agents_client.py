"""Drives a running scripted service with one unmodified framework for agents, in two turns. Prints one JSON object; any failure is an exception.

usage: agents_client.py FRAMEWORK URL KEY MODEL

packages/server/src/testing/scripted-main.ts says what the service answers.
"""

import asyncio
import json
import os
import sys

import openai

# Nothing here may report anything to the network.
os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1", DO_NOT_TRACK="1")

ASK_WEATHER = "What is the weather in Zürich and Rome?"
ASK_AGAIN = "And the weather in Rome, please?"
ASK_QUIETLY = "The weather in Rome, quietly."


class Wire:
    """An openai client that notes what each request sends and under which id it was answered."""

    def __init__(self, url: str, key: str):
        self.requests: list[dict] = []
        self.http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [self._note]})
        self.client = openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0, http_client=self.http)

    async def _note(self, request):
        if request.method == "POST":
            self.requests.append(json.loads(await request.aread()))

    def sent(self) -> list[dict]:
        """What the requests since the last call sent: the kinds of their items, and how they name what went before."""
        noted, self.requests = self.requests, []
        return [
            {
                "items": [item.get("type") or item["role"] for item in items_of(body)],
                "previous": "previous_response_id" in body,
                "store": body.get("store"),
                "stream": body.get("stream", False),
            }
            for body in noted
        ]

    async def prompt_of(self, response_id: str) -> list[str]:
        """Kinds of all items that an answer was sampled after."""
        page = self.client.responses.input_items.list(response_id, order="asc", limit=100)
        return [item.type async for item in page]


def items_of(body: dict) -> list[dict]:
    given = body["input"]
    return [{"role": "user"}] if isinstance(given, str) else given


async def run_openai_agents(url, key, model):
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool

    wire = Wire(url, key)
    asked: list[str] = []

    @function_tool
    def weather(city: str) -> str:
        """Of a city."""
        asked.append(city)
        return f"sun in {city}"

    agent = Agent(name="Assistant", instructions="Be brief.", tools=[weather], model=OpenAIResponsesModel(model, wire.client))
    first = await Runner.run(agent, ASK_WEATHER)
    report: dict = {"first": [first.final_output, wire.sent()]}
    again = [{"role": "user", "content": ASK_AGAIN}]
    second = await Runner.run(agent, first.to_input_list() + again)
    report["second"] = [second.final_output, wire.sent(), await wire.prompt_of(second.last_response_id)]
    report["cached"] = second.context_wrapper.usage.input_tokens_details.cached_tokens > 0
    chained = await Runner.run(agent, ASK_AGAIN, previous_response_id=first.last_response_id)
    report["chained"] = [chained.final_output, wire.sent(), await wire.prompt_of(chained.last_response_id)]
    tokens = [[answer.usage.input_tokens for answer in result.raw_responses] for result in (second, chained)]
    report["same_prompts"] = tokens[0] == tokens[1]
    automatic = await Runner.run(agent, ASK_WEATHER, auto_previous_response_id=True)
    report["automatic"] = [automatic.final_output, wire.sent(), await wire.prompt_of(automatic.last_response_id)]
    streamed = Runner.run_streamed(agent, first.to_input_list() + again)
    deltas, kinds = [], []
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            deltas.append(event.data.delta)
        if event.type == "run_item_stream_event":
            kinds.append(event.name)
    report["streamed"] = [streamed.final_output, wire.sent(), kinds, "".join(deltas).strip()]
    return {**report, "asked": sorted(asked)}


async def run_pydantic_ai(url, key, model):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    wire = Wire(url, key)
    asked: list[str] = []
    agent = Agent(
        OpenAIResponsesModel(model, provider=OpenAIProvider(openai_client=wire.client)), instructions="Be brief."
    )

    @agent.tool_plain
    def weather(city: str) -> str:
        """Of a city."""
        asked.append(city)
        return f"sun in {city}"

    def last_id(result):
        return result.all_messages()[-1].provider_response_id

    first = await agent.run(ASK_WEATHER)
    report: dict = {"first": [first.output, wire.sent()]}
    history = first.all_messages()
    second = await agent.run(ASK_AGAIN, message_history=history)
    report["second"] = [second.output, wire.sent(), await wire.prompt_of(last_id(second))]
    report["cached"] = second.usage.cache_read_tokens > 0
    chained = await agent.run(
        ASK_AGAIN, message_history=history, model_settings={"openai_previous_response_id": "auto"}
    )
    report["chained"] = [chained.output, wire.sent(), await wire.prompt_of(last_id(chained))]
    tokens = [
        [message.usage.input_tokens for message in result.new_messages() if message.kind == "response"]
        for result in (second, chained)
    ]
    report["same_prompts"] = tokens[0] == tokens[1]
    # A text before a call would end the stream of this framework.
    async with agent.run_stream(ASK_QUIETLY, message_history=history) as streamed:
        deltas = [text async for text in streamed.stream_text(delta=True, debounce_by=None)]
        output = await streamed.get_output()
    report["streamed"] = [output, wire.sent(), "".join(deltas), len(deltas) > 2]
    return {**report, "asked": sorted(asked)}


RUNS = {"openai-agents": run_openai_agents, "pydantic-ai": run_pydantic_ai}

if __name__ == "__main__":
    framework, url, key, model = sys.argv[1:]
    print("REPORT " + json.dumps(asyncio.run(RUNS[framework](url, key, model))))
