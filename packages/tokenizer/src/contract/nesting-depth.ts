import { TokenizerError } from './tokenizer-error.ts';

// JSON schemas of tools have about 20 levels; walking a value takes stack per level.
const MAX_DEPTH = 128;

/** @throws {TokenizerError} `tokenizer.unsupported_content` for arrays, objects and Maps nested too deep */
export function checkNestingDepth(value: unknown): void {
  if (isContainer(value)) checkMembers(value, 1);
}

/** Uses loops: a conversation may have millions of members. @param depth of the members */
function checkMembers(container: object, depth: number): void {
  if (Array.isArray(container)) for (const item of container as readonly unknown[]) checkMember(item, depth);
  else if (container instanceof Map)
    for (const member of (container as Map<string, unknown>).values()) checkMember(member, depth);
  else for (const name in container) checkMember(container[name as keyof typeof container], depth);
}

function checkMember(member: unknown, depth: number): void {
  if (depth > MAX_DEPTH) {
    const message = `messages, tools and template variables may be nested ${MAX_DEPTH} levels deep`;
    throw new TokenizerError('tokenizer.unsupported_content', message);
  }
  if (isContainer(member)) checkMembers(member, depth + 1);
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
