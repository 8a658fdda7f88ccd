import { FOLDER_TEXT_FILES, INDEX_FILE, SINGLE_FILE } from '@trainyard/trainer';

import { HubError } from '../seams/faults/hub-error.ts';
import type { ModelReference } from './model-reference.ts';
import type { RepositoryFile, RepositoryInfo } from './repository-info.ts';

const GGUF = /\.gguf$/i;
/** One of several files of a GGUF model. */
const PART_OF_GGUF = /-\d{5}-of-\d{5}\.gguf$/i;
/** Projectors of images are no models by themselves. */
const PROJECTOR = /mmproj/i;
const PICKLE = /\.(?:bin|pt|pth|ckpt|pkl)$/i;
const QUANTISATION = /(?:^|[.-])((?:IQ|Q|TQ|MXFP)\d[A-Z0-9_]*|BF16|F16|F32)(?=\.gguf$|[.-])/gi;

/** GGUF file of a reference. @throws {HubError} `hub.not_found` with the files that are there, `hub.model_unusable` */
export function ggufFileOf(info: RepositoryInfo, { repository, file }: ModelReference): RepositoryFile {
  const { files } = info;
  const models = ggufFilesIn(info);
  const listed = models.length === 0 ? 'it has no GGUF file' : `it has ${choicesOf(repository, models)}`;
  if (file.kind === 'path') {
    const found = files.get(file.path);
    if (found === undefined) throw new HubError('hub.not_found', `${repository} has no file ${file.path}; ${listed}`);
    return wholeFile(found, repository);
  }
  const name = file.kind === 'quantisation' ? file.name : '';
  const matching = models.filter(({ path }) => quantisationsOf(path).includes(name.toUpperCase()));
  const [only, ...others] = matching;
  if (only === undefined)
    throw new HubError('hub.not_found', `${repository} has no GGUF file with ${name} in its name; ${listed}`);
  if (others.length > 0 && !PART_OF_GGUF.test(only.path))
    throw new HubError(
      'hub.not_found',
      `${repository} has several files with ${name}: choose one of ${matching.map(({ path }) => `${repository}/${path}`).join(', ')}`,
    );
  return wholeFile(only, repository);
}

/** Small files of the Hugging Face format, and the index of its weights. @throws {HubError} `hub.model_unusable` */
export function textFilesOf(info: RepositoryInfo, { repository }: ModelReference): RepositoryFile[] {
  const { files } = info;
  const models = ggufFilesIn(info);
  const hasWeights = files.has(SINGLE_FILE) || files.has(INDEX_FILE);
  if (!hasWeights && models.length > 0)
    throw new HubError('hub.model_unusable', `${repository} has GGUF files: choose ${choicesOf(repository, models)}`);
  if (!hasWeights && [...files.keys()].some((path) => PICKLE.test(path)))
    throw new HubError(
      'hub.model_unusable',
      `${repository} has only pickled weights, which can run code and are never read: use a repository with safetensors, or a GGUF file of the model (ORG/NAME:Q8_0)`,
    );
  if (!hasWeights || !files.has('config.json'))
    throw new HubError(
      'hub.model_unusable',
      `${repository} has no ${hasWeights ? 'config.json' : 'weights'}: it is no model in the Hugging Face format`,
    );
  const names = files.has(SINGLE_FILE) ? FOLDER_TEXT_FILES : [...FOLDER_TEXT_FILES, INDEX_FILE];
  return names.flatMap((name) => files.get(name) ?? []);
}

/** GGUF files of a repository, as one would write them; null without one. */
export function ggufChoices(info: RepositoryInfo, { repository }: ModelReference): string | null {
  const models = ggufFilesIn(info);
  return models.length === 0 ? null : choicesOf(repository, models);
}

/** @param names files of weights @throws {HubError} `hub.model_unusable` */
export function weightFilesOf(
  { files }: RepositoryInfo,
  { repository }: ModelReference,
  names: readonly string[],
): RepositoryFile[] {
  return names.map((name) => {
    const file = files.get(name);
    if (file !== undefined) return file;
    throw new HubError('hub.model_unusable', `${repository} is incomplete: its index names ${name}, which it lacks`);
  });
}

function ggufFilesIn({ files }: RepositoryInfo): RepositoryFile[] {
  return [...files.values()].filter(({ path }) => GGUF.test(path) && !PROJECTOR.test(path));
}

function wholeFile(file: RepositoryFile, repository: string): RepositoryFile {
  if (!PART_OF_GGUF.test(file.path)) return file;
  throw new HubError(
    'hub.model_unusable',
    `${file.path} of ${repository} is one of several parts: use a repository with the model in one file`,
  );
}

/** Up to eight ways to name the files. */
function choicesOf(repository: string, models: readonly RepositoryFile[]): string {
  const names = new Set(models.map(({ path }) => referenceTo(repository, path)));
  const shown = [...names].slice(0, 8).join(', ');
  return names.size > 8 ? `${shown}, …` : shown;
}

function referenceTo(repository: string, path: string): string {
  const [name] = quantisationsOf(path);
  return name === undefined ? `${repository}/${path}` : `${repository}:${name}`;
}

/** Quantisations in a file's name, in capitals: `Q4_K_M`. */
function quantisationsOf(path: string): string[] {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return Array.from(name.matchAll(QUANTISATION), ([, quantisation = '']) => quantisation.toUpperCase());
}
