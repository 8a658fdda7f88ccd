"""An environment of the library `verifiers`: three words are to be written in reverse order."""

from difflib import SequenceMatcher

import verifiers.v1 as vf
from openai import AsyncOpenAI

__all__ = ["ReverseWordsHarness", "ReverseWordsTaskset"]

WORDS = [
    ("apple", "river", "stone"),
    ("green", "paper", "house"),
    ("music", "table", "cloud"),
    ("horse", "light", "bread"),
    ("water", "chair", "plant"),
    ("smile", "train", "glass"),
    ("night", "field", "brush"),
    ("dream", "floor", "sugar"),
]


class ReverseWordsData(vf.TaskData):
    answer: str


class ReverseWordsTask(vf.Task[ReverseWordsData]):
    @vf.reward
    async def in_order(self, trace: vf.Trace) -> float:
        """Similarity of reply and answer, word by word: 0 to 1."""
        reply = next((node.message.content for node in reversed(trace.nodes) if node.sampled), None)
        words = (reply or "").lower().replace(",", " ").replace(".", " ").split()
        return SequenceMatcher(a=words, b=self.data.answer.split(), autojunk=False).ratio()


class ReverseWordsTaskset(vf.Taskset[ReverseWordsTask, vf.TasksetConfig]):
    def load(self) -> list[ReverseWordsTask]:
        return [
            ReverseWordsTask(
                ReverseWordsData(
                    prompt=f"Write these words in reverse order, nothing else: {' '.join(words)}",
                    answer=" ".join(reversed(words)),
                )
            )
            for words in WORDS
        ]


class ReverseWordsHarness(vf.Harness[vf.HarnessConfig]):
    """One question and one reply, asked from this process. The harnesses of the library start a program for each rollout."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> vf.ProgramResult:
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            messages = [{"role": "user", "content": data.prompt}]
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
