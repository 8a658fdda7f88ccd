import { ownService } from '../../scripts/own-service.ts';
import { digestOf, isArranged, isDescribed, templateOf } from './in-process.ts';
import type { Comparison, Conversation, Pairs } from './pairs.ts';

/** Conversations that a request can hold, every fifth, and those with the most difficult values or roles. */
const HARD = [
  'null as argument',
  'numbers as arguments',
  'argument names',
  'integer keys',
  'a large integer',
  'rich tools',
  'rich call',
  'non-ASCII',
  'calls in two turns',
  'parts',
  'control texts',
  'options of many',
];
const EVERY = 5;
const AT_ONCE = 4;

/** Sends templates and conversations to a service, and compares the text that it tokenises. */
export async function compareOverHttp({ templates, conversations }: Pairs): Promise<Comparison> {
  const chosen = [...conversations.entries()].filter(
    ([index, { name, messages }]) => messages.length > 0 && (index % EVERY === 0 || HARD.includes(name)),
  );
  const faults: { template: string; conversation: string; fault: string }[] = [];
  let numEqual = 0;
  let numRefused = 0;
  const service = await ownService();
  try {
    const work = templates
      // The service has its own clock.
      .filter(({ source }) => !source.includes('strftime_now'))
      .flatMap((template) => {
        const own = templateOf(template);
        return chosen
          .filter(
            ([, conversation]) => own === null || !(isDescribed(own, conversation) || isArranged(own, conversation)),
          )
          .map(([index, conversation]) => ({ template, conversation, expected: template.digests[index]! }));
      })
      .values();
    const one = async () => {
      for (const { template, conversation, expected } of work) {
        const rendered = await tokenized(service, template.source, conversation);
        const isEqual = typeof rendered === 'string' ? expected === digestOf(rendered) : expected === null;
        if (!isEqual) {
          const fault =
            typeof rendered === 'string' ? `other text: …${JSON.stringify(rendered.slice(-100))}` : rendered.reason;
          faults.push({ template: template.name, conversation: conversation.name, fault });
        } else if (typeof rendered === 'string') numEqual += 1;
        else numRefused += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
  } finally {
    await service.close();
  }
  return { counts: `${numEqual} equal, ${numRefused} refused by both, ${faults.length} other`, faults };
}

/** Text of a prompt's tokens, or the reason for their absence. */
async function tokenized(
  service: { url: string; apiKey: string },
  source: string,
  { requestText }: Conversation,
): Promise<string | { reason: string }> {
  const body = `${requestText.slice(0, -1)}, "chat_template": ${JSON.stringify(source)}}`;
  const response = await post(service, 'tokenize', body);
  if (!response.ok) return { reason: await response.text() };
  const { tokens } = (await response.json()) as { tokens: number[] };
  const back = await post(service, 'detokenize', JSON.stringify({ tokens }));
  return ((await back.json()) as { prompt: string }).prompt;
}

async function post({ url, apiKey }: { url: string; apiKey: string }, route: string, body: string): Promise<Response> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` };
  return await fetch(`${url}/${route}`, { method: 'POST', headers, body });
}
