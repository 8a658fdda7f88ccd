import { OPERATIONS } from '@trainyard/protocol';
import { expect, test } from 'vitest';

import { Trainyard } from './client.ts';

const body = { model: 'm', messages: [] };
const artifact = { entity: 'e', project: 'p', name: 'n' };

const CALLS: Readonly<Record<string, (client: Trainyard) => unknown>> = {
  createChatCompletion: (client) => client.chat.completions.create(body),
  createCompletion: (client) => client.completions.create({ model: 'm', prompt: 'x' }),
  createResponse: (client) => client.responses.create({ model: 'm', input: 'x' }),
  countInputTokens: (client) => client.responses.countInputTokens({ model: 'm', input: 'x' }),
  getResponse: (client) => client.responses.retrieve('r'),
  cancelResponse: (client) => client.responses.cancel('r'),
  deleteResponse: (client) => client.responses.delete('r'),
  listInputItems: (client) => client.responses.inputItems('r', { limit: 2 }),
  createConversation: (client) => client.conversations.create(),
  getConversation: (client) => client.conversations.retrieve('c'),
  updateConversation: (client) => client.conversations.update('c', { metadata: null }),
  deleteConversation: (client) => client.conversations.delete('c'),
  createConversationItems: (client) => client.conversations.items.create('c', { items: [] }),
  listConversationItems: (client) => client.conversations.items.list('c', { limit: 2 }),
  getConversationItem: (client) => client.conversations.items.retrieve('c', 'i'),
  deleteConversationItem: (client) => client.conversations.items.delete('c', 'i'),
  generateTokens: (client) => client.tokenGenerations.create({ model: 'm', token_ids: [1], sampling_params: {} }),
  createMessage: (client) => client.messages.create({ ...body, max_tokens: 1 }),
  countMessageTokens: (client) => client.messages.countTokens(body),
  tokenize: (client) => client.tokens.tokenize({ prompt: 'x' }),
  detokenize: (client) => client.tokens.detokenize({ tokens: [1] }),
  tokenizerInfo: (client) => client.tokens.info({ model: 'm' }),
  loadLoraAdapter: (client) => client.loraAdapters.load({ lora_name: 'l', lora_path: 'adapter:1' }),
  unloadLoraAdapter: (client) => client.loraAdapters.unload({ lora_name: 'l' }),
  listModels: (client) => client.servedModels.list(),
  retrieveModel: (client) => client.servedModels.retrieve('e/p/n:step1'),
  createModel: (client) => client.models.register({ project: 'p', name: 'n', base_model: 'b' }),
  listBaseModels: (client) => client.baseModels.list(),
  fetchBaseModel: (client) => client.baseModels.fetch('org/name'),
  cancelBaseModel: (client) => client.baseModels.cancel('org/name'),
  updateModel: (client) => client.models.update('m', { add_tags: ['a'] }),
  deleteModel: (client) => client.models.delete('m'),
  listCheckpoints: (client) => client.checkpoints.list('m', { limit: 1, order: 'desc' }),
  keepCheckpoints: (client) => client.checkpoints.keep('m', [1]),
  deleteCheckpoints: (client) => client.checkpoints.delete('m', [1]),
  logTrajectories: (client) => client.trajectoryLogs.create('m', { split: 'val', trajectory_groups: [] }),
  createTrainingJob: (client) => client.trainingJobs.create({ model_id: 'm', trajectory_groups: [] }),
  createSftTrainingJob: (client) => client.sftJobs.create({ model_id: 'm', training_data_url: 'data:,' }),
  uploadArtifact: (client) => client.artifacts.upload(artifact, '{}\n', { file_name: 'a.jsonl' }),
  listArtifacts: (client) => client.artifacts.list(),
  listArtifactVersions: (client) => client.artifacts.versions(artifact, { limit: 2 }),
  retrieveArtifact: (client) => client.artifacts.retrieve(artifact, 'v0'),
  deleteArtifact: (client) => client.artifacts.delete(artifact, 'v0'),
  retrieveTrainingJob: (client) => client.trainingJobs.retrieve('j'),
  cancelTrainingJob: (client) => client.trainingJobs.cancel('j'),
  retryTrainingJob: (client) => client.trainingJobs.retry('j'),
  pauseTrainingJob: (client) => client.trainingJobs.pause('j'),
  resumeTrainingJob: (client) => client.trainingJobs.resume('j'),
  listTrainingEvents: (client) => client.trainingJobs.events('j', { after: 'x' }),
  listTrainingExamples: (client) => client.trainingJobs.examples('j', { limit: 2 }),
  createExport: (client) => client.exports.create('m', { format: 'peft' }),
  listExports: (client) => client.exports.list('m'),
  retrieveExport: (client) => client.exports.retrieve('m', 'e'),
  downloadExportFile: (client) => client.exports.download('m', 'e', 'file.bin'),
  deleteExport: (client) => client.exports.delete('m', 'e'),
  createAdapter: (client) => client.adapters.create(),
  listAdapters: (client) => client.adapters.list(),
  retrieveAdapter: (client) => client.adapters.retrieve('a'),
  uploadAdapterFile: (client) => client.adapters.uploadFile('a', 'adapter_config.json', new Uint8Array(1)),
  commitAdapter: (client) => client.adapters.commit('a'),
  deleteAdapter: (client) => client.adapters.delete('a'),
  listTrainedModels: (client) => client.models.list({ project: 'p', after: 'x' }),
  retrieveTrainedModel: (client) => client.models.retrieve('m'),
  listAllTrainingJobs: (client) =>
    client.trainingJobs.list({ model_id: 'm', project: 'p', status: 'failed', kind: 'rl' }),
  listTrainingQueue: (client) => client.trainingJobs.queue(),
  listMetrics: (client) => client.models.metrics('m'),
  readSeries: (client) =>
    client.models.series('m', { name: ['train/loss', 'train/reward'], axis: 'step', max_points: 5, from: 1, to: 9 }),
  listTrajectories: (client) => client.trajectories.list('m', { sort: 'reward', step: 0, group: 1 }),
  retrieveTrajectory: (client) => client.trajectories.retrieve('t'),
  readTrajectoryTokens: (client) => client.trajectories.tokens('t'),
  listServiceEvents: (client) => client.events.list({ after: '0', model_id: 'm' }),
  readUsage: (client) => client.usage.read({ by: ['day', 'key'], from: 0, to: 1 }),
  listHosts: (client) => client.hosts.read(),
  createKey: (client) => client.keys.create({ name: 'n', scopes: ['inference'] }),
  listKeys: (client) => client.keys.list(),
  updateKey: (client) => client.keys.update('k', { limits: { requests_per_minute: 1 } }),
  revokeKey: (client) => client.keys.revoke('k'),
  retrieveSession: (client) => client.sessions.retrieve(),
  createSession: (client) => client.sessions.create({ key: 'k' }),
  deleteSession: (client) => client.sessions.delete(),
  createSessionLink: (client) => client.sessions.createLink(),
  metrics: (client) => client.service.prometheus(),
  live: (client) => client.service.live(),
  ready: (client) => client.service.ready(),
  health: (client) => client.service.health(),
  systemCheck: (client) => client.service.systemCheck(),
  version: (client) => client.service.version(),
  openApi: (client) => client.service.openApi(),
};

