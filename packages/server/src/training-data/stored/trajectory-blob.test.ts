import { AssertionError } from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { FolderBlobs, JsonLine } from '@trainyard/store';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';
import { trajectoryGroupOf } from '../wire/trajectory-groups.ts';
import { readStoredGroup } from './stored-group.ts';
import { readTrajectoryGroups } from './trajectory-blob.ts';

let folder: string;
let blobs: FolderBlobs;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-groups-'));
  blobs = await FolderBlobs.open(folder);
});
afterAll(async () => {
  await blobs.close();
  await rm(folder, { recursive: true, force: true });
});

const OPTIONS = { keepsBareIds: false };
const store = (key: string, lines: readonly string[]) =>
  blobs.putJsonLines(
    key,
    lines.map((line) => new JsonLine(line)),
  );
const base64 = (array: Int32Array | Float32Array) =>
  Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');

const QUESTION = { role: 'user', content: [{ type: 'text', text: 'é😀' }] };
const CALL = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a": 1.0}' } };
const entry = (id: number) => ({ token: `token_id:${id}`, logprob: -id / 8, bytes: [id], top_logprobs: [] });
/** All that only users read back is among it: metrics, metadata, logs, exceptions, bytes of tokens. */
const GROUP = {
  trajectories: [
    {
      reward: 1,
      metrics: { length: 3 },
      metadata: { of: [null, true] },
      logs: ['line'],
      tools: [{ type: 'function', function: { name: 'f', parameters: { minimum: 0.5 } } }],
      chat_template_kwargs: { enable_thinking: false },
      messages_and_choices: [
        QUESTION,
        {
          finish_reason: 'tool_calls',
          index: 0,
          message: { role: 'assistant', content: null, tool_calls: [CALL] },
          logprobs: { content: [entry(4), entry(8)] },
          token_ids: [4, 8],
          prompt_token_ids: [1, 2],
        },
      ],
      additional_histories: [
        { messages_and_choices: [QUESTION, { role: 'assistant', content: 'x', logprobs: { content: [entry(3)] } }] },
      ],
    },
    { reward: true, messages_and_choices: [] },
  ],
  exceptions: [{ type: 'E', message: 'm', traceback: 't' }],
  metadata: { scenario: 'one' },
  logs: [],
};

test('a submitted group is stored and given back byte by byte, and trained as the rules read it', async () => {
  const server = await TestServer.start();
  try {
    const body = { model_id: await server.makeModel('agent'), trajectory_groups: [GROUP] };
    const answer = await server.request('POST', '/v1/preview/training-jobs', body);
    expect(answer.statusCode, answer.body).toBe(200);
    const { id } = answer.json<{ id: string }>();
    const key = `groups/${id}`;
    expect(await text(await server.blobs.openJsonLines(key))).toBe(`${JSON.stringify(GROUP)}\n`);
    const told = await server.request('GET', `/v1/preview/trajectories/${id}.0.0`);
    const { trajectories, ...rest } = GROUP;
    expect(told.body).toContain(`"content":${JSON.stringify(trajectories[0])},"group_content":${JSON.stringify(rest)}`);
    const [trained] = await readTrajectoryGroups(server.blobs, key, OPTIONS);
    expect(trained).toEqual(trajectoryGroupOf(GROUP as unknown as WireTrajectoryGroup, 0, { vocabSize: 100 }));
  } finally {
    await server.close();
  }
});

test('a job that an earlier release stored is read: records with whole prompts or none, before groups', async () => {
  const reply = (record: string, more: object = {}) => ({
    finish_reason: 'stop',
    index: 0,
    message: { role: 'assistant', content: 'x' },
    record_id: record,
    ...more,
  });
  const group = {
    trajectories: [
      {
        reward: 0.5,
        messages_and_choices: [QUESTION, reply('r-0'), reply('r-1', { logprobs: { content: [entry(6)] } })],
      },
    ],
  };
  const record = {
    choice_record: 'r-0',
    prompt_token_ids: base64(Int32Array.of(1, 2)),
    token_ids: base64(Int32Array.of(5)),
    logprobs: base64(Float32Array.of(-0.5)),
  };
  await store('groups/old', [
    JSON.stringify(record),
    '{"choice_record":"r-1","is_plain":true}',
    JSON.stringify(group),
    '{"trajectories":[],"exceptions":[{"type":"E","message":"m"}]}',
  ]);
  const [first, second] = await readTrajectoryGroups(blobs, 'groups/old', OPTIONS);
  const [, recorded, plain] = first!.trajectories[0]!.histories[0]!.items;
  expect(recorded).toMatchObject({
    kind: 'choice',
    recordId: 'r-0',
    promptTokenIds: Int32Array.of(1, 2),
    tokenIds: Int32Array.of(5),
    logprobs: Float32Array.of(-0.5),
    isRecordLost: true,
  });
  expect(plain).toMatchObject({ kind: 'choice', tokenIds: Int32Array.of(6), sampling: null });
  expect(plain).not.toHaveProperty('promptTokenIds');
  expect(second).toEqual({ trajectories: [], numExceptions: 1 });
  expect(await readStoredGroup(blobs, 'groups/old', 0)).toEqual(group);
});

test.each([
  ['no group', '{"groups":[]}', /`trajectories` is no list/],
  ['an item of another shape', '{"trajectories":[{"reward":1,"messages_and_choices":[5]}]}', /message or a choice/],
  [
    'token ids of another shape',
    '{"trajectories":[{"reward":1,"messages_and_choices":[{"role":"assistant","content":"x","token_ids":["4"],"logprobs":{"content":[{"logprob":-1}]}}]}]}',
    /token_ids\.0: Input should be a token id/,
  ],
  [
    'a log-probability above 0',
    '{"trajectories":[{"reward":1,"messages_and_choices":[{"role":"assistant","content":"x","token_ids":[4],"logprobs":{"content":[{"logprob":1}]}}]}]}',
    /logprob: Input should be a finite natural logarithm/,
  ],
])('%s ends the job with an internal error that names the group and its blob', async (_what, line, reason) => {
  await store('groups/damaged', ['{"trajectories":[]}', line]);
  const reading = readTrajectoryGroups(blobs, 'groups/damaged', OPTIONS);
  await expect(reading).rejects.toBeInstanceOf(AssertionError);
  await expect(reading).rejects.toThrow(/^group 1 of groups\/damaged is not as it was checked at its submission: /);
  await expect(reading).rejects.toThrow(reason);
});
