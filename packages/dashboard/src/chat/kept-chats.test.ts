import { expect, test } from 'vitest';

import { NO_ANSWER } from './chat-session.ts';
import { KeptChats } from './kept-chats.ts';
import { EMPTY_REPLY } from './reply.ts';

function storage() {
  const items = new Map<string, string>();
  return {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, value: string) => void items.set(name, value),
  };
}

const token = { text: 'Hi', logprob: -1, bytes: [72, 105], alternatives: [] };
const chat = (id: string, words = 'Hi') => ({
  id,
  models: ['base'],
  system: '',
  exchanges: [
    {
      input: `Question ${id}`,
      answers: [{ ...NO_ANSWER, replies: [{ ...EMPTY_REPLY, content: words, tokens: [token] }] }],
    },
  ],
});

test('conversations are kept by key, the latest first, with their words but not their tokens', () => {
  const kept = storage();
  const chats = new KeptChats('key', kept);
  chats.put(chat('a'));
  chats.put(chat('b'));
  chats.put(chat('a', 'Hi again'));
  expect(chats.list().map(({ title }) => title)).toEqual(['Question a', 'Question b']);
  const [answer] = chats.get('a')!.exchanges[0]!.answers;
  const reply = { content: 'Hi again', tokens: [], finishReason: 'the page was left' };
  expect(answer).toMatchObject({ isStreaming: false, replies: [reply] });
  expect(new KeptChats('another key', kept).list()).toEqual([]);
});

test('the oldest conversations make room, and damaged ones are none', () => {
  const kept = storage();
  const chats = new KeptChats('key', kept);
  for (let index = 0; index < 40; index++) chats.put(chat(String(index), 'x'.repeat(200_000)));
  expect(chats.list().length).toBeLessThan(12);
  expect(chats.list()[0]!.id).toBe('39');
  kept.setItem('trainyard-chats-key', '{damaged');
  expect(chats.list()).toEqual([]);
});