/** Operations without their own method, with the reason. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  listTrainingJobs: '`trainingJobs.list({ model_id })` asks the route of all jobs for the same',
  home: 'a page for people',
  reference: 'a page for people',
};

/** Methods composed of others. */
const COMPOSED = [
  'models.create',
  'trainingJobs.watch',
  'trainingJobs.wait',
  'trainingJobs.gradientSteps',
  'exports.wait',
  'adapters.import',
  'events.watch',
  'service.isHealthy',
];

test('every operation of the API has a method, or a reason to have none', () => {
  const known = [...Object.keys(CALLS), ...Object.keys(LEFT_OUT)];
  expect(known.toSorted()).toEqual(OPERATIONS.map(({ id }) => id).toSorted());
});

test.each(OPERATIONS.filter(({ id }) => id in CALLS))('$id', async (operation) => {
  const requests: { method: string; url: URL; headers: Headers }[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    requests.push({ method: init.method ?? 'GET', url: new URL(url), headers: new Headers(init.headers) });
    return Response.json({ object: 'list', data: [], has_more: false });
  }) as typeof globalThis.fetch;
  await CALLS[operation.id]!(new Trainyard({ baseUrl: 'http://h/prefix/v1', apiKey: 'k', fetch }));
  expect(requests).toHaveLength(1);
  const { method, url, headers } = requests[0]!;
  expect([method.toLowerCase(), url.pathname]).toEqual([
    operation.method,
    expect.stringMatching(pathPattern(operation.paths[0])),
  ]);
  const parameters = Object.keys(operation.query?.properties ?? {});
  for (const name of url.searchParams.keys()) expect(parameters).toContain(name);
  // A key that the service ignores would make a repeat look harmless.
  if (headers.has('idempotency-key')) expect(operation.isIdempotent).toBe(true);
  expect(headers.get('authorization')).toBe('Bearer k');
});

test('the methods are these and no others', () => {
  const called = Object.values(CALLS).flatMap((call) => /client\.([a-zA-Z.]+)\(/.exec(String(call))?.[1] ?? []);
  const client = new Trainyard({ apiKey: 'k' });
  expect(new Set(methodsOf(client))).toEqual(new Set([...called, ...COMPOSED]));
});

/** Pattern of `/v1/x/{id}` of a service under a prefix; names of models contain slashes. */
function pathPattern(template: string): RegExp {
  return new RegExp(
    `^/prefix${template.replaceAll('.', '\\.').replaceAll(/\{(\w+)\}/g, (_match, name) => (name === 'model' ? '.+' : '[^/]+'))}$`,
  );
}

/** `resource.method` of every resource, including nested ones. */
function methodsOf(value: object, prefix = ''): string[] {
  return Object.entries(value).flatMap(([name, resource]: [string, object]) => {
    const path = `${prefix}${name}`;
    const names = new Set<string>();
    for (let type = Object.getPrototypeOf(resource); type !== Object.prototype; type = Object.getPrototypeOf(type))
      for (const method of Object.getOwnPropertyNames(type)) if (method !== 'constructor') names.add(method);
    return [...[...names].map((method) => `${path}.${method}`), ...methodsOf(resource, `${path}.`)];
  });
}
