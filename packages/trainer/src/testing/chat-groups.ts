import { ChatTemplate, Tokenizer, type HistoryItem } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import type { Trajectory, TrajectoryGroup } from '../rollouts/trajectory.ts';

const CHATML =
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const vocabulary = new ByteVocabulary();

/** One token per byte (ids 0–255) and three control tokens. */
export const byteTemplate = new ChatTemplate(new Tokenizer(vocabulary), CHATML);

export const END_TOKEN = vocabulary.idOf('<|im_end|>');

export function message(role: string, content: string): HistoryItem {
  return { kind: 'message', message: { role, content } };
}

/** Includes the end token; all tokens have the same `logprob`. */
export function choice(content: string, logprob = -1): HistoryItem {
  const tokenIds = Int32Array.of(...Buffer.from(content), END_TOKEN);
  return {
    kind: 'choice',
    message: { role: 'assistant', content },
    tokenIds,
    logprobs: new Float32Array(tokenIds.length).fill(logprob),
  };
}

export function answer(reward: number, content: string, question = 'hi'): Trajectory {
  return { reward, histories: [{ items: [message('user', question), choice(content)], tools: null }] };
}

export function group(...trajectories: Trajectory[]): TrajectoryGroup {
  return { trajectories, numExceptions: 0 };
}

/** The second answer was sampled after a first one without its trailing blanks, so it is a separate history. */
export function twoTurns(reward: number, contents: readonly [string, string], question = 'hi'): Trajectory {
  const [first, second] = contents;
  const begin = [
    message('user', question),
    { ...choice(first), message: { role: 'assistant', content: first.trim() } },
  ];
  const before = [...begin, message('user', 'and?')];
  const promptTokenIds = byteTemplate.render(before.map((item) => item.message)).tokenIds;
  const answered = { ...choice(second), promptTokenIds } as HistoryItem;
  return { reward, histories: [{ items: [...before, answered], tools: null }] };
}
