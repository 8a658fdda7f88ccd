import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';

import { type ModelReference, readModelReference } from '../../hub/model-reference.ts';
import { settingFault } from './setting-fault.ts';

/** A served base model. */
export interface ModelConfig {
  /** id for serving and training */
  readonly id: string;
  /** absolute path of a GGUF file, or of a folder in the Hugging Face format, which a start converts */
  readonly path: string;
  /** model of a hub that a start fetches to get the path; null: the path is there */
  readonly hub: ModelReference | null;
  /** KV cache over all its sequences, tokens; null: as many as fit in {@link cacheMegabytes}, or 16,384 */
  readonly capacityTokens: number | null;
  /** memory limit of that cache; null: the memory for the tokens */
  readonly cacheMegabytes: number | null;
  /** format of its tool calls */
  readonly toolParser: ToolParser;
  /** absolute path of a file with the chat template that replaces its own; null: its own */
  readonly chatTemplate: string | null;
  /** vLLM servers that sample from it; empty: this machine's engine does */
  readonly vllmUrls: readonly string[];
}

export const TOOL_PARSERS = [
  'auto', 'hermes', 'qwen_xml', 'llama3_json', 'mistral', 'pythonic', 'kimi_k2', 'glm', 'granite', 'nemotron', 'minimax_m2', 'harmony', 'cohere',
] as const; // prettier-ignore
export type ToolParser = (typeof TOOL_PARSERS)[number];

/** The default model: Apache-2.0, 98 MB, trainable on two cores. */
const DEFAULT_MODEL_FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
const DEFAULT_MODEL_ID = 'HuggingFaceTB/SmolLM2-135M-Instruct';

export interface ModelEntry {
  /** null: derived from the file name */
  readonly id: string | null;
  readonly path: string;
  /** Default: as for all models. */
  readonly capacityTokens?: number;
  /** Default: as for all models. */
  readonly cacheMegabytes?: number;
  /** Default: as for all models. */
  readonly toolParser?: ToolParser;
  /** Default: as for all models. */
  readonly chatTemplate?: string;
}

/** Settings of all models that an entry can override. */
const ENTRY_FIELDS = ['capacityTokens', 'cacheMegabytes', 'toolParser', 'chatTemplate'] as const;
type EntryField = (typeof ENTRY_FIELDS)[number];
const isEntryField = (name: string): boolean => (ENTRY_FIELDS as readonly string[]).includes(name);

/**
 * `PATH` or `ID=PATH`. The text of an existing file is its path, even with an `=`, and ids do not start like
 * paths.
 * @param source for messages
 * @throws {ServerError} `server.config_invalid`
 */
export function readModelText(text: string, source: string): ModelEntry {
  const [, id, path] = /^([^=/.~][^=]*)=(.+)$/.exec(text) ?? [];
  if (id === undefined || path === undefined || existsSync(text)) return { id: null, path: text };
  return { id: checkedId(id, source), path };
}

/** Splits an environment variable at commas, unless the whole names a file. */
export function splitModelTexts(text: string): string[] {
  return existsSync(text) ? [text] : text.split(',').filter((part) => part !== '');
}

/**
 * Models of a config file: one text, or a list of texts and objects.
 * @param check reads a field of an object, like the setting of that name
 * @throws {ServerError} `server.config_invalid`
 */
export function readModelList(
  value: unknown,
  source: string,
  check: (field: EntryField, value: unknown, source: string) => string | number,
): ModelEntry[] {
  const read = (one: unknown, place: string): ModelEntry => {
    if (typeof one === 'string' && one !== '') return readModelText(one, place);
    if (typeof one !== 'object' || one === null || Array.isArray(one))
      throw settingFault(
        `${place} must be a non-empty string, or an object with id and path, got ${JSON.stringify(one)}`,
      );
    const { id = null, path, ...others } = one as Record<string, unknown>;
    const fields = Object.entries(others).filter(([, given]) => given !== undefined);
    const unknown = Object.keys(others).filter((name) => !isEntryField(name));
    if (unknown.length > 0)
      throw settingFault(
        `${place} has unknown settings: ${unknown.join(', ')}; known: id, path, ${ENTRY_FIELDS.join(', ')}`,
      );
    if (typeof path !== 'string' || path === '')
      throw settingFault(`${place} must have the path of a GGUF file or a folder`);
    if (id !== null && typeof id !== 'string')
      throw settingFault(`${place} must have text as id, got ${JSON.stringify(id)}`);
    const checked = fields.map(([name, given]) => [name, check(name as EntryField, given, `${name} of ${place}`)]);
    return { id: id === null ? null : checkedId(id, place), path, ...Object.fromEntries(checked) };
  };
  if (!Array.isArray(value)) return [read(value, source)];
  if (value.length === 0) throw settingFault(`${source} must name at least one model`);
  return value.map((one, index) => read(one, `number ${index + 1} of ${source}`));
}

