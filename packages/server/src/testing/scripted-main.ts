/**
 * A service in its own process whose model plays one part, for clients in any language:
 *
 *   node --conditions=@trainyard/source packages/server/src/testing/scripted-main.ts
 *
 * It listens on a free loopback port, prints `URL <…>/v1` and `KEY <…>`, and ends with its standard input.
 * Everything between HTTP and the logits is real. The reply depends only on the prompt:
 *
 * | last message | reply |
 * |---|---|
 * | a tool's result | a thought, and the results of all tools since the last user message |
 * | of a user, with `weather` and cities in it, with a tool `weather` | a thought, a text, and a call for each city |
 * | also with `quietly` in it | only the calls |
 * | with `json` in it | a thought and `{"city": "Zürich", "degrees": 21}` |
 * | with `essay` in it | text without an end |
 * | any other | a thought and a greeting |
 *
 * With `--part agent` it plays a coding agent instead (`scripted-agent.ts`), with a context of 400,000
 * tokens, one per byte. With `--dashboard FOLDER` it serves the built dashboard of that folder, and a model
 * to look at; with `--rollouts N` a second one with that many rollouts.
 *
 * Without thinking (`enable_thinking: false`) thoughts are omitted. `GET /stats` returns the engine's state,
 * `GET /played` the POST requests, and the number of conversation summaries, since the last query.
 */
import { parseArgs } from 'node:util';

import { readDashboard } from '../gateway/pages/dashboard-files.ts';
import { fillDashboard } from './dashboard-sample.ts';
import { agentReply } from './scripted-agent.ts';
import { ScriptedEngineInference } from './scripted-engine.ts';
import { TestServer } from './test-server.ts';

const { values } = parseArgs({
  options: { dashboard: { type: 'string' }, rollouts: { type: 'string', default: '0' }, part: { type: 'string' } },
});
const isAgent = values.part === 'agent';
const contextLength = isAgent ? 400_000 : 8192;
const inference = await ScriptedEngineInference.open({ template: 'thinking', contextLength });
inference.model.setReply((prompt) => {
  const reply = isAgent ? agentReply(prompt) : replyTo(prompt);
  if (reply.startsWith('<summary>')) numSummaries += 1;
  return reply;
});
const dashboard = values.dashboard === undefined ? null : await readDashboard(values.dashboard, 'npm run demo');
const server = await TestServer.startOn(inference, {}, null, { dashboard });
/** Since the last query. */
let requests: { readonly path: string; readonly status: number; readonly refusal: unknown }[] = [];
let numSummaries = 0;
const refusals = new WeakMap<object, unknown>();
server.app.addHook('onSend', async (request, { statusCode: status }, payload) => {
  if (status >= 400) refusals.set(request, payload);
});
server.app.addHook('onResponse', async (request, { statusCode: status }) => {
  const { method, url: path } = request;
  if (method === 'POST') requests.push({ path, status, refusal: refusals.get(request) ?? null });
});
server.app.get('/played', { config: { scope: 'public' } }, () => {
  const played = { requests, numSummaries };
  [requests, numSummaries] = [[], 0];
  return played;
});
server.app.get('/stats', { config: { scope: 'public' } }, () => inference.stats());
const filled = dashboard === null ? null : await fillDashboard(server, { many: Number(values.rollouts) });
const url = await server.app.listen({ port: 0, host: '127.0.0.1' });
if (filled !== null) console.log(`MODEL ${filled.modelId}\nLARGE ${filled.largeId ?? '-'}`);
console.log(`URL ${url}/v1\nKEY ${server.key}`);

process.stdin.resume().once('end', () => void close());

async function close(): Promise<void> {
  await server.close();
  inference.close();
}

function replyTo(prompt: string): string {
  const messages = prompt.split('<|im_start|>').slice(1, -1).map(readMessage);
  const isThinking = !prompt.endsWith('</think>');
  const think = (thought: string) => (isThinking ? `<think>${thought}</think>` : '');
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  const question = messages[lastUser]?.text ?? '';
  const results = messages.slice(lastUser + 1).filter(({ role }) => role === 'tool');
  if (results.length > 0) return `${think('I was told.')}${results.map(({ text }) => text).join(', ')}`;
  const cities = ['Zürich', 'Rome'].filter((city) => question.includes(city));
  if (question.includes('weather') && prompt.includes('<tools>')) {
    const calls = cities.map(
      (city) => `<tool_call>\n{"name": "weather", "arguments": {"city": "${city}"}}\n</tool_call>`,
    );
    return question.includes('quietly') ? calls.join('\n') : `${think('I must look.')}I look.\n${calls.join('\n')}`;
  }
  if (question.includes('json')) return `${think('An object.')}{"city": "Zürich", "degrees": 21}`;
  if (question.includes('essay')) return 'On and on it goes. '.repeat(400);
  return `${think('Someone greets me.')}Hello to you.`;
}

function readMessage(turn: string): { role: string; text: string } {
  const [role = '', ...lines] = turn.split('\n');
  return { role, text: lines.join('\n').replace('<|im_end|>', '').trimEnd() };
}
