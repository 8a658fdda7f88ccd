import { didYouMean } from '@trainyard/protocol/fields';
import { type Trainyard, TrainyardApiError } from '@trainyard/sdk';

/**
 * Detects a field that chats of a service do not have and that it would ignore silently; most are typos.
 *
 * @returns a message about the first such field; null without one, or if the service does not report its
 *   fields
 */
export async function unknownFieldOf(client: Trainyard, names: readonly string[]): Promise<string | null> {
  if (names.length === 0) return null;
  const known = await fieldsOf(client);
  const name = known.length === 0 ? undefined : names.find((one) => !known.includes(one));
  if (name === undefined) return null;
  return `unknown chat field ${name}${didYouMean(name, known)}; ${new URL('/docs', client.baseUrl).href} lists all fields`;
}

async function fieldsOf(client: Trainyard): Promise<string[]> {
  try {
    const { components } = await client.service.openApi();
    const request = components.schemas['ChatCompletionRequest'] as { properties?: object } | undefined;
    return Object.keys(request?.properties ?? {});
  } catch (error) {
    if (error instanceof TrainyardApiError) return []; // an older service, or a proxy that blocks the document
    throw error;
  }
}
