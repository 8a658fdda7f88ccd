import { type Trainyard, TrainyardApiError } from '@trainyard/sdk';

/** A name that is as many letters away is not taken for a slip. */
const FARTHEST_SLIP = 3;

/**
 * Names a field that the chats of a service do not have, which it would pass over without a word: most of them are typed wrongly.
 *
 * @returns what to say of the first such field; null when there is none, and where the service does not tell its fields
 */
export async function unknownFieldOf(client: Trainyard, names: readonly string[]): Promise<string | null> {
  if (names.length === 0) return null;
  const known = await fieldsOf(client);
  const name = known.length === 0 ? undefined : names.find((one) => !known.includes(one));
  if (name === undefined) return null;
  const near = known
    .map((one) => ({ one, slips: slipsBetween(name, one) }))
    .toSorted((first, second) => first.slips - second.slips)[0]!;
  const hint = near.slips <= FARTHEST_SLIP ? ` (did you mean ${near.one}?)` : '';
  return `a chat has no field ${name}${hint}; ${new URL('/docs', client.baseUrl).href} has them all`;
}

async function fieldsOf(client: Trainyard): Promise<string[]> {
  try {
    const { components } = await client.service.openApi();
    const request = components.schemas['ChatCompletionRequest'] as { properties?: object } | undefined;
    return Object.keys(request?.properties ?? {});
  } catch (error) {
    if (error instanceof TrainyardApiError) return []; // an older service, or a proxy that lets through less
    throw error;
  }
}

/** Letters that are to be put in, taken out or changed (Levenshtein's distance). */
function slipsBetween(first: string, second: string): number {
  let before = Array.from({ length: second.length + 1 }, (_, index) => index);
  for (let row = 1; row <= first.length; row++) {
    const now = [row];
    for (let column = 1; column <= second.length; column++) {
      const changed = before[column - 1]! + (first[row - 1] === second[column - 1] ? 0 : 1);
      now.push(Math.min(changed, before[column]! + 1, now[column - 1]! + 1));
    }
    before = now;
  }
  return before[second.length]!;
}
