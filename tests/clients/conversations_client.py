"""Uses conversations of a running service with the unmodified openai client. Prints one JSON object; any failure is an exception.

usage: conversations_client.py URL KEY MODEL
"""

import asyncio
import json
import sys
import time

import openai

URL, KEY, MODEL = sys.argv[1:]
ASK = {"model": MODEL, "max_output_tokens": 16, "temperature": 0}


def user(text: str) -> dict:
    return {"type": "message", "role": "user", "content": text}


def error_of(call) -> str:
    """The class of what a call raises."""
    try:
        call()
    except openai.APIError as error:
        return type(error).__name__
    raise AssertionError("it did not fail")


def make_and_delete(client: openai.OpenAI) -> dict:
    empty = client.conversations.create()
    made = client.conversations.create(items=[user("One.")], metadata={"topic": "numbers"})
    changed = client.conversations.update(made.id, metadata={"topic": "counting"})
    include = ["message.output_text.logprobs"]
    added = client.conversations.items.create(made.id, items=[user("Two."), user("Three.")], include=include)
    listed = list(client.conversations.items.list(made.id, order="asc", limit=1, include=include))
    item = client.conversations.items.retrieve(listed[0].id, conversation_id=made.id)
    client.conversations.items.delete(item.id, conversation_id=made.id)
    left = client.conversations.items.list(made.id).data
    deleted = client.conversations.delete(made.id)
    return {
        "created": [empty.object, empty.metadata],
        "metadata": [client.conversations.create(metadata=made.metadata).metadata, changed.metadata],
        "added": len(added.data),
        "listed": [each.content[0].text for each in listed],
        "item": item.content[0].text,
        "left": [each.content[0].text for each in left],
        "deleted": deleted.deleted,
        "errors": [
            error_of(lambda: client.conversations.retrieve(made.id)),
            error_of(lambda: client.conversations.items.list(made.id)),
            error_of(lambda: client.responses.create(**ASK, conversation=made.id, input="x")),
            error_of(lambda: client.conversations.create(items=[user("x")] * 21)),
        ],
    }


def continue_one(client: openai.OpenAI) -> dict:
    conversation = client.conversations.create()
    first = client.responses.create(**ASK, conversation=conversation.id, input="The capital of France?")
    count = client.responses.input_tokens.count(model=MODEL, conversation=conversation.id, input="And of Italy?")
    # The helper for streams knows no end but `completed`, and this reply may be cut off.
    with client.responses.stream(**ASK, conversation={"id": conversation.id}, input="And of Italy?") as stream:
        second = list(stream)[-1].response
    third = client.responses.create(**ASK, conversation=conversation.id, input="Thanks.", background=True)
    while third.status in ("queued", "in_progress"):
        time.sleep(0.05)
        third = client.responses.retrieve(third.id)
    return {
        "turns": [item.role for item in client.conversations.items.list(conversation.id, order="asc")],
        "is_named": [each.conversation.id == conversation.id for each in (first, second, third)],
        "is_counted": count.input_tokens == second.usage.input_tokens,
        "is_cached": second.usage.input_tokens_details.cached_tokens >= first.usage.total_tokens - 2,
    }


async def ask_at_once() -> dict:
    """Six answers at the same time are six whole turns."""
    async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as client:
        conversation = await client.conversations.create()
        answers = await asyncio.gather(
            *(client.responses.create(**ASK, conversation=conversation.id, input=f"Say {n}.") for n in range(6))
        )
        items = [item async for item in client.conversations.items.list(conversation.id, order="asc")]
    told = {f"Say {n}.": answer.output[0].id for n, answer in enumerate(answers)}
    turns = {items[at].content[0].text: items[at + 1].id for at in range(0, len(items), 2)}
    return {"whole_turns": told == turns}


sync = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0)
print("REPORT", json.dumps({**make_and_delete(sync), **continue_one(sync), **asyncio.run(ask_at_once())}))
