import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ErrorBody, ModelObject } from '@trainyard/protocol';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let teacherId: string;
beforeAll(async () => {
  server = await TestServer.start();
  const made = await register('teacher', { rank: 4, targets: ['v_proj', 'q_proj'] });
  teacherId = made.json<ModelObject>().id;
  await server.addCheckpoint(teacherId, 'a');
  await server.addCheckpoint(teacherId, 'b');
});
afterAll(() => server.close());

function register(name: string, lora: object | null, fields: object = {}) {
  return server.request('POST', '/v1/preview/models', {
    entity: null,
    project: 'demo',
    name,
    base_model: 'tiny/base',
    return_existing: true,
    lora,
    ...fields,
  });
}

test('the shape of the adapter is the one asked for, with the defaults filled in', async () => {
  const modules = { use_rslora: false, rank_pattern: {}, alpha_pattern: {} };
  const start = { dropout: 0, init_seed: 0, init_from: null };
  const lora = { rank: 4, alpha: 8, targets: ['q_proj', 'v_proj'], ...modules, ...start };
  expect((await register('teacher', null)).json<ModelObject>().lora).toEqual(lora);
  expect((await server.store.models.get(teacherId))?.lora).toEqual({
    rank: 4,
    alpha: 8,
    targets: ['q', 'v'],
    initSeed: 0,
  });
  const whole = { rank: 16, alpha: 16, targets: null, dropout: 0, init_seed: 7 };
  expect((await register('whole', whole)).json<ModelObject>().lora).toMatchObject({
    rank: 16,
    alpha: 16,
    init_seed: 7,
    targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
  });
});

test.each([
  [{ rank: 0 }, 'lora.rank'],
  [{ rank: 257 }, 'lora.rank'],
  [{ rank: 2.5 }, 'lora.rank'],
  [{ alpha: 0 }, 'lora.alpha'],
  [{ alpha: 1e-50 }, 'lora.alpha'],
  [{ targets: [] }, 'lora.targets'],
  [{ targets: ['lm_head'] }, 'lora.targets.0'],
  [{ targets: ['q_proj', 'q_proj'] }, 'lora.targets'],
  [{ dropout: 0.1 }, 'lora.dropout'],
  [{ init_seed: -1 }, 'lora.init_seed'],
  [{ init_from: 'tiny/base' }, 'lora.init_from'],
  [{ init_from: 'teacher', rank: 8 }, 'lora.rank'],
  [{ init_from: 'teacher', targets: ['q_proj'] }, 'lora.targets'],
  [{ init_from: 'teacher', init_seed: 1 }, 'lora.init_seed'],
  [{ ranks: 8 }, 'lora.ranks'],
  [{ targets: 'lm_head' }, 'lora.targets'],
  [{ targets: '.*_proj' }, 'lora.targets'],
  [{ use_rslora: 1 }, 'lora.use_rslora'],
  [{ rank_pattern: { q_proj: 257 } }, 'lora.rank_pattern.q_proj'],
  [{ alpha_pattern: { q_proj: 0 } }, 'lora.alpha_pattern.q_proj'],
  [{ init_from: 'teacher', use_rslora: true }, 'lora.use_rslora'],
  [{ init_from: 'teacher', rank_pattern: { q_proj: 2 } }, 'lora.rank_pattern'],
  [{ init_from: 'teacher', modules_to_save: ['lm_head'] }, 'lora.modules_to_save'],
  [5, 'lora'],
])('%j is 422', async (lora, param) => {
  const refused = await register('refused', lora as object);
  expect([refused.statusCode, refused.json<ErrorBody>().error.param]).toEqual([422, param]);
});

