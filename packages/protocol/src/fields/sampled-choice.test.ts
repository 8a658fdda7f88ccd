import { expect, test } from 'vitest';

import { isSampledChoice, promptLength } from './sampled-choice.ts';

const user = (content: string) => ({ role: 'user', content });
const example = { role: 'assistant', content: 'example' };
const sampled = { finish_reason: 'stop', token_ids: [5], message: { role: 'assistant', content: '4' } };

test.each([
  ['a record', { ...example, record_id: 'r' }],
  ['token ids', { ...example, token_ids: [1] }],
  ['log-probabilities', { ...example, logprobs: { content: [{ token: 'token_id:5', logprob: -1 }] } }],
  ['log-probabilities of a refusal', { ...example, logprobs: { content: null, refusal: [{ logprob: -1 }] } }],
])('a reply with %s is sampled', (_, item) => expect(isSampledChoice(item)).toBe(true));

test.each([
  [example],
  [{ ...example, token_ids: [], logprobs: { content: [] }, record_id: '' }],
  [{ ...example, logprobs: null, token_ids: null, record_id: null }],
  [{ role: 'user', token_ids: [1] }],
  [{ finish_reason: 'stop', message: { role: 'assistant', content: 'x' } }],
  [null],
  ['text'],
])('%j is not sampled', (item) => expect(isSampledChoice(item)).toBe(false));

test.each([
  ['examples belong to the prompt', [user('1'), example, user('2'), sampled, user('3'), sampled], 3],
  [
    'without tokens it ends before the first choice',
    [user('1'), example, user('2'), { message: example }, user('3')],
    3,
  ],
  ['of plain messages it ends before the last reply', [user('1'), example, user('2'), example, user('3')], 3],
  ['without a reply it is everything', [user('1'), user('2')], 2],
  ['a reply without a prompt', [sampled, user('1')], 0],
  ['nothing', [], 0],
])('the prompt: %s', (_, items, length) => expect(promptLength(items)).toBe(length));
