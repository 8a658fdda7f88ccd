/**
 * A server of OpenAI's chat completions that answers at once: `word word …`, one chunk per byte, up to
 * `max_tokens`. It reads the body without checks. Prints `URL <…>/v1` and ends with its standard input.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const REPLY = 'word ';
const MODEL = 'instant';

const server = createServer((request, response) => void answer(request, response));
server.listen(0, '127.0.0.1', () => {
  console.log(`URL http://127.0.0.1:${(server.address() as AddressInfo).port}/v1\nKEY none`);
});
process.stdin.resume().once('end', () => process.exit(0));

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'POST') {
    // Proxies request the models and the health.
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}');
    return;
  }
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const body = JSON.parse(Buffer.concat(parts).toString()) as { max_tokens?: number; stream?: boolean };
  if (body.stream !== true) {
    response.writeHead(400).end();
    return;
  }
  const numTokens = body.max_tokens ?? 1;
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  const send = (delta: object, finishReason: string | null) => {
    const chunk = {
      id: 'chatcmpl-stub',
      object: 'chat.completion.chunk',
      created: 1_700_000_000,
      model: MODEL,
      choices: [{ index: 0, delta, finish_reason: finishReason }],
    };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  send({ role: 'assistant', content: '' }, null);
  for (let at = 0; at < numTokens; at++) send({ content: REPLY[at % REPLY.length] }, null);
  send({}, 'length');
  response.end('data: [DONE]\n\n');
}