test.each<[object, string, RegExp]>([
  [
    { modules_to_save: ['lm_head', 'embed_tokens'] },
    'modules_to_save',
    /got lm_head, embed_tokens: it trains whole copies/,
  ],
  [{ experts: true }, 'experts', /the base model `tiny\/base` has no experts/],
  [{ rank_pattern: { lm_head: 4 } }, 'rank_pattern.lm_head', /should be a layer such as `q_proj`, or a path/],
  [{ rank_pattern: { '.*q_proj': 4 } }, 'rank_pattern..*q_proj', /should be a layer such as/],
  [{ rank_pattern: { 'mlp.q_proj': 4 } }, 'rank_pattern.mlp.q_proj', /should be a layer such as/],
  [{ rank_pattern: { 'layers.0.q_proj': 4 } }, 'rank_pattern.layers.0.q_proj', /should be a layer such as/],
  [{ targets: ['q_proj'], alpha_pattern: { v_proj: 4 } }, 'alpha_pattern.v_proj', /`v_proj` is not in `targets`/],
  [
    { rank_pattern: { 'layers.2.self_attn.q_proj': 4 } },
    'rank_pattern.layers.2.self_attn.q_proj',
    /the layers of this base model are 0 to 1$/,
  ],
  [
    { rank_pattern: { q_proj: 4, 'layers.1.self_attn.q_proj': 2 } },
    'rank_pattern.layers.1.self_attn.q_proj',
    /never applies, since `q_proj` comes first/,
  ],
  [{ rank_pattern: { q_proj: 4, 'self_attn.q_proj': 2 } }, 'rank_pattern.self_attn.q_proj', /as an earlier one/],
])('%j is refused by name, with the reason', async (lora, member, reason) => {
  const refused = await register('refused', lora);
  expect(refused.statusCode).toBe(422);
  expect(refused.json<ErrorBody>().error).toMatchObject({
    param: `lora.${member}`,
    message: expect.stringMatching(reason) as string,
  });
});

test('ranks, alphas and the scale of modules are kept in one order, and come with a copy of the model', async () => {
  const asked = {
    rank: 16,
    targets: 'all-linear',
    use_rslora: true,
    rank_pattern: {
      '^model.layers.1.mlp.up_proj': 32,
      'layers.0.self_attn.q_proj': 4,
      o_proj: 2,
      'self_attn.q_proj': 8,
    },
    alpha_pattern: { down_proj: 4 },
    modules_to_save: [],
    experts: false,
  };
  const shown = {
    rank: 16,
    alpha: 16,
    targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    use_rslora: true,
    rank_pattern: { 'layers.0.self_attn.q_proj': 4, 'layers.1.mlp.up_proj': 32, q_proj: 8, o_proj: 2 },
    alpha_pattern: { down_proj: 4 },
  };
  const made = (await register('shaped', asked)).json<ModelObject>();
  expect(made.lora).toMatchObject(shown);
  expect(Object.keys(made.lora.rank_pattern)).toEqual(Object.keys(shown.rank_pattern));
  expect((await register('shaped', asked)).json()).toEqual(made);
  const other = await register('shaped', { ...asked, rank_pattern: { q_proj: 8 } });
  expect([other.statusCode, other.json<ErrorBody>().error.param]).toEqual([409, 'lora']);
  await server.addCheckpoint(made.id, 'd');
  const copy = (await register('copied', { init_from: 'shaped' })).json<ModelObject>();
  expect(copy.lora).toEqual({ ...made.lora, init_from: 'acme/demo/shaped:step1' });
  const single = (await register('single', { targets: 'v_proj' })).json<ModelObject>();
  expect(single.lora.targets).toEqual(['v_proj']);
});

test('a model starts at another one’s checkpoint, which it samples from at once', async () => {
  for (const [index, reference] of [
    'teacher:step1',
    'acme/demo/teacher:step1',
    'wandb-artifact:///acme/demo/teacher:step1',
    'teacher@1',
  ].entries()) {
    const made = await register(`pupil-${index}`, { init_from: reference, rank: 4, targets: ['q_proj', 'v_proj'] });
    expect(made.statusCode).toBe(200);
    const { id, lora } = made.json<ModelObject>();
    expect(lora).toMatchObject({ rank: 4, init_from: 'acme/demo/teacher:step1' });
    expect(made.json()).toEqual((await register(`pupil-${index}`, { init_from: reference })).json());
    const [own, teachers] = [
      await server.store.checkpoints.get(id, 0),
      await server.store.checkpoints.get(teacherId, 1),
    ];
    expect([own?.directoryKey, own?.digest]).toEqual([teachers?.directoryKey, 'a'.repeat(64)]);
    const reply = (await server.chat({ model: `pupil-${index}` })).json<{
      model: string;
      system_fingerprint: string;
    }>();
    expect(reply).toMatchObject({ model: `acme/demo/pupil-${index}:step0`, system_fingerprint: 'trainyard-aaaaaaaa' });
  }
});

