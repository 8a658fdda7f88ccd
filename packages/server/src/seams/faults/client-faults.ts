import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';

import { closeInOrder } from './early-answers.ts';
import { toErrorAnswer } from './http-faults.ts';
import { RequestError } from './request-error.ts';

// An import would load undici too (docs/traps.md).
const { maxHeaderSize, STATUS_CODES } = process.getBuiltinModule('node:http');

const refused = new WeakSet<Socket>();

/**
 * Answers bytes that are not a valid HTTP request (Node's `clientError`), in the shape of every error, then
 * ends the connection.
 */
export function answerClientFault(error: NodeJS.ErrnoException, socket: Socket): void {
  if (refused.has(socket)) return;
  const response = (socket as { _httpMessage?: { headersSent: boolean } })._httpMessage;
  if (error.code === 'ECONNRESET' || !socket.writable || response?.headersSent === true) {
    socket.destroy();
    return;
  }
  refused.add(socket);
  // The request matched no route.
  const { status, body, headers } = toErrorAnswer(faultOf(error.code ?? ''), undefined);
  const text = JSON.stringify(body);
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Connection: close',
    `X-Request-Id: ${randomUUID().replaceAll('-', '')}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${text}`);
  // Without another listener Node's parser keeps the bytes.
  socket.on('data', () => undefined);
  closeInOrder(socket);
}

function faultOf(code: string): RequestError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new RequestError(
        'request.headers_too_large',
        `The path and the headers exceed ${maxHeaderSize} bytes in total`,
      );
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new RequestError('request.body_too_large', 'The chunk extensions are too large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RequestError('request.timeout', 'The request timed out before it was fully received');
    default:
      return new RequestError('request.malformed', 'Malformed HTTP/1.1 request');
  }
}
