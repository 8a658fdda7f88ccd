import type { ChatTemplate, TemplateMessage } from '@trainyard/tokenizer';

import { templateOf } from './in-process.ts';
import type { Comparison, Pairs } from './pairs.ts';

/** Outcome of a turn in a template's text. The worst of several conversations counts. */
const FATES = ['refused', 'dropped', 'moved', 'rewrites earlier turns', 'kept'] as const;
type Fate = (typeof FATES)[number];

const MARKS = ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth', 'ninth'].map(
  (name) => `qzq${name}qzq`,
);
const CALL = { id: 'call00001', type: 'function', function: { name: 'look', arguments: '{"q": "x"}' } };
const TOOL = {
  type: 'function',
  function: {
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object', properties: { q: { type: 'string', description: 'Text' } }, required: ['q'] },
  },
};

/** A turn in a conversation, at `at`; the text after a call may be omitted. */
interface Trial {
  readonly roles: readonly string[];
  readonly at: number;
}
const trial = (before: string, tried: string, after = ''): Trial => {
  const roles = before.split(' ').filter(Boolean);
  return { roles: [...roles, tried, ...after.split(' ').filter(Boolean)], at: roles.length };
};

/** Trials by name: the turn in the places in which agents send it. */
const TRIALS: Readonly<Record<string, readonly Trial[]>> = Object.fromEntries([
  ...['system', 'developer'].map((role): [string, Trial[]] => [
    `${role} in mid-conversation`,
    [
      trial('user', role),
      trial('user assistant user', role),
      trial('user assistant', role, 'user'),
      trial('user', role, 'assistant user'),
      trial('user call tool', role),
    ],
  ]),
  ['two turns of the user', [trial('user', 'user'), trial('user assistant user', 'user')]],
  [
    'the user after a result of a tool',
    ['', 'system '].flatMap((first) => [
      trial(`${first}user call tool`, 'user'),
      trial(`${first}user call tool`, 'user', 'assistant user'),
      trial(`${first}user call tool assistant user call tool`, 'user'),
    ]),
  ],
  ['two turns of the assistant', [trial('user assistant', 'assistant', 'user')]],
]);

/** A user's turn may rewrite those before it: templates omit the reasoning of earlier turns. */
const MAY_REWRITE = 'the user after a result of a tool';

/**
 * Counts the outcomes of turns in rare places: with the template only, for the messages as sent, and with
 * this service, which must lose none. Omits templates that do not render the conversation without that turn.
 */
export function countTurns({ templates }: Pairs): Comparison {
  const faults: { template: string; conversation: string; fault: string }[] = [];
  const rows: string[] = [];
  for (const [name, trials] of Object.entries(TRIALS)) {
    const numAlone = new Map<Fate, number>();
    const numHere = new Map<Fate, number>();
    for (const one of templates) {
      const template = templateOf(one);
      const usable =
        template === null ? [] : trials.filter((each) => fateOf(template, without(each), renderHere) === 'kept');
      if (template === null || usable.length === 0) continue;
      // A template without tools renders no tool result, in any position.
      const own = usable.filter((each) => fateOf(template, without(each), renderAlone) === 'kept');
      const alone = worst(own.map((each) => fateOf(template, each, renderAlone)));
      const here = worst(usable.map((each) => fateOf(template, each, renderHere)));
      if (own.length > 0) numAlone.set(alone, (numAlone.get(alone) ?? 0) + 1);
      numHere.set(here, (numHere.get(here) ?? 0) + 1);
      const isExpected = here === 'kept' || (name === MAY_REWRITE && here === 'rewrites earlier turns');
      if (!isExpected) faults.push({ template: one.name, conversation: name, fault: here });
    }
    rows.push(
      `${name}: template alone (${sum(numAlone)} templates) ${listed(numAlone)}; here (${sum(numHere)}) ${listed(numHere)}`,
    );
  }
  const usable = templates.map(templateOf).filter((template) => template !== null);
  const numKept = usable.filter(({ turnSupport }) => turnSupport.keepsLater.system).length;
  rows.push(
    `${numKept} of ${usable.length} templates keep a later system message; for the others its text goes into a turn`,
  );
  return { counts: `\n  ${rows.join('\n  ')}`, faults };
}

type Render = (
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  tools: readonly unknown[] | null,
) => string;

const renderHere: Render = (template, messages, tools) => template.render(messages, { tools }).text;

/** The messages as sent, without any rule of this service. */
const renderAlone: Render = (template, messages, tools) =>
  template.run({
    messages: messages.map(({ content, ...message }) => ({
      ...message,
      content:
        template.contentFormat === 'parts' && message.role !== 'tool' ? [{ type: 'text', text: content }] : content,
      ...(message['tool_calls']
        ? { tool_calls: [{ ...CALL, function: { name: 'look', arguments: { q: 'x' } } }] }
        : {}),
    })),
    tools,
    documents: null,
    add_generation_prompt: true,
    bos_token: '',
    eos_token: '',
  });

function without({ roles, at }: Trial): Trial {
  return { roles: roles.toSpliced(at, 1), at: -1 };
}

function fateOf(template: ChatTemplate, { roles, at }: Trial, render: Render): Fate {
  const messages = roles.map((role, index): TemplateMessage =>
    role === 'call'
      ? { role: 'assistant', content: null, tool_calls: [CALL] }
      : { role, content: MARKS[index] ?? '', ...(role === 'tool' ? { tool_call_id: CALL.id, name: 'look' } : {}) },
  );
  const tools = roles.includes('call') ? [TOOL] : null;
  try {
    const text = render(template, messages, tools);
    const marks = MARKS.filter((_, index) => roles[index] !== undefined && roles[index] !== 'call');
    const places = marks.map((mark) => text.indexOf(mark));
    if (places.includes(-1)) return 'dropped';
    if (places.some((place, index) => place < (places[index - 1] ?? 0))) return 'moved';
    if (at <= 0) return 'kept';
    const before = MARKS[roles[at - 1] === 'call' ? at - 2 : at - 1] ?? '';
    const end = text.indexOf(before) + before.length;
    // Later turns may rewrite earlier ones, like a user's turn in templates that omit the reasoning before
    // it.
    const others = [messages.toSpliced(at, 1), messages.slice(0, at)];
    return others.some((other) => render(template, other, tools).slice(0, end) === text.slice(0, end))
      ? 'kept'
      : 'rewrites earlier turns';
  } catch {
    return 'refused';
  }
}

function worst(fates: readonly Fate[]): Fate {
  return FATES.find((fate) => fates.includes(fate)) ?? 'kept';
}

function sum(counts: ReadonlyMap<Fate, number>): number {
  return [...counts.values()].reduce((all, count) => all + count, 0);
}

function listed(counts: ReadonlyMap<Fate, number>): string {
  return FATES.flatMap((fate) => (counts.has(fate) ? [`${counts.get(fate)} ${fate}`] : [])).join(', ');
}
