import { ChatTemplate, Tokenizer, type HistoryItem } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import type { Trajectory, TrajectoryGroup } from '../rollouts/trajectory.ts';

const CHATML =
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const vocabulary = new ByteVocabulary();

/** ChatML over one token a byte (ids 0–255) and three control tokens. */
export const byteTemplate = new ChatTemplate(new Tokenizer(vocabulary), CHATML);

export const END_TOKEN = vocabulary.idOf('<|im_end|>');

export function message(role: string, content: string): HistoryItem {
  return { kind: 'message', message: { role, content } };
}

/** A sampled answer with its end token. `logprob` is that of every token. */
export function choice(content: string, logprob = -1): HistoryItem {
  const tokenIds = Int32Array.of(...Buffer.from(content), END_TOKEN);
  return {
    kind: 'choice',
    message: { role: 'assistant', content },
    tokenIds,
    logprobs: new Float32Array(tokenIds.length).fill(logprob),
  };
}

/** One question, one sampled answer. */
export function answer(reward: number, content: string, question = 'hi'): Trajectory {
  return { reward, histories: [{ items: [message('user', question), choice(content)], tools: null }] };
}

export function group(...trajectories: Trajectory[]): TrajectoryGroup {
  return { trajectories, numExceptions: 0 };
}
