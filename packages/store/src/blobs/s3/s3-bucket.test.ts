import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { expect, onTestFinished, test } from 'vitest';

import { type BucketRequest, S3Bucket } from './s3-bucket.ts';

test('each request is reported once, its repeats included, with the bytes of both bodies', async () => {
  const answers = [503, 200, 200, 404, 403];
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      const status = answers.shift() ?? 200;
      response.writeHead(status, { 'content-length': status === 200 ? 4 : 0 }).end(status === 200 ? 'body' : '');
    });
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const seen: BucketRequest[] = [];
  const bucket = new S3Bucket({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/bucket`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
    onRequest: (request) => seen.push(request),
  });
  await bucket.put('one', Buffer.from('bytes'));
  expect(String(await bucket.get('one'))).toBe('body');
  expect(await bucket.get('none')).toBeNull();
  await expect(bucket.get('mine')).rejects.toMatchObject({ code: 'store.unavailable' });
  expect(seen).toEqual([
    { method: 'PUT', outcome: '503', isRetry: false, bytesSent: 5, bytesReceived: 0 },
    { method: 'PUT', outcome: 'ok', isRetry: true, bytesSent: 5, bytesReceived: 4 },
    { method: 'GET', outcome: 'ok', isRetry: false, bytesSent: 0, bytesReceived: 4 },
    { method: 'GET', outcome: 'ok', isRetry: false, bytesSent: 0, bytesReceived: 0 },
    { method: 'GET', outcome: '403', isRetry: false, bytesSent: 0, bytesReceived: 0 },
  ]);
});
