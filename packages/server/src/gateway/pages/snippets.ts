/**
 * The client, and its undeclared requirements: it was written for openai 2 and polars 1, and imports the
 * others.
 */
const ART_REQUIREMENTS = ['openpipe-art==0.5.23', 'openai<3', 'polars<2', 'wandb', 'pyarrow'] as const;

/**
 * An example: a block for a shell that runs unchanged, in an empty folder, with the key in TRAINYARD_API_KEY.
 */
export interface Snippet {
  readonly id: 'curl' | 'openai-node' | 'art';
  readonly title: string;
  readonly shell: string;
}

/**
 * Hello-world examples for three clients. Each answer is streamed and has a maximum length: a small model may
 * not stop by itself.
 * @param baseUrl ends in `/v1`
 */
export function connectSnippets({ baseUrl, modelId }: { baseUrl: string; modelId: string }): readonly Snippet[] {
  return [
    {
      id: 'curl',
      title: 'curl',
      shell: `curl -N ${baseUrl}/chat/completions \\
  -H "Authorization: Bearer $TRAINYARD_API_KEY" -H 'Content-Type: application/json' \\
  -d '{"model": "${modelId}", "messages": [{"role": "user", "content": "Hello"}],
       "max_tokens": 64, "temperature": 0, "stream": true}'
`,
    },
    {
      id: 'openai-node',
      title: 'openai (Node)',
      shell: `npm install openai
cat > hello.mjs <<'END'
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: '${baseUrl}', apiKey: process.env.TRAINYARD_API_KEY });
const stream = await client.chat.completions.create({
  model: '${modelId}',
  messages: [{ role: 'user', content: 'Hello' }],
  max_tokens: 64,
  temperature: 0,
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '');
console.log();
END
node hello.mjs
`,
    },
    {
      id: 'art',
      title: 'ART (Python 3.12 or newer)',
      shell: `python3 -m venv art
art/bin/pip install --quiet ${ART_REQUIREMENTS.map((requirement) => `'${requirement}'`).join(' ')}
cat > first_steps.py <<'END'
import asyncio
import os

import art
from art.serverless.backend import ServerlessBackend


async def rollout(model: art.TrainableModel) -> art.Trajectory:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    completion = await model.openai_client().chat.completions.create(
        model=model.get_inference_name(), messages=messages, max_tokens=32
    )
    choice = completion.choices[0]
    # The shorter the answer, the better.
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=-len(choice.message.content) / 100)


async def main() -> None:
    backend = ServerlessBackend(api_key=os.environ["TRAINYARD_API_KEY"], base_url="${baseUrl}")
    model = art.TrainableModel(
        name="first", run_name="first", project="demo", base_model="${modelId}"
    )
    await model.register(backend)
    groups = await art.gather_trajectory_groups([art.TrajectoryGroup(rollout(model) for _ in range(8))])
    result = await backend.train(model, groups, learning_rate=1e-4)
    print(f"step {result.step} is served as {model.get_inference_name()}")


asyncio.run(main())
END
art/bin/python first_steps.py
`,
    },
  ];
}
