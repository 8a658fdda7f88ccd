import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Transform } from 'node:stream';

/** Text that the service writes into silent streams. */
const COMMENT = ': keep-alive\n\n';

/**
 * A proxy for a service that adds a comment before each event of a stream; clients must skip it in any
 * position.
 * @param url of the service, ends in `/v1`
 * @returns its own URL, and the number of added comments
 */
export async function commentedStreams(
  url: string,
): Promise<{ readonly url: string; numComments(): number; close(): void }> {
  const { hostname, port } = new URL(url);
  let numComments = 0;
  const commented = () => {
    let endsEvent = true;
    return new Transform({
      transform(piece: Buffer, _encoding, done) {
        // Latin-1 maps each byte to a character, so split characters stay intact.
        const text = piece.toString('latin1');
        const parts = text.split(/(?<=\n\n)/);
        const out = parts.map((part, at) => {
          if (at > 0 || endsEvent) numComments += 1;
          return at > 0 || endsEvent ? COMMENT + part : part;
        });
        endsEvent = text.endsWith('\n\n');
        done(null, Buffer.from(out.join(''), 'latin1'));
      },
    });
  };
  const server = createServer((asked, answer) => {
    const { method, headers, url: path } = asked;
    const toService = send({ hostname, port, path, method, headers }, (response) => {
      answer.writeHead(response.statusCode!, response.headers);
      const isStream = response.headers['content-type']?.startsWith('text/event-stream') === true;
      if (isStream) response.pipe(commented()).pipe(answer);
      else response.pipe(answer);
    });
    toService.on('error', () => answer.destroy());
    answer.on('close', () => toService.destroy());
    asked.pipe(toService);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    numComments: () => numComments,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
