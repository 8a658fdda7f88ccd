/**
 * Manifests of examples/kubernetes: their schema without a network, their settings, and the fit of their
 * parts.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { OPERATIONS } from '@trainyard/protocol';
import { resolveConfig, SETTING_NAMES, settingFlag, type SettingName } from '@trainyard/server';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { REPOSITORY } from './support/run-script.ts';

const FOLDER = join(REPOSITORY, 'examples/kubernetes');
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'));
const read = (path: string): string => readFileSync(join(REPOSITORY, path), 'utf8');

interface Container {
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports: readonly { readonly name: string }[];
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly [probe: `${string}Probe`]: { readonly httpGet: { readonly path: string; readonly port: string } };
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Record<string, string> };
  // Each kind has its own; the schema has checked it.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly spec: any;
}

const manifestsOf = (name: string): Manifest[] =>
  parseAllDocuments(readFileSync(join(FOLDER, name), 'utf8')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });
const ALL = FILES.flatMap(manifestsOf);
const WORKLOADS = ALL.filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet');
const containerOf = ({ spec }: Manifest): Container => spec.template.spec.containers[0] as Container;

/** Fields of the operators' kinds, by their documentation: those that the manifests may use. */
const text = { type: 'string' };
const closed = (properties: Record<string, object>, required: readonly string[] = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
const metadata = closed({ name: text, labels: { type: 'object', additionalProperties: text } }, ['name']);
const requirement = closed({
  key: text,
  operator: { enum: ['In', 'NotIn', 'Exists'] },
  values: { type: 'array', items: text },
});
const OPERATORS: Record<string, object> = {
  'monitoring.coreos.com/v1 ServiceMonitor': closed({
    apiVersion: text,
    kind: text,
    metadata,
    spec: closed({
      jobLabel: text,
      selector: closed(
        {
          matchLabels: { type: 'object', additionalProperties: text },
          matchExpressions: { type: 'array', items: requirement },
        },
        [],
      ),
      endpoints: {
        type: 'array',
        minItems: 1,
        items: closed(
          {
            port: text,
            path: { const: '/metrics' },
            interval: { type: 'string', pattern: '^[0-9]+s$' },
            authorization: closed({ credentials: closed({ name: text, key: text }) }),
          },
          ['port', 'path', 'interval'],
        ),
      },
    }),
  }),
  'keda.sh/v1alpha1 ScaledObject': closed({
    apiVersion: text,
    kind: text,
    metadata,
    spec: closed({
      scaleTargetRef: closed({ name: text }),
      minReplicaCount: { type: 'integer', minimum: 0 },
      maxReplicaCount: { type: 'integer', minimum: 1 },
      pollingInterval: { type: 'integer', minimum: 1 },
      cooldownPeriod: { type: 'integer', minimum: 0 },
      triggers: {
        type: 'array',
        minItems: 1,
        // KEDA takes numbers of triggers as text.
        items: closed({
          type: { const: 'prometheus' },
          metadata: closed({ serverAddress: text, query: text, threshold: text }),
        }),
      },
    }),
  }),
};

const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addSchema({
  $id: 'kubernetes',
  ...(JSON.parse(read('tests/tooling/fixtures/kubernetes/kubernetes-1.33.json')) as object),
});

function validatorOf({ apiVersion, kind }: Manifest): ValidateFunction {
  const operators = OPERATORS[`${apiVersion} ${kind}`];
  if (operators !== undefined) return ajv.compile(operators);
  const [group = 'core', version] = apiVersion.includes('/') ? apiVersion.split('/') : ['core', apiVersion];
  const name = `io.k8s.api.${group.split('.')[0]}.${version}.${kind}`;
  return ajv.compile({ $ref: `kubernetes#/$defs/${name}` });
}

function faultsOf(manifest: Manifest): string | null {
  const validate = validatorOf(manifest);
  return validate(manifest) ? null : ajv.errorsText(validate.errors);
}

test.each(ALL.map((manifest) => [`${manifest.kind} ${manifest.metadata.name}`, manifest] as const))(
  '%s matches its schema, and an unknown field is found',
  (_name, manifest) => {
    expect(faultsOf(manifest)).toBeNull();
    expect(faultsOf({ ...manifest, spec: { ...manifest.spec, replica: 2 } })).toContain('additional properties');
  },
);

test.each(WORKLOADS.map((manifest) => [manifest.metadata.name, manifest] as const))(
  '%s: its flags form a configuration, and its probes use existing paths',
  (_name, manifest) => {
    const container = containerOf(manifest);
    const flags: Partial<Record<SettingName, string>> = {};
    for (const arg of container.args) {
      const [, flag, value = 'on'] = /^--([a-z-]+)(?:=(.*))?$/.exec(arg) ?? [];
      const name = SETTING_NAMES.find((setting) => settingFlag(setting) === `--${flag}`);
      expect([arg, name]).not.toEqual([arg, undefined]);
      flags[name!] = value.replace('$(POD_IP)', '10.0.0.7');
    }
    const environment = {
      TRAINYARD_DATABASE: 'postgres://trainyard@db.internal/trainyard',
      TRAINYARD_BUCKET: 'https://s3.internal/trainyard',
      TRAINYARD_ENGINE_SECRET: 'x'.repeat(64),
      TRAINYARD_API_KEY: 'x'.repeat(64),
      ...Object.fromEntries(
        (container.env ?? []).flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
      ),
    };
    const config = resolveConfig({ flags, environment, configPath: null });
    const paths: readonly string[] = OPERATIONS.flatMap((operation) => operation.paths);
    for (const [probe, path] of [
      ['startupProbe', '/livez'],
      ['livenessProbe', '/livez'],
      ['readinessProbe', '/readyz'],
    ] as const) {
      const { httpGet } = container[probe]!;
      expect([probe, httpGet.path]).toEqual([probe, path]);
      expect(paths).toContain(path);
      expect(container.ports.map(({ name }) => name)).toContain(httpGet.port);
    }
    const isApi = config.role === 'api';
    const preStop = container.lifecycle?.preStop.sleep.seconds ?? 0;
    const ends = preStop + (isApi ? config.drainGraceMs / 1000 : 0) + config.drainTimeoutMs / 1000;
    expect(manifest.spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThan(ends);
    expect(preStop > 0).toBe(isApi);
  },
);

test('selectors match, and every workload may lose one pod at a time', () => {
  const labelsOf = ({ spec }: Manifest) => spec.template.metadata.labels as Record<string, string>;
  const find = (
    labels: Record<string, string>,
    of: (manifest: Manifest) => Record<string, string>,
    among: Manifest[],
  ) => among.filter((manifest) => Object.entries(labels).every(([name, value]) => of(manifest)[name] === value));
  const services = ALL.filter(({ kind }) => kind === 'Service');
  const budgets = ALL.filter(({ kind }) => kind === 'PodDisruptionBudget');
  expect(budgets).toHaveLength(WORKLOADS.length);
  for (const { spec } of services) expect(find(spec.selector, labelsOf, WORKLOADS)).toHaveLength(1);
  for (const { spec } of [...budgets, ...WORKLOADS])
    expect(find(spec.selector.matchLabels, labelsOf, WORKLOADS)).toHaveLength(1);
  for (const { spec } of ALL.filter(({ kind }) => kind === 'ServiceMonitor')) {
    const found = find(spec.selector.matchLabels, ({ metadata: { labels = {} } }) => labels, services);
    expect(found.length).toBeGreaterThan(0);
    // The rules use the job label.
    for (const {
      metadata: { labels },
    } of found)
      expect(labels?.[spec.jobLabel]).toBe('trainyard');
    for (const { port } of spec.endpoints as { port: string }[])
      expect(services.flatMap((service) => service.spec.ports as { name: string }[]).map(({ name }) => name)).toContain(
        port,
      );
  }
});

test('the scaler uses an existing series, on a workload without a fixed number of replicas', () => {
  const [scaler] = ALL.filter(({ kind }) => kind === 'ScaledObject');
  const [series] = /vllm:\w+/.exec(scaler!.spec.triggers[0].metadata.query) ?? [];
  expect(read('docs/reference/metrics.md')).toContain(`| \`${series}\` |`);
  const target = WORKLOADS.find(({ metadata: { name } }) => name === scaler!.spec.scaleTargetRef.name);
  expect(target).toBeDefined();
  // A manifest with a number would override the scaler at each apply.
  expect(target!.spec.replicas).toBeUndefined();
});

test('no manifest contains a secret, and the page creates each that is read', () => {
  const page = readFileSync(join(FOLDER, 'README.md'), 'utf8');
  for (const name of [
    'TRAINYARD_DATABASE',
    'PGPASSWORD',
    'TRAINYARD_BUCKET',
    'AWS_ACCESS_KEY_ID',
    'AWS_SECRET_ACCESS_KEY',
    'TRAINYARD_ENGINE_SECRET',
    'TRAINYARD_API_KEY',
  ]) {
    expect(page).toContain(`--from-literal=${name}=`);
    for (const workload of WORKLOADS)
      expect(containerOf(workload).env?.map((one) => one.name) ?? []).not.toContain(name);
  }
});
