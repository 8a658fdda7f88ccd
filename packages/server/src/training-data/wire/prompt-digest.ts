import { createHash } from 'node:crypto';

import type { WireTrajectory } from '@trainyard/protocol';

/**
 * Equal for trajectories with the same prompt: the messages before the first reply and the tools, as sent.
 * Null without a prompt.
 */
export function promptDigest({ messages_and_choices: items = [], tools }: WireTrajectory): string | null {
  const firstReply = items.findIndex((item) => isReply(item));
  const prompt = firstReply < 0 ? items : items.slice(0, firstReply);
  if (prompt.length === 0) return null;
  const text = JSON.stringify([prompt, tools ?? null], sorted);
  return createHash('sha256').update(text).digest('hex').slice(0, DIGEST_LENGTH);
}

/** 128 bits. */
const DIGEST_LENGTH = 32;

function isReply(item: unknown): boolean {
  if (typeof item !== 'object' || item === null) return false;
  return ('message' in item && typeof item.message === 'object') || ('role' in item && item.role === 'assistant');
}

/** Clients send the members of a message in any order. */
function sorted(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([first], [second]) => (first < second ? -1 : 1)));
}
