import { createHash } from 'node:crypto';

import { arrangeTurns, ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';

import type { Comparison, Conversation, Pairs, TemplateCase } from './pairs.ts';

/** Bytes, with the special tokens of the model used over HTTP. */
class Vocabulary extends ByteVocabulary {
  override readonly bosTokenId = this.idOf('<|im_start|>');
}

const CLOCK = () => new Date(2026, 2, 4, 12);
const tokenizer = new Tokenizer(new Vocabulary({ contextLength: 1_000_000 }), { maxTextBytes: 2_000_000 });

/** Renders every pair with the engine of this service, like models' own templates. */
export function compareInProcess({ templates, conversations }: Pairs): Comparison {
  const faults: { template: string; conversation: string; fault: string }[] = [];
  const numOf = { equal: 0, 'refused by both': 0, 'described by this service': 0, 'arranged by this service': 0 };
  for (const template of templates) {
    for (const [index, conversation] of conversations.entries()) {
      const verdict = verdictOf(template, conversation, template.digests[index]!);
      if (verdict in numOf) numOf[verdict as keyof typeof numOf] += 1;
      else faults.push({ template: template.name, conversation: conversation.name, fault: verdict });
    }
  }
  const parts = Object.entries(numOf).map(([name, number]) => `${number} ${name}`);
  const numTemplates = new Set(faults.map(({ template }) => template)).size;
  return { counts: `${parts.join(', ')}, ${faults.length} other (${numTemplates} templates)`, faults };
}

/** The template with a vocabulary of bytes; null for an invalid one. */
export function templateOf({ source }: TemplateCase): ChatTemplate | null {
  try {
    return new ChatTemplate(tokenizer, source, { clock: CLOCK });
  } catch {
    return null;
  }
}

/** True if the service describes tools and writes calls itself, because the template has none. */
export function isDescribed(template: ChatTemplate, { messages, options }: Conversation): boolean {
  const needsTools = Boolean(options.tools?.length) || messages.some((message) => Array.isArray(message['tool_calls']));
  return needsTools && !template.toolSupport.writesTools;
}

/** True if the service rewrites the turns, because the template would lose, move or refuse some. */
export function isArranged(template: ChatTemplate, { messages }: Conversation): boolean {
  return arrangeTurns(messages, template) !== messages;
}

export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

const compiled = new Map<TemplateCase, ChatTemplate | null>();

function verdictOf(own: TemplateCase, conversation: Conversation, expected: string | null): string {
  if (!compiled.has(own)) compiled.set(own, templateOf(own));
  const template = compiled.get(own);
  if (!template) return expected === null ? 'refused by both' : 'no template';
  if (isDescribed(template, conversation)) return 'described by this service';
  try {
    const { text } = template.render(conversation.messages, conversation.options);
    if (digestOf(text) !== expected && isArranged(template, conversation)) return 'arranged by this service';
    if (expected === null) return `Python refuses it, this service writes ${JSON.stringify(text.slice(-100))}`;
    return digestOf(text) === expected ? 'equal' : `other text: …${JSON.stringify(text.slice(-100))}`;
  } catch (error) {
    return expected === null ? 'refused by both' : (error as Error).message;
  }
}
