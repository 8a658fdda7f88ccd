import { expect, test } from 'vitest';

import { toLogLine } from './log-line.ts';
import { TestServer } from '../../testing/test-server.ts';

test('control characters are written as their numbers', () => {
  expect(toLogLine('a\u001b[31mred\u0007\r\u0000\u009b\u202eb\tc')).toBe(
    'a\\x1b[31mred\\x07\\x0d\\x00\\x9b\\u202eb\tc',
  );
  expect(toLogLine('é 日本 😀')).toBe('é 日本 😀');
});

test('a text of several lines is one entry, however often it is written', () => {
  const line = toLogLine('failed: x\ntrainyard: forged entry\n    at stack');
  expect(line).toBe('failed: x\n    trainyard: forged entry\n    at stack');
  expect(toLogLine(line)).toBe(line);
});

test('a request cannot write into the log as it likes', async () => {
  const server = await TestServer.start();
  const forged = '\u001b[2J\r\nforged: all is well';
  server.inference.script = () => {
    throw new Error(`cannot render ${forged}`);
  };
  expect((await server.chat()).statusCode).toBe(500);
  const written = server.logged.join('\n');
  expect(written).toContain('\\x1b[2J\\x0d\n    forged: all is well');
  expect(written).not.toContain('\u001b');
  await server.close();
});
