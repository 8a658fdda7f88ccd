/** Engines with a proxy: its answers instead of theirs, and paths without a connection. */
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';

import { DEFAULT_GENERATE, type EngineEvent } from '@trainyard/generation';
import { expect, onTestFinished, test } from 'vitest';

import { engineMember, MemberList, openEngines, openPort } from '../testing/behind-port.ts';
import { ScriptedInference } from '../testing/scripted-inference.ts';
import { askEngine } from './pool/ask-engine.ts';
import { ENGINE_PATHS } from './wire/engine-wire.ts';

const SECRET = 'a secret of this test that is long enough';

/** A proxy that passes on requests, or answers instead of the engine: all requests, or only hellos. */
async function proxy(isToHellos: boolean) {
  const state = { answers: null as number | null, to: 0 };
  const server = createServer((near, answer) => {
    if (state.answers !== null && (!isToHellos || near.url === ENGINE_PATHS.hello))
      return void answer.writeHead(state.answers).end('<html>Bad Gateway</html>');
    const { method, url, headers } = near;
    const far = httpRequest({ port: state.to, host: '127.0.0.1', method, path: url, headers }, (from) => {
      answer.writeHead(from.statusCode ?? 500, from.headers);
      from.pipe(answer);
    });
    near.pipe(far);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { state, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test.each([
  ['every request', 502],
  ['every request', 503],
  ['every request', 504],
  ['a hello', 502],
  ['a hello', 504],
] as const)(
  'a proxy that does not reach its engine, and answers %s by %i: requests go to another engine',
  async (to, status) => {
    const between = await proxy(to === 'a hello');
    const [inference, other] = [new ScriptedInference(), new ScriptedInference()];
    const { port } = await openPort(inference, { url: between.url });
    const { port: otherPort, url: otherUrl } = await openPort(other);
    between.state.to = port.port;
    const lines: string[] = [];
    const engines = await openEngines(new MemberList([between.url, otherUrl].map((url) => engineMember(url))), {
      log: (line) => lines.push(line),
      times: { lookMs: 60_000, answerMs: 3_000, lostMs: 15_000 },
    });
    onTestFinished(async () => {
      await engines.close();
      await Promise.all([port.close(), otherPort.close()]);
    });
    // If the engine has forgotten the session, a hello starts a new one.
    if (to === 'a hello') {
      await port.close();
      const again = await openPort(inference, { url: between.url });
      onTestFinished(() => again.port.close());
      between.state.to = again.port.port;
    }
    between.state.answers = status;
    const ends: (EngineEvent | undefined)[] = [];
    for (let index = 0; index < 8; index++) {
      const text = `prompt ${index}`;
      const events: EngineEvent[] = [];
      const asked = engines.of('tiny/base').generate(
        {
          ...DEFAULT_GENERATE,
          requestId: 'r',
          tenant: 't',
          prompt: { kind: 'text', text, addSpecialTokens: false },
          adapter: null,
        },
        new AbortController().signal,
      );
      for await (const event of asked) events.push(event);
      ends.push(events.at(-1));
    }
    expect(ends.map((event) => event?.kind)).toEqual(ends.map(() => 'completed'));
    expect(lines.join('\n')).toContain(`${between.url} cannot be reached by its proxy (HTTP ${status})`);
  },
);

test('an https:// address without TLS is reported as such', async () => {
  const { port, url } = await openPort(new ScriptedInference());
  onTestFinished(() => port.close());
  expect(await askEngine(url.replace('http:', 'https:'), SECRET)).toContain('the server there does not speak TLS');
});