test('without a step it is the latest, and registering again does not ask for a later one', async () => {
  const made = await register('follower', { init_from: 'teacher' });
  expect(made.json<ModelObject>().lora.init_from).toBe('acme/demo/teacher:step2');
  await server.addCheckpoint(teacherId, 'c');
  expect((await register('follower', { init_from: 'teacher' })).body).toBe(made.body);
  for (const lora of [{ init_from: 'teacher:step1' }, { init_from: 'whole' }, { rank: 8 }]) {
    const refused = await register('follower', lora);
    expect([refused.statusCode, refused.json<ErrorBody>().error]).toEqual([
      409,
      expect.objectContaining({ code: 'request.model_exists', param: 'lora' }),
    ]);
  }
});

test('a source that does not exist, or belongs to another entity, is 404; another base model is 422', async () => {
  const rival = { authorization: `Bearer ${await server.makeKey('rival', ['training', 'inference'])}` };
  const body = { project: 'demo', name: 'spy', base_model: 'tiny/base' };
  for (const initFrom of ['nobody', 'teacher:step99', 'acme/demo/teacher:step1']) {
    const request = { ...body, lora: { init_from: initFrom } };
    const refused = await server.request('POST', '/v1/preview/models', request, rival);
    expect([refused.statusCode, refused.json<ErrorBody>().error.param]).toEqual([404, 'lora.init_from']);
  }
  const { id: entityId } = await server.store.keys.ensureEntity('acme');
  const other = { entityId, project: 'demo', name: 'foreign', baseModel: 'other/base' };
  await server.store.models.create({ ...other, lora: { rank: 8, alpha: 16, targets: ['q'], initSeed: 0 } });
  const refused = await register('refused', { init_from: 'foreign' });
  expect([refused.statusCode, refused.json<ErrorBody>().error.message]).toEqual([
    422,
    expect.stringContaining('other/base'),
  ]);
});

test('a pupil outlives its teacher, and never falls back to the base model', async () => {
  const teacher = (await register('short-lived', null)).json<ModelObject>();
  await server.addCheckpoint(teacher.id, 'd');
  const pupil = (await register('heir', { init_from: 'short-lived:step1' })).json<ModelObject>();
  await server.request('DELETE', `/v1/preview/models/${teacher.id}`);
  const artifact = (await server.store.checkpoints.get(pupil.id, 0))?.directoryKey ?? '';
  expect(await server.blobs.localDirectory(artifact)).not.toBeNull();
  expect((await server.chat({ model: 'heir' })).statusCode).toBe(200);
  await server.request('DELETE', `/v1/preview/models/${pupil.id}/checkpoints`, { steps: [0] });
  expect(await server.blobs.localDirectory(artifact)).toBeNull();
  expect((await server.chat({ model: 'heir' })).statusCode).toBe(404);
  expect((await server.chat({ model: 'heir:step0' })).statusCode).toBe(404);
  const job = await server.request('POST', '/v1/preview/training-jobs', { model_id: pupil.id, trajectory_groups: [] });
  expect([job.statusCode, job.json<ErrorBody>().error.code]).toEqual([400, 'request.conflict']);
});

test('a deleted step 0 of the base model is gone for chats, lists, exports and new models alike', async () => {
  const { id } = (await register('pruned', null)).json<ModelObject>();
  await server.addCheckpoint(id, 'e');
  const remove = (step: number) => server.request('DELETE', `/v1/preview/models/${id}/checkpoints`, { steps: [step] });
  const exportOf = (step: number) =>
    server.request('POST', `/v1/preview/models/${id}/exports`, { format: 'peft', step });
  const listed = async () =>
    (await server.request('GET', '/v1/models'))
      .json<{ data: { id: string }[] }>()
      .data.map((card) => card.id)
      .filter((name) => name.startsWith('acme/demo/pruned'));
  const initFrom = async (name: string, from: string) => (await register(name, { init_from: from })).statusCode;

  await remove(0);
  expect((await server.chat({ model: 'pruned:step0' })).statusCode).toBe(404);
  expect((await server.chat({ model: 'pruned' })).statusCode).toBe(200);
  expect(await listed()).toEqual(['acme/demo/pruned', 'acme/demo/pruned:step1']);
  expect((await exportOf(0)).statusCode).toBe(404);
  expect(await initFrom('of-gone-step', 'pruned:step0')).toBe(404);

  await remove(1);
  expect((await server.chat({ model: 'pruned' })).statusCode).toBe(404);
  expect(await listed()).toEqual([]);
  expect((await exportOf(1)).statusCode).toBe(404);
  expect(await initFrom('of-gone-model', 'pruned')).toBe(404);
});