/**
 * Served models, the default first.
 * @param entries as set by the user; none: the default model
 * @param options.modelId id of the first one, if it was set separately
 * @throws {ServerError} `server.config_invalid` for repeated ids, or ids that a trained model could have
 */
export function resolveModels(
  entries: readonly ModelEntry[],
  options: { dataDirectory: string; modelId: string | undefined } & Pick<
    ModelConfig,
    'capacityTokens' | 'cacheMegabytes' | 'toolParser' | 'chatTemplate'
  >,
): ModelConfig[] {
  const { dataDirectory, modelId, capacityTokens, cacheMegabytes, toolParser } = options;
  const all: readonly ModelEntry[] =
    entries.length > 0
      ? entries
      : [{ id: modelId ?? DEFAULT_MODEL_ID, path: resolve(dataDirectory, 'models', DEFAULT_MODEL_FILE) }];
  const [first] = entries;
  if (modelId !== undefined && first !== undefined && first.id !== null && first.id !== modelId)
    throw settingFault(`the first model has two ids: ${first.id} in --model and ${modelId} in --model-id`);
  const models = all.map((entry, index): ModelConfig => {
    const chatTemplate = entry.chatTemplate ?? options.chatTemplate;
    const hub = existsSync(entry.path) ? null : readModelReference(entry.path);
    const id = entry.id ?? (index === 0 ? modelId : undefined) ?? (hub === null ? modelIdOf(entry.path) : hubId(hub));
    return {
      id: checkedId(id, `the model ${entry.path}`),
      path: hub === null ? resolve(entry.path) : hub.text,
      hub,
      capacityTokens: entry.capacityTokens ?? capacityTokens,
      cacheMegabytes: entry.cacheMegabytes ?? cacheMegabytes,
      toolParser: entry.toolParser ?? toolParser,
      chatTemplate: chatTemplate === null ? null : resolve(chatTemplate),
      vllmUrls: [],
    };
  });
  const twice = models.find(({ id }, index) => models.findIndex((other) => other.id === id) !== index);
  if (twice !== undefined)
    throw settingFault(`two models have the id ${twice.id}: give each its own with --model ID=PATH`);
  return models;
}

/**
 * @throws {ServerError} `server.config_invalid` for an id that no client could send, or that names a trained
 * model
 */
function checkedId(id: string, source: string): string {
  const refuse = (why: string) =>
    settingFault(`${source}: the id ${JSON.stringify(id)} ${why}; choose another with --model ID=PATH`);
  if (!/^[\x21-\x7e]{1,256}$/.test(id)) throw refuse('must be 1 to 256 printable characters without spaces');
  if (/^(?:adapter|wandb-artifact):/.test(id)) throw refuse('starts like the name of an adapter');
  if (/(?::step|@step|@)\d+$/.test(id)) throw refuse('ends like the version of a trained model');
  if (/^[^/:]+\/[^/:]+\/[^/:]+$/.test(id)) throw refuse('has the form of a trained model, entity/project/name');
  return id;
}

/**
 * `models/Some-Model.Q4_0.gguf` is served as `Some-Model.Q4_0`, the default file under its own id in any folder, and
 * a snapshot of the Hugging Face cache under the name of its repository.
 */
function modelIdOf(path: string): string {
  const name = basename(resolve(path));
  if (name === DEFAULT_MODEL_FILE) return DEFAULT_MODEL_ID;
  const [, repository] = /[/\\]models--([^/\\]+)[/\\]snapshots[/\\][^/\\]+$/.exec(resolve(path)) ?? [];
  return repository?.replace('--', '/') ?? name.replace(/\.gguf$/i, '');
}

/** `ORG/NAME` in any revision, `ORG/NAME:QUANTISATION`, or the name of the file, as for one on this machine. */
function hubId({ repository, file }: ModelReference): string {
  switch (file.kind) {
    case 'folder':
      return repository;
    case 'quantisation':
      return `${repository}:${file.name}`;
    case 'path':
      return modelIdOf(file.path);
    default:
      return file satisfies never;
  }
}
